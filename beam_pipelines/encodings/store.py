"""Stores fitted encodings in a folder, without pickles.

There is one JSON file, and one Arrow file per array. ``encodings.json`` has the class names and
values. The folder takes the encodings to the workers during a run and is
``transform_graph/encodings`` in the dataset. Values survive to the last bit.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core import file_checksums, files
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.encodings.encoding import Fitted

FILE_NAME = "encodings.json"
FORMAT_VERSION = 1

# (number of the chain, number of the step) -> kind in the recipe, fitted encoding.
FittedSteps = Mapping[tuple[int, int], tuple[str, Fitted]]


def save_encodings(folder: str, steps: FittedSteps) -> str:
    """Writes fitted encodings into a folder, with reproducible bytes; returns the folder."""
    entries = []
    for (chain, step), (kind, encoding) in sorted(steps.items(), key=lambda item: item[0]):
        values: dict[str, Any] = {}
        for field in dataclasses.fields(encoding):  # type: ignore[arg-type]
            value = getattr(encoding, field.name)
            if isinstance(value, pa.Array):
                name = f"{chain}-{step}-{field.name}.arrow"
                stream = batches_to_bytes([pa.RecordBatch.from_arrays([value], ["values"])])
                files.write_bytes(files.join(folder, name), stream)
                value = {"arrow": name}
            values[field.name] = value
        entries.append(
            {
                "chain": chain,
                "step": step,
                "kind": kind,
                "class": type(encoding).__name__,
                "values": values,
            }
        )
    text = json.dumps(
        {"format_version": FORMAT_VERSION, "encodings": entries}, indent=1, ensure_ascii=False
    )
    files.write_bytes(files.join(folder, FILE_NAME), (text + "\n").encode())
    return folder


def load_encodings(folder: str) -> FittedSteps:
    """Reads the encodings of ``save_encodings``.

    Raises:
      DataError: they are missing, damaged, of another version, or of a kind that is not registered.
    """
    path = files.join(folder, FILE_NAME)
    try:
        content = json.loads(files.read_bytes(path))
        if content["format_version"] != FORMAT_VERSION:
            raise DataError(
                f"{path}: format version {content['format_version']}, expected {FORMAT_VERSION}. "
                "Read it with the version that wrote it."
            )
        return {
            (int(entry["chain"]), int(entry["step"])): (entry["kind"], _fitted(folder, entry))
            for entry in content["encodings"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: found no fitted encodings ({error!r}). Convert again with --overwrite."
        ) from error


def cached_encodings(folder: str) -> FittedSteps:
    """Returns ``load_encodings``, cached so that threads share a vocabulary of millions."""
    (modified_secs,) = file_checksums.modified_secs([files.join(folder, FILE_NAME)]).values()
    return _cached_encodings(folder, modified_secs)


@functools.lru_cache(maxsize=2)
def _cached_encodings(folder: str, _modified_secs: float) -> FittedSteps:
    return load_encodings(folder)


def _fitted(folder: str, entry: Mapping[str, Any]) -> Fitted:
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
    return cls(**{name: _value(folder, value) for name, value in entry["values"].items()})


def _value(folder: str, value: Any) -> Any:
    if isinstance(value, dict):
        return bytes_to_batches(files.read_bytes(files.join(folder, value["arrow"])))[0].column(0)
    return _tuples(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
