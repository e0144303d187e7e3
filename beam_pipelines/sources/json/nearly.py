"""JSON fields of numbers, booleans or times but for a few texts.

A string is a time if it is written so. Numbers and booleans are counted where ``infer: lenient``
makes texts of a column with both.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list, value_type
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.format import problem
from beam_pipelines.sources.json.scalar_texts import SCALAR
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks

# A few values that do not fit make a column nearly one of times: this share, and so many. So many
# times are worth a word on others.
_SHARE, _MOST, _LEAST_TIMES = 0.01, 300, 10
# Cells that decide whether a column is text, and the share of them that may be none.
_LOOKED_AT, _LEAST = 500, 0.5
# Lines that a message names.
_LINES = 3
# Strings that the parser reads as timestamps.
_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_BELOW_MICROS = r"\.[0-9]{7}"
_BOOLEAN = "^(?:true|false)$"


@dataclasses.dataclass
class Tally:
    """Values of a column, counted.

    Attributes:
      total: values that are not null.
      fits: ``numbers``, ``booleans``, ``times`` -> how many.
      misfits: file, line and text of some that are none.
      example: a string.
    """

    total: int = 0
    example: str = ""
    fits: Counter[str] = dataclasses.field(default_factory=Counter)
    misfits: list[tuple[str, int, str]] = dataclasses.field(default_factory=list)


class Tallies:
    """The columns of a sample.

    Args:
      mixed: columns of numbers or booleans, and of texts, that are read as texts.
    """

    def __init__(self, mixed: Collection[str]) -> None:
        self._mixed = mixed
        self._columns: dict[str, Tally] = {}

    def add(self, source: Source, file: FileInfo, body: blocks.Body, table: pa.Table) -> None:
        """Counts the values of a body's lines.

        Args:
          source: with the types of the recipe.
          file: of the body.
          body: whole lines; each that is not empty is a row.
          table: their values.
        """
        for batch in table.combine_chunks().to_batches():
            for name, values in nested.flat_arrays(batch).items():
                if name in self._mixed or name not in source.types:
                    tally = self._columns.setdefault(name, Tally())
                    self._count(tally, values, source, file, body, name in self._mixed)

    def _count(
        self,
        tally: Tally,
        values: pa.Array,
        source: Source,
        file: FileInfo,
        body: blocks.Body,
        is_mixed: bool,
    ) -> None:
        number = len(values) - values.null_count
        tally.total += number
        if word := _word_of(values.type):
            tally.fits[word] += number
        if not pa.types.is_string(values.type) or not number:
            return
        tally.example = tally.example or values.drop_null()[0].as_py()
        pattern = SCALAR if is_mixed else _TIME
        if not is_mixed and not _is_mostly(values, pattern):
            return
        fits = pc.fill_null(pc.match_substring_regex(values, pattern), fill_value=False)
        booleans = pc.sum(pc.match_substring_regex(values, _BOOLEAN)).as_py() if is_mixed else 0
        good = pc.sum(fits).as_py() - booleans
        tally.fits["numbers" if is_mixed else "times"] += good
        tally.fits["booleans"] += booleans
        wrong = pc.and_not(values.is_valid(), fits).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(wrong)[: _MOST - len(tally.misfits)]
        starts = blocks.filled_lines(body.data)[0][rows]
        lines = blocks.LineNumbers(source, file, body).lines(starts).tolist()
        texts = values.take(pa.array(rows)).to_pylist()
        tally.misfits += [(file.path, *one) for one in zip(lines, texts, strict=True)]

    def judge(self, source: Source, read: pa.Schema) -> tuple[list[Problem], list[str]]:
        """Returns the questions about nearly alike columns, or findings.

        Args:
          source: of the recipe; ``infer: lenient`` asks nothing.
          read: types of the columns.
        """
        problems, findings = [], []
        for name, tally in self._columns.items():
            word, good = max(tally.fits.items(), key=lambda one: one[1], default=("", 0))
            bad = tally.total - good
            is_text = name in read.names and pa.types.is_string(value_type(read.field(name).type))
            if word == "times" and tally.example and not bad and is_text:
                findings.append(_fraction(name, tally.example))
            if not tally.misfits:
                continue
            is_near = word == "times" and bad <= min(_MOST, _SHARE * tally.total)
            if name in self._mixed or (is_near and source.infer == "lenient"):
                findings.append(_finding(name, word, bad, tally, "; infer: lenient takes texts"))
            elif is_near:
                problems.append(problem(source, "types", _question(name, word, bad, tally)))
            elif good >= max(_LEAST_TIMES, _LEAST * tally.total):
                findings.append(_finding(name, word, bad, tally, ""))
        return problems, findings


def mixed_columns(known: pa.Schema, found: pa.Schema) -> dict[str, str]:
    """Returns columns of numbers and texts, with types for both.

    Args:
      known, found: nested types of the lines of two bodies.
    """
    earlier = {field.name: field.type for field in nested.flatten_fields(known)}
    mixed = {}
    for field in nested.flatten_fields(found):
        types = [value_type(type_) for type_ in (field.type, earlier.get(field.name)) if type_]
        if pa.string() in types and {"numbers", "booleans"} & {_word_of(one) for one in types}:
            mixed[field.name] = "list<text>" if is_list(field.type) else "text"
    return mixed


def _word_of(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return "numbers"
    if pa.types.is_boolean(type_):
        return "booleans"
    return "times" if pa.types.is_timestamp(type_) else ""


def _is_mostly(values: pa.Array, pattern: str) -> bool:
    """Whether most of some values match."""
    some = np.linspace(0, len(values) - 1, min(len(values), _LOOKED_AT)).astype(np.int64)
    matches = pc.match_substring_regex(values.take(pa.array(some)).drop_null(), pattern)
    return (pc.sum(matches).as_py() or 0) >= _LEAST * len(matches) > 0


def _question(name: str, word: str, bad: int, tally: Tally) -> str:
    shown = ", ".join(
        f"{shorten(text, 40)!r} ({file}, line {line})"
        for file, line, text in tally.misfits[:_LINES]
    )
    more = f" and {bad - _LINES} more" if bad > _LINES else ""
    key = yaml_text(name)
    return (
        f"column '{name}': found {shown}{more} among {tally.total - bad:,} {word}, expected {word} "
        f"only. Mend the lines; or set 'types: {{{key}: text}}' of the source, with which "
        "TRY_CAST in 'derive' makes nulls of them, or 'infer: lenient', which reads such columns "
        "as texts."
    )


def _fraction(name: str, example: str) -> str:
    """Returns the finding of times that stay texts."""
    key = yaml_text(name)
    cure = "some have an offset; a CAST to TIMESTAMPTZ in 'derive' takes the others for UTC"
    if re.search(_BELOW_MICROS, example):
        cure = "a CAST to TIMESTAMP in 'derive' leaves out parts of microseconds"
    return f"types: {{{key}: text}}  # times, such as {shorten(example, 40)!r}; {cure}"


def _finding(name: str, word: str, bad: int, tally: Tally, why: str) -> str:
    _, line, text = tally.misfits[0]
    return (
        f"types: {{{yaml_text(name)}: text}}  # {bad:,} of {tally.total:,} values are no {word}, "
        f"such as {shorten(text, 40)!r} (line {line}){why}"
    )
