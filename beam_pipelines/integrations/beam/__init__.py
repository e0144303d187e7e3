"""PTransforms over Arrow RecordBatches, for any Beam pipeline.

Elements are ``pyarrow.RecordBatch``. Each stage takes the options of a recipe's section, with the
same checks, before the pipeline runs. Splits are a dict of PCollections, split name -> batches.
``docs/beam.md`` shows all stages in use.
"""

from __future__ import annotations

from beam_pipelines.integrations.beam.batches import AsBatches, AssignSplit, BatchesOf
from beam_pipelines.integrations.beam.writing import WriteShards

__all__ = ["AsBatches", "AssignSplit", "BatchesOf", "WriteShards"]
