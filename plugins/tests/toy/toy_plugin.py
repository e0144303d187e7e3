"""A format, a check, an encoding and a command of another package."""

from __future__ import annotations

import dataclasses

import click
import numpy as np
import pyarrow as pa

from beam_pipelines.checks.check import Check, Finding
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.array_values import check_parameters
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.formula import Formula
from beam_pipelines.recipe.keys import plain_key
from beam_pipelines.recipe.values import read_text
from beam_pipelines.sources import inference
from beam_pipelines.sources.source_format import Contents
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.format import TextFormat


@dataclasses.dataclass(frozen=True)
class PairsOptions:
    """The keys of a source of pairs."""

    mark: str = plain_key(read_text, "=", "Text between a name and its number.")


class Pairs(TextFormat):
    """Lines such as ``a=1 b=2``; columns are those of the first line."""

    suffixes = (".pairs",)
    Options = PairsOptions

    def _cells(self, source, line):
        mark = source.options_of(PairsOptions).mark
        return dict(pair.split(mark) for pair in line.decode().split())

    def infer(self, source, files):
        sampled = inference.sample_files(files)
        _, body = next(blocks.sample_bodies(source, sampled, blocks.LINES))
        names = tuple(self._cells(source, body.data.splitlines()[0]))
        schema = pa.schema([(name, pa.int64()) for name in names])
        return Contents(names, schema, schema)

    def read_body(self, plan, file, body, reject):
        lines, starts = blocks.LineNumbers(plan.source, file, body), blocks.filled_lines(body.data)
        good, bad = [], []
        for start, end in zip(*starts, strict=True):
            line = body.data[start:end].rstrip()
            try:
                cells = self._cells(plan.source, line)
                good.append({name: int(cell) for name, cell in cells.items()})
            except ValueError as error:
                place = f"line {lines.line(int(start))}"
                bad.append(
                    Rejected(plan.source.name, file.path, place, "", str(error), line.decode())
                )
                if not reject:
                    raise DataError(bad[-1].describe()) from error
        return pa.RecordBatch.from_pylist(good, plan.schema), tuple(bad)


@dataclasses.dataclass(frozen=True)
class NoZeros(Check):
    """Warns of zeros in a column."""

    name, reader = "no_zeros", read_text
    column: str

    @classmethod
    def plan(cls, options, recipe, known):  # noqa: ARG003 - as in the base class
        return cls(options)

    @property
    def sees(self):
        return (self.column,)

    def piece(self, rows):
        return int(np.sum(rows.column(self.column).to_numpy(zero_copy_only=False) == 0))

    def judge(self, facts, rows):  # noqa: ARG002 - as in the base class
        count = sum(piece for _, piece in facts.pieces)
        line = f"{self.column}: {count} zeros"
        yield Finding("warn", line, f"Leave '{self.column}' out.")


@dataclasses.dataclass(frozen=True)
class Times(Formula, Fixed):
    """``x`` times a number."""

    by: int
    elementwise = True

    @classmethod
    def of(cls, parameters):
        check_parameters(parameters, {"by": int})
        return cls(parameters["by"])

    def formula(self, x, library):  # noqa: ARG002 - as in the base class
        return x * self.by


@click.command()
def hello():
    """Greet."""
    click.echo("hello")
