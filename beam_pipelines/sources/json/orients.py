"""Recognizes whole tables in one JSON value, as pandas writes them.

``DataFrame.to_json()`` writes ``{"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}``: an object of
columns, which is no row. Its argument ``orient`` has more such forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"\s*")
# Fields of an object that show what it is.
_FIELDS = 100

# Those that may be read as one row.
_OBJECTS = ("columns", "index")


class _Cut:
    """A value that goes on behind the text."""

    def __init__(self, text: str, start: int) -> None:
        self.text, self.start = text, start


def check_is_no_table(text: str, path: str) -> None:
    """Raises for a whole table in one value.

    Args:
      text: the beginning of the file, perhaps cut anywhere.
      path: of the file.

    Raises:
      DataError: with the lines of Python that make JSON Lines of it.
    """
    if not (orient := orient_of(text)):
        return
    cure = ", or set 'format: json' if it is one row" if orient in _OBJECTS else ""
    raise DataError(
        f"{path}: found a whole table in one value, as pandas writes it with orient={orient!r}, "
        "expected an object for each row. Write it with df.to_json(path, orient='records', "
        f"lines=True){cure}; or convert it, for example: import pandas; {_conversion(path, orient)}"
    )


def rows_within(table: pa.Table, path: str) -> str:
    """Returns how to get rows from one object.

    Args:
      table: the object as one row.
      path: of the file.

    Returns:
      Words of a finding; nothing for an object that looks like a row.
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
            count = len(column[0] or ())
            if count > 1:
                return (
                    f"one object is one row; jq -c '.[{json.dumps(name)}][]' makes rows of its "
                    f"{count:,} objects"
                )
    if not (are_objects := _are_objects(table)) and not _are_lists(table):
        return ""
    convert = _conversion(path, "columns", are_objects)
    return f"one object is one row; if its fields are columns, {convert} makes rows"


def _are_objects(table: pa.Table) -> bool:
    """Whether all fields are objects with equal names."""
    names = {
        tuple(type_.names) if pa.types.is_struct(type_) else () for type_ in table.schema.types
    }
    return table.num_columns > 1 and len(names) == 1 and len(*names) > 1


def _are_lists(table: pa.Table) -> bool:
    """Whether all fields are lists of as many values."""
    lengths = {
        len(column[0] or ()) if pa.types.is_list(column.type) else 0 for column in table.columns
    }
    return table.num_columns > 1 and len(lengths) == 1 and max(lengths) > 1


def _conversion(path: str, orient: str, has_names: bool = False) -> str:
    """Returns the Python that makes JSON Lines of a table.

    Args:
      path: of the file.
      orient: of the table.
      has_names: whether the rows have names, which become a column.
    """
    # Without these arguments pandas makes numbers and dates of texts.
    exact = "" if orient == "table" else ", dtype=False, convert_dates=False"
    names = ".reset_index()" if has_names else ""
    return (
        f"pandas.read_json({path!r}, orient={orient!r}{exact}){names}"
        ".to_json('new.jsonl', orient='records', lines=True)"
    )


def orient_of(text: str) -> str:
    """Returns the orient of a table in one value; else nothing."""
    start = _after_blanks(text, 0)
    if _goes_on(text, start):
        return ""
    if text.startswith("[", start):
        return "values" if text.startswith("[", _after_blanks(text, start + 1)) else ""
    fields = dict(_fields(text, start)) if text.startswith("{", start) else {}
    if _is_split(fields):
        return "split"
    if "pandas_version" in (_inner(fields.get("schema")) or {}):
        return "table"
    return _orient_of_objects(fields)


def _orient_of_objects(fields: dict[str, Any]) -> str:
    inner = [found for value in fields.values() if (found := _inner(value)) is not None]
    if not inner or len(inner) < len(fields):
        return ""
    if _is_counted(fields):
        return "index"
    return "columns" if all(map(_is_counted, inner)) else ""


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _goes_on(text: str, start: int) -> bool:
    """Whether more follows the first value."""
    try:
        end = _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return False
    return _after_blanks(text, end) < len(text)


def _fields(text: str, start: int) -> Iterator[tuple[str, Any]]:
    """Yields the first fields of an object.

    The value of the last one may be cut.
    """
    position = start + 1
    for _ in range(_FIELDS):
        position = _after_blanks(text, position)
        try:
            name, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        position = _after_blanks(text, position)
        if not isinstance(name, str) or not text.startswith(":", position):
            return
        begin = _after_blanks(text, position + 1)
        try:
            value, position = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            yield name, _Cut(text, begin)
            return
        yield name, value
        position = _after_blanks(text, position)
        if not text.startswith(",", position):
            return
        position += 1


def _inner(value: Any) -> dict[str, Any] | None:
    """Returns the fields of an object; ``None`` for another value."""
    if isinstance(value, _Cut):
        is_object = value.text.startswith("{", value.start)
        return dict(_fields(value.text, value.start)) if is_object else None
    return value if isinstance(value, dict) else None


def _is_counted(fields: dict[str, Any]) -> bool:
    """Whether the names are the numbers of rows, from 0."""
    return bool(fields) and all(name == str(number) for number, name in enumerate(fields))


def _is_split(fields: dict[str, Any]) -> bool:
    """Whether fields are names of columns, and rows of as many values."""
    columns, data = fields.get("columns"), fields.get("data")
    if not isinstance(columns, list) or list(fields) not in (
        ["columns", "index", "data"],
        ["columns", "data"],
        ["columns", "index"],
    ):
        return False
    if not isinstance(data, list):  # it is cut, or behind an index that is
        return any(isinstance(value, _Cut) for value in fields.values())
    return all(isinstance(row, list) and len(row) == len(columns) for row in data)
