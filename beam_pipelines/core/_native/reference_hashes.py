"""The definition of hashes and sums over texts, in short Python.

As in ``reference.py``. All arithmetic is modulo 2**64, unless said otherwise.

``hash_column`` and ``hash_rows`` are defined in ``core/arrow/hashing.py``. Fingerprints are
``farmhashna::Hash64`` of google/farmhash (src/farmhash.cc), which ``tf.fingerprint`` and
``to_hash_bucket_fast`` take.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import is_list, is_text, list_parts, plain
from beam_pipelines.core.arrow.hashing import GOLDEN, NULL, canonical_bits, mix_int

__all__ = [
    "fingerprints",
    "hash_column",
    "hash_rows",
    "index_texts",
    "look_up",
    "sum_weights",
]

_Hashes = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def hash_rows(arrays: Sequence[pa.Array], seed: int = 0) -> _Hashes:
    """Hashes rows of columns: ``columns.hash_rows``."""
    if len({len(array) for array in arrays}) != 1:
        raise ValueError("expected one or more arrays of one length")
    rows = zip(*(_hashes(array, seed) for array in arrays), strict=True)
    return np.array([_chained(row, mix_int(seed)) for row in rows], np.uint64)


def _chained(values: Sequence[int], start: int) -> int:
    """Returns ``h = mix((h xor value) + G)``, value by value."""
    for value in values:
        start = mix_int((start ^ value) + GOLDEN)
    return start


def hash_column(array: pa.Array, seed: int = 0) -> _Hashes:
    """Hashes the values of one array: ``columns.hash_column``."""
    return np.array(_hashes(array, seed), np.uint64)


def _hashes(array: pa.Array, seed: int) -> list[int]:
    array = plain(array)
    kind = array.type
    if is_list(kind):
        values, edges = list_parts(array)
        items = _hashes(values, seed)
        hashes = [
            _hash_words(items[start:end], end - start, seed)
            for start, end in itertools.pairwise(edges)
        ]
    elif is_text(kind):
        texts = [text or b"" for text in array.cast(pa.large_binary()).to_pylist()]
        hashes = [_hash_words(_words(text), len(text), seed) for text in texts]
    else:
        hashes = [mix_int(bits + GOLDEN + seed) for bits in canonical_bits(array).tolist()]
    pairs = zip(hashes, array.is_valid().to_pylist(), strict=True)
    return [one if is_valid else mix_int(NULL + seed) for one, is_valid in pairs]


def _words(text: bytes) -> list[int]:
    return [int.from_bytes(text[at : at + 8], "little") for at in range(0, len(text), 8)]


def _hash_words(words: Sequence[int], length: int, seed: int) -> int:
    keys = (mix_int((place + 1) * GOLDEN + seed) for place in range(len(words)))
    terms = (mix_int(word ^ key) for word, key in zip(words, keys, strict=True))
    return mix_int(length + GOLDEN + seed + sum(terms))


def fingerprints(texts: pa.Array) -> _Hashes:
    """Returns FarmHash's 64-bit fingerprints: ``texts.fingerprints``."""
    if not is_text(texts.type):
        raise TypeError(f"texts: found {texts.type}, expected a binary or string array")
    values = texts.cast(pa.large_binary()).to_pylist()
    hash_of = {text: _fingerprint(text or b"") for text in set(values)}
    return np.array([hash_of[text] for text in values], np.uint64)


def _fingerprint(text: bytes) -> int:
    if not text:
        return _K2
    own = next((own for most, own in _BY_SIZE.items() if len(text) <= most), _hash_long)
    return own(text, _K2 + 2 * len(text))


def _hash_to_3(text: bytes, _: int) -> int:
    low, high = text[0] + (text[len(text) >> 1] << 8), len(text) + (text[-1] << 2)
    return _shift_mix(low * _K2 & _MASK ^ high * _K0) * _K2 & _MASK


def _hash_to_7(text: bytes, factor: int) -> int:
    return _hash_pair(len(text) + (_fetch(text, 0, 4) << 3), _fetch(text, -4, 4), factor)


def _hash_to_16(text: bytes, factor: int) -> int:
    a, b = _fetch(text, 0) + _K2, _fetch(text, -8)
    return _hash_pair(_rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor, factor)


def _hash_to_32(text: bytes, factor: int) -> int:
    a, b = _fetch(text, 0) * _K1, _fetch(text, 8)
    c, d = _fetch(text, -8) * factor, _fetch(text, -16) * _K2
    first = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _hash_pair(first, a + _rotate(b + _K2, 18) + c, factor)


