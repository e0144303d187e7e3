"""SequenceExamples decode to what TensorFlow's protos hold, with and without the kernels.

Every layout is read, and no damaged record is misread.
"""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings

from beam_pipelines.core import _native
from beam_pipelines.sources.tfrecord.decoder import decode_lists, record_batch
from beam_pipelines.tfrecord.protobuf_parser import Layout, WireError, find_layout
from tests.support.kernels import without_kernels
from tests.support.protos import VALUES, fill
from tests.support.wire import field, varint

Features = dict[str, Any]


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Layout, list[tuple[Features, Features]]]:
    """A layout, and the contents of its records: (context, feature lists).

    None in them is a Feature without a kind.
    """
    names = draw(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=4, unique=True
        )
    )
    types = {name: draw(st.sampled_from(list(VALUES))) for name in names}
    cut = draw(st.integers(0, len(names)))
    layout = Layout({n: types[n] for n in names[:cut]}, {n: types[n] for n in names[cut:]})
    values = {
        name: st.none() | st.lists(VALUES[type_], max_size=4) for name, type_ in types.items()
    }
    records = [
        (
            {name: draw(values[name]) for name in layout.context if draw(st.booleans())},
            {
                name: draw(st.lists(values[name], max_size=5))
                for name in layout.lists
                if draw(st.booleans())
            },
        )
        for _ in range(draw(st.integers(0, 5)))
    ]
    return layout, records


def message(layout: Layout, record: tuple[Features, Features]) -> tf.train.SequenceExample:
    """Returns a record as TensorFlow's message."""
    example = tf.train.SequenceExample()
    for name, values in record[0].items():
        fill(example.context.feature[name], layout.context[name], values)
    for name, steps in record[1].items():
        example.feature_lists.feature_list[name].SetInParent()
        for values in steps:
            fill(example.feature_lists.feature_list[name].feature.add(), layout.lists[name], values)
    return example


def decoded(records: list[bytes], layout: Layout) -> list[tuple[Features, Features]]:
    """Decodes records into Python values: None for a missing feature or list."""
    context, lists = decode_lists(records, layout)
    columns = [
        [
            dict(zip(of, row, strict=True))
            for row in zip(*(c.to_pylist() for c in made), strict=True)
        ]
        or [{}] * len(records)
        for of, made in ((layout.context, context), (layout.lists, lists))
    ]
    return list(zip(*columns, strict=True))


def wanted(layout: Layout, records: list[tuple[Features, Features]]) -> str:
    """Returns the expected result of ``decoded``, as text.

    NaN is equal to itself, and 0.0 differs from -0.0.
    """
    return repr(
        [
            ({n: c.get(n) for n in layout.context}, {n: f.get(n) for n in layout.lists})
            for c, f in records
        ]
    )


@given(sequences(), st.booleans())
@settings(max_examples=120)
def test_values_are_those_of_tensorflow(drawn, is_sorted):
    """Every value, missing feature, empty list and step without values comes back.

    The kernel declines none of these records.
    """
    layout, records = drawn
    raw = [message(layout, record).SerializeToString(deterministic=is_sorted) for record in records]
    assert repr(decoded(raw, layout)) == wanted(layout, records)
    with without_kernels():
        assert repr(decoded(raw, layout)) == wanted(layout, records)
    if _native.KERNELS_AVAILABLE:
        array = pa.array(raw, pa.binary())
        batch = _native.parse_examples(array, layout.context, False, layout.lists)
        assert batch is not None
        batch.validate(full=True)


@pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")
@given(sequences(), st.integers(0, 2), st.none() | st.integers(0, 2), st.integers(1, 40))
@settings(max_examples=120)
def test_sizes_of_steps(drawn, size, kept, times):
    """Steps with a size are taken if all have it."""
    layout, records = drawn
    if kept is not None:
        records = [
            (
                context,
                {
                    name: [one for one in steps if len(one or []) == kept]
                    for name, steps in lists.items()
                },
            )
            for context, lists in records
        ]
    steps = [step for _, lists in records for of_list in lists.values() for step in of_list]
    raw = [message(layout, record).SerializeToString() for record in records] * times
    parse = partial(_native.parse_examples, pa.array(raw, pa.binary()), {}, False, layout.lists)
    found, lists = parse(sizes=dict.fromkeys(layout.lists, size)), parse()
    assert (found is not None) == all(step is not None and len(step) == size for step in steps)
    if found is not None:
        found.validate(full=True)
        assert repr([one.to_pylist() for one in found]) == repr([one.to_pylist() for one in lists])


def unusual(layout: Layout, record: tuple[Features, Features], rng: random.Random) -> bytes:
    """Serializes a record in rare layouts that protobuf allows.

    They have unknown fields, separate values and reversed maps.
    """

    def numbers(type_: pa.DataType, values: list[Any]) -> bytes:
        if type_ == pa.large_binary():
            return b"".join(field(1, value) for value in values)
        pack = (lambda v: struct.pack("<f", v)) if type_ == pa.float32() else varint
        cut = rng.randrange(len(values) + 1)
        tag = b"\x0d" if type_ == pa.float32() else b"\x08"
        return field(1, b"".join(map(pack, values[:cut]))) + b"".join(
            tag + pack(value) for value in values[cut:]
        )

    def feature(type_: pa.DataType, values: list[Any] | None) -> bytes:
        kind = 3 if type_ == pa.int64() else 2 if type_ == pa.float32() else 1
        return field(99, b"?") + (b"" if values is None else field(kind, numbers(type_, values)))

    def entry(name: str, value: bytes) -> bytes:
        parts = [field(1, name.encode()), field(2, value)]
        return field(1, b"".join(rng.sample(parts, 2)))

    contexts = [
        field(1, entry(name, feature(layout.context[name], values)))
        for name, values in record[0].items()
    ]
    lists = [
        field(
            2,
            entry(
                name, b"".join(field(1, feature(layout.lists[name], values)) for values in steps)
            ),
        )
        for name, steps in record[1].items()
    ]
    parts = [*contexts, *lists, b"\x28\x05"]
    return b"".join(rng.sample(parts, len(parts)))


@given(sequences(), st.randoms(use_true_random=False))
def test_unusual_layouts_are_read(drawn, rng):
    """Records in unusual layouts are read as by protobuf, among others."""
    layout, records = drawn
    raw = [
        unusual(layout, record, rng)
        if rng.random() < 0.7
        else message(layout, record).SerializeToString()
        for record in records
    ]
    assert repr(decoded(raw, layout)) == wanted(layout, records)


@given(sequences(), st.randoms(use_true_random=False))
@settings(max_examples=120)
def test_damaged_records_are_never_misread(drawn, rng):
    """A damaged record is refused, or decodes like protobuf.

    The error has its number. The damage is a byte that is changed, left out or added.
    """
    layout, records = drawn
    raw = [message(layout, record).SerializeToString() for record in records]
    if not any(raw):
        return
    place = rng.choice([place for place, record in enumerate(raw) if record])
    data = bytearray(raw[place])
    at = rng.randrange(len(data))
    data[at : at + rng.randrange(2)] = bytes([rng.randrange(256)] * rng.randrange(2))
    raw[place] = bytes(data)
    found, refused = None, place
    try:
        found = decoded(raw, layout)[place]
    except WireError as error:
        refused = error.record
    assert refused == place
    if found is None:
        return
    example = tf.train.SequenceExample.FromString(raw[place])
    for name in layout.context:
        assert repr(found[0][name]) == repr(
            values_of(example.context.feature[name]) if name in example.context.feature else None
        )
    for name in layout.lists:
        lists = example.feature_lists.feature_list
        assert repr(found[1][name]) == repr(
            [values_of(step) for step in lists[name].feature] if name in lists else None
        )


