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

from beam_pipelines.core import _native
from beam_pipelines.sources.tfrecord import decoder as decoder_module
from beam_pipelines.sources.tfrecord.decoder import ExampleDecoder
from beam_pipelines.tfrecord.record_block import RecordBlock
from tests.support.kernels import without_kernels

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


class NoDecoder:
    """Stands in for tfx-bsl's decoder where it is not to be asked."""

    def __init__(self, *_: bytes) -> None:
        pass

    def DecodeBatch(self, _: list[bytes]) -> None:  # noqa: N802 (its name in tfx-bsl)
        raise AssertionError("tfx-bsl was asked")


@pytest.mark.skipif(
    not _native.KERNELS_AVAILABLE, reason="the extension is not built: there is no compiler"
)
def test_usual_records_never_reach_tfx_bsl(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a schema and the kernels, usual records never reach tfx-bsl."""
    expected = ExampleDecoder(schema_of(SCHEMA))
    monkeypatch.setattr(decoder_module, "ExamplesToRecordBatchDecoder", NoDecoder)
    decoder = ExampleDecoder(schema_of(SCHEMA))
    found = decoder.decode(block_of(USUAL))
    assert found.equals(decoder.decode(USUAL))
    assert found.to_pydict() == {
        "i": [[1, 2], None, None],
        "b": [[b"x"], None, None],
        "f": [None, [0.5], None],
    }
    with without_kernels():
        assert expected.decode(block_of(USUAL)).equals(found)
        with pytest.raises(ValueError, match="tfx-bsl was asked"):
            decoder.decode(USUAL)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(record(i=[0.5]), 'expected int64_list, found float_list for feature "i"', id="another kind"),
        pytest.param(b"\x0a\x05", "Unable to parse example", id="damaged"),
        pytest.param(record(i=[7]) + record(i=[8]), None, id="joined"),
    ],
)  # fmt: skip
def test_odd_records_have_the_values_and_errors_of_tfx_bsl(with_and_without_kernels, bad, message):
    """tfx-bsl decodes or refuses the records that the kernel declines.

    The errors are in its words, and later records are not affected.
    """
    decoder = ExampleDecoder(schema_of(SCHEMA))
    usual = decoder.decode(block_of(USUAL))
    if message is None:
        assert decoder.decode(block_of([*USUAL, bad])).column("i").to_pylist()[3] == [8]
    else:
        with pytest.raises(ValueError, match=message):
            decoder.decode(block_of([*USUAL, bad]))
    assert decoder.decode(block_of(USUAL)).equals(usual)
    assert decoder.decode(USUAL[1:]).equals(usual.slice(1))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param("", {}, id="no features"),
        pytest.param(SCHEMA.replace('"f"', '"i"'), {"i": [[1, 2], None, None], "b": [[b"x"], None, None]}, id="twice"),
        pytest.param(SCHEMA.replace('"f"', '"z\\000"'), {"z": [None] * 3}, id="zero byte"),
        pytest.param('feature { name: "i" type: INT deprecated: true lifecycle_stage: '
                     'PLANNED }', {"i": [[1, 2], None, None]}, id="stages"),
    ],
)  # fmt: skip
def test_odd_schemas(with_and_without_kernels, text, columns):
    """Odd schemas mean the same as to tfx-bsl."""
    found = ExampleDecoder(schema_of(text)).decode(block_of(USUAL))
    assert found.num_rows == 3
    assert {name: found.column(name).to_pylist() for name in columns} == columns


def test_types_that_no_example_has(with_and_without_kernels: None) -> None:
    """tfx-bsl refuses a feature of a type without values.

    The rest of the schema does not matter.
    """
    with pytest.raises((RuntimeError, ValueError), match="Bad field type"):
        ExampleDecoder(schema_of(SCHEMA + 'feature { name: "s" type: STRUCT }')).decode(USUAL)
