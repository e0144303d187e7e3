"""The native serializer gives the bytes of TensorFlow and Python's serializer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from tests.support.protos import fill

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 300),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.string(): st.text(max_size=200),
    pa.binary(): st.binary(max_size=200),
    pa.large_string(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
}
# No name begins another one: Python's protobuf (upb) writes the longer of two such names first,
# others, as we do, the shorter.
NAMES = st.builds(
    "{}|".format,
    st.text(st.characters(exclude_characters="|", codec="utf-8"), max_size=5) | st.just("n" * 130),
)
INDICES = [
    pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(),
    pa.uint64(),
]  # fmt: skip
LISTS = ["list", "large_list", "fixed_size_list"]


@st.composite
def indices_into(draw: st.DrawFn, dictionary: pa.Array, length: int) -> pa.DictionaryArray:
    """Draws a dictionary array of so many values, with null indices."""
    places = st.none() | st.integers(0, len(dictionary) - 1) if len(dictionary) else st.none()
    index = pa.array(
        draw(st.lists(places, min_size=length, max_size=length)), draw(st.sampled_from(INDICES))
    )
    return pa.DictionaryArray.from_arrays(index, dictionary)


@st.composite
def leaves(draw: st.DrawFn, kind: pa.DataType, length: int, nulls: bool) -> pa.Array:
    """Draws values of a kind that is no list.

    They are plain or in a dictionary, and sometimes a slice.
    """
    values = st.none() | VALUES[kind] if nulls else VALUES[kind]
    before = draw(st.integers(0, 3))
    if draw(st.booleans()) or not (nulls or length):
        array = pa.array(
            draw(st.lists(values, min_size=before + length, max_size=before + length)), kind
        )
        return array.slice(before)
    dictionary = pa.array(draw(st.lists(values, min_size=1, max_size=3)), kind)
    if nulls:
        return draw(indices_into(dictionary, before + length)).slice(before)
    places = st.lists(
        st.integers(0, len(dictionary) - 1), min_size=before + length, max_size=before + length
    )
    return pa.DictionaryArray.from_arrays(pa.array(draw(places), pa.int16()), dictionary).slice(
        before
    )


@st.composite
def lists_of(draw: st.DrawFn, kind: pa.DataType, length: int, null_values: bool) -> pa.Array:
    """Draws lists of any kind, some null, some empty."""
    shape, size = draw(st.sampled_from(LISTS)), draw(st.integers(0, 3))
    lengths = (
        [size] * length
        if shape == "fixed_size_list"
        else draw(st.lists(st.integers(0, 4), min_size=length, max_size=length))
    )
    values = draw(leaves(kind, sum(lengths), null_values))
    mask = pa.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), pa.bool_())
    if shape == "fixed_size_list":
        validity = pa.array(
            [None if gone else 1 for gone in mask.to_pylist()], pa.int8()
        ).buffers()[0]
        return pa.Array.from_buffers(
            pa.list_(values.type, size), length, [validity], children=[values]
        )
    offsets = pa.array(
        np.concatenate([[0], np.cumsum(lengths)]), pa.int32() if shape == "list" else pa.int64()
    )
    of = pa.ListArray if shape == "list" else pa.LargeListArray
    return of.from_arrays(offsets, values, mask=mask)


@st.composite
def steps_of(draw: st.DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    """Draws lists of steps that are lists, some null, some empty."""
    lengths = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    steps = draw(lists_of(kind, sum(lengths), null_values=False))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = pa.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), pa.bool_())
    return pa.ListArray.from_arrays(offsets, steps, mask=mask)


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[str]]:
    """Draws batches of every type, often slices of longer ones.

    It also draws the columns that can be feature lists.
    """
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    arrays, lists = [], []
    for name in names:
        kind = draw(st.sampled_from(list(VALUES)))
        shapes = ["scalar", "list", "feature list", "steps of lists", "dictionary of lists"]
        shape = draw(st.sampled_from(shapes))
        if shape == "scalar":
            arrays.append(draw(leaves(kind, rows, nulls=True)))
        elif shape == "dictionary of lists":
            arrays.append(draw(indices_into(draw(lists_of(kind, 2, null_values=False)), rows)))
        elif shape == "steps of lists":
            arrays.append(draw(steps_of(kind, rows)))
        else:
            arrays.append(draw(lists_of(kind, rows, null_values=shape == "feature list")))
        if shape in ("feature list", "steps of lists"):
            lists.append(name)
    batch = pa.RecordBatch.from_arrays(arrays, names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start))), lists


def leaf_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of single values."""
    while pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind


