"""tf.Examples and tf.SequenceExamples have the values that other readers find.

``tests/core/test_native.py`` compares their bytes with TensorFlow's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder

from beam_pipelines.core import _native
from tests.core.test_native import batches

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")


def serialized(batch: pa.RecordBatch, lists: list[str] | None = None) -> list[bytes]:
    """Returns the records of a batch, without frames."""
    records: list[bytes] = _native.serialize(batch, lists=lists or (), framed=False).to_pylist()
    return records


def test_same_examples_as_tfx_bsl() -> None:
    """tfx-bsl's encoder gives Examples that decode to the same batch."""
    random = np.random.default_rng(1)
    rows = 500
    scalars = {
        "i": pa.array(random.integers(-(2**62), 2**62, rows), mask=random.random(rows) < 0.3),
        "f": pa.array(random.normal(size=rows).astype(np.float32)),
        "s": pa.array([f"value {number}" * (number % 40) for number in range(rows)]),
    }
    lists = [
        pa.array(
            [None if value is None else [value] for value in array.to_pylist()], pa.large_list(kind)
        )
        for array, kind in zip(
            scalars.values(), (pa.int64(), pa.float32(), pa.large_binary()), strict=True
        )
    ]
    theirs = RecordBatchToExamplesEncoder().encode(pa.RecordBatch.from_arrays(lists, list(scalars)))
    ours = serialized(pa.RecordBatch.from_pydict(scalars))
    decoder = ExamplesToRecordBatchDecoder()
    names = sorted(scalars)
    assert decoder.DecodeBatch(ours).select(names).equals(decoder.DecodeBatch(theirs).select(names))


def test_null_empty_and_zero_stay_three_things() -> None:
    """Null, an empty list and zero stay three things.

    A null is an absent feature, an empty list one without values, a zero a value.
    """
    column = pa.array([None, [], [0]], pa.list_(pa.int64()))
    examples = [
        tf.train.Example.FromString(data)
        for data in serialized(pa.RecordBatch.from_arrays([column], ["x"]))
    ]
    assert "x" not in examples[0].features.feature
    assert examples[1].features.feature["x"].WhichOneof("kind") == "int64_list"
    assert list(examples[1].features.feature["x"].int64_list.value) == []
    assert list(examples[2].features.feature["x"].int64_list.value) == [0]


def test_long_sequences() -> None:
    """Long sequences parse to their values.

    They have thousands of steps, whose lengths need several bytes.
    """
    steps = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([steps, steps[:5]], pa.list_(pa.float32()))], ["x"]
    )
    records = serialized(batch, ["x"])
    _, lists, _ = tf.io.parse_sequence_example(
        tf.constant(records), {}, {"x": tf.io.RaggedFeature(tf.float32, value_key="x")}
    )
    assert lists["x"].row_lengths().numpy().tolist() == [30_000, 5]


def _as_tfx_bsl(step: object) -> object:
    """Returns tfx-bsl 1.21's reading of a step.

    It keeps 32 bits of the integers in feature lists, for every writer.
    """
    if step is None:
        return None
    values = step if isinstance(step, list) else [step]
    plain = [value.encode() if isinstance(value, str) else value for value in values]
    return [(value + 2**31) % 2**32 - 2**31 if isinstance(value, int) else value for value in plain]


@given(batches())
def test_tfx_bsl_reads_the_values_back(drawn: tuple[pa.RecordBatch, list[str]]) -> None:
    """tfx-bsl's decoder finds every value, null step, empty and absent list.

    It knows no schema here.
    """
    batch, lists = drawn
    records = serialized(batch, lists)
    if not records or not lists or "\0" in "".join(batch.schema.names):  # which ends a name there
        return
    decoded = SequenceExamplesToRecordBatchDecoder("##SEQUENCE##").DecodeBatch(records).to_pylist()
    for row, found in zip(batch.to_pylist(), decoded, strict=True):
        for name, value in row.items():
            own = (found.get("##SEQUENCE##") or {}).get(name) if name in lists else found.get(name)
            if value is None or (name in lists and all(step is None for step in value)):
                # The decoder drops what has a value in no record.
                assert own in (None, value, [None] * len(value or []))
                continue
            scalars = value if isinstance(value, list) else [value]
            plain = [step.encode() if isinstance(step, str) else step for step in scalars]
            if name in lists:
                assert own == [_as_tfx_bsl(step) for step in scalars]
            elif plain:
                assert own == plain
