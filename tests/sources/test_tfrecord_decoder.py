"""tf.Examples decode to the same values and errors with and without kernels.

The kernels decode usual records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beam_pipelines.core import _native
from beam_pipelines.sources.tfrecord.decoder import decode_records
from beam_pipelines.tfrecord.framing import RecordBlock

SCHEMA = (
    'feature { name: "i" type: INT } feature { name: "b" type: BYTES } feature { name: "f" '
    "type: FLOAT }"
)


def schema_of(text: str) -> schema_pb2.Schema:
    """Returns a schema."""
    return text_format.Parse(text, schema_pb2.Schema())


def record(**values: Sequence[int | float | bytes]) -> bytes:
    """Returns a tf.Example with the given features.

    Their first value decides between integers, floats and bytes.
    """
    message = tf.train.Example()
    for name, found in values.items():
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(found[0])]
        getattr(message.features.feature[name], kind).value.extend(found)
    return message.SerializeToString()


USUAL = [record(i=[1, 2], b=[b"x"]), record(f=[0.5]), b""]


def block_of(records: list[bytes]) -> RecordBlock:
    """Returns records as they are read from a file."""
    framed = _native.frame(pa.array(records, pa.binary())).to_pylist()
    return RecordBlock(b"".join(framed), np.cumsum([0, *map(len, framed)], dtype=np.int64))


def test_usual_records(with_and_without_kernels: None) -> None:
    """Records have the values of tfx-bsl, framed or not."""
    schema = schema_of(SCHEMA)
    found = decode_records(block_of(USUAL), schema, False)
    assert found.equals(decode_records(USUAL, schema, False))
    assert found.equals(ExamplesToRecordBatchDecoder(schema.SerializeToString()).DecodeBatch(USUAL))
    assert found.to_pydict() == {
        "i": [[1, 2], None, None],
        "b": [[b"x"], None, None],
        "f": [None, [0.5], None],
    }


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(record(i=[0.5]), "in row 3, feature 'i', found float values, expected int64", id="another kind"),
        pytest.param(b"\x0a\x05", "in row 3, found bytes that are no tf.Example", id="damaged"),
        pytest.param(record(i=[7]) + record(i=[8]), None, id="joined"),
    ],
)  # fmt: skip
def test_odd_records(with_and_without_kernels, bad, message):
    """Protobuf decodes or refuses the records that the kernel declines."""
    schema = schema_of(SCHEMA)
    usual = decode_records(block_of(USUAL), schema, False)
    if message is None:
        found = decode_records(block_of([*USUAL, bad]), schema, False)
        decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())
        assert found.equals(decoder.DecodeBatch([*USUAL, bad]))
        assert found.column("i").to_pylist()[3] == [8]
    else:
        with pytest.raises(ValueError, match=message):
            decode_records(block_of([*USUAL, bad]), schema, False)
    assert decode_records(USUAL[1:], schema, False).equals(usual.slice(1))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param(SCHEMA.replace('"f"', '"z\\000"'), {"z\0": [None] * 3}, id="zero byte"),
        pytest.param('feature { name: "i" type: INT deprecated: true lifecycle_stage: '
                     'PLANNED }', {"i": [[1, 2], None, None]}, id="stages"),
    ],
)  # fmt: skip
def test_odd_schemas(with_and_without_kernels, text, columns):
    """Every feature of a schema is a column, by its whole name."""
    found = decode_records(block_of(USUAL), schema_of(text), False)
    assert found.num_rows == 3
    assert {name: found.column(name).to_pylist() for name in columns} == columns
