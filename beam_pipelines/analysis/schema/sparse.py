"""Sparse features of a schema (``tf.io.SparseFeature``).

A sparse feature parses columns of indices and values as one tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.errors import RecipeError


def add_sparse_features(
    schema: schema_pb2.Schema,
    sparse: Sequence[SparseColumns],
    statistics: Mapping[str, TableStatistics],
) -> None:
    """Adds sparse features to an inferred schema.

    The columns of indices get domains that give the tensor's size. The number of values in a row is
    not fixed, even if it was always the same.

    Args:
      schema: schema that has the columns' features; it is changed.
      sparse: columns of each sparse feature.
      statistics: split -> statistics. An undeclared size is the largest index of all splits
        plus 1.

    Raises:
      RecipeError: an undeclared size is needed, and not all values of its column were counted.
    """
    features = {feature.name: feature for feature in schema.feature}
    for columns in sparse:
        added = schema.sparse_feature.add(name=columns.name, is_sorted=True)
        added.value_feature.name = columns.value
        for name, size in zip(columns.indices, columns.sizes, strict=True):
            added.index_feature.add(name=name)
            domain = features[name].int_domain
            domain.min = 0
            domain.max = _maximum(statistics.values(), name) if size is None else size - 1
        for name in columns.columns:
            features[name].ClearField("shape")
            features[name].ClearField("value_count")


def _maximum(tables: Iterable[TableStatistics], name: str) -> int:
    """Returns the largest value of a feature of integers, at least 0.

    Raises:
      RecipeError: its values were not counted.
    """
    columns = [table.columns[name] for table in tables if name in table.columns]
    if not all(column.is_counted for column in columns):
        raise RecipeError(
            f"found '{name}' in 'pii: {{allow: …}}', which hides its values, but the largest is "
            "the size of a sparse feature. Declare 'size' of the source."
        )
    known = (getattr(column.values, "maximum", None) or 0 for column in columns)
    return int(max(known, default=0))
