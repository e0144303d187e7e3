"""Encodes chunks by fitted encodings, which a folder stores without pickles.

There is one JSON file, and one Arrow file per array. ``encodings.json`` has the class names and
values. The folder takes the encodings to the workers during a run and is
``transform_graph/encodings`` in the dataset. Values survive to the last bit.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from beam_pipelines.core.arrow.ipc import batches_to_bytes
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.encodings.apply import BatchEncoder
from beam_pipelines.encodings.plan import EncodePlan, with_fitted
from beam_pipelines.encodings.stored import FILE_NAME, FORMAT_VERSION, FittedSteps, decode_encodings
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.transforms.preprocessing.function import Preprocessing
from beam_pipelines.transforms.preprocessing.steps import load_function


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
    return decode_encodings(
        lambda name: files.read_bytes(files.join(folder, name)), files.join(folder, FILE_NAME)
    )


def cached_encodings(folder: str) -> FittedSteps:
    """Returns ``load_encodings``, cached so that threads share a vocabulary of millions."""
    (modified_secs,) = file_checksums.modified_secs([files.join(folder, FILE_NAME)]).values()
    return _cached_encodings(folder, modified_secs)


@functools.lru_cache(maxsize=2)
def _cached_encodings(folder: str, _modified_secs: float) -> FittedSteps:
    return load_encodings(folder)


def load_fitted(plan: EncodePlan, folder: str) -> EncodePlan:
    """Returns the plan with the fitted encodings of a folder.

    Folder ``""`` leaves the plan unchanged.
    """
    return with_fitted(plan, cached_encodings(folder)) if folder else plan


@dataclasses.dataclass
class LoadedEncoder:
    """Encodings in a folder, which each worker loads once, and a ``preprocessing_fn``.

    Attributes:
      plan: of the encodings.
      fitted: folder of the fitted ones; empty: nothing is fitted.
      function: of the recipe, or ``None``.
      analyzed: folder of its analysis.
    """

    plan: EncodePlan
    fitted: str
    function: Preprocessing | None = None
    analyzed: str = ""

    def __call__(self, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
        """Encodes a batch with rows; ``where`` is their file, for messages."""
        for step in self._steps:
            batch = step(batch, where)
        return batch

    @functools.cached_property
    def _steps(self) -> list[Callable[[pa.RecordBatch, str], pa.RecordBatch]]:
        encoder = BatchEncoder(load_fitted(self.plan, self.fitted))
        if self.function is None:
            return [encoder]
        return [encoder, load_function(self.function, self.analyzed)]


def encode_chunk(chunk: Chunk, encoder: LoadedEncoder) -> Chunk:
    """Returns a chunk with its columns encoded as features."""
    return chunk._replace(batch=encoder(chunk.batch, chunk.path))
