"""Finds equal 128-bit hashes among records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from beam_pipelines.core import _native
from beam_pipelines.core._native import repeats

# Bits that sort hashes. Different hashes with the same bits are rare, and sorted again.
_SORTED_BITS = np.uint64((1 << 48) - 1)


def find_repeats(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Finds records that repeat the hash of an earlier one.

    Args:
      records: n of a dtype that begins with the fields ``high`` and ``low``, uint64.

    Returns:
      int64[repeats, 2]: the first record with the hash, and the record that repeats it, in order of
      the latter.
    """
    if _native.KERNELS_AVAILABLE:
        return repeats.find_repeats(records)
    order = _order_of_bits(np.ascontiguousarray(records["high"]))
    is_equal, same_bits = _neighbours(records, order)
    if np.any(same_bits & ~is_equal):
        order = np.lexsort((records["low"], records["high"]))
        is_equal, _ = _neighbours(records, order)
    repeated = np.flatnonzero(is_equal) + 1
    is_first = np.ones(len(order), bool)
    is_first[repeated] = False
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    pairs = np.stack([order[starts[repeated]], order[repeated]], axis=1)
    return pairs[np.argsort(pairs[:, 1])]


def _neighbours(
    records: npt.NDArray[Any], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Compares each hash with the one before it in an order.

    Returns:
      Whether they are equal, and whether their ``_SORTED_BITS`` are; bool[n - 1] each.
    """
    ordered = np.take(records, order)
    high, low = ordered["high"], ordered["low"]
    is_equal = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return is_equal, (high[1:] ^ high[:-1]) & _SORTED_BITS == 0


def _order_of_bits(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Returns the stable order of hashes by ``_SORTED_BITS``, int64[n].

    Numpy sorts 16 bits by radix: three times that take a third of the time of a merge sort.
    """
    order = np.argsort(hashes.astype(np.uint16), kind="stable")
    for shift in (16, 32):
        bits = (hashes >> np.uint64(shift)).astype(np.uint16)
        order = np.take(order, np.argsort(np.take(bits, order), kind="stable"))
    return order