def by_tensorflow(batch: pa.RecordBatch, lists: list[str]) -> list[bytes]:
    """Serializes row by row with TensorFlow's protos."""
    records = []
    for row in batch.to_pylist():
        record = tf.train.SequenceExample() if lists else tf.train.Example()
        context = record.context if lists else record.features
        context.SetInParent()
        if lists:
            record.feature_lists.SetInParent()
        for name, value in row.items():
            kind = leaf_type(batch.schema.field(name).type)
            if value is None:
                continue
            if name not in lists:
                fill(context.feature[name], kind, value if isinstance(value, list) else [value])
                continue
            feature_list = record.feature_lists.feature_list[name]
            for step in value:
                feature = feature_list.feature.add()
                if step is not None:
                    fill(feature, kind, step if isinstance(step, list) else [step])
        records.append(record.SerializeToString(deterministic=True))
    return records


@given(batches(), st.data())
@settings(max_examples=100)
def test_bytes_equal_tensorflow(drawn, data):
    """Each selected row has the bytes of TensorFlow with deterministic=True.

    This holds with framing and without it.
    """
    batch, lists = drawn
    expected = by_tensorflow(batch, lists)
    assert _native.serialize(batch, lists=lists, framed=False).to_pylist() == expected
    places = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=8)) if len(batch) else []
    rows = data.draw(
        st.sampled_from(
            [
                np.array(places, np.int64),
                np.array(places, np.int32),
                pa.array([0, *places]).slice(1),
            ]
        )
    )
    selected = [expected[place] for place in places]
    records = _native.serialize(batch, rows, lists, framed=False)
    records.validate(full=True)
    assert records.to_pylist() == selected
    framed = _native.frame(pa.array(selected, pa.large_binary()))
    assert _native.serialize(batch, rows, lists).to_pylist() == framed.to_pylist()


def test_features_are_in_order_of_their_names_bytes() -> None:
    """A feature's name precedes its extensions; names are ordered by UTF-8."""
    names = ["I10", "z", "I1", "", "é", "I", "\U00010000", "\uffff", "a\0b"]
    batch = pa.RecordBatch.from_arrays([pa.array([1])] * len(names), names)
    (record,) = _native.serialize(batch, framed=False).to_pylist()
    places = [
        record.index(b"\n" + bytes([len(name.encode())]) + name.encode() + b"\x12")
        for name in sorted(names, key=str.encode)
    ]
    assert places == sorted(places)
    assert set(tf.train.Example.FromString(record).features.feature) == set(names)


def batch_of(array: pa.Array) -> pa.RecordBatch:
    """Returns a batch of one column, x."""
    return pa.RecordBatch.from_arrays([array], ["x"])


@pytest.mark.parametrize(
    ("array", "lists", "message"),
    [
        (pa.array([1.5]), (), "feature 'x': found double, expected int64, float, string, binary, or lists of them"),
        (pa.array([[[1]]]), (), "feature 'x': found list"),
        (pa.array([[[[1]]]]), ("x",), "feature 'x': found list"),
        (pa.array([1]), ("x",), "feature list 'x': found int64, expected a list"),
    ],
)  # fmt: skip
def test_other_types_are_refused(array: pa.Array, lists: tuple[str, ...], message: str) -> None:
    """Columns have to be features, in words that name them."""
    with pytest.raises(TypeError, match=message):
        _native.serialize(batch_of(array), lists=lists)


def test_two_columns_of_one_name_are_refused() -> None:
    """A map has one value a key."""
    with pytest.raises(ValueError, match="found two columns 'x'"):
        _native.serialize(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))