def values_of(feature: tf.train.Feature) -> list[Any] | None:
    kind = feature.WhichOneof("kind")
    return None if kind is None else list(getattr(feature, kind).value)


def test_layout_is_found() -> None:
    """The decoder finds names and kinds of context and feature lists.

    They are sorted. A feature without any kind is of bytes.
    """
    layout = Layout(
        {"b": pa.int64(), "a": pa.float32()},
        {"b": pa.large_binary(), "a": pa.int64(), "z": pa.int64()},
    )
    raw = [
        message(layout, ({"b": None}, {"z": [None]})).SerializeToString(),
        message(
            layout, ({"b": [], "a": [1.0]}, {"b": [None, [b"x"]], "a": [[], [1]]})
        ).SerializeToString(),
    ]
    found = find_layout(raw)
    assert list(found.context.items()) == [("a", pa.float32()), ("b", pa.int64())]
    assert list(found.lists.items()) == [
        ("a", pa.int64()),
        ("b", pa.large_binary()),
        ("z", pa.large_binary()),
    ]
    names = ["a", "b", "##SEQUENCE##.a", "##SEQUENCE##.b", "z"]
    assert record_batch(raw, found).schema.names == names


def test_another_kind_is_refused(with_and_without_kernels: None) -> None:
    """Values of another kind than expected name the record and the feature."""
    layout = Layout({}, {"x": pa.int64()})
    raw = [message(layout, ({}, {"x": [[1], None]})).SerializeToString()] * 3
    with pytest.raises(
        WireError, match="in row 0, feature 'x', found int64 values, expected float"
    ):
        decode_lists(raw, Layout({}, {"x": pa.float32()}))
    with pytest.raises(WireError, match=r"in row 3, found bytes that are no tf\.Example"):
        decode_lists([*raw, b"\x0a\x05no"], layout)


def test_long_lists(with_and_without_kernels: None) -> None:
    """Long lists of steps are read.

    There is one among short ones, and there are records of a few large fields.
    """
    rng = np.random.default_rng(4)
    layout = Layout({"image": pa.large_binary()}, {"x": pa.int64(), "large": pa.large_binary()})
    lengths = [3, 100_000, 0, 5]
    records: list[tuple[Features, Features]] = [
        (
            {"image": [bytes(rng.integers(0, 256, 50_000, np.uint8))]},
            {
                "x": [[int(v)] for v in rng.integers(-(2**63), 2**63 - 1, length)],
                "large": [[bytes(10_000)]] * 5,
            },
        )
        for length in lengths
    ]
    assert (
        decoded([message(layout, record).SerializeToString() for record in records], layout)
        == records
    )


@pytest.mark.skipif(
    not _native.KERNELS_AVAILABLE, reason="the extension is not built: there is no compiler"
)
def test_features_that_are_not_read() -> None:
    """Other features and feature lists are skipped.

    Damaged ones are refused.
    """
    layout = Layout({"c": pa.int64()}, {"l": pa.float32(), "x": pa.large_binary()})
    record: tuple[Features, Features] = ({"c": [7]}, {"l": [[0.5], None], "x": [[b"a"], []]})
    raw = message(layout, record).SerializeToString()
    read = Layout({}, {"l": pa.float32()})
    damaged = raw + field(2, field(1, field(1, b"y") + field(2, field(1, b"\xff"))))
    for array, framed in ((pa.array([raw]), False), (_native.frame(pa.array([raw])), True)):
        batch = _native.parse_examples(array, {}, framed, read.lists)
        assert batch is not None
        assert batch.to_pydict() == {"l": [[[0.5], None]]}
    assert _native.parse_examples(pa.array([raw]), read.lists) is None  # not a tf.Example
    with pytest.raises(WireError, match="in row 1, found bytes"):
        decode_lists([raw, damaged], read)
