"""tfrecord/example.py gives the bytes of TensorFlow's own deterministic serialization."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder

from beam_pipelines.tfrecord import example as example_module
from tests.support.protos import fill

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
TEXT = st.text(max_size=300)
BYTES = st.binary(max_size=300)

TYPES = {
    pa.int64(): INT64,
    pa.float32(): FLOAT32,
    pa.string(): TEXT,
    pa.binary(): BYTES,
    pa.list_(pa.int64()): st.lists(INT64, max_size=4),
    pa.list_(pa.float32()): st.lists(FLOAT32, max_size=4),
    pa.list_(pa.string()): st.lists(TEXT, max_size=4),
    pa.list_(pa.binary()): st.lists(BYTES, max_size=4),
}


# No name begins another one: Python's protobuf (upb) writes the longer of two such names first,
# others, as we do, the shorter.
NAMES = st.builds(
    "{}|".format, st.text(st.characters(exclude_characters="|", codec="utf-8"), max_size=5)
)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draws batches of any feature types, with nulls.

    Some are a slice of a longer one.
    """
    rows = draw(st.integers(0, 6))
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    arrays = []
    for _ in names:
        arrow_type = draw(st.sampled_from(list(TYPES)))
        values = draw(st.lists(st.none() | TYPES[arrow_type], min_size=rows, max_size=rows))
        arrays.append(pa.array(values, arrow_type))
    batch = pa.RecordBatch.from_arrays(arrays, names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start)))


def by_tensorflow(batch: pa.RecordBatch) -> list[bytes]:
    """Serializes row by row with TensorFlow's protos."""
    examples = []
    for row in batch.to_pylist():
        example = tf.train.Example()
        example.features.SetInParent()  # also where all features are absent
        for name, value in row.items():
            if value is None:
                continue
            arrow_type = batch.schema.field(name).type
            values = value if isinstance(value, list) else [value]
            value_type = arrow_type.value_type if pa.types.is_list(arrow_type) else arrow_type
            fill(example.features.feature[name], value_type, values)
        examples.append(example.SerializeToString(deterministic=True))
    return examples


@given(batches())
@settings(max_examples=80, deadline=None)
def test_bytes_equal_tensorflow(batch: pa.RecordBatch) -> None:
    """Every row has exactly the bytes that TensorFlow writes with deterministic=True."""
    assert example_module.serialize_batch(batch).to_pylist() == by_tensorflow(batch)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-1, 200), (-1, 254), (-1, 255), (0, 16_383), (0, 65_534), (0, 65_535), (-2, 3)],
)
def test_small_integers_are_looked_up(low: int, high: int) -> None:
    """Small integers from the table have the right bytes.

    So do the integers just beyond the table.
    """
    random = np.random.default_rng(high)
    values = random.integers(low, high, 40_000, endpoint=True)
    values[:2] = low, high
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, mask=random.random(len(values)) < 0.1), pa.array(values)], ["i", "é"]
    )
    for rows in (batch.slice(0, 40_000), batch.slice(1, 300), batch.slice(7, 3)):
        picked = random.integers(0, len(rows), min(len(rows), 300))
        expected = by_tensorflow(rows.take(pa.array(picked)))
        assert example_module.serialize_batch(rows).take(pa.array(picked)).to_pylist() == expected


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
    ours = example_module.serialize_batch(pa.RecordBatch.from_pydict(scalars)).to_pylist()
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
        for data in example_module.serialize_batch(
            pa.RecordBatch.from_arrays([column], ["x"])
        ).to_pylist()
    ]
    assert "x" not in examples[0].features.feature
    assert examples[1].features.feature["x"].WhichOneof("kind") == "int64_list"
    assert list(examples[1].features.feature["x"].int64_list.value) == []
    assert list(examples[2].features.feature["x"].int64_list.value) == [0]


def test_long_and_short_values_of_one_batch() -> None:
    """Lengths beyond the lookup table's 64 KiB are found by sorting."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"x" * 100_000, b"", None, b"y" * 70_000])], ["image"]
    )
    assert example_module.serialize_batch(batch).to_pylist() == by_tensorflow(batch)


def test_halves_of_a_large_batch_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch above the limit is serialized in halves.

    The bytes are the same.
    """
    batch = pa.RecordBatch.from_pydict(
        {"x": list(range(100)), "s": [str(number) for number in range(100)]}
    )
    whole = example_module.serialize_batch(batch).to_pylist()
    monkeypatch.setattr(example_module, "_MAX_JOIN_BYTES", 100)
    assert example_module.serialize_batch(batch).to_pylist() == whole


def test_null_in_a_list_is_refused() -> None:
    """tf.Example cannot hold a null among a feature's values."""
    with pytest.raises(ValueError, match="null inside a list"):
        example_module.serialize_batch(pa.RecordBatch.from_arrays([pa.array([[1, None]])], ["x"]))


def test_other_types_are_refused() -> None:
    """Columns have to be encoded as features first."""
    with pytest.raises(TypeError, match="feature 'x': found double"):
        example_module.serialize_batch(pa.RecordBatch.from_arrays([pa.array([1.5])], ["x"]))


@given(st.lists(INT64, max_size=20))
@settings(max_examples=80, deadline=None)
def test_varints_match_the_scalar_definition(values: list[int]) -> None:
    """The vectorised varints equal those of single values, modulo 2**64."""
    data, lengths = example_module.varints(np.array(values, np.int64))
    one_by_one = [example_module.varint(value % 2**64) for value in values]
    assert data.tobytes() == b"".join(one_by_one)
    assert lengths.tolist() == [len(varint) for varint in one_by_one]
