"""Loads the C++ kernels, where they are built."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import pyarrow as pa

_logger = logging.getLogger(__name__)

kernels: Any = None
try:
    kernels = importlib.import_module("beam_pipelines.core._native._kernels")
except ModuleNotFoundError:
    pass
except ImportError as error:
    _logger.warning(
        "the C++ kernels are there and cannot be loaded: %s. Conversions take many times as long "
        "without them: install again where they are to run.",
        error,
    )


def imported(pair: tuple[Any, Any]) -> pa.Array:
    """Returns a kernel's array; ``pa.array`` takes capsules from pyarrow 15 on."""
    return pa.Array._import_from_c_capsule(*pair)  # noqa: SLF001
