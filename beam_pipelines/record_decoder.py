"""Decodes records by tfx-bsl: tf.Examples, and tf.SequenceExamples with their feature lists beside the other features."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder

from beam_pipelines.schema_features import SEQUENCE

_FIELD_1, _FIELD_2 = 0x0A, 0x12


class RecordDecoder:
    """Decodes serialized records to a batch.

    Attributes:
      is_sequence: whether they are tf.SequenceExamples.
    """

    def __init__(self, schema: schema_pb2.Schema | None, is_sequence: bool) -> None:
        """Prepares to decode by a schema, or by what is found in the records."""
        arguments = [] if schema is None else [schema.SerializeToString()]
        self.is_sequence = is_sequence
        self._decoder = (
            SequenceExamplesToRecordBatchDecoder(SEQUENCE, *arguments)
            if is_sequence
            else ExamplesToRecordBatchDecoder(*arguments)
        )

    def decode(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Returns columns of lists, null where a feature is missing; of a feature list, lists of steps, which are lists or null.

        Raises:
          ValueError: the records are none, or not by the schema.
        """
        try:
            batch = self._decoder.DecodeBatch(list(records))
        except Exception as error:  # tfx-bsl raises RuntimeError and ValueError alike
            raise ValueError(str(error)) from error
        place = batch.schema.get_field_index(SEQUENCE)
        if not self.is_sequence or place < 0:
            return batch
        struct = batch.column(place)
        context = batch.remove_column(place) if batch.num_columns > 1 else None
        names = [] if context is None else context.schema.names
        lists = [field.name if field.name not in names else f"{SEQUENCE}.{field.name}" for field in struct.type]
        columns = [] if context is None else context.columns
        return pa.RecordBatch.from_arrays([*columns, *struct.flatten()], [*names, *lists])


def is_sequence_example(record: bytes) -> bool:
    """Whether a record has a second field beside its features, as a tf.SequenceExample has and no tf.Example."""
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
