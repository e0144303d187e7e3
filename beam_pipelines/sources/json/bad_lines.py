"""Errors of bad JSON lines, with few calls of pyarrow.

pyarrow's parser takes a tenth of a millisecond for a single line, and a bad one has to be tried
column by column. Where many lines are bad, Python's parser judges them: a line that is no JSON, no
object, or has an unknown field is bad, and so is one with a kind of value that pyarrow has refused
before in that column. pyarrow is asked about all others.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core import columns
from beam_pipelines.core.columns import is_list
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.yaml_text import yaml_text
from beam_pipelines.sources import bad_rows, nested, shapes, whole_numbers
from beam_pipelines.sources.bad_values import declare_arrays, null_cure
from beam_pipelines.sources.exact_cast import NULL_INSIDE
from beam_pipelines.sources.json.parser_errors import plain
from beam_pipelines.sources.options import ListOptions
from beam_pipelines.sources.plan import SourcePlan

# Lines whose errors Python's values do not show: escapes (of half a character), numbers beyond
# float64.
_SPECIAL = re.compile(rb"\\|[0-9][eE]|[0-9]{300}")
_UNPARSED = "couldn't parse:"
_KIND_FOR_TYPE = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_SCALAR_KINDS = {"string", "boolean", "number"}
_UNCERTAIN = object()
_LARGEST = {pa.float32(): 3.4e38, pa.float64(): sys.float_info.max}
_UNKNOWN = (
    "found a field that was not seen at planning, expected only known ones. Set 'infer: full' of "
    "the "
    "source to look at every line first, or name the columns to read with 'columns'."
)

# The bad column, or "", and the error.
Explanation = tuple[str, str]
# Reads lines with a plan.
ReadLines = Callable[[bytes, SourcePlan], pa.RecordBatch]


class _Written(float):
    """A number with a point, as it was written."""

    written: str


def _written(found: str) -> _Written:
    value = _Written(found)
    value.written = found
    return value


class BadLines:
    """Explains bad lines of one source."""

    def __init__(self, plan: SourcePlan, read_lines: ReadLines) -> None:
        """Takes a function that reads lines with a plan.

        It is called with a plan of all columns or of one, and raises one of ``bad_rows.ERRORS`` if
        a line is bad.
        """
        self._plan = plan
        self._read_lines = read_lines
        self._list_nulls = plan.source.options_of(ListOptions).list_nulls
        self._columns = [
            _JsonColumn(field, tuple(field.name.split(".")), _Values.of(field))
            for field in plan.read_schema
        ]
        self._nested = pa.schema(nested.flatten_fields(plan.file_schema))
        names = [name.split(".") for name in self._nested.names]
        self._known_names = {
            ".".join(keys[: place + 1]) for keys in names for place in range(len(keys))
        }
        # (column, kind of JSON value) -> the parser's error for all such values; column -> its
        # message up to the number.
        self._refused: dict[tuple[str, str], Exception] = {}
        self._unparsed: dict[str, str] = {}

    def explain(self, line: bytes, error: Exception) -> Explanation:
        """Returns the column and error of a line that the parser refused.

        Args:
          line: the line.
          error: of the parser, for this line alone.
        """
        value, wrong = _parsed(line)
        if wrong is not None:
            return "", wrong
        if "specified twice" in str(error):
            return "", f"{plain(error)}, expected every field once. Mend the line."
        return self._explain_fields(line, value) or ("", f"{plain(error)}. Mend the line.")

    def _explain_fields(self, line: bytes, value: dict[str, Any]) -> Explanation | None:
        """Returns the first column that is refused alone, or unknown field."""
        for field in self._plan.read_schema:
            try:
                self._read_lines(line, _only(self._plan, field.name))
            except bad_rows.ERRORS as wrong:
                self._remember(line, field.name, wrong)
                return field.name, self._explain_value(value, field, wrong)
        return self._unknown_field(value)

    def _unknown_field(self, value: dict[str, Any]) -> Explanation | None:
        for name in _field_names(value):
            if name not in self._known_names:
                return name, _UNKNOWN
        return None

    def _remember(self, line: bytes, name: str, error: Exception) -> None:
        try:
            # Python keeps the last of two values of one field; the error may be about the first.
            value, _ = _parsed(line, object_pairs_hook=_plain_object)
        except _UncertainError:
            return
        found = _found(value, name.split("."))
        if not _kind(found):
            return
        if str(error).startswith(
            f"JSON parse error: Column(/{name.replace('.', '/')}) changed from "
        ):
            self._refused[name, _kind(found)] = error
        before, unparsed, written = str(error).partition(_UNPARSED)
        if unparsed and _kind(found) == "number" and written == _as_written(found):
            self._unparsed[name] = before + unparsed

    def judge(self, line: bytes) -> Explanation | None:
        """Returns what ``explain`` would of a certainly bad line, else ``None``."""
        try:
            value, wrong = _parsed(line, parse_float=_written, object_pairs_hook=_plain_object)
        except (_UncertainError, RecursionError):
            return None
        if wrong is not None:
            return None if "integer string conversion" in wrong else ("", wrong)
        if _SPECIAL.search(line):
            return None
        for column in self._columns:
            found = _found(value, column.keys)
            if column.values.take(found):
                continue
            error = self._refusal(found, column)
            return (
                None
                if error is None
                else (column.field.name, self._explain_value(value, column.field, error))
            )
        return None if self._plan.source.columns else self._unknown_field(value)

    def _explain_value(self, value: dict[str, Any], field: pa.Field, error: Exception) -> str:
        found = list(values_of(value, field.name))
        if str(error) == whole_numbers.ROUNDED:
            return self._explain_rounded(found, field)
        if str(error) == NULL_INSIDE:
            return self._explain_null(value, found, field.name)
        if not found:
            return f"{plain(error)}. Mend the line, or leave the column out with 'columns'."
        kind = self._nested.field(field.name).type
        is_tensor = columns.array_type(self._plan.source.types.get(field.name))
        if is_tensor or shapes.depth(kind) > 1:
            whole = _found(value, field.name.split("."))
            shown = shorten(repr(found if whole is _UNCERTAIN else whole), 100)
            return f"found {shown}, {_expected_array(field, kind, whole, error)}"
        return self._explain_kind(value, found, field, error)

    def _explain_kind(
        self, value: dict[str, Any], found: list[Any], field: pa.Field, error: Exception
    ) -> str:
        """Returns the error of values that are no arrays."""
        texts = [item for item in found if isinstance(item, str)]
        leaf = shapes.leaf(field.type)
        is_as_deep = _is_as_deep(_found(value, field.name.split(".")), field.type)
        if texts and is_as_deep and not pa.types.is_string(leaf):
            has_texts = pa.types.is_temporal(leaf) or pa.types.is_binary(leaf)
            shown = f"{'' if has_texts else 'the text '}{shorten(texts[0], 100)!r}"
            return (
                f"found {shown}, expected {bad_rows.expected(field.type)}. Mend the line, or "
                f"{_declare_text(field)}."
            )
        is_declared = field.name in self._plan.source.types
        if pa.types.is_string(leaf) and is_as_deep and not is_declared and _has_numbers(found):
            cure = f"Mend the line, or {_declare_text(field)}."
            return bad_rows.wrong_value(found[0] if len(found) == 1 else found, field.type, cure)
        cure = (
            f"Mend the line, {_declare_text(field)}, or leave the column out with 'columns' "
            f"({plain(error)})."
        )
        return bad_rows.wrong_value(found[0] if len(found) == 1 else found, field.type, cure)

    def _explain_rounded(self, found: list[Any], field: pa.Field) -> str:
        number, expected = next(
            (value, why)
            for value in found
            if type(value) is int and (why := whole_numbers.why_refused(value))
        )
        declared = self._plan.source.types.get(field.name)
        rank = shapes.depth(self._nested.field(field.name).type)
        cure = whole_numbers.cure(field.name, declared, rank)
        return f"found the integer {shorten(str(number), 100)}, expected {expected}. {cure}"

    def _explain_null(self, value: dict[str, Any], found: list[Any], name: str) -> str:
        rank = shapes.depth(self._nested.field(name).type)
        whole = _found(value, name.split("."))
        is_value = whole is _UNCERTAIN or _has_null_value(whole, rank)
        cure = null_cure(self._plan, name) if is_value else "Leave the column out with 'columns'."
        if None in found:
            return f"found {NULL_INSIDE}, expected values only. {cure}"
        return f"found a list of objects that do not all have '{name}', expected it in each. {cure}"

    def _refusal(self, found: Any, column: _JsonColumn) -> Exception | None:
        """Returns the parser's error for a value, if that is certain."""
        name = column.field.name
        if (name, _kind(found)) in self._refused:
            return self._refused[name, _kind(found)]
        if name in self._unparsed and column.values.lack(found):
            return ValueError(self._unparsed[name] + _as_written(found))
        is_refused = column.values.are_lists and name not in self._list_nulls
        if is_refused and isinstance(found, list) and None in found:
            others = [item for item in found if item is not None]
            return ValueError(NULL_INSIDE) if column.values.take(others) else None
        return None


