"""Defines the input of the process that builds the serving graph.

Both ends of the pipe import it.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.encodings.plan import EncodePlan

# Begins the last line of the process's stderr, the message for the user.
MARK = "transform_graph: "


class GraphJob(NamedTuple):
    """Arguments of ``write.write_transform_graph``, pickled.

    Attributes:
      plan: encodings, all fitted; pickled by reference to their modules.
      raw_schema, encoded_schema: of the columns, and of the features.
      label: name of the label, or ``None``.
      preprocessing: folder of the graph of a ``preprocessing_fn``, local or not, or ``None``.
    """

    plan: EncodePlan
    raw_schema: schema_pb2.Schema
    encoded_schema: schema_pb2.Schema
    label: str | None = None
    preprocessing: str | None = None
