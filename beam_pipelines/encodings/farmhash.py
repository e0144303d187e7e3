"""Computes FarmHash's 64-bit fingerprints of texts, in C++ or vectorized.

``tf.strings.to_hash_bucket_fast`` takes the same fingerprints. The formulas are
``farmhashna::Hash64`` of google/farmhash (src/farmhash.cc), which ``Fingerprint64`` (and
``tf.fingerprint``) returns; it never changes. Each class of lengths has a formula, computed for all
texts of the class at once; that for more than 64 bytes runs block by block. The kernel
``_native/farmhash.cc`` does the same, 28 times as fast for texts of 8 bytes. All arithmetic is
modulo 2**64.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core._native import texts as native_texts
from beam_pipelines.core.binary_arrays import is_valid, words_of

Hashes: TypeAlias = npt.NDArray[np.uint64]
_Places: TypeAlias = npt.NDArray[np.int64]
_Pair: TypeAlias = tuple[Hashes, Hashes]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_BYTE = np.uint64(0xFF)
_HALF = np.uint64(0xFFFFFFFF)

# Texts at a time: a block's temporary arrays fit the second level cache.
_BLOCK_ROWS = 16384


def fingerprints(array: pa.Array) -> Hashes:
    """Returns ``Fingerprint64`` of n texts or bytes as uint64[n].

    Null counts as the empty text. Repeated values are hashed once if the caller encodes them as a
    dictionary first.
    """
    if _native.KERNELS_AVAILABLE:
        return native_texts.fingerprints(array)
    hashes = np.empty(len(array), np.uint64)
    for start in range(0, len(array), _BLOCK_ROWS):
        block = array.slice(start, _BLOCK_ROWS)
        hashes[start : start + len(block)] = _hash_block(block)
    return hashes


def fingerprint(text: bytes) -> int:
    """Returns ``Fingerprint64`` of one text."""
    if _native.KERNELS_AVAILABLE:
        return native_texts.fingerprint(text)
    return int(fingerprints(pa.array([text]))[0])


def _hash_block(array: pa.Array) -> Hashes:
    words, starts, lengths = words_of(array)
    if array.null_count:
        lengths = np.where(is_valid(array), lengths, 0)
    hashes = np.full(len(array), _K2)
    classes = np.digitize(lengths, (1, 4, 8, 17, 33, 65))
    for number, hash_class in enumerate(_HASH_CLASSES, 1):
        rows = np.flatnonzero(classes == number)
        if len(rows):
            hashes[rows] = hash_class(words, starts[rows], lengths[rows])
    return hashes


def _rotate(values: Hashes, bits: int) -> Hashes:
    rotated: Hashes = (values >> np.uint64(bits)) | (values << np.uint64(64 - bits))
    return rotated


def _shift_mix(values: Hashes) -> Hashes:
    mixed: Hashes = values ^ (values >> np.uint64(47))
    return mixed


def _hash_pair(first: Hashes, second: Hashes, factor: Hashes) -> Hashes:
    mixed = _shift_mix((first ^ second) * factor)
    hashes: Hashes = _shift_mix((second ^ mixed) * factor) * factor
    return hashes


def _factor(lengths: _Places) -> Hashes:
    factor: Hashes = _K2 + lengths.view(np.uint64) * np.uint64(2)
    return factor


def _hash_1_to_3(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    first, middle, last = (
        words[starts + place] & _BYTE for place in (0, lengths >> 1, lengths - 1)
    )
    low = first + (middle << np.uint64(8))
    high = lengths.view(np.uint64) + (last << np.uint64(2))
    hashes: Hashes = _shift_mix(low * _K2 ^ high * _K0) * _K2
    return hashes


def _hash_4_to_7(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    first, last = words[starts] & _HALF, words[starts + lengths - 4] & _HALF
    return _hash_pair(lengths.view(np.uint64) + (first << np.uint64(3)), last, _factor(lengths))


def _hash_8_to_16(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    factor = _factor(lengths)
    a, b = words[starts] + _K2, words[starts + lengths - 8]
    return _hash_pair(_rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor, factor)


def _hash_17_to_32(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    factor, ends = _factor(lengths), starts + lengths
    a, b = words[starts] * _K1, words[starts + 8]
    c, d = words[ends - 8] * factor, words[ends - 16] * _K2
    return _hash_pair(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, factor)


def _hash_33_to_64(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    factor, ends = _factor(lengths), starts + lengths
    a, b = words[starts] * _K2, words[starts + 8]
    c, d = words[ends - 8] * factor, words[ends - 16] * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_pair(y, a + _rotate(b + _K2, 18) + c, factor)
    e, f = words[starts + 16] * factor, words[starts + 24]
    g, h = (y + words[ends - 32]) * factor, (z + words[ends - 24]) * factor
    return _hash_pair(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


def _hash_long(words: Hashes, starts: _Places, lengths: _Places) -> Hashes:
    """Hashes texts of more than 64 bytes.

    A state of seven words takes in each block of 64 bytes but the last.
    """
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    blocks = (lengths - 1) >> 6
    state = _first_state(words[starts])
    for block in range(int(blocks[0])):
        there = int(np.searchsorted(-blocks, -block))  # the texts that have this block come first
        state[:, :there] = _next_state(
            words, starts[:there] + 64 * block, state[:, :there], _K1, np.uint64(1)
        )
    result: Hashes = np.empty(len(starts), np.uint64)
    result[order] = _last_state(words, starts, lengths, state)
    return result


def _first_state(words: Hashes) -> Hashes:
    """Returns [7, n]: x, y, z, and the pairs v and w."""
    seed = np.array([81], np.uint64)
    state = np.zeros((7, len(words)), np.uint64)
    state[0] = seed * _K2 + words
    state[1] = seed * _K1 + np.uint64(113)
    state[2] = _shift_mix(state[1] * _K2 + np.uint64(113)) * _K2
    return state


def _next_state(
    words: Hashes, starts: _Places, state: Hashes, factor: Hashes | np.uint64, times: np.uint64
) -> Hashes:
    """Takes in a block of 64 bytes.

    The last block has its own ``factor`` and counts some terms 9 ``times``.
    """
    x, y, z, v1, v2, w1, w2 = state
    x = _rotate(x + y + v1 + words[starts + 8], 37) * factor
    y = _rotate(y + v2 + words[starts + 48], 42) * factor
    x ^= w2 * times
    y += v1 * times + words[starts + 40]
    z = _rotate(z + w1, 33) * factor
    v1, v2 = _hash_32(words, starts, v2 * factor, x + w1)
    w1, w2 = _hash_32(words, starts + 32, z + w2, y + words[starts + 16])
    return np.stack([z, y, x, v1, v2, w1, w2])


def _hash_32(words: Hashes, starts: _Places, a: Hashes, b: Hashes) -> _Pair:
    """Returns ``WeakHashLen32WithSeeds``."""
    a = a + words[starts]
    last = words[starts + 24]
    b = _rotate(b + a + last, 21)
    first = a
    a = a + words[starts + 8] + words[starts + 16]
    return a + last, b + _rotate(a, 44) + first


def _last_state(words: Hashes, starts: _Places, lengths: _Places, state: Hashes) -> Hashes:
    """Takes in the last 64 bytes and hashes the state.

    These bytes overlap those before.
    """
    factor = _K1 + ((state[2] & _BYTE) << np.uint64(1))
    state[5] += ((lengths - 1) & 63).view(np.uint64)
    state[3] += state[5]
    state[5] += state[3]
    x, y, z, v1, v2, w1, w2 = _next_state(words, starts + lengths - 64, state, factor, np.uint64(9))
    return _hash_pair(
        _hash_pair(v1, w1, factor) + _shift_mix(y) * _K0 + z, _hash_pair(v2, w2, factor) + x, factor
    )


# By number of bytes: 1-3, 4-7, 8-16, 17-32, 33-64, more.
_HASH_CLASSES = (
    _hash_1_to_3,
    _hash_4_to_7,
    _hash_8_to_16,
    _hash_17_to_32,
    _hash_33_to_64,
    _hash_long,
)
