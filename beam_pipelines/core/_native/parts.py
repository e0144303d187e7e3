"""C++ kernels for the parts of shards, and for stripes of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import StoredPart, imported, imported_batch, kernels

__all__ = ["deflate", "order_rows", "pack_stripes", "read_parts", "unpack_stripes"]


def deflate(parts: pa.Array) -> pa.LargeBinaryArray:
    """Compresses parts as raw deflate blocks.

    They end at a whole byte, and none is the last one of a stream. TFRecord frames of tf.Examples
    are compressed best and fastest, but any bytes may be given. The result is the same on every
    processor.

    Args:
      parts: n values of a string or binary type, large or not, without nulls.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
      MemoryError: there is no memory for the result.
    """
    try:
        return imported(kernels.deflate(parts.__arrow_c_array__()))
    except TypeError:
        raise TypeError(f"parts: found {parts.type}, expected a binary or string array") from None


def read_parts(parts: Sequence[StoredPart], is_compressed: bool) -> pa.LargeBinaryArray | None:
    """Reads, inflates and checks parts of shards, or declines to.

    Args:
      parts: to read.
      is_compressed: whether they are raw deflate streams of whole blocks; else plain.

    Returns:
      All framed records, one part after the other, with checked CRCs. ``None`` if a part cannot be
      read, or is not as described.

    Raises:
      ValueError: a number is below 0, or there are both or neither of path and bytes.
      MemoryError: there is no memory for the records.
    """
    pair = kernels.read_parts(list(parts), is_compressed)
    return None if pair is None else imported(pair)


def order_rows(key: int, parts: Sequence[int], rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """Returns the order of the rows of parts, as ``reader/order.py`` defines it.

    Args:
      key: of the epoch's order of rows, from 0 to 2**64 - 1.
      parts: n numbers of parts.
      rows: n numbers of rows.

    Returns:
      int64, read-only: for each part its rows' numbers in order, one part after the other. They are
      counted from the first row of the first part.

    Raises:
      ValueError: a number of rows is below 0, or 2^32 or more.
      OverflowError: a number has more than 64 bits.
    """
    array = imported(kernels.order_rows(key, list(zip(parts, rows, strict=True))))
    return np.frombuffer(array.buffers()[1], np.int64, len(array))


def pack_stripes(
    batch: pa.RecordBatch, rows_per_stripe: int
) -> tuple[pa.Buffer, npt.NDArray[np.int64]] | None:
    """Packs the rows of a batch, or declines to.

    Integers and lengths are stored with as few bytes as their range in a stripe needs.

    Args:
      batch: n rows. Columns of bool, integers, floats, dates, times, texts with 32-bit offsets, and
        lists of them.
      rows_per_stripe: 1 or more; the last stripe may have fewer.

    Returns:
      The stripes; and int64[stripes], where each ends. ``None`` if a column has another type.

    Raises:
      ValueError: buffers that contradict themselves, or a stripe of over 4 GiB.
      MemoryError: there is no memory for the result.
    """
    try:
        data, ends = kernels.pack_stripes(batch.__arrow_c_array__(), rows_per_stripe)
    except TypeError:
        return None
    return imported(data).buffers()[1], imported(ends).to_numpy()


def unpack_stripes(schema: pa.Schema, pieces: Sequence[tuple[bytes, int, int]]) -> pa.RecordBatch:
    """Returns rows of stripes, one after the other.

    Args:
      schema: of the batches that were packed.
      pieces: (consecutive stripes, number of their first rows to leave out, rows to return).

    Raises:
      ValueError: the bytes are no stripes of this schema, or lack rows; or a column would have over
        2 GiB of texts.
      MemoryError: there is no memory for the result.
    """
    pair = kernels.unpack_stripes(schema.__arrow_c_schema__(), list(pieces))
    return imported_batch(pair, schema)
