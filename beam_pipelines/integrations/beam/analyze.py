"""Stages that analyze the data of splits: statistics, schema, encodings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

import beam_pipelines.transforms.statistics
from beam_pipelines.analysis import schema, statistics
from beam_pipelines.analysis.statistics.datasets import statistics_to_files
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.encodings.plan import EncodePlan, plan_encode
from beam_pipelines.files.beam import files
from beam_pipelines.integrations.beam.batches import (
    NUM_RANGES,
    ToBatches,
    ToChunks,
    by_split,
    planned,
    read_sections,
    schema_of_splits,
    shared_folder,
)
from beam_pipelines.transforms import encode
from beam_pipelines.transforms.fit import PARTITION_BYTES, FitEncodings
from beam_pipelines.transforms.spill import LoadChunks, SpillChunks

# Partitions of the value counts, by hash; each fits in one worker's memory.
_COUNT_PARTITIONS = 16


class ComputeStatistics(beam.PTransform):
    """Computes the statistics of each split.

    Input: batches, or a dict split name -> batches. Output: one element, a dict split name ->
    ``TableStatistics``; it does not depend on the order of arrival.
    ``beam_pipelines.analysis.statistics.to_proto`` converts it to TFMD protos.

    Args:
      weight: column with the weight of each row.
      slice_by: columns; each of their values gets its own statistics.
      output: folder for ``statistics/Split-train/FeatureStats.pb``, or ``None``.
      temp_location: as in ``shared_folder``.
    """

    def __init__(
        self,
        weight: str | None = None,
        slice_by: Sequence[str] | None = None,
        output: str | None = None,
        temp_location: str | None = None,
    ) -> None:
        super().__init__()
        wanted = {
            key: value
            for key, value in (("weight", weight), ("slice_by", slice_by))
            if value is not None
        }
        recipe = read_sections("ComputeStatistics", statistics=wanted or None)
        self._statistics = recipe.statistics
        self._output, self._temp_location = output, temp_location

    def expand(self, batches: Any) -> beam.PCollection[dict[str, statistics.TableStatistics]]:
        splits = by_split(batches)
        columns = schema_of_splits(splits, "ComputeStatistics")
        plan = planned(
            "ComputeStatistics", lambda: statistics.plan_statistics(self._statistics, columns, None)
        )
        pipeline = next(iter(splits.values())).pipeline
        folder = shared_folder("ComputeStatistics", self._temp_location, pipeline)
        computed = (
            splits
            | ToChunks()
            | beam_pipelines.transforms.statistics.ComputeChunkStatistics(
                NUM_RANGES, tuple(splits), columns, plan, folder
            )
        )
        return (
            computed
            if self._output is None
            else computed | "Write" >> beam.Map(_write_statistics, plan, self._output)
        )


def _write_statistics(
    computed: dict[str, statistics.TableStatistics], plan: statistics.StatisticsPlan, folder: str
) -> dict[str, statistics.TableStatistics]:
    for path, content in statistics_to_files(computed, plan):
        files.write_bytes(files.within(folder, path), content)
    return computed


@dataclasses.dataclass
class InferSchema(beam.PTransform):
    """Infers a schema from statistics, by TFDV's rules.

    Input: output of ``ComputeStatistics``. Output: one element, a ``schema_pb2.Schema`` of all
    splits.

    Args:
      output: file for the schema as protobuf text, or ``None``.
    """

    output: str | None = None

    def expand(
        self, computed: beam.PCollection[dict[str, statistics.TableStatistics]]
    ) -> beam.PCollection[schema_pb2.Schema]:
        return computed | "Infer" >> beam.Map(_infer, self.output)


def _infer(
    computed: Mapping[str, statistics.TableStatistics], output: str | None
) -> schema_pb2.Schema:
    inferred = schema.infer_schema(computed)
    if output is not None:
        files.write_bytes(output, schema.schema_to_text(inferred))
    return inferred


class EncodeFeatures(beam.PTransform):
    """Encodes columns as features; fits encodings that need it.

    Input: batches, or a dict split name -> batches. Output: the same, with features as columns.
    Encodings are fitted, by default on the split ``train``, before the first batch is encoded;
    batches are spilled to files meanwhile.

    Args:
      encode: feature -> encodings, as in a recipe.
      fit: splits to fit on, as in a recipe: ``{"splits": ["train"]}``.
      temp_location: folder that all workers share, for this stage only. Needed if an encoding is
        fitted. The fitted encodings stay in its subfolder ``encodings``.
    """

    def __init__(
        self,
        encode: Mapping[str, Any],
        fit: Mapping[str, Any] | None = None,
        temp_location: str | None = None,
    ) -> None:
        super().__init__()
        self._encode, self._fit, self._temp_location = (
            dict(encode),
            fit and dict(fit),
            temp_location,
        )

    def expand(self, batches: Any) -> Any:
        splits = by_split(batches)
        plan = self._plan(splits)
        chunks: beam.PCollection[Chunk] = splits | ToChunks()
        fitted, kept = self._fitted(chunks, plan) if plan.reads else ("", chunks)
        written = pa.schema([(name, feature.type) for name, feature in plan.features().items()])
        encoded = kept | "Encode" >> encode.EncodeChunks(plan, fitted)
        results = {name: encoded | f"Take_{name}" >> ToBatches(written, name) for name in splits}
        return results if isinstance(batches, Mapping) else next(iter(results.values()))

    def _plan(self, splits: Mapping[str, beam.PCollection[pa.RecordBatch]]) -> EncodePlan:
        columns = schema_of_splits(splits, "EncodeFeatures")
        share = {name: 1.0 / len(splits) for name in splits}
        recipe = read_sections("EncodeFeatures", encode=self._encode, fit=self._fit, split=share)
        plan: EncodePlan = planned("EncodeFeatures", lambda: plan_encode(recipe, columns))
        if plan.reads and self._temp_location is None:
            raise RecipeError(
                "EncodeFeatures: found encodings that are fitted, but no temp_location, expected a "
                "folder that all workers reach, where they are written."
            )
        return plan

    def _fitted(
        self, chunks: beam.PCollection[Chunk], plan: EncodePlan
    ) -> tuple[str, beam.PCollection[Chunk]]:
        """Returns the folder of the fitted encodings, and the loaded chunks."""
        folder = self._temp_location or ""
        kept = chunks | "Keep" >> SpillChunks(files.join(folder, "kept"))
        fitted = ""
        done: tuple[beam.PCollection[str], ...] = ()
        for read in range(plan.reads):
            seen = kept | f"LoadToFit{read}" >> LoadChunks(done) if read else chunks
            own = files.join(folder, "encodings" if read + 1 == plan.reads else f"encodings{read}")
            fit = FitEncodings(
                plan,
                read,
                fitted,
                NUM_RANGES,
                (_COUNT_PARTITIONS - 1) * PARTITION_BYTES,
                own,
                files.join(folder, f"fit{read}"),
                files.join(folder, f"value counts{read}"),
            )
            fitted, done = own, (seen | f"Fit{read}" >> fit,)
        return fitted, kept | "Load" >> LoadChunks(done)
