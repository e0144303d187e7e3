"""Logs what a run does, a line of JSON each.

Engines keep the lines with their workers' logs; a command shows them with ``--verbose``.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from beam_pipelines.core.errors import mask

_LOGGER = logging.getLogger("beam_pipelines.events")


def log_event(event: str, **facts: Any) -> None:
    """Logs one event with its facts, without secrets of URLs.

    Args:
      event: ``stage``, ``rejected`` or ``retry``.
      facts: values of JSON.
    """
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info(mask(json.dumps({"event": event, **facts}, ensure_ascii=False)))
