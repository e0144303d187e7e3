"""tfrecord/example.py gives the bytes of TensorFlow's own serialization.

The serialization is deterministic, and other readers read it back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder

from beam_pipelines.tfrecord import example as example_module
from beam_pipelines.tfrecord.example import serialize_sequences
from tests.support.protos import fill

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.string(): st.text(max_size=200),
    pa.binary(): st.binary(max_size=200),
}


# No name begins another one: Python's protobuf (upb) writes the longer of two such names first,
# others, as we do, the shorter.
NAMES = st.builds(
    "{}|".format, st.text(st.characters(exclude_characters="|", codec="utf-8"), max_size=5)
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[str]]:
    """Batches of any feature types, and feature lists with null steps.

    Some are a slice of a longer batch.
    """
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    arrays, lists = [], []
    for name in names:
        kind = draw(st.sampled_from(list(VALUES)))
        shape = draw(st.sampled_from(["scalar", "list", "feature list", "steps of lists"]))
        values = VALUES[kind]
        if shape == "steps of lists":
            kind, values = pa.list_(kind), st.lists(values, max_size=3)
        if shape in ("feature list", "steps of lists"):
            lists.append(name)
            values = st.none() | values
        if shape != "scalar":
            kind, values = pa.list_(kind), st.lists(values, max_size=4)
        arrays.append(
            pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        )
    batch = pa.RecordBatch.from_arrays(arrays, names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start))), lists


def by_tensorflow(batch: pa.RecordBatch, lists: list[str]) -> list[bytes]:
    """Serializes row by row with TensorFlow's protos."""
    examples = []
    for row in batch.to_pylist():
        example = tf.train.SequenceExample()
        example.context.SetInParent()
        example.feature_lists.SetInParent()
        for name, value in row.items():
            if value is None:
                continue
            kind = batch.schema.field(name).type
            while pa.types.is_list(kind):
                kind = kind.value_type
            if name not in lists:
                fill(
                    example.context.feature[name],
                    kind,
                    value if isinstance(value, list) else [value],
                )
                continue
            feature_list = example.feature_lists.feature_list[name]
            for step in value:
                feature = feature_list.feature.add()
                if step is not None:
                    fill(feature, kind, step if isinstance(step, list) else [step])
        examples.append(example.SerializeToString(deterministic=True))
    return examples


@given(batches())
@settings(max_examples=80, deadline=None)
def test_bytes_equal_tensorflow(drawn: tuple[pa.RecordBatch, list[str]]) -> None:
    """Every row has exactly the bytes that TensorFlow writes with deterministic=True."""
    batch, lists = drawn
    assert serialize_sequences(batch, lists).to_pylist() == by_tensorflow(batch, lists)


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
@settings(max_examples=50, deadline=None)
def test_tfx_bsl_reads_the_values_back(drawn: tuple[pa.RecordBatch, list[str]]) -> None:
    """tfx-bsl's decoder finds every value, null step, empty and absent list.

    It knows no schema here.
    """
    batch, lists = drawn
    records = serialize_sequences(batch, lists).to_pylist()
    if not records or "\0" in "".join(batch.schema.names):  # which ends a name there
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


def test_halves_of_a_large_batch_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch above the limit is serialized in halves.

    The bytes are the same.
    """
    column = pa.array([list(range(number)) for number in range(50)])
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(50))], ["x", "c"])
    whole = serialize_sequences(batch, ["x"]).to_pylist()
    monkeypatch.setattr(example_module, "_MAX_JOIN_BYTES", 100)
    assert serialize_sequences(batch, ["x"]).to_pylist() == whole


def test_a_scalar_is_no_feature_list() -> None:
    """A feature list has to be a list column."""
    with pytest.raises(TypeError, match="feature list 'x': found int64, expected a list"):
        serialize_sequences(pa.RecordBatch.from_arrays([pa.array([1])], ["x"]), ["x"])


def test_long_sequences() -> None:
    """Long sequences parse to their values.

    They have thousands of steps, whose lengths need several bytes.
    """
    steps = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([steps, steps[:5]], pa.list_(pa.float32()))], ["x"]
    )
    records = serialize_sequences(batch, ["x"]).to_pylist()
    assert records == by_tensorflow(batch, ["x"])
    _, lists, _ = tf.io.parse_sequence_example(
        tf.constant(records), {}, {"x": tf.io.RaggedFeature(tf.float32, value_key="x")}
    )
    assert lists["x"].row_lengths().numpy().tolist() == [30_000, 5]
