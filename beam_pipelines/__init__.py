"""Raw tables in, training-ready TFRecord datasets out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.version import __version__ as __version__

if TYPE_CHECKING:
    from beam_pipelines.dataset.info import Info as Info
    from beam_pipelines.dataset.info import info as info
    from beam_pipelines.dataset.loader import load as load


# Imported when first asked for: `import beam_pipelines` takes milliseconds.
_MODULE_OF_NAME = {"Info": "dataset.info", "info": "dataset.info", "load": "dataset.loader"}
__all__ = ["__version__", *_MODULE_OF_NAME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
