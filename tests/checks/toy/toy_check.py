"""Checks of another package: a sum, and rows that meet."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_pipelines.checks.check import Check, Finding
from beam_pipelines.checks.meet import Meet, RowDrop, later_splits, repeats
from beam_pipelines.core.places import MOST_PLACES, Place
from beam_pipelines.recipe.values import read_text


class _OfColumn(Check):
    @classmethod
    def plan(cls, options, recipe, known):  # noqa: ARG003 - as in the base class
        known.note_unknown((options,), (cls.name,), is_list=False)
        return cls(options)

    @property
    def sees(self):
        return (self.column,)


@dataclasses.dataclass(frozen=True)
class MostNulls(_OfColumn):
    """Rows without a value are a warning."""

    name, reader = "most_nulls", read_text
    column: str

    def piece(self, rows):
        null = np.flatnonzero(rows.column(self.column).is_null().to_numpy(zero_copy_only=False))
        return len(null), null[:MOST_PLACES].tolist()

    def judge(self, facts, rows):
        count = sum(piece[0] for _, piece in facts.pieces)
        places = [Place(*at, row) for at, (_, own) in facts.pieces for row in own][:MOST_PLACES]
        where = [row.where for row in rows.rows_of(places, ())]
        line = f"{self.column}: {count} of {facts.rows} rows have none; the first is {where[:1]}"
        yield Finding("warn" if count else "ok", line, data={"first": where})


@dataclasses.dataclass(frozen=True)
class OneSplit(_OfColumn):
    """A value that several splits have stops the run."""

    name, reader = "one_split", read_text
    column: str

    @property
    def meets(self):
        return (Meet(self.name, (self.column,), later_splits, True, has_splits=True),)

    def judge(self, facts, rows):
        for (_, split), some in sorted(facts.met.get(self.name, {}).items()):
            first = rows.pairs_of(some.pairs)[0].row
            line = f"{self.column}: {some.rows} rows of split {split} found in another, as {first}"
            yield Finding("error", line, f"Leave '{self.column}' out.")


@dataclasses.dataclass(frozen=True)
class NoTwins(_OfColumn):
    """Rows with a value of an earlier row are left out."""

    name, reader, changes_rows = "no_twins", read_text, True
    column: str

    @property
    def meets(self):
        drop = RowDrop(self.name, "a twin", self.column)
        return (Meet(self.name, (self.column,), repeats, True, drop=drop),)

    def judge(self, facts, rows):  # noqa: ARG002 - as in the base class
        yield Finding("ok", f"{facts.repeats(self.name).rows} twins were left out")
