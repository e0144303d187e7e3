"""Decodes serialized tf.Examples and tf.SequenceExamples into columns.

The C++ kernel decodes what writers usually write. tfx-bsl decodes other tf.Examples, protobuf other
tf.SequenceExamples (tfx-bsl keeps 32 bits of the integers in feature lists). tf.Examples without a
schema are decoded as tf.SequenceExamples without feature lists, because tfx-bsl cuts a name off at
a NUL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beam_pipelines.core import _native
from beam_pipelines.core.layout.schema_features import SEQUENCE, feature_lists_of, features_of
from beam_pipelines.tfrecord.protobuf_parser import Layout, find_layout, parse_sequences
from beam_pipelines.tfrecord.record_block import RecordBlock

_FIELD_1, _FIELD_2 = 0x0A, 0x12
_TYPES = {
    schema_pb2.BYTES: pa.large_binary(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.INT: pa.int64(),
}


class ExampleDecoder:
    """Decodes serialized tf.Examples with a schema, by the C++ kernel or tfx-bsl."""

    def __init__(self, schema: schema_pb2.Schema) -> None:
        self._schema = schema.SerializeToString()
        self._decoder = ExamplesToRecordBatchDecoder(self._schema)
        self._types = _types_of(schema)

    def decode(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Returns the features as columns of large lists.

        A list is null where a feature is missing or has no kind.

        Raises:
          ValueError: a record is damaged or contradicts the schema; tfx-bsl's message.
        """
        if self._types is not None:
            array, framed = _array_of(records)
            batch = _native.parse_examples(array, self._types, framed)
            if batch is not None:
                return batch
        try:
            return self._decoder.DecodeBatch(list(records))
        except Exception as error:  # tfx-bsl raises RuntimeError and ValueError alike
            # A failed decoder would add its values to the next batch.
            self._decoder = ExamplesToRecordBatchDecoder(self._schema)
            raise ValueError(str(error)) from error


def _array_of(records: Sequence[bytes]) -> tuple[pa.Array, bool]:
    """Returns records as an array, and whether they are in their frames."""
    if isinstance(records, RecordBlock):
        return records.frames(), True
    return pa.array(records, pa.large_binary()), False


def _types_of(schema: schema_pb2.Schema) -> dict[str, pa.DataType] | None:
    """Returns the features for the kernel, or ``None``.

    ``None`` means that only tfx-bsl can decode them. tfx-bsl makes one column of two features with
    one name, and refuses other types.
    """
    types = {
        feature.name: _TYPES[feature.type] for feature in schema.feature if feature.type in _TYPES
    }
    return types if len(types) == len(schema.feature) else None


class RecordDecoder:
    """Decodes serialized records to a batch.

    Attributes:
      is_sequence: whether they are tf.SequenceExamples.
    """

    def __init__(self, schema: schema_pb2.Schema | None, is_sequence: bool) -> None:
        """Prepares to decode with a schema or without one.

        Without a schema, features are found in the records.
        """
        self.is_sequence = is_sequence
        self._layout = None if schema is None else layout_of(schema)
        self._examples = None if schema is None or is_sequence else ExampleDecoder(schema)

    def decode(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Returns columns of lists, null where a feature is missing.

        A feature list is a list of steps, which are lists or null.

        Raises:
          ValueError: a record is damaged or contradicts the schema.
        """
        if self._examples is not None:
            return self._examples.decode(records)
        layout = self._layout or find_layout(records)
        return sequence_batch(records, layout if self.is_sequence else layout._replace(lists={}))


def layout_of(schema: schema_pb2.Schema, names: Iterable[str] | None = None) -> Layout:
    """Returns the features and feature lists of a schema.

    With ``names``, returns only those.
    """
    lists = feature_lists_of(schema)
    context = features_of(schema)[: -len(lists) or None]
    chosen = None if names is None else set(names)

    def types(features: list[schema_pb2.Feature]) -> dict[str, pa.DataType]:
        return {
            feature.name: _TYPES.get(feature.type, pa.large_binary())
            for feature in features
            if chosen is None or feature.name in chosen
        }

    return Layout(types(context), types(lists))


def decode_sequences(
    records: Sequence[bytes], layout: Layout
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Decodes serialized tf.SequenceExamples.

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
    array, framed = _array_of(records)
    batch = _native.parse_examples(array, layout.context, framed, layout.lists, layout.is_closed)
    if batch is not None:
        number = len(layout.context)
        return list(batch.columns[:number]), list(batch.columns[number:])
    return parse_sequences(records, layout)


def sequence_batch(records: Sequence[bytes], layout: Layout) -> pa.RecordBatch:
    """Returns tf.SequenceExamples as columns, first the context, then feature lists.

    A feature list with the name of a context feature gets the prefix ``##SEQUENCE##.``.

    Raises:
      WireError: a record is damaged, or contradicts the layout.
    """
    context, lists = decode_sequences(records, layout)
    names = [name if name not in layout.context else f"{SEQUENCE}.{name}" for name in layout.lists]
    return pa.RecordBatch.from_arrays([*context, *lists], [*layout.context, *names])


def is_sequence_example(record: bytes) -> bool:
    """Whether a record has field 2, the feature lists of a tf.SequenceExample."""
    if record[:1] == bytes([_FIELD_2]):
        return True
    if record[:1] != bytes([_FIELD_1]):
        return False
    length, shift, place = 0, 0, 1
    while place < len(record):
        byte = record[place]
        length |= (byte & 127) << shift
        shift, place = shift + 7, place + 1
        if byte < 128:
            break
    return record[place + length : place + length + 1] == bytes([_FIELD_2])
