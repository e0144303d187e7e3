"""Decodes serialized tf.Examples and tf.SequenceExamples into columns.

The C++ kernel decodes what writers usually write, protobuf's parser other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core import _native
from beam_pipelines.core.layout.schema_features import (
    SEQUENCE,
    VALUE_TYPES,
    feature_lists_of,
    features_of,
)
from beam_pipelines.tfrecord import protobuf_parser
from beam_pipelines.tfrecord.framing import RecordBlock


def decode_records(
    records: Sequence[bytes], schema: schema_pb2.Schema | None, is_sequence: bool
) -> pa.RecordBatch:
    """Returns columns of lists, null where a feature is missing.

    A feature list is a list of steps, which are lists or null.

    Args:
      records: serialized.
      schema: of them; ``None``: features are found in the records.
      is_sequence: whether they are tf.SequenceExamples.

    Raises:
      WireError: a record is damaged or contradicts the schema.
    """
    layout = protobuf_parser.find_layout(records) if schema is None else layout_of(schema)
    return record_batch(records, layout if is_sequence else layout._replace(lists={}))


def layout_of(
    schema: schema_pb2.Schema, names: Iterable[str] | None = None
) -> protobuf_parser.Layout:
    """Returns the features and feature lists of a schema.

    With ``names``, returns only those.
    """
    lists = feature_lists_of(schema)
    context = features_of(schema)[: -len(lists) or None]
    chosen = None if names is None else set(names)

    def types(features: list[schema_pb2.Feature]) -> dict[str, pa.DataType]:
        return {
            feature.name: VALUE_TYPES.get(feature.type, pa.large_binary())
            for feature in features
            if chosen is None or feature.name in chosen
        }

    return protobuf_parser.Layout(types(context), types(lists))


def decode_lists(
    records: Sequence[bytes], layout: protobuf_parser.Layout
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Decodes serialized tf.Examples or tf.SequenceExamples.

    Args:
      records: serialized.
      layout: the features to decode; others are only checked, or refused if it is closed.

    Returns:
      A large_list for each feature of the context, null where the feature is missing or has no
      kind. A large_list of large_lists for each feature list: null where it is missing; a step
      without a kind is null.

    Raises:
      WireError: a record is damaged, a feature holds values of another kind, or a record has a
        feature that a closed layout lacks.
    """
    if isinstance(records, RecordBlock):
        array, is_framed = records.frames(), True
    else:
        array, is_framed = pa.array(records, pa.large_binary()), False
    batch = _native.parse_examples(array, layout.context, is_framed, layout.lists, layout.is_closed)
    if batch is not None:
        number = len(layout.context)
        return list(batch.columns[:number]), list(batch.columns[number:])
    return protobuf_parser.parse_sequences(records, layout)


def record_batch(records: Sequence[bytes], layout: protobuf_parser.Layout) -> pa.RecordBatch:
    """Returns records as columns, first the context, then feature lists.

    A feature list with the name of a context feature gets the prefix ``##SEQUENCE##.``.

    Raises:
      WireError: a record is damaged, or contradicts the layout.
    """
    context, lists = decode_lists(records, layout)
    names = [name if name not in layout.context else f"{SEQUENCE}.{name}" for name in layout.lists]
    return pa.RecordBatch.from_arrays([*context, *lists], [*layout.context, *names])


def is_sequence_example(record: bytes) -> bool:
    """Whether a record has the feature lists of a tf.SequenceExample."""
    try:
        return bool(protobuf_parser.find_kinds([record]).lists)
    except protobuf_parser.WireError:
        return False
