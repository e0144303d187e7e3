"""The schemas in ``transform_graph/``, which are there with and without the graph."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.serving.sparse import without_sparse_features

RAW_SCHEMA = "metadata/schema.pbtxt"
ENCODED_SCHEMA = "transformed_metadata/schema.pbtxt"


def schema_files(
    raw_schema: schema_pb2.Schema, encoded_schema: schema_pb2.Schema, columns: Iterable[str]
) -> dict[str, bytes]:
    """Returns path in ``transform_graph/`` -> content of the schemas' files.

    Args:
      raw_schema, encoded_schema: as in ``write.write_transform_graph``.
      columns: names of the columns.
    """
    raw = columns_only(raw_schema, columns)
    return {RAW_SCHEMA: _to_text(raw), ENCODED_SCHEMA: _to_text(encoded_schema)}


def columns_only(schema: schema_pb2.Schema, names: Iterable[str]) -> schema_pb2.Schema:
    """Returns the schema with columns only, without features made of several columns."""
    known = set(names)
    result = without_sparse_features(schema)
    del result.feature[:]
    result.feature.extend(feature for feature in schema.feature if feature.name in known)
    return result


def _to_text(schema: schema_pb2.Schema) -> bytes:
    """Returns a schema as ``schema.schema_to_text`` does, without importing that module."""
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text.encode()
