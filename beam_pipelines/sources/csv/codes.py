"""Codes that parse as numbers, and remedies of cells."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.columns import only_chunk
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import parse_format
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.text.cells import cell_parser

# RE2 syntax. A leading zero, or hexadecimal: one such text makes codes of a column.
_ZERO = r"^\s*[+-]?0[0-9xX]"
# All texts of a column are of one such kind: 12E10 and 120E9 would be one number; the number of a
# telephone; NaN and Infinity, which are words without numbers among them.
_KINDS = (r"^\s*[0-9]+[eE][0-9]+\s*$", r"^\s*\+[1-9][0-9]{6,14}\s*$", "^[^0-9]*$")
_VERSION = r"^\s*[0-9]+\.[0-9]+\s*$"
_VERSIONS = re.compile(r"(?i)(?:^|[^a-z])(?:version|release|revision|firmware|build)s?(?:$|[^a-z])")
# Whole numbers with a fraction of zeros, as pandas writes them next to nulls, and long ones.
_NO_PART, _WHOLE = r"^\s*[+-]?[0-9]+(\.0*)?\s*$", r"^\s*[+-]?[0-9]{8,}\.0*\s*$"
_MOST_FLOAT = 3.4028235e38
# Numbers that can be nothing else: of few digits, with no zero at either end. Those of the second
# kind have no dots between thousands.
_PLAIN = r"^-?(?:0|[1-9][0-9]{0,14}|(?:0|[1-9][0-9]{0,6})\.(?:0|[0-9]{0,7}[1-9]))$"
_WITH_PART = r"\.(?:[0-9]{1,2}|[0-9]{4,})$"
# As above, for the messages; Python's syntax. Digits alone are ids, as everybody knows.
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_SHOWN = re.compile(r"[+-]?0[0-9]|[0-9]+[eE][0-9]+$|\+[1-9][0-9]{6}")
DIGITS = re.compile(r"-?[0-9]+")
# 007 and 0x1F.
LEADING_ZERO = re.compile(r"[ \t\n\f\r]*[+-]?0[0-9xX]")


def plain_numbers(texts: pa.Table, floats: Sequence[bool], looked_at: int) -> set[str]:
    """Returns columns of numbers that need no closer look.

    They have no codes, lose nothing, and have no dots between thousands. Others may be so, too.
    All cells are looked at together.

    Args:
      texts: columns of texts that parse as numbers, one in each; nulls are fine.
      floats: whether each column is of fractions.
      looked_at: rows that tell of dots.
    """
    # As one array: Arrow compiles a pattern for each chunk.
    cells = pa.concat_arrays([only_chunk(column) for column in texts.columns])

    def fit(pattern: str, nulls: bool) -> npt.NDArray[np.bool_]:
        found = pc.match_substring_regex(cells, pattern).fill_null(nulls)
        return np.asarray(found, np.bool_).reshape(texts.num_columns, texts.num_rows)

    has_no_dots = ~np.array(floats) | fit(_WITH_PART, nulls=False)[:, :looked_at].any(1)
    is_plain = fit(_PLAIN, nulls=True).all(1) & has_no_dots
    plain = itertools.compress(texts.column_names, is_plain)
    return {name for name in plain if not _VERSIONS.search(name)}


def are_codes(name: str, texts: pa.ChunkedArray) -> bool:
    """Whether a column of texts that parse as numbers has codes."""

    def fit(pattern: str) -> pa.ChunkedArray:
        return pc.match_substring_regex(texts, pattern)

    kinds = (*_KINDS, _VERSION) if _VERSIONS.search(name) else _KINDS
    return bool(pc.any(fit(_ZERO)).as_py()) or any(pc.all(fit(kind)).as_py() for kind in kinds)


def example_of(name: str, cells: Sequence[str]) -> str:
    """Returns a code of a column of texts; else nothing."""
    if not all(map(_NUMBER.fullmatch, cells)) or all(map(DIGITS.fullmatch, cells)):
        return ""
    is_version = bool(_VERSIONS.search(name))
    return next((cell for cell in cells if is_version or _SHOWN.match(cell)), "")


def lost_by_float32(name: str, texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> str:
    """Returns what features lose of a column, and what keeps it.

    They have 32 bits.

    Args:
      name: of the column.
      texts: its cells, with nulls.
      numbers: the same as float64.
    """
    key = yaml_text(name)
    large = texts.filter(pc.and_(pc.greater(pc.abs(numbers), _MOST_FLOAT), pc.is_finite(numbers)))
    if len(large):
        words = f"{shorten(large[0].as_py().strip(), 40)!r} is beyond float32, as features are"
        return f"{words}; types: {{{key}: text}} keeps it"
    texts = texts.drop_null()
    whole = texts.filter(pc.match_substring_regex(texts, _WHOLE))
    if len(whole) and pc.all(pc.match_substring_regex(texts, _NO_PART)).as_py():
        return (
            f"whole numbers, such as {whole[0].as_py()!r}; types: {{{key}: int64}} keeps them exact"
        )
    return ""


_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)


def wrong_text(found: str, field: pa.Field, formats: Mapping[str, str]) -> str:
    """Returns the message for a text that its column refuses."""
    key, format_ = yaml_text(field.name), formats.get(field.name)
    remedy = cure(field, found)
    if format_ is not None:
        if to_plain(pa.array([found]), parse_format(format_)).null_count:
            return (
                f"found {shorten(found, 100)!r}, expected it written as {format_!r}. "
                f"{_left_out(found)}, declare 'types: {{{key}: text}}', or set 'formats' of the "
                "source."
            )
        remedy = f"Declare 'types: {{{key}: text}}', or no type, as it is written as '{format_}'."
        if pa.types.is_integer(field.type):
            remedy = float_cure(field.name)
    return bad_rows.wrong_value(found, field.type, remedy)


def float_cure(name: str) -> str:
    """Returns what to do about a column of integers with other numbers."""
    key = yaml_text(name)
    return f"Declare 'types: {{{key}: text}}' or 'types: {{{key}: float64}}'."


def code_cure(field: pa.Field, found: str) -> str:
    """Returns the remedy for a leading zero; ``""`` for another text."""
    if not LEADING_ZERO.match(found):
        return ""
    key, type_ = yaml_text(field.name), columns.type_name(field.type)
    return (
        f"Declare 'types: {{{key}: text}}' to keep such codes, or 'types: {{{key}: {type_}}}' to "
        "read their numbers."
    )


def cure(field: pa.Field, found: str) -> str:
    """Returns what to do about a cell that its column's type refuses."""
    key = yaml_text(field.name)
    if pa.types.is_string(field.type):
        return (
            f"Set 'encoding' of the source, such as cp1252, or declare 'types: {{{key}: bytes}}'."
        )
    if found.removeprefix("\ufeff").strip() == field.name:
        return (
            "It is the name of the column: if the line is a header again, as in files that were "
            "put together, remove it, or leave such rows out with 'on_error: {reject: 10}'."
        )
    if pa.types.is_integer(field.type) and _DECIMAL.fullmatch(found.strip()):
        return float_cure(field.name)
    if other := _other_zone(field.type, found):
        return f"Declare 'types: {{{key}: {other}}}', or 'types: {{{key}: text}}'."
    return f"{_left_out(found)}, or declare 'types: {{{key}: text}}'."


def _left_out(found: str) -> str:
    """Returns what leaves a cell out, or a long one's row."""
    is_short = len(found) <= 100
    return f"Add {found!r} to 'nulls' of the source" if is_short else "Set 'on_error: {reject: 10}'"


def _other_zone(type_: pa.DataType, found: str) -> str:
    """Returns the type of a time whose zone differs from its column's."""
    for name in ("timestamp", "timestamptz") if pa.types.is_timestamp(type_) else ():
        with contextlib.suppress(ValueError):
            cell_parser(columns.parse_type(name))(found)
            return name
    return ""
