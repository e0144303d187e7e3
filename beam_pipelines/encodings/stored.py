"""Decodes stored fitted encodings, wherever their bytes come from.

``store.py`` has the form. This module reads no files itself, and so imports no Beam.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core.arrow.ipc import bytes_to_batches
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.encodings.encoding import Fitted

FILE_NAME = "encodings.json"
FORMAT_VERSION = 1

# (number of the chain, number of the step) -> kind in the recipe, fitted encoding.
FittedSteps = Mapping[tuple[int, int], tuple[str, Fitted]]
# Name of a file in the folder of the encodings -> its bytes.
Read = Callable[[str], bytes]
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def decode_encodings(read: Read, path: str) -> FittedSteps:
    """Returns the encodings of ``store.save_encodings``.

    Args:
      read: reads a file of their folder.
      path: of ``FILE_NAME``, for messages.

    Raises:
      DataError: they are damaged, of another version, or of a kind that is not registered.
    """
    try:
        content = json.loads(read(FILE_NAME))
        if content["format_version"] != FORMAT_VERSION:
            raise DataError(
                f"{path}: format version {content['format_version']}, expected {FORMAT_VERSION}. "
                "Read it with the version that wrote it."
            )
        return {
            (int(entry["chain"]), int(entry["step"])): (entry["kind"], _fitted(read, entry))
            for entry in content["encodings"]
        }
    except (*_DAMAGED, pa.ArrowException) as error:
        raise DataError(
            f"{path}: found no fitted encodings ({error!r}). Convert again with --overwrite."
        ) from error


def _fitted(read: Read, entry: Mapping[str, Any]) -> Fitted:
    """Builds one encoding from its stored entry.

    The encoding's class must be in the module of its kind.
    """
    kind = entry["kind"]
    if kind not in ENCODING_FOR_KIND:
        raise ValueError(f"unknown kind '{kind}': import the module that registers it")
    module = sys.modules[ENCODING_FOR_KIND[kind].__module__]
    cls = getattr(module, entry["class"])
    if not (isinstance(cls, type) and issubclass(cls, Fitted)):
        raise TypeError(f"{entry['class']} is no encoding")
    return cls(**{name: _value(read, value) for name, value in entry["values"].items()})


def _value(read: Read, value: Any) -> Any:
    if isinstance(value, dict):
        if "/" in value["arrow"]:
            raise ValueError(f"'{value['arrow']}' is no name of a file in their folder")
        return bytes_to_batches(read(value["arrow"]))[0].column(0)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
