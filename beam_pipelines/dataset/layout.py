"""Where things lie in a dataset."""

from __future__ import annotations

TRANSFORM_GRAPH = "transform_graph"


ENCODINGS = "transform_graph/encodings"  # what was fitted, as encodings.store keeps it


RAW_SCHEMA = "schema/schema.pbtxt"


ENCODED_SCHEMA = "transform_graph/transformed_metadata/schema.pbtxt"


# Beside it: tensorflow-transform knows no feature lists, and reads the one without them.
SEQUENCE_SCHEMA = "transform_graph/transformed_metadata/sequence_schema.pbtxt"
