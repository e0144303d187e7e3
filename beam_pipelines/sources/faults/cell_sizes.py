"""Sizes of single values, to check the limit ``cell_bytes``.

They are computed only for a column that is larger than the limit as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import offsets_of


class LargeCell(NamedTuple):
    """A value that is larger than it may be."""

    row: int
    column: str
    size_bytes: int


def large_cell(batch: pa.RecordBatch, most: int) -> LargeCell | None:
    """Returns the first value that is larger than ``most`` bytes, or ``None``.

    Columns are checked in order; the value is the first one in the first such column.
    """
    if batch.nbytes <= most:
        return None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        sizes = _sizes(column)
        if sizes is not None and len(sizes) and sizes.max() > most:
            row = int(np.argmax(sizes > most))
            return LargeCell(row, name, int(sizes[row]))
    return None


def _sizes(array: pa.Array) -> npt.NDArray[np.int64] | None:
    """Returns the bytes of each value of a column, or ``None``.

    Known for text, bytes, lists of scalars, of text or of bytes, and lists of such lists.
    """
    sizes: npt.NDArray[np.int64] | None = None
    if _is_bytes(array.type):
        sizes = np.diff(offsets_of(array))
    elif pa.types.is_list(array.type):
        offsets, values = offsets_of(array), array.values
        if pa.types.is_list(values.type):
            offsets, values = offsets_of(values)[offsets], values.values
        is_bytes = _is_bytes(values.type)
        sizes = np.diff(offsets_of(values)[offsets] if is_bytes else offsets)
        sizes = sizes if is_bytes else sizes * max(1, values.type.bit_width // 8)
    return sizes


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))
