"""Logs what a run does, a line of JSON each.

Engines keep the lines with their workers' logs; a command shows them with ``--verbose``.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from beam_pipelines.core.errors import mask

_LOGGER = logging.getLogger("beam_pipelines.events")
# Loggers of the clients of object stores, and how what they say of a repetition begins.
_CLIENTS = """
apache_beam.utils.retry botocore.retries.standard botocore.retryhandler google.api_core.retry
"""
_REPEATED = ("Retry with exponential", "Retry needed, retrying", "retry needed", "Retrying due to")


def log_event(event: str, **facts: Any) -> None:
    """Logs one event with its facts, without secrets of URLs.

    Args:
      event: ``stage``, ``rejected`` or ``retry``.
      facts: values of JSON.
    """
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info(mask(json.dumps({"event": event, **facts}, ensure_ascii=False)))


def log_retries() -> None:
    """Logs each request that a client of an object store repeats."""
    for name in _CLIENTS.split():
        logging.getLogger(name).setLevel(logging.DEBUG)
        logging.getLogger(name).addFilter(_log_retry)


def _log_retry(record: logging.LogRecord) -> bool:
    """Logs a repetition; shows what the client would have shown."""
    said = record.getMessage()
    if said.startswith(_REPEATED):
        log_event("retry", what="request", error=said.partition("\n")[0])
    return logging.getLogger().isEnabledFor(record.levelno)
