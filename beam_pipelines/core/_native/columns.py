"""C++ kernels for columns: rows, hashes, equal rows, CSV, texts, pixels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import imported, imported_batch, kernels

__all__ = [
    "find_repeats",
    "fingerprints",
    "hash_column",
    "hash_rows",
    "index_texts",
    "look_up",
    "merge_counts",
    "parse_csv",
    "quote_transition",
    "resize",
    "sum_weights",
    "take",
]


def take(batch: pa.RecordBatch, rows: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """Returns rows of a batch, as its own ``take`` does.

    Args:
      batch: columns of any types; Arrow takes rows of others than texts, bool, numbers, dates and
        times.
      rows: int64[n] or int32[n], in any order, also several times.

    Returns:
      n rows, with the batch's schema.

    Raises:
      ValueError: a row that the batch does not have, buffers that contradict themselves, or over 2
        GiB of texts in a column.
    """
    batch.validate()
    order = pa.array(rows)
    pair, others = kernels.take(batch.__arrow_c_array__(), order.__arrow_c_array__())
    if not others:
        return imported_batch(pair, batch.schema)
    columns = imported_batch(pair).columns
    for place in others:
        columns.insert(place, batch.column(place).take(order))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def resize(
    pixels: npt.NDArray[np.uint8],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """Resizes a part of an image as Pillow's BILINEAR does.

    The filter is a triangle, widened where the image shrinks.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      box: left, top, right and bottom edge of the part, in pixels; within the image.
      size: height and width of the result.

    Returns:
      uint8 [*size, channels], bit for bit those of ``resize`` in Pillow 12; read-only.

    Raises:
      ValueError: another number of channels, or a box that is empty or not within the image.
    """
    flat = np.ascontiguousarray(pixels).reshape(-1)
    array = pa.Array.from_buffers(pa.uint8(), len(flat), [None, pa.py_buffer(flat)])
    pair = kernels.resize(array.__arrow_c_array__(), *pixels.shape, box, *size)
    found = imported(pair)
    return np.frombuffer(found.buffers()[1], np.uint8, len(found)).reshape(*size, pixels.shape[2])


def hash_column(array: pa.Array, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Hashes the values of one array, as ``core/arrow/hashing.py`` defines it.

    Args:
      array: n values of a column type; lists of any kind hash as lists, dictionaries as their
        values.
      seed: another seed is another hash function; modulo 2**64.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: the array has no column type.
      ValueError: buffers that contradict themselves.
    """
    return _hashes([array], seed, True)


def hash_rows(arrays: Sequence[pa.Array], seed: int = 0) -> npt.NDArray[np.uint64]:
    """Hashes rows of columns, as ``core/arrow/hashing.py`` defines it.

    Args:
      arrays: one or more arrays of n values each, of column types; the order of the columns
        matters.
      seed: another seed is another hash function; modulo 2**64.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: an array has no column type.
      ValueError: no arrays, arrays of several lengths, or buffers that contradict themselves.
    """
    return _hashes(arrays, seed, False)


def _hashes(arrays: Sequence[pa.Array], seed: int, is_column: bool) -> npt.NDArray[np.uint64]:
    for array in arrays:
        array.validate()
    try:
        pair = kernels.hash_rows(
            [array.__arrow_c_array__() for array in arrays], seed % (1 << 64), is_column
        )
    except TypeError as error:
        raise TypeError(f"type {arrays[int(str(error))].type} has no 64-bit value") from None
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return hashes


def parse_csv(
    data: bytes,
    delimiter: int,
    quote: int | None,
    num_columns: int,
    wanted: Sequence[tuple[int, str]],
    nulls: Sequence[str],
    schema: pa.Schema,
    line_bytes: int | None = None,
) -> pa.RecordBatch | None:
    """Parses CSV records, or declines to.

    The values are those of plain Python, which parses records that the kernel declines.

    Args:
      data: whole records, without a header; the last one may lack its line end.
      delimiter, quote: bytes; without a quote nothing is quoted.
      num_columns: cells of each record.
      wanted: the columns to read: their places, and their types as formats of Arrow's C data
        interface; ``!`` before ``l`` or ``g`` declines numbers with a leading zero.
      nulls: texts that mean null in a column of any type, quoted or not.
      schema: of the columns: integers of any width are int64, timestamps have any zone.
      line_bytes: limit of a record's bytes, without its line end; ``None``: no limit.

    Returns:
      The columns. ``None`` without records, or if one has another number of cells or nearly
      ``line_bytes``, a line before the last ones is blank, a quote is ambiguous, a carriage return
      has no newline after it, or a value is not of its column's type or is written in an unusual
      way.
    """
    places, types = [place for place, _ in wanted], [type_.encode() for _, type_ in wanted]
    texts = [null.encode() for null in nulls]
    pair = kernels.parse_csv(
        data,
        delimiter,
        -1 if quote is None else quote,
        num_columns,
        places,
        types,
        texts,
        sys.maxsize if line_bytes is None else line_bytes,
    )
    return None if pair is None else imported_batch(pair, schema)


