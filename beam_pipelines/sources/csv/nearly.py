"""Columns of numbers, dates or booleans but for a few values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import only_chunk
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import CellFormat
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.csv.sample import read_table
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect

# Lines that a message names, and different values that it proposes as nulls.
_LINES, _NULLS = 3, 10
_EXPONENT = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+\s*$"


class Misfit(NamedTuple):
    """The file, line and text of a value that does not fit."""

    file: str
    line: int
    text: str


def find_misfits(
    source: Source,
    bodies: Iterable[tuple[FileInfo, blocks.Body]],
    names: tuple[str, ...],
    dialect: Dialect,
    name: str,
    format_: CellFormat,
) -> list[Misfit]:
    """Returns the values of a column that are not in a format.

    Args:
      source: with its dialect.
      bodies: records of the sample, without headers.
      names: all columns of the files.
      dialect: delimiter and quote.
      name: of the column.
      format_: that nearly all cells have.
    """
    found = []
    for file, body in bodies:
        toggles = quotes.toggling_quotes(body.data, OUTSIDE, NEWLINE, dialect)
        starts, ends = quotes.record_spans(body.data, toggles)
        whole = quotes.count_cells(body.data, toggles, starts, dialect) == len(names)
        starts, data = starts[whole], blocks.joined(body.data, starts[whole], ends[whole])
        types = {name: pa.string()}
        table = read_table(data, (name,), types, names=names, dialect=dialect, nulls=source.nulls)
        texts = only_chunk(table.column(name))
        plain = pc.or_(
            to_plain(texts, format_).is_valid(),
            pc.fill_null(pc.match_substring_regex(texts, _EXPONENT), fill_value=False),
        )
        wrong = pc.and_not(texts.is_valid(), plain)
        rows = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        lines = blocks.LineNumbers(source, file, body).lines(starts[rows]).tolist()
        cells = texts.take(pa.array(rows)).to_pylist()
        found += [Misfit(file.path, *one) for one in zip(lines, cells, strict=True)]
    return found


def message(source: Source, name: str, word: str, total: int, misfits: list[Misfit]) -> str:
    """Returns the error of a column with a few other values."""
    shown = ", ".join(
        f"{shorten(one.text, 40)!r} ({one.file}, line {one.line})" for one in misfits[:_LINES]
    )
    more = f" and {len(misfits) - _LINES} more" if len(misfits) > _LINES else ""
    texts = list(dict.fromkeys(one.text for one in misfits))
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null, "
    return (
        f"column '{name}': found {shown}{more} among {total - len(misfits):,} {word}, expected "
        f"{word} only. Set {nulls if len(texts) <= _NULLS else ''}'types: {{{yaml_text(name)}: "
        f"text}}' if they are texts, or 'infer: lenient', which reads such columns as texts."
    )


def decision(name: str, word: str, total: int, misfits: list[Misfit]) -> str:
    """Returns the finding of such a column that is read as texts."""
    first = misfits[0]
    return (
        f"types: {{{yaml_text(name)}: text}}  # {len(misfits):,} of {total:,} values are no {word},"
        f" such as {shorten(first.text, 40)!r} (line {first.line}); infer: lenient takes texts"
    )
