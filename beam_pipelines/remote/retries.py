"""Tries a request again after a failure that may pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds before the first repetition, and before each later one at most. Each delay is twice the
# one before, less up to a half: ranks do not ask a busy server all at once.
FIRST_DELAY, LONGEST_DELAY = 0.1, 8.0


def retried(request: Callable[[], T], is_final: Callable[[OSError], bool], tries: int) -> T:
    """Returns the result of a request.

    Args:
      request: to try.
      is_final: whether a failure would come again.
      tries: at most.

    Raises:
      OSError: the last failure.
    """
    delay = FIRST_DELAY
    for _ in range(tries - 1):
        try:
            return request()
        except OSError as error:
            if is_final(error):
                raise
        time.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - no secret depends on it
        delay = min(2 * delay, LONGEST_DELAY)
    return request()
