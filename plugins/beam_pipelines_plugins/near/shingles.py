"""Similarity of texts: sets of character sequences, and MinHash signatures of them.

The set of a text has each sequence of five characters in it; a shorter text is one sequence. The
similarity of two texts is that of Jaccard: the size of the intersection of their sets over the size
of the union. Sequences are compared by 64-bit hashes.

A signature has the least value of each of many hash functions over the set. Two signatures agree
in one of them with a probability of the similarity (Broder, "On the resemblance and containment of
documents", 1997). It is cut into bands of some values each. Texts are candidates if one band
agrees: with a probability of ``1 - (1 - s^rows)^bands`` at the similarity s (Leskovec, Rajaraman
and Ullman, "Mining of Massive Datasets", chapter 3.4).

All arithmetic is modulo 2**64, or 2**32 for the functions of a signature; ``mix`` and ``G`` are
those of ``core/hashing.py``.

- Characters a to e have the hash ``mix(mix(a + b * 2**21 + c * 2**42 + G) xor (d + e * 2**21))``,
  with 2**21 - 1 for those that a short text lacks.
- Function k, from 0, is ``x * (upper half of m | 1) + lower half of m`` of the upper half x of that
  hash, with ``m = mix((k + 1) * G)``.
- The hash of a band is ``h = mix((h xor value) + G)``, value by value, from its number; that of the
  whole text the same of the hashes of its sequences, from 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core._native import texts as native_texts
from beam_pipelines.core.hashing import GOLDEN, mix

Hashes = npt.NDArray[np.uint64]

CHARACTERS = 5
_BITS = 21
_PADDING = (1 << _BITS) - 1
# Pairs of exactly the similarity that is asked for are candidates with this probability.
_RECALL = 0.995
# Values of a signature: more rows in a band make fewer candidates that are not similar.
_MOST_VALUES = 128


class Bands(NamedTuple):
    """The bands of a signature, and the values in each."""

    bands: int
    rows: int


def plan_bands(similarity: float) -> Bands:
    """Returns the bands that find pairs of a similarity.

    Args:
      similarity: above 0, at most 1.
    """
    if similarity >= 1:
        return Bands(1, 8)
    found = Bands(math.ceil(math.log(1 - _RECALL) / math.log(1 - similarity)), 1)
    for rows in range(2, 9):
        bands = math.ceil(math.log(1 - _RECALL) / math.log(1 - similarity**rows))
        if bands * rows > _MOST_VALUES:
            break
        found = Bands(bands, rows)
    return found


def band_hashes(texts: pa.Array, bands: int, rows: int) -> Hashes:
    """Returns the hashes of the bands of each text.

    Args:
      texts: n texts.
      bands, rows: of a signature.

    Returns:
      uint64[n, bands + 1]; the last one is the hash of the whole text. A null or empty text has
      zeros.
    """
    if _native.KERNELS_AVAILABLE:
        return native_texts.band_hashes(texts, bands, rows)
    random = mix(np.arange(1, bands * rows + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    factors = (random >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
    summands = random.astype(np.uint32)
    found = np.zeros((len(texts), bands + 1), np.uint64)
    for row, text in enumerate(texts.to_pylist()):
        if not text:
            continue
        shingles = _shingles(text)
        upper = (shingles >> np.uint64(32)).astype(np.uint32)
        least = (upper[:, None] * factors + summands).min(axis=0).reshape(bands, rows)
        found[row, :bands] = np.arange(bands)
        for value in least.T:
            found[row, :bands] = mix((found[row, :bands] ^ value) + np.uint64(GOLDEN))
        for shingle in shingles:
            found[row, bands:] = mix((found[row, bands:] ^ shingle) + np.uint64(GOLDEN))
    return found


def similarities(left: pa.Array, right: pa.Array) -> npt.NDArray[np.float64]:
    """Returns the similarity of each pair; of an empty text 0.

    Args:
      left, right: n texts each.
    """
    if _native.KERNELS_AVAILABLE:
        return native_texts.similarities(left, right)
    found = np.zeros(len(left))
    for row, (one, other) in enumerate(zip(left.to_pylist(), right.to_pylist(), strict=True)):
        if one and other:
            sets = set(_shingles(one).tolist()), set(_shingles(other).tolist())
            found[row] = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    return found


def _shingles(text: str) -> Hashes:
    """Returns the hashes of a text's character sequences, in order."""
    characters = np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.uint64)
    missing = max(0, CHARACTERS - len(characters))
    characters = np.concatenate([characters, np.full(missing, _PADDING, np.uint64)])
    a, b, c, d, e = np.lib.stride_tricks.sliding_window_view(characters, CHARACTERS).T
    low = a | b << np.uint64(_BITS) | c << np.uint64(2 * _BITS)
    return mix(mix(low + np.uint64(GOLDEN)) ^ (d | e << np.uint64(_BITS)))