class _Values(NamedTuple):
    """The JSON values that certainly are good in a column.

    Attributes:
      types: of Python's parser.
      lowest, largest: of numbers.
      are_lists: whether they are lists of such values.
    """

    types: tuple[type, ...]
    lowest: float | None = None
    largest: float | None = None
    are_lists: bool = False

    @classmethod
    def of(cls, field: pa.Field) -> _Values:
        """Returns the certainly good values of a column.

        There are none for a type whose values only pyarrow can judge.
        """
        types, type_ = pa.types, field.type
        if types.is_list(type_) and columns.shape_of(field) is None:
            return (
                cls.of(type_.value_field)._replace(are_lists=True)
                if not types.is_list(type_.value_type)
                else cls(())
            )
        if types.is_integer(type_) and type_ != pa.uint64():
            return cls((int,), *bad_rows.integer_range(type_))
        if type_ in _LARGEST:
            return cls((int, _Written), -_LARGEST[type_], _LARGEST[type_])
        return (
            cls((str,))
            if types.is_string(type_)
            else cls((bool,))
            if types.is_boolean(type_)
            else cls(())
        )

    def take(self, found: Any) -> bool:
        """Whether a value is one of them, or a null outside lists."""
        if found is None:
            return True
        if self.are_lists:
            return (
                isinstance(found, list)
                and None not in found
                and all(map(self._replace(are_lists=False).take, found))
            )
        return type(found) in self.types and (
            self.lowest is None or self.lowest <= found <= self.largest
        )

    def lack(self, found: Any) -> bool:
        """Whether a number is none of these integers."""
        is_number = isinstance(found, _Written) or type(found) is int
        return self.types == (int,) and not self.are_lists and is_number and not self.take(found)


