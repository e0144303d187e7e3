"""Finds the declared type with which two key columns match, by trying it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import columns
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read


class Key(NamedTuple):
    """A key column of a source, as it was planned."""

    plan: SourcePlan
    column: str

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        return self.plan.schema.field(self.column).type


class Trial(NamedTuple):
    """A type that was declared and read.

    Attributes:
      source, column, type: ``types: {column: type}`` of the source.
      matched: distinct left keys of the sample that have an equal right key.
      total: distinct left keys of the sample.
    """

    source: str
    column: str
    type: str
    matched: int
    total: int


def try_types(left: Key, right: Key) -> list[Trial]:
    """Declares each column with the other's type, and counts keys that match.

    The sample is the first chunk of each source.

    Returns:
      A trial for each type with which both sides can be read, best first.
    """
    trials = []
    for side, other in ((right, left), (left, right)):
        name = columns.type_name(other.type)
        try:
            changed = _declared(side, name)
            if changed is None or changed.type != other.type:
                continue
            keys = {id(side): _sample(changed), id(other): _sample(other)}
        except (DataError, RecipeProblems):
            continue
        found = pc.is_in(keys[id(left)], value_set=keys[id(right)])
        matched = pc.sum(found).as_py() or 0
        trials.append(Trial(side.plan.source.name, side.column, name, matched, len(found)))
    return sorted(trials, key=lambda trial: -trial.matched)


def _declared(key: Key, type_: str) -> Key | None:
    """Returns the key with a declared type; ``None`` of sources that are no files."""
    source = key.plan.source
    if source.url is not None or source.union is not None:
        return None
    types = {**source.types, key.column: type_}
    return key._replace(plan=plan_source(dataclasses.replace(source, types=types), ""))


def _sample(key: Key) -> pa.Array:
    """Returns distinct keys of the first chunk with rows."""
    plan = dataclasses.replace(key.plan, ranges=key.plan.ranges[:1])
    for chunk in read.read_chunks(plan, reject=False):
        if chunk.batch.num_rows:
            return chunk.batch.column(key.column).unique().drop_null()
    return pa.array([], key.type)
