"""What the process that builds the serving graph is told; of this package's modules both ends of
the pipe load this one.
"""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.encodings.plan import EncodePlan

# The process says in its last line of stderr what a user should read.
MARK = "transform_graph: "


class GraphJob(NamedTuple):
    """What the process is to build; arguments of ``write.write_transform_graph``.

    Attributes:
      plan: of encodings that are all fitted.
      raw_schema, encoded_schema: serialized ``schema_pb2.Schema``.
      label: name of the label, or ``None``.
      preprocessing: folder of the recipe's own graph, local or not, or ``None``.
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
        """Returns the job of schemas as they are."""
        return cls(
            plan,
            raw_schema.SerializeToString(),
            encoded_schema.SerializeToString(),
            label,
            preprocessing,
        )