class _JsonColumn(NamedTuple):
    """A column: the keys that lead to it, and its values."""

    field: pa.Field
    keys: tuple[str, ...]
    values: _Values


class _UncertainError(Exception):
    """An object that Python's values do not show completely."""


def _plain_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object; refuses repeated fields, and names like nested ones."""
    found = dict(pairs)
    if len(found) < len(pairs) or any("." in name for name in found):
        raise _UncertainError
    return found


def _parsed(line: bytes, **options: Any) -> tuple[dict[str, Any], str | None]:
    """Returns the object of a line, or its error."""
    try:
        value = json.loads(line.decode(), **options)
    except UnicodeDecodeError:
        return (
            {},
            (
                "found bytes that are not UTF-8, expected a JSON object in UTF-8. Convert the "
                "file to "
                "UTF-8."
            ),
        )
    except ValueError as wrong:
        return (
            {},
            f"found text that is not JSON ({wrong}), expected one object a line. Mend the line.",
        )
    if not isinstance(value, dict):
        return (
            {},
            (
                f"found {shorten(repr(value), 100)}, expected an object with named "
                "fields. Mend "
                "the line."
            ),
        )
    return value, None


def _found(value: Any, keys: Sequence[str]) -> Any:
    """Returns a parsed line's value in a flat column, or ``None``.

    It is ``_UNCERTAIN`` within lists, or inside a value that is no object.
    """
    for key in keys:
        if value is None:
            return None
        if not isinstance(value, dict):
            return _UNCERTAIN
        value = value.get(key)
    return value


def _kind(found: Any) -> str:
    return "number" if isinstance(found, _Written) else _KIND_FOR_TYPE.get(type(found), "")


def _as_written(found: float) -> str:
    return found.written if isinstance(found, _Written) else str(found)


def values_of(value: Any, name: str) -> Iterator[Any]:
    """Yields a parsed line's values in a flat column."""
    if isinstance(value, list):
        for item in value:
            yield from values_of(item, name)
    elif name == "":
        yield value
    elif value is None:
        yield None
    elif isinstance(value, dict):
        for key, item in value.items():
            if name == key or name.startswith(f"{key}."):
                yield from values_of(item, name[len(key) + 1 :])


