"""``near`` of ``duplicates`` and ``leaks``: the way in which similar values meet."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from beam_pipelines.checks.check import NearColumn, SelectedColumns
from beam_pipelines.checks.meet import Meet, Meeting
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms.select.errors import DamagedImageError
from beam_pipelines_plugins.near.near_rows import PARTITIONS, NearRule

# Less similar images have too many candidates.
_LEAST_OF_IMAGES = 0.8


@dataclasses.dataclass(frozen=True)
class Similar:
    """Rows meet whose texts or images are similar.

    Attributes:
      near: the column, and the least similarity.
      is_image: whether the column has images.
    """

    near: NearColumn
    is_image: bool

    def carried(self, rows: pa.RecordBatch, limits: Limits) -> pa.Array:
        """Returns texts as they are, and the hashes of images.

        Raises:
          DamagedImageError: bytes that are no image.
        """
        column = rows.column(self.near.column)
        if not self.is_image:
            return column
        from beam_pipelines_plugins.near.image_hashes import PictureError, image_hashes

        try:
            return image_hashes(column, limits)
        except PictureError as error:
            message = f"{error}; 'near' compares texts and images"
            raise DamagedImageError(message, self.near.column) from error

    def transform(self, meet: Meet, meeting: Meeting) -> Any:
        """Returns ``MeetNear``."""
        from beam_pipelines_plugins.near.meet_near import MeetNear

        partitions = PARTITIONS * meeting.partitions
        rule = NearRule(meet.name, self.near.similarity, partitions, self.is_image)
        return MeetNear(rule, meet.drop, meeting)


def plan_near(near: NearColumn, known: SelectedColumns, path: tuple[str, ...]) -> Similar:
    """Returns the way; notes a column whose values cannot be similar.

    Args:
      near: of the recipe.
      known: the columns of rows.
      path: of the key.
    """
    known.note_unknown((near.column,), (*path, "column"), is_list=False)
    if near.column not in known.schema.names:
        return Similar(near, False)
    kind = known.schema.field(near.column).type
    is_image = bool(pa.types.is_binary(kind))
    if not (is_image or pa.types.is_string(kind)):
        message = f"column '{near.column}' is {type_name(kind)}, expected text or images"
        known.problems.append(Problem((*path, "column"), message))
    elif is_image and near.similarity < _LEAST_OF_IMAGES:
        message = (
            f"found {near.similarity:g} for images, expected a similarity from "
            f"{_LEAST_OF_IMAGES:g} to 1"
        )
        known.problems.append(Problem((*path, "similarity"), message))
    return Similar(near, is_image)
