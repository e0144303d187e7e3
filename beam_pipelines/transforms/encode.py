"""Encodes chunks: the PTransform of ``encodings/apply.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.transforms.encodings_store import load_fitted


@dataclasses.dataclass
class EncodeChunks(beam.PTransform):
    """Encodes the columns of chunks as features.

    Input and output: ``Chunk`` elements, one for one.

    Attributes:
      plan: of the encodings.
      fitted: folder of the fitted ones (``encodings_store``), complete when the first chunk
        arrives; empty: nothing is fitted.
    """

    plan: EncodePlan
    fitted: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | "Encode" >> beam.ParDo(_Encode(self.plan, self.fitted))


class _Encode(beam.DoFn):
    """Encodes chunks; loads the fitted encodings with the first one."""

    def __init__(self, plan: EncodePlan, fitted: str) -> None:
        self._plan, self._folder = plan, fitted
        self._loaded: EncodePlan | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        if self._loaded is None:
            self._loaded = load_fitted(self._plan, self._folder)
        fitted_on = (
            (chunk.range_number, chunk.part) if chunk.split in self._loaded.fit.splits else None
        )
        yield chunk._replace(batch=encode_batch(self._loaded, chunk.batch, chunk.path, fitted_on))