def _hash_to_64(text: bytes, factor: int) -> int:
    a, b = _fetch(text, 0) * _K2, _fetch(text, 8)
    c, d = _fetch(text, -8) * factor, _fetch(text, -16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_pair(y, a + _rotate(b + _K2, 18) + c, factor)
    e, f = _fetch(text, 16) * factor, _fetch(text, 24)
    g, h = (y + _fetch(text, -32)) * factor, (z + _fetch(text, -24)) * factor
    first = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _hash_pair(first, e + _rotate(f + a, 18) + g, factor)


def _fetch(text: bytes, place: int, size: int = 8) -> int:
    """Returns a word; a place below 0 counts from the end."""
    return int.from_bytes(text[place : place + size or None], "little")


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value >> bits | value << (64 - bits)) & _MASK


def _shift_mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _hash_pair(first: int, second: int, factor: int) -> int:
    mixed = _shift_mix((first ^ second) * factor)
    return _shift_mix((second ^ mixed) * factor) * factor & _MASK


def _hash_long(text: bytes, _: int) -> int:
    """Hashes more than 64 bytes.

    A state of seven words takes in block after block.
    """
    y, size = 81 * _K1 + 113, len(text)
    state: tuple[int, ...] = (
        81 * _K2 + _fetch(text, 0),
        y,
        _shift_mix(y * _K2 + 113) * _K2,
        0,
        0,
        0,
        0,
    )
    for place in range(0, (size - 1) // 64 * 64, 64):
        state = _next_state(text, place, state, _K1, 1)
    x, y, z, v1, v2, w1, w2 = state
    factor = _K1 + ((z & 0xFF) << 1)
    # The last 64 bytes overlap those before.
    w1 += (size - 1) & 63
    v1 += w1
    w1 += v1
    x, y, z, v1, v2, w1, w2 = _next_state(text, size - 64, (x, y, z, v1, v2, w1, w2), factor, 9)
    last = _hash_pair(v1, w1, factor) + _shift_mix(y) * _K0 + z
    return _hash_pair(last, _hash_pair(v2, w2, factor) + x, factor)


def _next_state(
    text: bytes, place: int, state: tuple[int, ...], factor: int, times: int
) -> tuple[int, ...]:
    """Takes in a block of 64 bytes.

    The last one counts some terms 9 ``times``.
    """
    x, y, z, v1, v2, w1, w2 = state
    x = _rotate(x + y + v1 + _fetch(text, place + 8), 37) * factor
    y = _rotate(y + v2 + _fetch(text, place + 48), 42) * factor
    x = (x ^ w2 * times) & _MASK
    y = (y + v1 * times + _fetch(text, place + 40)) & _MASK
    z = _rotate(z + w1, 33) * factor & _MASK
    v1, v2 = _hash_32(text, place, v2 * factor, x + w1)
    w1, w2 = _hash_32(text, place + 32, z + w2, y + _fetch(text, place + 16))
    return z, y, x, v1, v2, w1, w2


def _hash_32(text: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    """Returns ``WeakHashLen32WithSeeds``."""
    a += _fetch(text, place)
    last = _fetch(text, place + 24)
    b = _rotate(b + a + last, 21)
    first = a
    a += _fetch(text, place + 8) + _fetch(text, place + 16)
    return (a + last) & _MASK, (b + _rotate(a, 44) + first) & _MASK


_BY_SIZE = {
    3: _hash_to_3,
    7: _hash_to_7,
    16: _hash_to_16,
    32: _hash_to_32,
    64: _hash_to_64,
}


def index_texts(known: pa.Array) -> pa.Array:
    """Returns no index, as Arrow makes its own: ``texts.index_texts``."""
    if not is_text(known.type):
        raise TypeError(f"texts: found {known.type}, expected a binary or string array")
    return pa.array([], pa.uint64())


def look_up(texts: pa.Array, known: pa.Array, index: pa.Array, num_oov: int) -> pa.Array:  # noqa: ARG001
    """Returns the ids of texts: ``texts.look_up``."""
    import pyarrow.compute as pc

    if not is_text(texts.type):
        raise TypeError(f"texts: found {texts.type}, expected a binary or string array")
    texts, known = texts.cast(pa.large_binary()), known.cast(pa.large_binary())
    ids = pc.index_in(texts, value_set=known).cast(pa.int64())
    if num_oov:
        others = len(known) + (fingerprints(texts) % np.uint64(num_oov)).astype(np.int64)
        ids = pc.coalesce(ids, pa.array(others))
    return pc.if_else(texts.is_valid(), ids, -1).fill_null(-1)


def sum_weights(texts: pa.Array, weights: _Hashes) -> _Hashes:
    """Adds up the weights of the bytes of each text: ``texts.sum_weights``."""
    if not is_text(texts.type):
        raise TypeError(f"texts: found {texts.type}, expected a binary or string array")
    values = texts.cast(pa.large_binary()).to_pylist()
    found = [weights[np.frombuffer(text or b"", np.uint8)].sum() for text in values]
    return np.array(found, np.uint64)
