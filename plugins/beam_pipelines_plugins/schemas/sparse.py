"""The sparse features that a schema names."""

from __future__ import annotations

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.sparse_columns import SparseColumns


def sparse_columns(schema: schema_pb2.Schema) -> tuple[SparseColumns, ...]:
    """Returns a schema's sparse features, with sizes from their indices' domains."""
    domains = {feature.name: feature.int_domain for feature in schema.feature}
    found = []
    for sparse in schema.sparse_feature:
        indices = tuple(index.name for index in sparse.index_feature)
        known = (domains.get(name, schema_pb2.IntDomain()) for name in indices)
        sizes = tuple(domain.max + 1 if domain.HasField("max") else None for domain in known)
        found.append(SparseColumns(sparse.name, indices, sparse.value_feature.name, sizes))
    return tuple(found)
