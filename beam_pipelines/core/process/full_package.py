"""Says what an installation lacks: beam-pipelines, or TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from beam_pipelines.core.version import __version__

_PACKAGE = "beam_pipelines"


def import_module(name: str, wanted_by: str) -> ModuleType:
    """Imports a module that may not be installed.

    Args:
      name: of the module, without the package.
      wanted_by: what needs it, such as ``bp.convert``.

    Raises:
      ImportError: only beam-pipelines-reader is installed.
    """
    try:
        return importlib.import_module(f"{_PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != _PACKAGE:
            raise
        raise ImportError(
            f"{wanted_by}: found beam-pipelines-reader alone, expected beam-pipelines as well. "
            f"Install beam-pipelines {__version__}."
        ) from error


def tensorflow_lacks() -> str:
    """Returns what to do without TensorFlow, or an empty text."""
    if importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tensorflow_transform"):
        return ""
    return (
        "found an installation without TensorFlow, expected tensorflow and tensorflow-transform. "
        "In a clone: pip install --constraint constraints.txt ./reader ."
    )
