"""The schema: inferred from statistics, stored as text, widened, and compared."""

from __future__ import annotations

from beam_pipelines.analysis.schema.infer import (
    infer_schema,
    read_schema,
    schema_to_text,
    with_shapes,
    write_schema,
)

__all__ = ["infer_schema", "read_schema", "schema_to_text", "with_shapes", "write_schema"]
