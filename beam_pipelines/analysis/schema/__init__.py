"""The schema: inferred from statistics, stored as text, and widened."""

from __future__ import annotations

from beam_pipelines.analysis.schema.infer import (
    infer_schema,
    read_schema,
    schema_to_text,
    with_shapes,
)

__all__ = ["infer_schema", "read_schema", "schema_to_text", "with_shapes"]
