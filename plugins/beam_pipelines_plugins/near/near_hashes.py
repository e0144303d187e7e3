"""Bands and similarity of 64-bit hashes of images.

The similarity of two hashes is the share of equal bits. If at most d bits differ, then of d + 2
segments at least two agree. So each two segments are a band, and every similar pair agrees in one.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.arrow.hashing import GOLDEN, mix

BITS = 64

Hashes = npt.NDArray[np.uint64]


def most_differing(similarity: float) -> int:
    """Returns the most bits that may differ."""
    return int((1 - similarity) * BITS + 1e-9)


def hash_bands(hashes: Hashes, similarity: float) -> Hashes:
    """Returns the hashes of the bands of each hash, uint64[n, bands]."""
    ends = np.linspace(0, BITS, most_differing(similarity) + 3).astype(np.uint64)
    segments = [
        hashes >> start & np.uint64((1 << int(end - start)) - 1)
        for start, end in itertools.pairwise(ends)
    ]
    bands = [
        mix((one << np.uint64(32) | other) ^ np.uint64(mix_of(number)))
        for number, (one, other) in enumerate(itertools.combinations(segments, 2))
    ]
    return np.stack(bands, axis=1)


def mix_of(number: int) -> int:
    """Returns the hash of a band's number."""
    return int(mix(np.array([number + 1], np.uint64) * np.uint64(GOLDEN))[0])


def differing(left: Hashes, right: Hashes) -> npt.NDArray[np.int64]:
    """Returns the number of bits that differ in each pair."""
    words = np.ascontiguousarray(left ^ right).view(np.uint16).reshape(-1, BITS // 16)
    counts: npt.NDArray[np.int64] = _COUNTS[words].sum(axis=1, dtype=np.int64)
    return counts


def _counts() -> npt.NDArray[np.uint8]:
    counts = np.zeros(1, np.uint8)
    for _ in range(16):
        counts = np.concatenate([counts, counts + np.uint8(1)])
    return counts


_COUNTS = _counts()
