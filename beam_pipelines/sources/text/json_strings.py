"""Strings of JSON text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_QUOTE, _BACKSLASH = b'"\\'


def string_quotes(
    text: npt.NDArray[np.uint8], backslashes: int = 0
) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the quotes that begin or end a string.

    Args:
      text: n bytes.
      backslashes: the number of them directly before the text.

    Returns:
      Their positions, ascending; the number of backslashes at the end.
    """
    quotes, slashes = np.flatnonzero(text == _QUOTE), np.flatnonzero(text == _BACKSLASH)
    # Where the run of backslashes begins that has each one.
    is_first = np.diff(slashes, prepend=-2) > 1
    begins = np.maximum.accumulate(np.where(is_first, slashes, 0))
    begins = np.where(begins == 0, -backslashes, begins)
    last = np.searchsorted(slashes, quotes) - 1
    lengths = np.full(len(quotes), 0)
    if len(slashes):
        follows = (last >= 0) & (slashes[np.maximum(last, 0)] == quotes - 1)
        lengths[follows] = quotes[follows] - begins[last[follows]]
    if len(quotes) and quotes[0] == 0:
        lengths[0] = backslashes
    at_end = len(slashes) > 0 and slashes[-1] == len(text) - 1
    tail = len(text) - int(begins[-1]) if at_end else 0 if len(text) else backslashes
    # An odd number of backslashes escapes a quote.
    return quotes[lengths % 2 == 0], tail
