"""Sends a report to a server by HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from beam_pipelines.core.errors import DataError

_SECS = 10


def is_server(place: str) -> bool:
    """Whether a report goes to a server, not to a file."""
    return place.startswith(("http://", "https://"))


def post(url: str, document: Any) -> None:
    """Posts JSON.

    Raises:
      DataError: the server does not take it.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "beam-pipelines"}
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)  # noqa: S310 - is_server
    try:
        with urllib.request.urlopen(request, timeout=_SECS):  # noqa: S310
            pass
    except (OSError, ValueError) as error:
        raise DataError(
            f"{url}: found {error}, expected a server that takes the report. Start it, or name a "
            "file."
        ) from error
