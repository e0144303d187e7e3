"""Recognizes whole tables in one JSON value, as pandas writes them.

``DataFrame.to_json()`` writes ``{"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}``: an object of
columns, which is no row. Its argument ``orient`` has more such forms.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from beam_pipelines.core.errors import DataError

# Python's patterns take memory for each repeat of a group: one for each escape, and no more.
_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# How tables begin; a blank stands for any white space. Without names, columns are numbers, too.
_BEGINNINGS = {
    orient: re.compile(pattern.replace(" ", r"\s*"), re.DOTALL)
    for orient, pattern in {
        "columns": rf' {{ {_TEXT} : {{ "0" :',
        "index": r' { "0" : {',
        "split": rf' {{ "columns" : \[(?:{_TEXT}|[^"{{}}])*?\] , "(?:index" : \[|data" : \[ \[)',
        "table": r' { "schema" : { "fields" : \[.*"pandas_version"',
        "values": r" \[ \[",
    }.items()
}
# Those that may be read as one row.
_OBJECTS = ("columns", "index")


def check_is_no_table(text: str, path: str) -> None:
    """Raises for a whole table in one value.

    Args:
      text: the beginning of the file, perhaps cut anywhere.
      path: of the file.

    Raises:
      DataError: with the lines of Python that make JSON Lines of it.
    """
    found = (orient for orient, beginning in _BEGINNINGS.items() if beginning.match(text))
    if not (orient := next(found, "")) or _is_rows(text, orient):
        return
    cure = ", or set 'format: json' if it is one row" if orient in _OBJECTS else ""
    raise DataError(
        f"{path}: found a whole table in one value, as pandas writes it with orient={orient!r}, "
        "expected an object for each row. Write it with df.to_json(path, orient='records', "
        f"lines=True){cure}; or convert it, for example: import pandas; {_conversion(path, orient)}"
    )


def _is_rows(text: str, orient: str) -> bool:
    """Whether more follows the first value, or has fields of a row."""
    text = text.strip()
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # it is cut
        return False
    if end < len(text):
        return True
    if orient == "split":
        return not isinstance(value.get("data"), list)
    return orient in _OBJECTS and not all(isinstance(field, dict) for field in value.values())


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
    # Objects with equal names, or lists of as many values, are perhaps columns.
    shapes: set[object] = {
        tuple(column.type.names) if pa.types.is_struct(column.type) else _length(column)
        for column in table.columns
    }
    if table.num_columns < 2 or len(shapes) > 1 or shapes <= {0, 1, ()}:
        return ""
    convert = _conversion(path, "columns", not shapes <= {_length(table.column(0))})
    return f"one object is one row; if its fields are columns, {convert} makes rows"


def _length(column: pa.ChunkedArray) -> int:
    return len(column[0] or ()) if pa.types.is_list(column.type) else 0


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
