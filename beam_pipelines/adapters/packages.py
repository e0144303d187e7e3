"""Imports the packages of adapters."""

from __future__ import annotations

import importlib
from types import ModuleType

# Module -> name to install, and the version that the tests pass with.
_TESTED = {
    "datasets": ("datasets", "5.2"),
    "grain": ("grain", "0.2.18"),
    "keras": ("keras", "3.15"),
    "ray": ("ray[data]", "2.60"),
    "torch": ("torch", "2.15"),
}


def import_package(module: str) -> ModuleType:
    """Imports a module of a package that this one does not require.

    Raises:
      ImportError: it is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package, version = _TESTED[module.split(".", maxsplit=1)[0]]
        raise ImportError(
            f"beam_pipelines.adapters: found no package '{package}' that can be imported "
            f"({error}). Install {package}; {version} is tested."
        ) from error
