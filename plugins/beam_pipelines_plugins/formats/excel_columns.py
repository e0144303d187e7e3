"""Cells as Arrow columns.

A cell has a type of its own; a column gets the type that all its cells have.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.yaml_text import yaml_list, yaml_text
from beam_pipelines_plugins.formats.excel_workbook import Table

# The largest integer below which a number of a sheet, a float64, is exact.
_MOST_EXACT = 1 << 53
# As in CSV files: a few values among others are asked about.
_FEW, _MOST = 0.01, 300
_SHOWN, _NULLS = 3, 10
_TYPES: Mapping[str, pa.DataType] = {
    "number": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "time": pa.time64("us"),
    "duration": pa.duration("us"),
    "text": pa.string(),
}
_WORDS = {
    "number": "numbers",
    "bool": "booleans",
    "date": "dates",
    "timestamp": "timestamps",
    "time": "times",
    "duration": "durations",
    "text": "texts",
}


# The first that fits counts: a bool is an int, too.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "number"),
    (float, "number"),
    (datetime.datetime, "timestamp"),
    (datetime.date, "date"),
    (datetime.time, "time"),
    (datetime.timedelta, "duration"),
)


class NearlyError(ValueError):
    """A column whose cells are of one type but for a few."""


def _kind(own: type) -> str:
    """Returns the word for the type of a cell."""
    return next((word for type_, word in _KINDS if issubclass(own, type_)), "text")


def column_type(source: Source, path: str, table: Table, place: int) -> pa.DataType:
    """Returns the type of a column.

    Args:
      source: of the recipe; its ``nulls`` are no values.
      path: of the file, for messages.
      table: of the sheet.
      place: number of the column in the table.

    Raises:
      NearlyError: a few cells are of another type than the others.
    """
    rows = [(row, cells[place]) for row, cells in table.rows if not table.is_header(cells)]
    values = [value for _, value in rows]
    kinds = Counter[str]()
    for own, count in Counter(map(type, values)).items():
        kinds[_kind(own)] += count
    nulls = {"", *source.nulls}
    kinds["text"] -= sum(map(nulls.__contains__, (one for one in values if isinstance(one, str))))
    kinds = +kinds
    if "timestamp" in kinds:
        kinds["timestamp"] += kinds.pop("date", 0)
    if not kinds:
        return pa.null()
    [(kind, number), *others] = kinds.most_common()
    if kind == "number" and not others:
        is_whole = all(_is_integer(one) for one in values if isinstance(one, float))
        return pa.int64() if is_whole else pa.float64()
    few = kinds.total() - number
    is_near = 0 < few <= min(_MOST, _FEW * kinds.total()) and kind != "text"
    name = table.names[place]
    if is_near and source.infer != "lenient" and name not in source.types:
        merged = {kind, "date"} if kind == "timestamp" else {kind}
        misfits = [
            (row, value)
            for row, value in rows
            if _kind(type(value)) not in merged and not is_null(source, value)
        ]
        raise NearlyError(_nearly(source, path, table, place, _WORDS[kind], number, misfits))
    return pa.string() if others else _TYPES[kind]


def _nearly(
    source: Source,
    path: str,
    table: Table,
    place: int,
    word: str,
    number: int,
    misfits: Sequence[tuple[int, Any]],
) -> str:
    name = table.names[place]
    shown = ", ".join(
        f"{shorten(as_text(value), 40)!r} ({path}, {table.address(row, place)})"
        for row, value in misfits[:_SHOWN]
    )
    more = f" and {len(misfits) - _SHOWN} more" if len(misfits) > _SHOWN else ""
    texts = list(dict.fromkeys(value for _, value in misfits if isinstance(value, str)))
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null, " if texts else ""
    return (
        f"column '{name}': found {shown}{more} among {number:,} {word}, expected {word} only. Set "
        f"{nulls if len(texts) <= _NULLS else ''}'types: {{{yaml_text(name)}: text}}' if they are "
        "texts, or 'infer: lenient', which reads such columns as texts."
    )


def is_null(source: Source, value: Any) -> bool:
    """Whether a cell is empty, or a text that means null."""
    return isinstance(value, str) and (not value or value in source.nulls)


def as_text(value: Any) -> str:
    """Returns a cell as text, such as 5 (not 5.0) and true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if _is_integer(value) else repr(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else str(value)


def _is_integer(value: Any) -> bool:
    return value == value // 1 and abs(value) <= _MOST_EXACT if isinstance(value, float) else True


def arrays(
    source: Source, schema: pa.Schema, rows: Sequence[tuple[int, list[Any]]]
) -> pa.RecordBatch:
    """Returns rows of a table as Arrow columns of given types."""
    columns = []
    for place, field in enumerate(schema):
        cells = [cells[place] for _, cells in rows]
        values = [None if is_null(source, cell) else cell for cell in cells]
        columns.append(_array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    convert: Callable[[Any], Any] | None = None
    if pa.types.is_string(type_):
        convert = as_text
    elif pa.types.is_integer(type_):
        convert = int
    elif pa.types.is_timestamp(type_):
        convert = _moment
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type_)


def _moment(value: datetime.date) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - sheets know no zone
