"""Columns of Parquet whose dictionary has long values.

One value may stand for millions of rows, in a file of some kilobytes. So the decoded size is
computed first: rows are read with their dictionary, and decoded some at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
