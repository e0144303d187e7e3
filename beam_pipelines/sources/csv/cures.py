"""Says what to do about a cell that its column refuses."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import CellFormat, parse_format
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.csv.codes import LEADING_ZERO
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.text.cells import cell_parser

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)


def wrong_text(found: str, field: pa.Field, formats: Mapping[str, str]) -> str:
    """Returns the message for a text that its column refuses."""
    if field.name in formats:
        return wrong_format(found, field, parse_format(formats[field.name]))
    return bad_rows.wrong_value(found, field.type, cure(field, found))


def wrong_format(found: str, field: pa.Field, format_: CellFormat) -> str:
    """Returns the message for a cell of another format."""
    plain = to_plain(pa.array([found]), format_)[0].as_py()
    if plain is not None and pa.types.is_integer(field.type):
        return bad_rows.wrong_value(found, field.type, float_cure(field.name))
    key = yaml_text(field.name)
    if plain is not None:
        remedy = f"Declare 'types: {{{key}: text}}', or no type, as it is written as '{format_}'."
        return bad_rows.wrong_value(found, field.type, remedy)
    return (
        f"found {shorten(found, 100)!r}, expected it written as {str(format_)!r}. Add {found!r} to "
        f"'nulls' of the source, declare 'types: {{{key}: text}}', or set 'formats' of the source."
    )


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
    if pa.types.is_integer(field.type) and _NUMBER.fullmatch(found.strip()):
        return float_cure(field.name)
    if other := _other_zone(field.type, found):
        return f"Declare 'types: {{{key}: {other}}}', or 'types: {{{key}: text}}'."
    return f"Add {found!r} to 'nulls' of the source, or declare 'types: {{{key}: text}}'."


def _other_zone(type_: pa.DataType, found: str) -> str:
    """Returns the type of a time whose zone differs from its column's."""
    for name in ("timestamp", "timestamptz") if pa.types.is_timestamp(type_) else ():
        with contextlib.suppress(ValueError):
            cell_parser(columns.parse_type(name))(found)
            return name
    return ""
