"""Makes batches of raw rows: dictionaries, Arrow tables, pandas frames."""

from __future__ import annotations

import datetime
import functools
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import normalise, only_chunk, type_name, value_type
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.formatting import shorten
from beam_pipelines.encodings.apply import LONGEST_SHOWN, apply_to, to_feature
from beam_pipelines.encodings.array_values import map_values

# What pa.array raises for a value of another type.
_WRONG_VALUE = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
# Column type -> types of Python whose values it holds as they are.
_PLAIN: dict[pa.DataType, set[type]] = {
    pa.int64(): {int, type(None)},
    pa.float64(): {int, float, type(None)},
    pa.bool_(): {bool, type(None)},
    pa.string(): {str, type(None)},
    pa.binary(): {bytes, type(None)},
    pa.date32(): {datetime.date, type(None)},
    pa.timestamp("us"): {datetime.datetime, type(None)},
}
_TIME_OF_DAY = "it has a time of day"
_EXPECTED = "a dictionary, a list of dictionaries, an Arrow table or batch, or a pandas DataFrame"


def to_batch(rows: Any, columns: pa.Schema) -> pa.RecordBatch:
    """Returns the columns of raw rows as a batch.

    Args:
      rows: a dictionary, a list of them, an Arrow table or batch, or a pandas DataFrame. Columns
        that are not wanted are ignored. In a DataFrame NaN, None, NaT and NA are null.
      columns: the wanted ones. ``a.b`` may be field ``b`` of a nested ``a``. Numbers, dates, times
        and texts become those of the column's type if it holds them exactly; a float is rounded.
        A time may be its ISO 8601 text; without a zone it is one of UTC.

    Raises:
      DataError: a column is missing, or a value does not fit its column.
      TypeError: the rows are something else.
    """
    if isinstance(rows, pa.RecordBatch) and rows.schema == columns:
        return rows
    if isinstance(rows, Mapping):
        rows = [rows]
    pandas = sys.modules.get("pandas")
    error = functools.partial(_no_column, columns)
    if isinstance(rows, pa.Table | pa.RecordBatch):
        arrays = _from_table(rows.schema.names, rows.column, columns, error)
    elif pandas is not None and isinstance(rows, pandas.DataFrame):
        arrays = _from_table(rows.columns, lambda name: _from_series(rows[name]), columns, error)
    elif isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        arrays = [_from_values(_values(rows, field, error), field) for field in columns]
    else:
        raise TypeError(f"rows: found {type(rows).__name__}, expected {_EXPECTED}.")
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _from_table(
    names: Collection[str],
    column: Callable[[str], pa.Array | pa.ChunkedArray],
    columns: pa.Schema,
    error: Callable[..., DataError],
) -> list[pa.Array]:
    """Returns the columns of a table, also those inside its nested columns."""
    arrays = []
    for field in columns:
        if field.name in names:
            arrays.append(_as_column(column(field.name), field))
            continue
        outer = next((name for name in names if field.name.startswith(f"{name}.")), None)
        if outer is None:
            raise error(names, field, "rows")
        rows = [{outer: cell} for cell in column(outer).to_pylist()]
        arrays.append(_from_values(_values(rows, field, error), field))
    return arrays


def _values(
    rows: Sequence[Mapping[str, Any]], field: pa.Field, error: Callable[..., DataError]
) -> list[Any]:
    """Returns a column's values of rows, also of nested ones."""
    values = []
    for number, row in enumerate(rows):
        try:
            values.append(row[field.name] if field.name in row else _within(row, field.name))
        except KeyError:
            raise error(row, field, f"row {number}") from None
    return values


def _within(value: Any, name: str) -> Any:
    """Returns field ``a.b`` of a nested value, as sources have it.

    Raises:
      KeyError: there is no such field.
    """
    if isinstance(value, list | tuple):
        return [_within(item, name) for item in value]
    if not isinstance(value, Mapping):
        if value is None or value != value:  # noqa: PLR0124 - NaN, a frame's null
            return None
        raise KeyError(name)
    if name in value:
        return value[name]
    for dot in re.finditer(r"\.", name):
        if name[: dot.start()] in value:
            return _within(value[name[: dot.start()]], name[dot.end() :])
    raise KeyError(name)


