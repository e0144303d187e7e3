"""Encodes chunks: the PTransform of ``encodings/apply.py``."""

from __future__ import annotations

import dataclasses

import apache_beam as beam

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.encodings.apply import ChunkRows, encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.transforms.encodings_store import load_fitted


class LoadedEncodings:
    """Encodings in a folder, which each worker loads once.

    Args:
      plan: of the encodings.
      folder: of the fitted ones (``encodings_store``); empty: nothing is fitted.
    """

    def __init__(self, plan: EncodePlan, folder: str) -> None:
        self._plan, self._folder = plan, folder
        self._loaded: EncodePlan | None = None

    def get(self) -> EncodePlan:
        """Returns the plan with fitted encodings."""
        if self._loaded is None:
            self._loaded = load_fitted(self._plan, self._folder)
        return self._loaded


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
        return chunks | "Encode" >> beam.Map(_encode_chunk, LoadedEncodings(self.plan, self.fitted))


def _encode_chunk(chunk: Chunk, encodings: LoadedEncodings) -> Chunk:
    plan = encodings.get()
    rows = ChunkRows(chunk.range_number, chunk.part, 0, chunk.batch.num_rows)
    fitted_on = (rows,) if chunk.split in plan.fit.splits else None
    return chunk._replace(batch=encode_batch(plan, chunk.batch, chunk.path, fitted_on))
