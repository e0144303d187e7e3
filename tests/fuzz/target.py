"""The parts of a target."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple


class Target(NamedTuple):
    """One way into the product.

    Attributes:
      run: reads the bytes by the product and by an oracle; raises only on a finding.
      seeds: returns inputs to begin with, made anew each time.
      mutate: returns a changed input that keeps the format's structure, where plain bytes get
        nowhere.
      max_bytes: of an input.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    max_bytes: int = 4096
