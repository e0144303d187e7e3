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
those of ``core/arrow/hashing.py``.

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

Hashes = npt.NDArray[np.uint64]

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
