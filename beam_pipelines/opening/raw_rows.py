"""Makes batches of raw rows: dictionaries, Arrow tables, pandas frames."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.columns import normalise, only_chunk, type_name, value_type
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.formatting import shorten
from beam_pipelines.encodings.apply import LONGEST_SHOWN, apply_to, to_feature

# What pa.array raises for a value of another type.
_WRONG_VALUE = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
_EXPECTED = "a dictionary, a list of dictionaries, an Arrow table or batch, or a pandas DataFrame"


def to_batch(rows: Any, columns: pa.Schema, origins: Mapping[str, str]) -> pa.RecordBatch:
    """Returns the columns of raw rows as a batch.

    Args:
      rows: a dictionary, a list of them, an Arrow table or batch, or a pandas DataFrame. Columns
        that are not wanted are ignored. In a DataFrame NaN, None, NaT and NA are null.
      columns: the wanted ones. Numbers, dates and texts become those of the column's type if it
        holds them exactly; a float is rounded.
      origins: column -> the part of the recipe that makes it, for messages.

    Raises:
      DataError: a column is missing, or a value does not fit its column.
      TypeError: the rows are something else.
    """
    if isinstance(rows, Mapping):
        rows = [rows]
    pandas = sys.modules.get("pandas")
    if isinstance(rows, pa.Table | pa.RecordBatch):
        _check_names(rows.schema.names, columns, origins, "rows")
        arrays = [_as_column(rows.column(field.name), field) for field in columns]
    elif pandas is not None and isinstance(rows, pandas.DataFrame):
        _check_names(list(rows.columns), columns, origins, "rows")
        arrays = [_as_column(_from_series(rows[field.name], field), field) for field in columns]
    elif isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        wanted = set(columns.names)
        for number, row in enumerate(rows):
            if not row.keys() >= wanted:
                _check_names(row.keys(), columns, origins, f"row {number}")
        arrays = [_from_values([row[field.name] for row in rows], field) for field in columns]
    else:
        raise TypeError(f"rows: found {type(rows).__name__}, expected {_EXPECTED}.")
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _check_names(
    names: Collection[str], columns: pa.Schema, origins: Mapping[str, str], where: str
) -> None:
    """Raises ``DataError`` if a column is missing."""
    for field in columns:
        if field.name not in names:
            unused = [str(name) for name in names if name not in columns.names]
            raise DataError(
                f"{where}: found no column '{field.name}', expected one of type "
                f"{type_name(field.type)}{origins.get(field.name, '')}. A null is given as None."
                f"{nearest(field.name, unused)}"
            )


def _from_values(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """Returns Python values as a column."""
    try:
        return _from_python(values, field)
    except _WRONG_VALUE:
        known = [None if _is_missing(value, field) else value for value in values]
        if any(new is not old for new, old in zip(known, values, strict=True)):
            return _from_values(known, field)
        for number, value in enumerate(values):
            try:
                _from_python([value], field)
            except _WRONG_VALUE as error:
                raise DataError(
                    f"row {number}, column '{field.name}': found "
                    f"{shorten(repr(value), LONGEST_SHOWN)}, expected {type_name(field.type)} "
                    f"({error})."
                ) from error
        raise


def _is_missing(value: Any, field: pa.Field) -> bool:
    """Whether a value is pandas' NA or NaT.

    A NaN where no number has one.
    """
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    is_nan = isinstance(value, float) and value != value  # noqa: PLR0124 - only NaN differs
    return is_nan and not pa.types.is_floating(value_type(field.type))


def _from_python(values: Sequence[Any], field: pa.Field) -> pa.Array:
    item = value_type(field.type)
    if pa.types.is_date(item) and any(_is_missing(value, field) for value in values):
        raise ValueError("found NaT, which Arrow would take for a day of the year 1")
    if pa.types.is_integer(item) or pa.types.is_boolean(item):
        # With the type given, Arrow would cut fractions, and take a bool for an integer.
        return _cast(pa.array(values), field)
    return _narrowed(pa.array(values, _wide(field.type)), field)


def _from_series(series: Any, field: pa.Field) -> pa.Array:
    """Returns a column of a DataFrame; its missing values are null."""
    try:
        return pa.array(series, from_pandas=True)
    except _WRONG_VALUE as error:
        raise DataError(
            f"rows, column '{field.name}': found values of several types ({error}), expected "
            f"{type_name(field.type)}."
        ) from error


def _as_column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Returns an Arrow array as a column."""
    array = only_chunk(column) if isinstance(column, pa.ChunkedArray) else column
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
    if array.null_count == len(array):
        return pa.nulls(len(array), field.type)
    found = normalise(array)
    if _family(found.type) != _family(field.type):
        raise TypeError(f"a value of another kind, {type_name(found.type)}")
    wide = _wide(field.type)
    return _narrowed(found if found.type == wide else found.cast(wide), field)


def _family(type_: pa.DataType) -> tuple[bool, str]:
    """Returns whether values are lists, and a name of their kind."""
    types, item = pa.types, value_type(type_)
    family = str(item)
    if types.is_integer(item) or types.is_floating(item):
        family = "numbers"
    elif types.is_string(item) or types.is_binary(item):
        family = "texts"
    elif types.is_date(item) or item == pa.timestamp("us"):
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