def _no_column(
    columns: pa.Schema, names: Collection[str], field: pa.Field, where: str
) -> DataError:
    unused = [str(name) for name in names if name not in columns.names]
    return DataError(
        f"{where}: found no column '{field.name}', expected one of type "
        f"{type_name(field.type)}. A null is given as None; the encoder's 'columns' and 'events' "
        f"have all names.{nearest(field.name, unused)}"
    )


def _from_values(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Returns Python values as a column."""
    try:
        if _PLAIN.get(field.type, set()).issuperset(map(type, values)):
            return pa.array(values, field.type)
        # With the type given, Arrow would cut fractions, and take a bool for an integer.
        return _cast(pa.array(values), field)
    except _WRONG_VALUE:  # a wrong value, or values of several kinds
        return pa.concat_arrays([_from_value(*pair, field) for pair in enumerate(values)])


def _from_value(row: int, value: Any, field: pa.Field) -> pa.Array:
    """Returns one value as a column."""
    if type(value).__name__ in ("NAType", "NaTType"):
        value = None
    elif isinstance(value, float) and value != value:  # noqa: PLR0124 - only NaN differs
        value = value if pa.types.is_floating(value_type(field.type)) else None
    elif isinstance(value, np.datetime64):  # of any unit
        value = value.astype("datetime64[us]").item()
    try:
        return _cast(pa.array([value]), field)
    except _WRONG_VALUE as error:
        raise DataError(
            f"row {row}, column '{field.name}': found {shorten(repr(value), LONGEST_SHOWN)}, "
            f"expected {type_name(field.type)} ({error})."
        ) from error


def _from_iso(texts: pa.Array) -> pa.Array:
    """Returns times; all texts have an offset, or none has."""
    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us", "UTC"))


def _from_series(series: Any) -> pa.Array:
    """Returns a column of a DataFrame; its missing values are null."""
    try:
        return pa.array(series, from_pandas=True)
    except _WRONG_VALUE as error:
        raise DataError(
            f"rows, column '{series.name}': found values of several types ({error}), expected one."
        ) from error


def _as_column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Returns an Arrow array as a column."""
    array = only_chunk(column) if isinstance(column, pa.ChunkedArray) else column
    if array.type == field.type:
        return array
    try:
        return _cast(array, field)
    except _WRONG_VALUE as error:
        raise DataError(
            f"rows, column '{field.name}': found {type_name(array.type)}, expected "
            f"{type_name(field.type)} ({error})."
        ) from error


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    """Casts an array to a column's type, which must hold its values.

    Without a value, whatever its type, it has the column's: a writer cannot know it.
    """
    if pa.types.is_null(value_type(array.type)):
        return array.cast(field.type)
    if array.null_count == len(array):
        return pa.nulls(len(array), field.type)
    found = normalise(array)
    if _family(found.type)[1] == "texts" and _family(field.type)[1] == "dates":
        found = map_values(found, _from_iso)
    if _family(found.type) != _family(field.type):
        raise TypeError(f"a value of another kind, {type_name(found.type)}")
    wide = _wide(field.type)
    result = found if found.type == wide else found.cast(wide)
    if pa.types.is_date(wide) and not result.cast(found.type).equals(found):
        raise ValueError(_TIME_OF_DAY)  # Arrow would leave it out
    return _narrowed(result, field)


def _family(type_: pa.DataType) -> tuple[bool, str]:
    """Returns whether values are lists, and a name of their kind."""
    types, item = pa.types, value_type(type_)
    family = str(item)
    if types.is_integer(item) or types.is_floating(item):
        family = "numbers"
    elif types.is_string(item) or types.is_binary(item):
        family = "texts"
    elif types.is_date(item) or types.is_timestamp(item):
        family = "dates"
    return types.is_list(type_), family


def _wide(type_: pa.DataType) -> pa.DataType:
    """Returns a column's type with float64 in the place of float32."""
    if pa.types.is_list(type_):
        return pa.list_(_wide(type_.value_type))
    return pa.float64() if pa.types.is_float32(type_) else type_


def _narrowed(array: pa.Array, field: pa.Field) -> pa.Array:
    """Returns a float32 column from float64, and others as they are."""
    if array.type == field.type:
        return array
    return apply_to(to_feature, (array,), f"rows, column '{field.name}'")
