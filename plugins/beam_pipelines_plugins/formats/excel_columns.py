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
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines_plugins.formats.excel_workbook import Fault, SheetTable

# The largest integer below which a number of a sheet, a float64, is exact.
_MOST_EXACT = 1 << 53
# As in CSV files: a few values among others are asked about.
_FEW, _MOST = 0.01, 300
_SHOWN, _NULLS = 3, 10
# Type of a cell -> the word for such cells.
_WORDS: Mapping[type, str] = {
    bool: "booleans",
    int: "numbers",
    float: "numbers",
    datetime.datetime: "timestamps",
    datetime.date: "dates",
    datetime.time: "times",
    datetime.timedelta: "durations",
    str: "texts",
}
_TYPES: Mapping[str, pa.DataType] = {
    "numbers": pa.float64(),
    "booleans": pa.bool_(),
    "dates": pa.date32(),
    "timestamps": pa.timestamp("us"),
    "times": pa.time64("us"),
    "durations": pa.duration("us"),
    "texts": pa.string(),
}


class NearlyError(ValueError):
    """A column whose cells are of one type but for a few."""


def column_type(source: Source, path: str, table: SheetTable, place: int) -> pa.DataType:
    """Returns the type of a column.

    Args:
      source: of the recipe; its ``nulls`` are no values.
      path: of the file, for messages.
      table: of the sheet.
      place: number of the column in the table.

    Raises:
      NearlyError: a few cells are of another type than the others.
    """
    rows = ((row, cells[place]) for row, cells in table.rows if not table.is_header(cells))
    filled = [
        (row, cell) for row, cell in rows if not is_null(source, cell) and type(cell) is not Fault
    ]
    kinds = Counter[str]()
    for own, count in Counter(type(cell) for _, cell in filled).items():
        kinds[_WORDS[own]] += count
    merged = {"timestamps": ("timestamps", "dates")} if "timestamps" in kinds else {}
    if merged:
        kinds["timestamps"] += kinds.pop("dates", 0)
    if not kinds:
        return pa.null()
    [(word, number), *others] = kinds.most_common()
    if not others:
        is_whole = word == "numbers" and all(_is_integer(cell) for _, cell in filled)
        return pa.int64() if is_whole else _TYPES[word]
    is_near = len(filled) - number <= min(_MOST, _FEW * len(filled)) and word != "texts"
    if is_near and source.infer != "lenient" and table.names[place] not in source.types:
        own_words = merged.get(word, (word,))
        misfits = [one for one in filled if _WORDS[type(one[1])] not in own_words]
        found = [
            f"{shorten(as_text(cell), 40)!r} ({path}, {table.address(row, place)})"
            for row, cell in misfits
        ]
        texts = list(dict.fromkeys(cell for _, cell in misfits if isinstance(cell, str)))
        raise NearlyError(_nearly(source, table.names[place], f"{number:,} {word}", found, texts))
    return pa.string()


def _nearly(
    source: Source, name: str, others: str, found: Sequence[str], texts: Sequence[str]
) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null, "
    return (
        f"column '{name}': found {', '.join(found[:_SHOWN])}{more} among {others}, expected these "
        f"only. Set {nulls if 0 < len(texts) <= _NULLS else ''}'types: {{{yaml_text(name)}: "
        "text}' if they are texts, or 'infer: lenient', which reads such columns as texts."
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
    elif pa.types.is_timestamp(type_):
        convert = _moment
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type_)


def _moment(value: datetime.date) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - sheets know no zone
