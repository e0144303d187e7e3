"""Counts the characters that personal data need, in each text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import byte_lengths

Counts = npt.NDArray[np.int64]

# Each count has ten bits of a word. A longer text could overflow them.
_BITS = 10
_MOST = (1 << _BITS) - 1
_GROUPS = {"digits": "0123456789", "ats": "@", "colons": ":", "dots": ".", "dashes": "-"}


def _table() -> npt.NDArray[np.uint64]:
    table = np.zeros(256, np.uint64)
    for number, group in enumerate(_GROUPS.values()):
        for character in group:
            table[ord(character)] = 1 << (_BITS * number)
    return table


_WEIGHTS = _table()


class Characters:
    """Counts of characters in each of n texts.

    A text of 1,024 bytes or more counts as if it had 1,023 of each. A null has none.

    Attributes:
      bytes: int64[n], lengths.
    """

    def __init__(self, texts: pa.Array) -> None:
        self.bytes: Counts = byte_lengths(texts)
        self._packed = _native.sum_weights(texts, _WEIGHTS)
        self._is_long = self.bytes > _MOST
        self._has_long = bool(self._is_long.any())
        self._counts: dict[str, Counts] = {}
        self._most: dict[str, int] = {}

    def have(self, least: Mapping[str, int]) -> Counts:
        """Returns the numbers of the texts with enough characters, ascending."""
        if any(self.most(group) < number for group, number in least.items()):
            return np.zeros(0, np.int64)
        masks = [self.count(group) >= number for group, number in least.items()]
        return np.flatnonzero(np.logical_and.reduce(masks))

    def most(self, group: str) -> int:
        """Returns the largest count of any text."""
        if group not in self._most:
            self._most[group] = int(self.count(group).max(initial=0))
        return self._most[group]

    def count(self, group: str) -> Counts:
        """Returns int64[n]; a group is ``digits``, ``ats``, ``colons``, ``dots`` or ``dashes``."""
        if group not in self._counts:
            shift = np.uint64(_BITS * list(_GROUPS).index(group))
            count = ((self._packed >> shift) & np.uint64(_MOST)).view(np.int64)
            if self._has_long:
                count[self._is_long] = _MOST
            self._counts[group] = count
        return self._counts[group]
