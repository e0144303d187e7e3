"""A stable 64-bit hash of column values.

It decides the split of a row, so it never changes. The hash depends on the value and the seed
alone: not on the platform, the batch, the column's name or a library's version. All arithmetic is
modulo 2**64. ``mix`` is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014), ``G`` its increment 0x9E3779B97F4A7C15:

- ``bool``, ``int64``, ``date``, ``time`` and ``timestamp``: ``mix(value + G + seed)``, of the value
  as int64.
- ``float32`` and ``float64``: the same, of the bits of the float64, with one zero and one NaN.
- ``text`` and ``bytes``: cut into little-endian 64-bit words, the last one padded with zeros;
  ``mix(length + G + seed + sum over k of mix(word[k] xor mix((k + 1) * G + seed)))``. Equal bytes
  hash equally, as text or as bytes.
- ``list``: the same formula, of the hashes of its values instead of words.
- null: ``mix(NULL + seed)``, whatever the type.
- a row: from ``h = mix(seed)``, column by column, ``h = mix((h xor hash of the value) + G)``.

``tests/core/test_hashing.py`` has vectors that must never change, and this definition in plain
Python.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.binary_arrays import offsets_of, words_of

Hashes = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15
NULL = 0x6E756C6C6E756C6C  # "nullnull"
_MASK = (1 << 64) - 1

# Rows at a time: the temporary arrays of a block stay in the processor's second level cache.
_BLOCK_ROWS = 16384
_BLOCK_BYTES = 1 << 20
# Masks of a word's bytes that belong to a text with 0 to 8 bytes left.
_WORD_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_DIGEST = operator.methodcaller("digest")
_NAN_BITS = np.int64(0x7FF8000000000000)


def sha256_digests(values: Iterable[bytes]) -> pa.BinaryArray:
    """Returns the SHA-256 of each value, binary of 32 bytes."""
    import hashlib  # takes 5 ms, which readers spare

    data = b"".join(map(_DIGEST, map(hashlib.sha256, values)))
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(32), len(data) // 32, [None, pa.py_buffer(data)]
    )
    return fixed.cast(pa.binary())


def mix_int(value: int) -> int:
    """Returns the SplitMix64 finaliser of one integer, modulo 2**64."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mix(values: Hashes) -> Hashes:
    """Returns the SplitMix64 finaliser of uint64[n], computed in place."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def hash_rows(arrays: Sequence[pa.Array], seed: int = 0) -> Hashes:
    """Hashes rows, given as the columns to look at.

    Args:
      arrays: one or more arrays of n values each, of column types (``core/columns.py``); the order
        of the columns matters.
      seed: another seed is another hash function.

    Returns:
      uint64[n].
    """
    if _native.KERNELS_AVAILABLE:
        return _native.hash_rows(arrays, seed)
    hashes = np.full(len(arrays[0]), mix_int(seed), np.uint64)
    for array in arrays:
        hashes ^= hash_column(array, seed)
        hashes += np.uint64(GOLDEN)
        mix(hashes)
    return hashes


def hash_column(array: pa.Array, seed: int = 0) -> Hashes:
    """Hashes the values of one array.

    Args:
      array: n values of a column type. Nulls hash to one constant.
      seed: another seed is another hash function.

    Returns:
      uint64[n].

    Raises:
      TypeError: the array has no column type.
    """
    if _native.KERNELS_AVAILABLE:
        return _native.hash_column(array, seed)
    hashes = np.empty(len(array), np.uint64)
    for start in range(0, len(array), _BLOCK_ROWS):
        block = array.slice(start, _BLOCK_ROWS)
        hashes[start : start + len(block)] = _hash_block(block, seed & _MASK)
    return hashes


def canonical_bits(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns int64[n], equal where numbers, dates, times or bools are equal.

    Null slots are undefined. Floats are equal as in DuckDB's SQL: NaN equals NaN, and -0.0 equals
    0.0.

    Raises:
      TypeError: the array is of another type.
    """
    if pa.types.is_floating(array.type):
        numbers = _fixed_width(array, f"f{array.type.bit_width // 8}").astype(np.float64)
        numbers += 0.0  # makes 0.0 of -0.0
        bits = numbers.view(np.int64)
        bits[np.isnan(numbers)] = _NAN_BITS
        return bits
    if pa.types.is_boolean(array.type):
        return _fixed_width(array.cast(pa.int8()), "i1").astype(np.int64)
    if pa.types.is_integer(array.type) or pa.types.is_temporal(array.type):
        return _fixed_width(array, f"i{array.type.bit_width // 8}").astype(np.int64)
    raise TypeError(f"type {array.type} has no 64-bit value")


def _fixed_width(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """Views the array's values, of fixed width, without their nulls' mask."""
    width = np.dtype(dtype).itemsize
    buffer: Any = array.buffers()[1]
    if not len(array):
        return np.empty(0, dtype)
    values: npt.NDArray[Any] = np.frombuffer(buffer, dtype, len(array), array.offset * width)
    return values


def _hash_block(array: pa.Array, seed: int) -> Hashes:
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        hashes = _hash_bytes(array, seed)
    elif pa.types.is_list(array.type):
        hashes = _hash_lists(array, seed)
    else:
        hashes = mix(canonical_bits(array).view(np.uint64) + _increment(seed))
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = mix_int(NULL + seed)
    return hashes


def _increment(seed: int) -> np.uint64:
    increment: np.uint64 = np.uint64((GOLDEN + seed) & _MASK)
    return increment


def _hash_bytes(array: pa.Array, seed: int) -> Hashes:
    offsets = offsets_of(array)
    if offsets[-1] - offsets[0] > _BLOCK_BYTES and len(array) > 1:
        middle = len(array) // 2
        return np.concatenate(
            [_hash_bytes(array.slice(0, middle), seed), _hash_bytes(array.slice(middle), seed)]
        )
    words, starts, lengths = words_of(array)
    counts = (lengths + 7) >> 3
    ends = np.cumsum(counts)
    places = _places(ends, counts)
    left = np.repeat(lengths, counts) - 8 * places
    terms = words[np.repeat(starts, counts) + 8 * places] & _WORD_MASKS[np.minimum(left, 8)]
    terms ^= _place_keys(places, seed)
    sums = _sum_segments(mix(terms), ends - counts, ends)
    return mix(sums + lengths.view(np.uint64) + _increment(seed))


def _hash_lists(array: pa.Array, seed: int) -> Hashes:
    offsets = offsets_of(array)
    first, lengths = int(offsets[0]), np.diff(offsets)
    terms = hash_column(array.values.slice(first, int(offsets[-1]) - first), seed)
    ends = offsets[1:] - first
    terms ^= _place_keys(_places(ends, lengths), seed)
    sums = _sum_segments(mix(terms), ends - lengths, ends)
    return mix(sums + lengths.view(np.uint64) + _increment(seed))


def _place_keys(places: npt.NDArray[np.int64], seed: int) -> Hashes:
    """Returns the key of each place in a text or list.

    Places are 0, 1, ….
    """
    return mix((places.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(seed))


def _places(ends: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns 0, 1, …, length - 1 for each segment, concatenated."""
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - lengths, lengths)


def _sum_segments(
    terms: Hashes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Hashes:
    """Sums terms[start:end] modulo 2**64 for each segment, empty ones included."""
    running = np.zeros(len(terms) + 1, np.uint64)
    np.cumsum(terms, out=running[1:])
    result: Hashes = running[ends] - running[starts]
    return result
