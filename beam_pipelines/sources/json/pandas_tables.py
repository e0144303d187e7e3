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


def rows_within(table: pa.Table) -> str:
    """Returns how to get the rows within one object, or nothing."""
    kinds = table.schema.types
    if len(kinds) > 1 and all(map(pa.types.is_list, kinds)):
        sizes = {len(column[0] or ()) for column in table.columns}
        if len(sizes) == 1 and (size := sizes.pop()) > 1:
            rows = ". as $all | range(.[keys[0]] | length) as $i | $all | map_values(.[$i])"
            return f"one object is one row; jq -c '{rows}' makes {size:,} rows of its lists"
    names = [{one.name for one in kind} for kind in kinds if pa.types.is_struct(kind)]
    found = [
        (f".[{json.dumps(field.name)}][]", len(column[0] or ()))
        for field, column in zip(table.schema, table.columns, strict=True)
        if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)
    ]
    if names and len(names) == len(kinds):
        common, known = set.intersection(*names), set.union(*names)
        if 2 * len(common) >= len(known):  # rows of much the same fields, each with a name
            found.append(("to_entries[] | {key} + .value", len(names)))
    words = "one object is one row; jq -c '{}' makes rows of its {:,} objects"
    return next((words.format(*each) for each in found if each[1] > 1), "")


def _conversion(path: str, orient: str) -> str:
    """Returns the Python that makes JSON Lines of a table."""
    # Without these arguments pandas makes numbers and dates of texts.
    exact = "" if orient == "table" else ", dtype=False, convert_dates=False"
    return (
        f"pandas.read_json({path!r}, orient={orient!r}{exact})"
        ".to_json('new.jsonl', orient='records', lines=True)"
    )
