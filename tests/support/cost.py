"""Measures CPU time in a way that a test may rely on.

The least of several measurements counts, because other programs only add time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
GOES = 7


def cpu_seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """Returns the CPU seconds of one go, and what came of it.

    Garbage is collected before and not meanwhile: looking through all that a long run of tests has
    left takes a second by itself, wherever it happens to fall.
    """
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        result = work()
        return time.process_time() - start, result
    finally:
        gc.enable()


def least_ratio(much: Callable[[], object], little: Callable[[], object], enough: float) -> float:
    """Returns how many times more CPU time `much` takes than `little`.

    The goes take turns, and the least of each counts. It stops as soon as the ratio is below
    `enough`.
    """
    most, least = float("inf"), float("inf")
    for _ in range(GOES):
        least = min([least, *(cpu_seconds(little)[0] for _ in range(3))])
        most = min(most, cpu_seconds(much)[0])
        if most < enough * least:
            break
    return most / least
