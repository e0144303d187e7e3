"""The native serializer gives the bytes of TensorFlow and Python's serializer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.tfrecord import example, framing
from tests.support.protos import fill

pytestmark = pytest.mark.skipif(
    not _native.KERNELS_AVAILABLE, reason="the extension is not built: there is no compiler"
)

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
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
]
LISTS = ["list", "large_list", "fixed_size_list"]


def list_type(shape: str, kind: pa.DataType, size: int) -> pa.DataType:
    """Returns the type of lists of a kind."""
    if shape == "fixed_size_list":
        return pa.list_(kind, size)
    return pa.list_(kind) if shape == "list" else pa.large_list(kind)


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
@settings(max_examples=100, deadline=None)
def test_bytes_equal_tensorflow(
    drawn: tuple[pa.RecordBatch, list[str]], data: st.DataObject
) -> None:
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
    framed = framing.frame(pa.array(selected, pa.large_binary()))
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
    assert example.serialize_batch(batch).to_pylist() == [record]


def batch_of(array: pa.Array) -> pa.RecordBatch:
    """Returns a batch of one column, x."""
    return pa.RecordBatch.from_arrays([array], ["x"])


def texts_with_offsets(offsets: list[int]) -> pa.Array:
    """Returns an array of texts over four bytes.

    The offsets between the first and the last are arbitrary.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abcd")]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def lists_with_offsets(offsets: list[int]) -> pa.Array:
    """Returns an array of lists over four numbers.

    The offsets between the first and the last are arbitrary.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32))]
    return pa.Array.from_buffers(
        pa.list_(pa.int64()), len(offsets) - 1, buffers, children=[pa.array([1, 2, 3, 4])]
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            texts_with_offsets([0, 3, 1, 4]),
            "found offsets 3 and 1 in row 1, expected them in order, from 0 to 4",
        ),
        (texts_with_offsets([0, 900, 900, 4]), "found offsets 0 and 900 in row 0"),
        (texts_with_offsets([0, -9, 2, 4]), "found offsets 0 and -9 in row 0"),
        (lists_with_offsets([0, 3, 1, 4]), "found offsets 3 and 1 in row 1"),
        (lists_with_offsets([0, 900, 900, 4]), "found offsets 0 and 900 in row 0"),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False),
            "found index 7 in row 1, expected one into",
        ),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, -1]), pa.array(["a"]), safe=False),
            "found index -1 in row 1",
        ),
        (pa.array([[1, None]]), "found a null inside a list, which tf.Example cannot hold"),
        (pa.array([[1, 2]]), None),
    ],
    ids=[
        "decreasing",
        "beyond",
        "negative",
        "list decreasing",
        "list beyond",
        "index",
        "negative index",
        "null in list",
        "sound",
    ],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_buffers_that_contradict_themselves_are_refused(
    array: pa.Array, message: str | None, in_order: bool
) -> None:
    """Offsets and indices out of range are errors that name the row.

    This holds for rows in order and in any order.
    """
    rows = None if in_order else np.arange(len(array))
    if message is None:
        assert len(_native.serialize(batch_of(array), rows)) == len(array)
        return
    with pytest.raises(ValueError, match=message):
        _native.serialize(batch_of(array), rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([0, 3]), "rows: found 3 at place 1, expected a row from 0 to 2"),
        (np.array([-1], np.int32), "rows: found -1 at place 0"),
        (pa.array([0, None]), "rows: found a null at place 1"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows: Any, message: str) -> None:
    """A selection may name the batch's rows only."""
    with pytest.raises(ValueError, match=message):
        _native.serialize(batch_of(pa.array([1, 2, 3])), rows)


@pytest.mark.parametrize("lists", [(), ("x",)])
def test_a_record_of_over_two_gib_is_refused(lists: tuple[str, ...]) -> None:
    """A record of over two GiB is refused without taking memory.

    protobuf could not read it. The record is a list of one text of a MiB, 3,000 times.
    """
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(3000, np.int32)), pa.array(["x" * (1 << 20)])
    )
    with pytest.raises(ValueError, match="feature 'x': found a record of over 2 GiB"):
        _native.serialize(
            batch_of(pa.ListArray.from_arrays(pa.array([0, 3000], pa.int32()), texts)), lists=lists
        )


@pytest.mark.parametrize(
    ("array", "lists", "message"),
    [
        (
            pa.array([1.5]),
            (),
            "feature 'x': found double, expected int64, float, string, binary, or lists of them",
        ),
        (pa.array([[[1]]]), (), "feature 'x': found list"),
        (pa.array([[[[1]]]]), ("x",), "feature 'x': found list"),
        (pa.array([1]), ("x",), "feature list 'x': found int64, expected a list"),
    ],
)
def test_other_types_are_refused(array: pa.Array, lists: tuple[str, ...], message: str) -> None:
    """Columns have to be features, in the words of serialize.py."""
    with pytest.raises(TypeError, match=message):
        _native.serialize(batch_of(array), lists=lists)


def test_two_columns_of_one_name_are_refused() -> None:
    """A map has one value a key."""
    with pytest.raises(ValueError, match="found two columns 'x'"):
        _native.serialize(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]))


def test_results_stay_when_others_are_made() -> None:
    """A kept result does not change when other results reuse memory."""
    batch = pa.RecordBatch.from_pydict(
        {"i": list(range(50_000)), "s": [f"text {number}" for number in range(50_000)]}
    )
    kept = [_native.serialize(batch, np.arange(start, 50_000)) for start in (0, 7, 9)]
    expected = framing.frame(example.serialize_batch(batch))
    del kept[1]
    for start in (3, 5):
        assert _native.serialize(batch, np.arange(start, 50_000)).equals(expected.slice(start))
    assert kept[0].equals(expected)
    assert kept[1].equals(expected.slice(9))


def test_rows_whose_lengths_differ_widely() -> None:
    """Rows have the right bytes when their lengths differ widely.

    A length takes one to four bytes, and long names and texts leave the short path.
    """
    values = [b"x" * size for size in (0, 100, 130, 20_000, 1, 3_000_000, 5, 127, 128)]
    batch = pa.RecordBatch.from_arrays([pa.array(values), pa.array([1] * 9)], ["text", "n" * 300])
    assert (
        _native.serialize(batch, framed=False).to_pylist()
        == example.serialize_batch(batch).to_pylist()
    )
    rows = np.array([5, 0, 3, 5, 1])
    assert _native.serialize(batch, rows, framed=False).to_pylist() == [
        example.serialize_batch(batch)[int(row)].as_py() for row in rows
    ]


@pytest.mark.parametrize("there", [False, True], ids=["not built", "built elsewhere"])
def test_kernels_that_cannot_be_loaded_are_spoken_of(tmp_path: Path, there: bool) -> None:
    """Kernels built for another system give a message; missing ones do not.

    The installation has already reported missing ones.
    """
    package = tmp_path / "beam_pipelines"
    shutil.copytree(
        Path(_native.__file__).parent,
        package / "core" / "_native",
        ignore=shutil.ignore_patterns("_kernels*"),
    )
    (package / "__init__.py").touch()
    (package / "core" / "__init__.py").touch()
    if there:
        (package / "core" / "_native" / "_kernels.abi3.so").write_text("for another machine")
    code = "from beam_pipelines.core import _native; print(_native.KERNELS_AVAILABLE)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert ("cannot be loaded" in done.stderr, "install again" in done.stderr) == (there, there)
