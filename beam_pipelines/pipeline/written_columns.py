"""The columns of shards in formats that have a schema."""

from __future__ import annotations

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.columns import has_lists_as_steps, value_type
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.sinks import is_columnar
from beam_pipelines.sinks.parquet.rows import columns_of


def written_columns(plan: Plan, schema: schema_pb2.Schema) -> pa.Schema | None:
    """Returns the names and types of the written features.

    ``None`` means that no format of the shards needs them. What a ``preprocessing_fn`` returns is
    bytes, not text: TensorFlow does not tell them apart.

    Args:
      plan: of the conversion.
      schema: of the written features.
    """
    if not is_columnar(plan.recipe.output):
        return None
    known = plan.encode.features() if plan.preprocessing is None else {}
    texts = {name for name, one in known.items() if pa.types.is_string(value_type(one.type))}
    steps = {field.name for field in plan.encode.columns if has_lists_as_steps(field.type)}
    return columns_of(schema, texts, steps)
