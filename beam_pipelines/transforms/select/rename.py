"""Renames columns of joined rows, before all else sees them.

A renamed column stays what it was: it keeps its shape, its labels and its part in a sparse tensor.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping

import pyarrow as pa

from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.errors import Problem, RecipeProblems, missing_column

# Old name -> new name.
Names = Mapping[str, str]


def rename_schema(schema: pa.Schema, names: Names) -> pa.Schema:
    """Returns the columns with their new names.

    Raises:
      RecipeProblems: a column that does not exist, or a name that another column has.
    """
    renamed = pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema])
    counts = collections.Counter(renamed.names)
    problems = []
    for old, new in names.items():
        if old not in schema.names:
            problems.append(Problem(("rename", old), missing_column(old, schema.names)))
        elif counts[new] > 1:
            message = f"found '{new}', which another column is called. Choose another name"
            problems.append(Problem(("rename", old), message))
    if problems:
        raise RecipeProblems(problems)
    return renamed


def rename_batch(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    """Returns rows with the new names of their columns, without copying."""
    if not names:
        return batch
    return batch.rename_columns([names.get(name, name) for name in batch.schema.names])


def rename_sparse(sparse: SparseColumns, names: Names) -> SparseColumns:
    """Returns a sparse tensor whose columns have new names."""
    return sparse._replace(
        indices=tuple(names.get(name, name) for name in sparse.indices),
        value=names.get(sparse.value, sparse.value),
    )
