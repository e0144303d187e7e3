"""``near`` of ``duplicates`` and ``leaks``: the way in which similar texts meet."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from beam_pipelines.checks.check import NearColumn, SelectedColumns
from beam_pipelines.checks.meet import Meet, Meeting
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import Problem
from beam_pipelines_plugins.near.near_rows import PARTITIONS, NearRule


@dataclasses.dataclass(frozen=True)
class Similar:
    """Rows meet whose texts are similar, by a column and a similarity."""

    near: NearColumn

    def carried(self, rows: pa.RecordBatch) -> pa.Array:
        """Returns the texts as they are."""
        return rows.column(self.near.column)

    def transform(self, meet: Meet, meeting: Meeting) -> Any:
        """Returns ``MeetNear``."""
        from beam_pipelines_plugins.near.meet_near import MeetNear

        partitions = PARTITIONS * meeting.partitions
        rule = NearRule(meet.name, self.near.similarity, partitions)
        return MeetNear(rule, meet.drop, meeting)


def plan_near(near: NearColumn, known: SelectedColumns, path: tuple[str, ...]) -> Similar:
    """Returns the way; notes a column whose values cannot be similar.

    Args:
      near: of the recipe.
      known: the columns of rows.
      path: of the key.
    """
    known.note_unknown((near.column,), (*path, "column"), is_list=False)
    if near.column in known.schema.names:
        kind = known.schema.field(near.column).type
        if not pa.types.is_string(kind):
            message = f"column '{near.column}' is {type_name(kind)}, expected text"
            known.problems.append(Problem((*path, "column"), message))
    return Similar(near)
