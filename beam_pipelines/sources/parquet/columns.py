"""Columns of Parquet with long dictionaries, or timestamps of 96 bits.

One value of a dictionary may stand for millions of rows, in a file of some kilobytes. So the
decoded size is computed first: rows are read with their dictionary, and decoded some at a time.

Timestamps of 96 bits (INT96) are those of Spark, Hive and Impala. They are read as microseconds,
which hold any year. Arrow reads them as nanoseconds, whose int64 holds the years 1677 to 2262, and
wraps others, such as 9999-12-31. The part below a microsecond would be lost; reading the column as
nanoseconds too shows it: however values wrap, the difference is that part.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.nesting import nested, shapes

Longs = NDArray[np.int64]
_LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)  # a map is a list of structs


def dictionary_columns(metadata: Any, numbers: Iterable[int]) -> list[str]:
    """Returns the paths of text and bytes columns with a dictionary.

    Args:
      metadata: of the file.
      numbers: of the row groups to look at.
    """
    groups = map(metadata.row_group, numbers)
    columns = (group.column(place) for group in groups for place in range(group.num_columns))
    found = (
        column.path_in_schema
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
    )
    return list(dict.fromkeys(found))


def longest_row(batch: pa.RecordBatch, group: Any) -> int:
    """Returns the most bytes that a row's texts may take decoded.

    Args:
      batch: some rows of a row group, read with their dictionaries, which are the whole group's.
      group: its metadata, which say how many values a row has, in lists.
    """
    longest = sum(
        int(_lengths(array.dictionary).max(initial=0)) for array in _dictionaries(batch.columns)
    )
    values = max((group.column(place).num_values for place in range(group.num_columns)), default=0)
    return int(longest * math.ceil(values / max(1, group.num_rows)))


def row_bytes(batch: pa.RecordBatch) -> Longs:
    """Returns the bytes that each row's dictionary values take decoded."""
    return np.asarray(sum(map(_sizes, batch.columns), np.zeros(batch.num_rows, np.int64)))


def decode(batch: pa.RecordBatch, schema: pa.Schema, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yields a batch's rows decoded, some at a time.

    Args:
      batch: at least one row, read with dictionaries.
      schema: the file's own.
      most_bytes: that the rows of one batch take decoded; a single row may take more.
    """
    ends = np.cumsum(row_bytes(batch))
    start = 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        part = batch.slice(start, stop - start)
        yield part.cast(pa.schema([schema.field(name) for name in part.schema.names]))
        start = stop


def _dictionaries(arrays: list[pa.Array]) -> Iterator[pa.DictionaryArray]:
    for array in arrays:
        if isinstance(array, pa.DictionaryArray):
            yield array
        else:
            yield from _dictionaries(_children(array))


def _children(array: pa.Array) -> list[pa.Array]:
    """Returns the arrays inside an array.

    Of lists they are the values of all lists in the underlying array.
    """
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    if isinstance(array, pa.StructArray):
        return [array.field(place) for place in range(array.type.num_fields)]
    return [array.values] if isinstance(array, _LISTS) else []


def _sizes(array: pa.Array) -> Longs:
    """Returns the bytes that each value takes decoded, of dictionaries only."""
    if isinstance(array, pa.DictionaryArray):
        # Nulls take no bytes; nor do indices into an empty dictionary.
        lengths = np.append(_lengths(array.dictionary), 0)
        return np.asarray(
            lengths[array.indices.fill_null(len(lengths) - 1).to_numpy(zero_copy_only=False)]
        )
    sizes = sum(map(_sizes, _children(array)), np.zeros(1, np.int64))
    if not isinstance(array, _LISTS):
        return np.broadcast_to(sizes, len(array))
    if isinstance(array, pa.FixedSizeListArray):
        offsets = (np.arange(len(array) + 1) + array.offset) * array.type.list_size
    else:
        offsets = array.offsets.to_numpy()
    ends = np.append(0, np.cumsum(np.broadcast_to(sizes, len(array.values))))
    return np.asarray(ends[offsets[1:]] - ends[offsets[:-1]])


def _lengths(values: pa.Array) -> Longs:
    return np.asarray(pc.fill_null(pc.binary_length(values), 0), np.int64)


def schema_of(parquet: pq.ParquetFile) -> pa.Schema:
    """Returns the columns of a file, with intervals among their types.

    Arrow has an interval for 12 bytes: its months, days and milliseconds.
    """
    leaves = map(parquet.schema.column, range(parquet.metadata.num_columns))
    tops = {leaf.path.split(".")[0] for leaf in leaves if leaf.converted_type == "INTERVAL"}

    def known(name: str, type_: pa.DataType) -> pa.DataType:
        is_interval = name.split(".", maxsplit=1)[0] in tops and str(pa.binary(12)) in str(type_)
        return shapes.with_leaf(type_, pa.month_day_nano_interval()) if is_interval else type_

    found = parquet.schema_arrow
    return pa.schema(nested.map_leaves(found, known)) if tops else found


def int96_columns(metadata: Any, names: Collection[str]) -> list[str]:
    """Returns which of a file's columns have such timestamps, nested or not."""
    leaves = (metadata.schema.column(place) for place in range(metadata.num_columns))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return [
        name for name in names if any(path == name or path.startswith(f"{name}.") for path in paths)
    ]


def check_microseconds(
    path: str, first_row: int, batch: pa.RecordBatch, nanoseconds: pa.RecordBatch
) -> None:
    """Checks that no timestamp has a part of a microsecond.

    Args:
      path: of the file.
      first_row: number of the first row, from 1.
      batch: the rows, with these columns in microseconds.
      nanoseconds: the columns alone, in nanoseconds, which may have wrapped.

    Raises:
      DataError: one has.
    """
    for name in nanoseconds.schema.names:
        leaves = (
            dict(nested.flatten_array(name, rows.column(name))) for rows in (batch, nanoseconds)
        )
        for column, micros, nanos in _pairs(*leaves):
            rest = _int64(nanos) - _int64(micros) * 1000  # both wrap alike
            for place in np.flatnonzero(rest)[:1]:
                row = f", row {first_row + place}" if len(rest) == batch.num_rows else ""
                raise DataError(
                    f"{path}{row}, column '{column}': found a timestamp with {rest[place]} ns "
                    "below its microseconds, expected whole ones. "
                    "Write the file with timestamps of 64 bits, or leave the column out with "
                    "'columns'."
                )


def _pairs(
    first: dict[str, pa.Array], second: dict[str, pa.Array]
) -> Iterable[tuple[str, pa.TimestampArray, pa.TimestampArray]]:
    for name, found in first.items():
        micros, nanos = found, second[name]
        while is_list(micros.type):
            micros, nanos = pc.list_flatten(micros), pc.list_flatten(nanos)
        if pa.types.is_timestamp(micros.type) and nanos.type != micros.type:
            yield name, micros, nanos


def _int64(array: pa.TimestampArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the counts of units; 0 for null."""
    return np.asarray(pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False))
