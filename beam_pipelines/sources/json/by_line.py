"""JSON lines, one by one, with Python's parser.

This defines values, errors and places. pyarrow is quicker, and gives the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import tables, whole_numbers
from beam_pipelines.sources.bad_input import bad_rows, bad_values
from beam_pipelines.sources.json.scalar_texts import text_columns, with_texts
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.text.cells import cell_parser
from beam_pipelines.sources.text.format import BadRecord

_BLANKS = b" \t\r\n"
_MEND = "Mend the line."
_MEND_OR_REJECT = "Mend the line, or leave such lines out with 'on_error: {reject: 10}'."
_UNKNOWN = (
    "found a field that was not seen at planning, expected only known ones. Set 'infer: full' of "
    "the source to look at every line first, or name the columns to read with 'columns'."
)


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _Constant(_Number):
    """NaN or Infinity, which are no JSON."""

    __slots__ = ()


class _Repetitive(dict[str, Any]):
    """An object with fields that are given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.names = [name for name in self if names.count(name) > 1]


class _LineError(ValueError):
    """A line that is refused: the column, and the reason."""


class LineParser:
    """Parses lines of one source."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._type = pa.struct(list(plan.file_schema))
        self._nested = pa.schema(nested.flatten_fields(plan.file_schema))
        self._texts = text_columns(plan.source, self._nested)
        self._whole: Any = None  # the value of the column that is looked at

    def by_python(
        self, data: bytes, starts: Sequence[int], ends: Sequence[int]
    ) -> Iterator[pa.RecordBatch | BadRecord]:
        """Yields the bad lines, and a batch of the good ones."""
        lines = [data[start:end].strip(_BLANKS) for start, end in zip(starts, ends, strict=True)]
        wrong, batch = self._parse(lines)
        for number in sorted(wrong):
            start = data.index(lines[number], starts[number])
            yield start, start + len(lines[number]), *wrong[number]
        if batch.num_rows:
            yield batch

    def _parse(self, lines: Sequence[bytes]) -> tuple[dict[int, tuple[str, str]], pa.RecordBatch]:
        """Returns the column and error of bad lines, and the good ones."""
        wrong: dict[int, tuple[str, str]] = {}
        rows: dict[int, dict[str, Any]] = {}
        texts = with_texts(b"\n".join(lines), self._texts).split(b"\n")
        for number, (line, text) in enumerate(zip(lines, texts, strict=True)):
            try:
                rows[number] = self._row(line, text)
            except _LineError as error:
                wrong[number] = error.args[0], error.args[1]
        batch = pa.RecordBatch.from_struct_array(pa.array(list(rows.values()), self._type))
        try:
            return wrong, tables.convert(batch, self._plan)
        except bad_values.ColumnError:
            errors, numbers = tables.errors_of(batch, self._plan), list(rows)
        for row, why in errors.items():
            one = batch.slice(row, 1)
            wrong[numbers[row]] = bad_values.explain(one, self._plan, why, keeps_json=True)
        good = pa.array([row not in errors for row in range(len(rows))], pa.bool_())
        return wrong, tables.convert(batch.filter(good), self._plan)

    def _row(self, line: bytes, text: bytes) -> dict[str, Any]:
        """Returns the values of a line, which may have texts for others."""
        found = _object_of(line)
        if b"\\u" in line:
            try:
                json.dumps(found, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                message = "found the escape of half a character, expected a whole one. "
                raise _LineError("", message + _MEND_OR_REJECT) from None
        return self._struct(found if text == line else _object_of(text), self._type, "")

    def _struct(self, found: Any, type_: pa.DataType, prefix: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            self._refuse_other(found, prefix, "an object")
        if isinstance(found, _Repetitive):
            for key in found.names:
                if type_.get_field_index(key) >= 0:
                    message = f"field '{prefix}{key}' was specified twice, expected every field "
                    raise _LineError("", f"{message}once. {_MEND}")
        values = {}
        for field in type_:
            if (value := found.get(field.name)) is not None:
                self._whole = value
                values[field.name] = self._value(value, field.type, prefix + field.name)
        if not self._plan.source.columns and len(found) > len(values):
            for key, value in found.items():
                if type_.get_field_index(key) < 0:
                    raise _LineError(_first_leaf(prefix + key, value), _UNKNOWN)
        return values

    def _value(self, found: Any, type_: pa.DataType, name: str) -> Any:
        if found is None:
            return None
        if pa.types.is_struct(type_):
            return self._struct(found, type_, f"{name}.")
        if not is_list(type_):
            return self._scalar(found, type_, name)
        if not isinstance(found, list):
            self._refuse(found, type_, name)
        return [self._value(item, type_.value_type, name) for item in found]

    def _scalar(self, found: Any, type_: pa.DataType, name: str) -> Any:
        types = pa.types
        if isinstance(found, bool) and types.is_boolean(type_):
            return found
        is_integer, is_float = types.is_integer(type_), types.is_floating(type_)
        is_text = not (is_integer or is_float or types.is_boolean(type_))
        is_number = is_float or (is_integer and isinstance(found, str) and _is_integer(found))
        if not (is_number if isinstance(found, _Number) else is_text and isinstance(found, str)):
            self._refuse(found, type_, name)
        if is_float and _is_integer(found):
            declared = self._plan.source.types.get(name, columns.TENSOR)
            # A column of float64 may round no integer.
            if declared in (columns.TENSOR, columns.RAW) and pa.types.is_float64(type_):
                self._check_exact(found, name)
        try:
            value = cell_parser(type_)(found)
        except ValueError:
            self._refuse(found, type_, name)
        if is_float and math.isinf(value):  # JSON has no infinity
            self._refuse(found, type_, name)
        return value

    def _check_exact(self, found: str, name: str) -> None:
        if expected := whole_numbers.why_text_refused(found):
            rank = shapes.depth(self._nested.field(name).type)
            cure = whole_numbers.cure(name, self._plan.source.types.get(name), rank)
            message = f"found the integer {shorten(found, 100)}, expected {expected}. {cure}"
            raise _LineError(name, message)

    def _refuse_other(self, found: Any, prefix: str, expected: str) -> NoReturn:
        """Raises the error of a value in the place of objects."""
        name = next((one for one in self._nested.names if one.startswith(prefix)), prefix[:-1])
        whole = next(yaml_text(one.name) for one in self._type if prefix.startswith(f"{one.name}."))
        cure = (
            f"Mend the line, declare 'types: {{{whole}: text}}', which keeps the text of its JSON, "
            "or leave the column out with 'columns'."
        )
        raise _LineError(name, bad_rows.wrong_value(_plain(found), expected, cure))

    def _refuse(self, found: Any, type_: pa.DataType, name: str) -> NoReturn:
        """Raises the error of a value of another type."""
        if name not in self._nested.names:
            self._refuse_other(found, f"{name}.", "a list of objects")
        field, kind = self._plan.read_schema.field(name), self._nested.field(name).type
        leave = "leave the column out with 'columns'"
        is_beyond = isinstance(found, _Number) and pa.types.is_floating(type_)
        is_tensor = columns.array_type(self._plan.source.types.get(name))
        if not is_beyond and (is_tensor or shapes.depth(kind) > 1):
            shape, rank = columns.shape_of(field), shapes.depth(kind)
            dimensions = f"{rank} dimension{'' if rank == 1 else 's'}"
            leaf = columns.type_name(shapes.leaf(kind))
            expected = f"an array of {leaf} with {dimensions},"
            if shape is not None and not is_tensor:
                expected = f"{' × '.join(map(str, shape))} values"
            shown = shorten(repr(_plain(self._whole)), 100)
            message = f"found {shown}, expected {expected} as in the sample. Mend the line, or "
            raise _LineError(name, f"{message}{leave}.")
        text = "list<text>" if is_list(kind) else "text"
        cure = f"Mend the line, declare 'types: {{{yaml_text(name)}: {text}}}', or {leave}."
        reason = bad_rows.wrong_value(_plain(found), field.type, cure)
        if type(found) is str and not pa.types.is_string(type_) and not pa.types.is_binary(type_):
            reason = reason.replace("found", "found the text", 1)
        raise _LineError(name, reason)


def _object_of(line: bytes) -> dict[str, Any]:
    """Parses a line.

    Raises:
      _LineError: it is no object.
    """
    try:
        found = json.loads(
            line.decode(),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        message = "found bytes that are not UTF-8, expected a JSON object in UTF-8. Set 'encoding'"
        raise _LineError("", f"{message} of the source, such as cp1252.") from None
    except ValueError as wrong:
        message = f"found text that is not JSON ({wrong}), expected one object a line. {_MEND}"
        raise _LineError("", message) from None
    if not isinstance(found, dict):
        shown = shorten(repr(_plain(found)), 100)
        message = f"found {shown}, expected an object with named fields. {_MEND}"
        raise _LineError("", message)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repetitive(pairs)


def _first_leaf(name: str, found: Any) -> str:
    """Returns the first flat column of a value."""
    while isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, dict) or not found:
        return name
    key, value = next(iter(found.items()))
    return _first_leaf(f"{name}.{key}", value)


def _is_integer(found: str) -> bool:
    return found.lstrip("-").isdigit()


def _plain(found: Any) -> Any:
    """Returns a value with Python's numbers, for messages."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(item) for item in found]
    if not isinstance(found, _Number):
        return found
    return int(found) if _is_integer(found) and len(found) < 4_000 else float(found)
