"""Reports of runs, without what differs from run to run."""

from __future__ import annotations

import re

_SECONDS = re.compile(rb"The run took [0-9,.]+ s\. ")


def without_seconds(page: bytes) -> bytes:
    """Returns a report without the time of its run."""
    return _SECONDS.sub(b"", page)
