"""The stages as a library: PTransforms over Arrow RecordBatches for anybody's Beam pipeline.

What flows is ``pyarrow.RecordBatch``. Each stage takes what the recipe's section of the same
purpose takes, with the same checks, before the pipeline runs. Where rows lie in splits, a dict of
PCollections flows, split name -> batches. ``docs/beam.md`` shows all of them at work;
``providers.yaml`` beside this package offers them to Beam YAML.
"""

from __future__ import annotations

from beam_pipelines.integrations.beam.batches import AsBatches, BatchesOf
from beam_pipelines.integrations.beam.learning import ComputeStatistics, EncodeFeatures, InferSchema
from beam_pipelines.integrations.beam.rows import FromRows, ToRows
from beam_pipelines.integrations.beam.tables import (
    AssignSplit,
    JoinBatches,
    ReadBatches,
    SelectBatches,
)
from beam_pipelines.integrations.beam.writing import WriteShards

__all__ = [
    "AsBatches",
    "AssignSplit",
    "BatchesOf",
    "ComputeStatistics",
    "EncodeFeatures",
    "FromRows",
    "InferSchema",
    "JoinBatches",
    "ReadBatches",
    "SelectBatches",
    "ToRows",
    "WriteShards",
]