def quote_transition(
    data: bytes, previous: int, delimiter: int, quote: int
) -> tuple[int, int, int]:
    """Returns the quote automaton's state after a text, for each start state.

    Args:
      data: the text.
      previous: the byte before it.
      delimiter, quote: bytes.
    """
    states: tuple[int, int, int] = kernels.quote_transition(data, previous, delimiter, quote)
    return states


def find_repeats(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Finds records that repeat the hash of an earlier one.

    Args:
      records: n of a dtype of 16 to 1,024 bytes; the first 16 are the hash.

    Returns:
      int64[repeats, 2], read-only: the first record with the hash, and the record that repeats it.

    Raises:
      ValueError: records of another size, or 2^32 of them.
    """
    data = pa.py_buffer(np.ascontiguousarray(records).view(np.uint8))
    type_ = pa.binary(records.dtype.itemsize)
    array = pa.FixedSizeBinaryArray.from_buffers(type_, len(records), [None, data])
    pairs = imported(kernels.find_repeats(array.__arrow_c_array__()))
    places: npt.NDArray[np.int64] = pairs.to_numpy().reshape(-1, 2)
    return places


def merge_counts(
    parts: Sequence[Sequence[npt.NDArray[Any]]], most: int, points: int
) -> tuple[npt.NDArray[Any], ...]:
    """Adds up the counts of equal numbers of many columns.

    Args:
      parts: of the same columns: (values, counts, ends). The values are float64[n] or int64[n], one
        column after the other, ascending in each and not NaN; the counts int64[n] or uint8[n]; the
        ends of the columns int64[columns].
      most: values of a column that are kept, at least 2.
      points: of a column with more values, as ``points_of`` chooses them.

    Returns:
      Values, int64 counts and int64 ends of all parts; and float64[columns]: the largest change of
      a rank, 0 where all values are kept. Of 0.0 and -0.0 the first is kept. Read-only.

    Raises:
      ValueError: there are no parts, their columns differ, or a count is below 1.
      MemoryError: there is no memory for the result.
    """
    pairs = [tuple(pa.array(array).__arrow_c_array__() for array in part) for part in parts]
    found = kernels.merge_counts(pairs, most, points)
    return tuple(imported(pair).to_numpy() for pair in found)


def fingerprints(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns FarmHash's 64-bit fingerprints (``reference_hashes.py``).

    Args:
      texts: n values of a string or binary type, large or not; null counts as the empty text.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
    """
    pair = kernels.fingerprints(texts.__arrow_c_array__())
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return hashes


def index_texts(known: pa.Array) -> pa.Array:
    """Returns the index of distinct texts that ``look_up`` takes.

    Args:
      known: n values of a string or binary type, large or not, without nulls.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves, or 2^32 texts.
    """
    return imported(kernels.index_texts(known.__arrow_c_array__()))


def look_up(texts: pa.Array, known: pa.Array, index: pa.Array, num_oov: int) -> pa.Array:
    """Returns the ids of texts.

    Args:
      texts: n values of a string or binary type, large or not.
      known: texts whose ids are their places.
      index: of them, by ``index_texts``; with ``KERNELS_AVAILABLE`` as it is here.
      num_oov: number of ids for others: ``len(known)`` + fingerprint modulo ``num_oov``. With 0
        their id is -1.

    Returns:
      int64[n]; -1 for a null.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves, or an index of other texts.
    """
    ids = known.__arrow_c_array__(), index.__arrow_c_array__(), num_oov
    return imported(kernels.look_up(texts.__arrow_c_array__(), ids))


def sum_weights(texts: pa.Array, weights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Adds up the weights of the bytes of each text, modulo 2**64.

    Args:
      texts: n values of a string or binary type, large or not.
      weights: uint64[256], of each byte.

    Returns:
      uint64[n], read-only; 0 for a null.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
    """
    texts.validate()
    table = pa.array(weights).__arrow_c_array__()
    try:
        pair = kernels.sum_weights(texts.__arrow_c_array__(), table)
    except TypeError:
        raise TypeError(f"texts: found {texts.type}, expected a binary or string array") from None
    sums: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return sums
