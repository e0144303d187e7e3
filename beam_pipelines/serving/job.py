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
      raw_schema, encoded_schema: serialized ``schema_pb2.Schema``.
      label: name of the label, or ``None``.
      preprocessing: folder of the graph of a ``preprocessing_fn``, local or not, or ``None``.
    """

    plan: EncodePlan
    raw_schema: bytes
    encoded_schema: bytes
    label: str | None = None
    preprocessing: str | None = None

    @classmethod
    def of(
        cls,
        plan: EncodePlan,
        raw_schema: schema_pb2.Schema,
        encoded_schema: schema_pb2.Schema,
        label: str | None = None,
        preprocessing: str | None = None,
    ) -> GraphJob:
        """Returns the job with the schemas serialized."""
        return cls(
            plan,
            raw_schema.SerializeToString(),
            encoded_schema.SerializeToString(),
            label,
            preprocessing,
        )
