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

``_native/reference_hashes.py`` is this definition in plain Python, ``tests/core/test_hashing.py``
has vectors that must never change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import fixed_width

Hashes = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15
NULL = 0x6E756C6C6E756C6C  # "nullnull"
_MASK = (1 << 64) - 1

_NAN_BITS = np.int64(0x7FF8000000000000)


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


def canonical_bits(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns int64[n], equal where numbers, dates, times or bools are equal.

    Null slots are undefined. Floats are equal as in DuckDB's SQL: NaN equals NaN, and -0.0 equals
    0.0.

    Raises:
      TypeError: the array is of another type.
    """
    if pa.types.is_floating(array.type):
        numbers = fixed_width(array, f"f{array.type.bit_width // 8}").astype(np.float64)
        numbers += 0.0  # makes 0.0 of -0.0
        bits = numbers.view(np.int64)
        bits[np.isnan(numbers)] = _NAN_BITS
        return bits
    if pa.types.is_boolean(array.type):
        return fixed_width(array.cast(pa.int8()), "i1").astype(np.int64)
    if pa.types.is_integer(array.type) or pa.types.is_temporal(array.type):
        return fixed_width(array, f"i{array.type.bit_width // 8}").astype(np.int64)
    raise TypeError(f"type {array.type} has no 64-bit value")