def _declare_text(field: pa.Field) -> str:
    type_ = "list<text>" if is_list(field.type) else "text"
    return f"declare 'types: {{{yaml_text(field.name)}: {type_}}}'"


def _has_null_value(value: Any, rank: int) -> bool:
    """Whether nulls are inside lists, and none stands for a list."""
    if rank == 0 or value is None:
        return value is None and rank == 0
    found = [_has_null_value(item, rank - 1) for item in value]
    return any(found) and (rank == 1 or None not in value)


def _is_as_deep(whole: Any, type_: pa.DataType) -> bool:
    """Whether a value is a list if its column is one."""
    return whole is _UNCERTAIN or isinstance(whole, list) == is_list(type_)


def _has_numbers(found: Sequence[Any]) -> bool:
    """Whether values are strings, numbers and booleans, and not all strings."""
    kinds = {_kind(value) for value in found if value is not None}
    return kinds <= _SCALAR_KINDS and kinds != {"string"}


def _expected_array(field: pa.Field, kind: pa.DataType, found: Any, error: Exception) -> str:
    """Returns what a column of arrays expects, and the cure.

    Args:
      field: of the column.
      kind: the nested type of the sample's arrays.
      found: the value.
      error: its error, which says more if the number of dimensions is right.
    """
    rank = shapes.depth(kind)
    why = f" ({plain(error)})" if _rank(found) == rank else ""
    cure = f"Mend the line, or leave the column out with 'columns'{why}."
    shape = columns.shape_of(field)
    if shape is None:
        dimensions = f"{rank} dimension{'' if rank == 1 else 's'}"
        leaf = columns.type_name(shapes.leaf(kind))
        return f"expected an array of {leaf} with {dimensions}, as in the sample. {cure}"
    if _rank(found) == rank:
        cure = f"Mend the line, or {declare_arrays(field, _is_array(found))}."
    sizes = " × ".join(map(str, shape))
    return f"expected {sizes} values as in the sample. {cure}"


def _is_array(value: Any) -> bool:
    """Whether lists of one depth have one length."""
    level = [value]
    while level and all(isinstance(item, list) for item in level):
        if len({len(item) for item in level}) > 1:
            return False
        level = [inner for item in level for inner in item]
    return not any(isinstance(item, list) for item in level)


def _rank(value: Any) -> int:
    """Returns how many lists are around the first value."""
    rank = 0
    while isinstance(value, list):
        value, rank = value[0] if value else None, rank + 1
    return rank


def _only(plan: SourcePlan, name: str) -> SourcePlan:
    """Returns the plan for one column."""
    keep = pa.schema(
        nested.map_leaves(plan.file_schema, lambda leaf, type_: type_ if leaf == name else None)
    )
    return dataclasses.replace(
        plan,
        source=dataclasses.replace(plan.source, columns=(name,)),
        file_schema=keep,
        read_schema=pa.schema([plan.read_schema.field(name)]),
        schema=pa.schema([plan.schema.field(name)]),
    )


def _field_names(value: Any, prefix: str = "") -> Iterator[str]:
    """Yields the names of the flat columns of a parsed line."""
    if isinstance(value, dict):
        for key, item in value.items():
            name = f"{prefix}{key}"
            items = item if isinstance(item, list) else [item]
            nested_items = [entry for entry in items if isinstance(entry, dict)]
            if not nested_items:
                yield name
            for entry in nested_items:
                yield from _field_names(entry, f"{name}.")
