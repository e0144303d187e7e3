"""Divides the rows of each class by shares, to one row."""

from __future__ import annotations

import fractions
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def whole_weights(shares: Sequence[float]) -> list[int]:
    """Returns whole numbers in the proportion of the decimals of shares."""
    decimals = [fractions.Fraction(repr(share)) for share in shares]
    common = math.lcm(*(decimal.denominator for decimal in decimals))
    return [int(decimal * common) for decimal in decimals]


def divide_classes(rows: Sequence[int], shares: Sequence[float]) -> npt.NDArray[np.int64]:
    """Divides the rows of each class among splits.

    A split gets the rows of its share, rounded up or down. A rest goes first to splits that have no
    row of the class yet, then to those that lack the most rows in all classes so far, so that the
    sums are near the shares, too.

    Args:
      rows: of each class; the order of the classes matters.
      shares: of the splits, above 0.

    Returns:
      int64[classes, splits]; the sums of its rows are ``rows``.
    """
    weights = whole_weights(shares)
    whole = sum(weights)
    divided = np.zeros((len(rows), len(weights)), np.int64)
    lacking = [0] * len(weights)  # in units of 1 / whole rows
    for number, count in enumerate(rows):
        own = [count * weight // whole for weight in weights]
        rests = [count * weight % whole for weight in weights]
        lacking = [lack + rest for lack, rest in zip(lacking, rests, strict=True)]
        left = count - sum(own)
        order = sorted(
            (split for split, rest in enumerate(rests) if rest),
            key=lambda split: (own[split] > 0, -lacking[split], split),
        )
        for split in order[:left]:
            own[split] += 1
            lacking[split] -= whole
        divided[number] = own
    return divided
