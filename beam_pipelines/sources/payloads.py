"""Code of one-column formats: lines and TFRecord payloads."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Contents, problem
from beam_pipelines.sources.plan import SourcePlan

_TYPES = ("text", "bytes")


def check(source: Source, files: str) -> list[Problem]:
    """Returns the options of a source that a one-column format cannot honour.

    Args:
      source: of the recipe.
      files: the word for its files in messages.
    """
    problems = []
    if source.nulls != Source.nulls:
        problems.append(
            problem(
                source, "nulls", f"a {files} has no nulls. Use NULLIF in 'derive', or leave it out."
            )
        )
    problems += [
        problem(source, "types", f"column '{column}': found {type_}, expected text or bytes.")
        for column, type_ in source.types.items()
        if type_ not in _TYPES
    ]
    return problems


def contents_of(column: str, type_: pa.DataType) -> Contents:
    """Returns the contents of files with one column."""
    schema = pa.schema([(column, type_)])
    return Contents((column,), schema, schema)


def convert(values: pa.BinaryArray, plan: SourcePlan) -> pa.RecordBatch:
    """Returns payloads as the plan's column.

    Raises:
      pa.ArrowInvalid: a payload that should be text is not UTF-8.
    """
    return pa.RecordBatch.from_arrays([values.cast(plan.schema.field(0).type)], schema=plan.schema)
