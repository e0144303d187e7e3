"""The kernel that parses tf.Examples has the values of tfx-bsl and protobuf.

It takes common records and declines damaged or odd ones.
"""

from __future__ import annotations

import concurrent.futures
import gc
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beam_pipelines.core import _native
from beam_pipelines.core._native import shared
from tests.fuzz.targets.example import any_record, delimited, varint
from tests.support.protos import VALUES, fill

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

TYPES = {"i": pa.int64(), "f": pa.float32(), "b": pa.large_binary()}
TEXTS = [b"", b"a", b"b" * 9, b"c" * 40, b"d" * 200]
FEATURE_TYPE = {
    pa.large_binary(): schema_pb2.BYTES,
    pa.float32(): schema_pb2.FLOAT,
    pa.int64(): schema_pb2.INT,
}


def feature(kind: int, *parts: bytes) -> bytes:
    """Returns a Feature with one list of a kind.

    Kinds are 1 for bytes, 2 for floats, 3 for integers.
    """
    return delimited(kind, b"".join(parts))


def entry(key: bytes, value: bytes) -> bytes:
    """Returns an entry of the map of features."""
    return delimited(1, delimited(1, key) + delimited(2, value))


def example(*entries: bytes) -> bytes:
    """Returns a tf.Example of entries."""
    return delimited(1, b"".join(entries))


def schema_of(types: dict[str, pa.DataType]) -> schema_pb2.Schema:
    """Returns a schema of features."""
    schema = schema_pb2.Schema()
    for name, type_ in types.items():
        schema.feature.add(name=name, type=FEATURE_TYPE[type_])
    return schema


def by_tfx_bsl(records: Sequence[bytes], types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Decodes with tfx-bsl; raises RuntimeError for what it refuses."""
    return ExamplesToRecordBatchDecoder(schema_of(types).SerializeToString()).DecodeBatch(
        list(records)
    )


def natively(records: Sequence[bytes], types: dict[str, pa.DataType]) -> pa.RecordBatch | None:
    """Parses with the kernel; the last record ends where its memory does."""
    return _native.parse_examples(pa.array(records, pa.binary()), types)


def check_same(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """Checks that two batches have the same types and values.

    Floats are compared bit by bit.
    """
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.num_rows == expected.num_rows
    for column, other in zip(found.columns, expected.columns, strict=True):
        assert column.null_count == other.null_count
        assert column.is_valid().equals(other.is_valid())
        assert column.value_lengths().equals(other.value_lengths())
        values, wanted = column.flatten(), other.flatten()
        if values.type == pa.float32():
            values, wanted = values.view(pa.int32()), wanted.view(pa.int32())
        assert values.equals(wanted)


def check(records: Sequence[bytes], types: dict[str, pa.DataType]) -> bool:
    """Checks that the kernel declines, or gives the result of tfx-bsl.

    Returns:
      Whether it has not declined.
    """
    found = natively(records, types)
    if found is not None:
        check_same(found, by_tfx_bsl(records, types))
    return found is not None


ONE_TWO = feature(3, delimited(1, b"\1\2"))
HALF = struct.pack("<f", 0.5)
SIGNALLING = struct.pack("<I", 0x7FA00001)

TAKEN = {
    "no-bytes": b"",
    "no-features": delimited(1, b""),
    "packed-integers": example(entry(b"i", ONE_TWO)),
    "packed-floats": example(entry(b"f", feature(2, delimited(1, HALF * 3)))),
    "bytes": example(entry(b"b", feature(1, delimited(1, b""), delimited(1, b"x" * 300)))),
    "no-kind": example(entry(b"i", b""), entry(b"f", b""), entry(b"b", b"")),
    "no-values": example(entry(b"b", feature(1)), entry(b"f", feature(2)), entry(b"i", feature(3))),
    "packed-without-numbers": example(entry(b"f", feature(2, delimited(1, b""))), entry(b"i", feature(3, b"\x0a\0"))),
    "integers-one-by-one": example(entry(b"i", feature(3, b"\x08\1\x08\xac\2"))),
    "floats-one-by-one": example(entry(b"f", feature(2, b"\x0d", HALF, b"\x0d", HALF))),
    "packed-and-one-by-one": example(
        entry(b"i", feature(3, b"\x08\1", delimited(1, b"\2\3"), b"\x08\4", delimited(1, b"\5"))),
        entry(b"f", feature(2, delimited(1, HALF), b"\x0d", HALF, delimited(1, HALF))),
    ),
    "padded-lengths": b"\x0a\x8c\x80\0\x0a\x89\0\x0a\x81\0i\x12\x82\0\x1a\0",
    "signalling-nan": example(entry(b"f", feature(2, delimited(1, SIGNALLING)))),
    "another-feature-of-each-kind": example(
        entry(b"x", ONE_TWO),
        entry(b"y", feature(2, delimited(1, HALF), b"\x0d", HALF)),
        entry(b"z", feature(1, b"\x0a\1a")),
        entry("é€😀".encode(), b""),
        entry(b"", feature(1)),
    ),
    "another-feature-twice": example(entry(b"x", ONE_TWO), entry(b"i", ONE_TWO), entry(b"x", feature(1))),
    "order-of-keys": example(entry(b"i", ONE_TWO), entry(b"b", feature(1)), entry(b"f", feature(2))),
    "beginnings-of-keys": example(entry(b"ii", feature(2)), entry(b"", feature(1)), entry(b"i", ONE_TWO)),
}  # fmt: skip
NUMBERS = {
    "minus-one": b"\xff" * 9 + b"\1",
    "least": b"\x80" * 9 + b"\1",
    "largest": b"\xff" * 8 + b"\x7f",
    "eight-bytes": b"\x81" * 7 + b"\1",
    "zero-of-ten-bytes": b"\x80" * 9 + b"\0",
}
DECLINED = {
    "another-kind": example(entry(b"i", feature(2, delimited(1, HALF)))),
    "another-kind-without-values": example(entry(b"i", feature(1))),
    "twice": example(entry(b"i", ONE_TWO), entry(b"i", feature(3, b"\x08\7"))),
    "twice-then-without-kind": example(entry(b"i", ONE_TWO), entry(b"i", b"")),
    "without-kind-then-twice": example(entry(b"i", b""), entry(b"i", ONE_TWO)),
    "two-messages-of-features": example(entry(b"i", ONE_TWO)) + example(entry(b"f", feature(2))),
    "two-lists": example(entry(b"i", ONE_TWO + feature(3, b"\x08\7"))),
    "two-kinds": example(entry(b"i", feature(2) + ONE_TWO)),
    "value-before-key": delimited(1, delimited(1, delimited(2, ONE_TWO) + delimited(1, b"i"))),
    "no-value": delimited(1, delimited(1, delimited(1, b"i"))),
    "no-key": delimited(1, delimited(1, delimited(2, ONE_TWO))),
    "two-values": delimited(1, delimited(1, delimited(1, b"i") + delimited(2, ONE_TWO) * 2)),
    "two-keys": delimited(1, delimited(1, delimited(1, b"x") + delimited(1, b"i") + delimited(2, ONE_TWO))),
    "another-field-than-the-value": delimited(1, delimited(1, delimited(1, b"i") + delimited(3, ONE_TWO))),
    "another-field-than-the-value-of-another": delimited(1, delimited(1, delimited(1, b"x") + delimited(3, ONE_TWO))),
    "empty-entry": delimited(1, delimited(1, b"")),
    "unknown-field": example(entry(b"i", ONE_TWO)) + b"\x10\5",
    "unknown-field-of-features": delimited(1, entry(b"i", ONE_TWO) + b"\x10\5"),
    "unknown-field-of-entry": delimited(1, delimited(1, delimited(1, b"i") + delimited(2, ONE_TWO) + b"\x18\5")),
    "unknown-field-of-feature": example(entry(b"i", ONE_TWO + b"\x20\5")),
    "unknown-kind": example(entry(b"i", feature(4))),
    "unknown-kind-of-another": example(entry(b"x", feature(4))),
    "sequence-example": example(entry(b"i", ONE_TWO)) + delimited(2, b""),
    "open-group": example(entry(b"i", ONE_TWO)) + b"\x13",
    "tag-zero": example(entry(b"i", ONE_TWO)) + b"\0",
    "padded-tag": b"\x8a\0" + example(entry(b"i", ONE_TWO))[1:],
    "length-of-five-bytes": b"\x0a\x80\x80\x80\x80\0",
    "length-beyond": b"\x0a\xff\xff\xff\x7f" + entry(b"i", ONE_TWO),
    "length-that-wraps": b"\x0a" + b"\xff" * 9 + b"\1",
    "cut": example(entry(b"i", ONE_TWO))[:-1],
    "key-not-utf8": example(entry(b"\xff", ONE_TWO)),
    "key-a-surrogate": example(entry(b"\xed\xa0\x80", ONE_TWO)),
    "key-padded-utf8": example(entry(b"\xc0\x80", ONE_TWO)),
    "number-cut": example(entry(b"i", feature(3, delimited(1, b"\x81")))),
    "number-over-the-end-of-the-packed": example(entry(b"i", feature(3, b"\x0a\1\x80\x08\1"))),
    "number-of-65-bits": example(entry(b"i", feature(3, delimited(1, b"\xff" * 9 + b"\2")))),
    "number-of-eleven-bytes": example(entry(b"i", feature(3, delimited(1, b"\xff" * 10 + b"\1")))),
    "integers-as-fixed32": example(entry(b"i", feature(3, b"\x0dabcd"))),
    "bytes-as-varint": example(entry(b"b", feature(1, b"\x08\1"))),
    "float-of-three-bytes": example(entry(b"f", feature(2, delimited(1, b"abc")))),
    "float-cut": example(entry(b"f", feature(2, b"\x0dabc"))),
    "floats-as-fixed64": example(entry(b"f", feature(2, b"\x09abcdefgh"))),
    "another-feature-damaged": example(entry(b"x", b"\xff")),
    "number-of-another-cut": example(entry(b"x", feature(3, delimited(1, b"\xff")))),
    "float-of-another-of-three-bytes": example(entry(b"x", feature(2, delimited(1, b"abc")))),
    "bytes-of-another-cut": example(entry(b"x", feature(1, b"\x0a\5abc"))),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_takes_what_writers_write(name: str) -> None:
    """The kernel takes every usual layout with the values of tfx-bsl.

    The records have every layout of numbers, absent kinds and values, other features, and any order
    of keys.
    """
    assert check([TAKEN[name]], TYPES)
    assert check([TAKEN["packed-integers"], TAKEN[name], TAKEN["bytes"], TAKEN[name]], TYPES)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("behind", [0, 20], ids=["at-the-end", "within"])
def test_takes_numbers_of_any_length(name: str, behind: int) -> None:
    """Varints of up to ten bytes have the values of tfx-bsl.

    This holds packed or not, with and without readable bytes after them.
    """
    number = NUMBERS[name]
    rest = b"" if not behind else entry(b"x", feature(1, delimited(1, b"\xff" * behind)))
    for value in (
        delimited(1, number),
        b"\x08" + number,
        delimited(1, b"\5" + number * 3 + b"\6" * 17 + number),
    ):
        assert check([example(entry(b"i", feature(3, value)), rest)], TYPES)


@pytest.mark.parametrize("name", DECLINED)
def test_declines_what_is_odd_or_damaged(name: str) -> None:
    """The kernel declines damaged records, other kinds and unusual layouts.

    No writer makes these layouts. tfx-bsl reads such a batch, also if it has sound records.
    """
    assert natively([DECLINED[name]], TYPES) is None
    assert natively([TAKEN["bytes"], DECLINED[name], TAKEN["bytes"]], TYPES) is None


@st.composite
def messages(draw: st.DrawFn) -> tuple[dict[str, pa.DataType], list[dict[str, list[Any] | None]]]:
    """Types of features, and the values of records.

    A value is None without a kind; some features are missing.
    """
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    names = draw(st.lists(st.text(characters, max_size=12), max_size=6, unique=True))
    types = {name: draw(st.sampled_from(list(VALUES))) for name in names}
    values = {
        name: st.none() | st.lists(VALUES[type_], max_size=20) for name, type_ in types.items()
    }
    rows = st.fixed_dictionaries({}, optional=values)
    return types, draw(st.lists(rows, max_size=6))


def serialized(
    types: dict[str, pa.DataType], row: dict[str, list[Any] | None], is_sorted: bool
) -> bytes:
    """Returns a record as TensorFlow's message writes it."""
    message = tf.train.Example()
    for name, values in row.items():
        fill(message.features.feature[name], types[name], values)
    return message.SerializeToString(deterministic=is_sorted)


@given(messages(), st.data())
@settings(max_examples=120)
def test_examples_of_tensorflow_are_taken(drawn, data):
    """The kernel takes every tf.train.Example with its values.

    This holds for keys in any order and for any choice of features.
    """
    types, rows = drawn
    records = [serialized(types, row, data.draw(st.booleans())) for row in rows]
    wanted = {
        name: types[name]
        for name in data.draw(st.permutations(list(types)))
        if data.draw(st.booleans())
    }
    found = natively(records, wanted)
    assert found is not None
    check_same(found, by_tfx_bsl(records, wanted))
    for name, type_ in wanted.items():
        expected = [row.get(name) for row in rows]
        assert str(found.column(name).to_pylist()) == str(
            pa.array(expected, pa.large_list(type_)).to_pylist()
        )  # as text, NaN is NaN


@given(
    st.lists(st.lists(st.sampled_from(TEXTS), max_size=3), max_size=60),
    st.lists(st.sampled_from(TEXTS), unique=True).map(lambda texts: pa.array(texts, pa.binary())),
    st.sampled_from([0, 1, 7, 1 << 62]),
)
def test_texts_become_ids(rows, known, num_oov):
    """Ids are those that ``look_up`` finds for the parsed texts."""
    records = [serialized(TYPES, {"b": row, "i": [1]}, is_sorted=True) for row in rows]
    ids = known, _native.index_texts(known), num_oov
    found = _native.parse_examples(pa.array(records, pa.binary()), TYPES, ids={"b": ids})
    expected = [_native.look_up(pa.array(row, pa.binary()), *ids).to_pylist() for row in rows]
    assert found.column("b").to_pylist() == expected
    check_same(found.select(["i", "f"]), natively(records, TYPES).select(["i", "f"]))


def check_sizes(
    records: Sequence[bytes], types: dict[str, pa.DataType], sizes: dict[str, int]
) -> None:
    """Checks features with sizes: the values of lists, or declined."""
    array = pa.array(records, pa.binary())
    lists = _native.parse_examples(array, types)
    found = _native.parse_examples(array, types, sizes=sizes)
    fits = lists is not None and all(
        lists.column(name).value_lengths().to_pylist() == [size] * len(records)
        for name, size in sizes.items()
    )
    assert (found is not None) == fits
    if found is None or lists is None:
        return
    found.validate(full=True)
    for name, type_ in types.items():
        column, other = found.column(name), lists.column(name)
        if name in sizes:
            assert column.type == pa.list_(type_, sizes[name])
        assert str(column.to_pylist()) == str(other.to_pylist())  # as text, NaN is NaN


@given(messages(), st.data())
def test_sizes(drawn, data):
    """Features with a size are taken if all records have it."""
    types, rows = drawn
    sizes = {name: data.draw(st.integers(0, 2)) for name in types if data.draw(st.booleans())}
    whole = [
        row
        | {
            name: data.draw(st.lists(VALUES[types[name]], min_size=size, max_size=size))
            for name, size in sizes.items()
        }
        for row in rows
    ]
    for some in (rows, whole, [*whole, *rows]):
        is_sorted = data.draw(st.booleans())
        check_sizes([serialized(types, row, is_sorted) for row in some], types, sizes)


@pytest.mark.parametrize("name", [*TAKEN, *DECLINED])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_sizes_of_odd_records(name: str, size: int) -> None:
    """Odd layouts are declined with sizes, too, or have equal values."""
    record = (TAKEN | DECLINED)[name]
    for key in TYPES:
        for records in ([record], [record, TAKEN["bytes"], record]):
            check_sizes(records, TYPES, {key: size})


@pytest.mark.parametrize("bits", [0, 7, 8, 14, 31, 55, 56, 57, 63, 64])
@pytest.mark.parametrize("length", [1, 120, 121, 122, 123, 200])
def test_single_numbers_of_any_length(bits: int, length: int) -> None:
    """Single numbers are taken after names of any length."""
    number = (1 << bits) - 1 if bits < 64 else -1
    name = "n" * length
    rows = [{name: [number], "f": [0.5]}, {name: [number]}, {name: [1, 2]}, {name: [], "f": []}]
    types = {name: pa.int64(), "f": pa.float32()}
    records = [serialized(types, row, True) for row in rows]
    assert check(records, types)
    check_sizes(records[:2], types, {name: 1})
    check_sizes(records[:1], types, {name: 1, "f": 1})
    check_sizes(records, types, {name: 1})
    padded = example(entry(name.encode(), feature(3, delimited(1, b"\x81\0"))))
    check_sizes([padded, records[0]], types, {name: 1})
    check_sizes([records[0], padded], types, {name: 1})


@pytest.mark.parametrize("size", [0, 1, 16, 17, 100, 111, 112, 127, 128, 300])
@pytest.mark.parametrize("length", [1, 5, 6, 7, 14, 15, 117, 118, 200])
def test_single_texts_of_any_length(size: int, length: int) -> None:
    """Single texts of any size are taken after names of any length."""
    name = "n" * length
    rows = [
        {name: [b"t" * size], "f": [0.5]},
        {name: [b"u" * size]},
        {name: [b"", b"x"]},
        {name: []},
    ]
    types = {name: pa.large_binary(), "f": pa.float32()}
    records = [serialized(types, row, True) for row in rows]
    assert check(records, types)
    assert check(records[:1] * 40, types)
    check_sizes(records[:2], types, {name: 1})
    check_sizes(records, types, {name: 1})
    twice = example(*[entry(name.encode(), feature(1, delimited(1, b"t" * size)))] * 2)
    assert natively([records[1], twice], types) is None


def test_features_that_are_not_wanted_are_checked() -> None:
    """Unwanted features may change their kinds, but must be sound."""
    kinds = [
        feature(3, delimited(1, b"\5")),
        feature(3, delimited(1, b"\x80\1")),
        feature(3, delimited(1, b"\1\2")),
        feature(3, delimited(1, varint(2**64 - 1))),
        feature(2, delimited(1, HALF)),
        feature(2, delimited(1, HALF + HALF)),
        feature(1, delimited(1, b"a text")),
        b"",
    ]
    damaged = [
        feature(3, delimited(1, b"\x81")),
        feature(2, delimited(1, HALF[:3])),
        feature(1, b"\x0b\1"),
    ]
    one = entry(b"one", feature(3, delimited(1, b"\7")))
    types = {"one": pa.int64()}
    for first in kinds:
        for other in kinds:
            records = [
                example(entry(b"a", value), one, entry(b"z", value))
                for value in (first, other, first)
            ]
            found = natively(records, types)
            assert found is not None
            assert found.column("one").to_pylist() == [[7]] * 3
        for other in damaged:
            records = [example(entry(b"a", value), one) for value in (first, other)]
            assert natively(records, types) is None


def values_of(message: tf.train.Example, name: str) -> list[Any] | None:
    """Returns a feature's values as protobuf has parsed them."""
    if name not in message.features.feature:
        return None
    kind = message.features.feature[name].WhichOneof("kind")
    return None if kind is None else list(getattr(message.features.feature[name], kind).value)


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=150)
def test_damaged_records_have_the_values_of_protobuf_or_are_declined(seed: int, count: int) -> None:
    """Damaged records have the values of tfx-bsl and protobuf, or are declined.

    They have odd layouts, and bytes that are changed, left out, doubled or cut off.
    """
    chance = random.Random(seed)
    records = [any_record(chance, is_sequence=False) for _ in range(count)]
    for _ in range(chance.randrange(4)):
        number = chance.randrange(count)
        record, place = records[number], chance.randrange(len(records[number]) + 1)
        records[number] = chance.choice((
            record[:place] + bytes([chance.randrange(256)]) + record[place + 1 :],
            record[:place] + bytes([chance.choice((0, 1, 2, 0x0A, 0x12, 0x1A, 0x7F, 0x80, 0xFF))]) + record[place + 1 :],
            record[:place] + record[place + 1 :],
            record[:place] + record[place : place + 3] + record[place:],
            record[:place],
        ))  # fmt: skip
    types = {"i": pa.int64(), "f": pa.float32(), "b": pa.large_binary(), "one": pa.int64()}
    if not check(records, types):
        return
    found = natively(records, types)
    assert found is not None
    for record, row in zip(records, found.to_pylist(), strict=True):
        message = tf.train.Example.FromString(record)
        assert str(row) == str({name: values_of(message, name) for name in types})


def test_takes_most_of_what_the_fuzzer_makes() -> None:
    """The kernel takes many of the fuzzer's records, and declines others.

    One in three is odd. The comparison above thus covers both.
    """
    chance = random.Random(3)
    taken = sum(check([any_record(chance, is_sequence=False)], TYPES) for _ in range(300))
    assert 100 < taken < 280


@given(st.integers(0, 2**32))
def test_any_order_of_many_keys(seed: int) -> None:
    """The kernel takes records with many features in any order.

    Long names begin alike, some are missing, and the order changes or stays.
    """
    chance = random.Random(seed)
    names = [
        f"{'a long name ' * chance.randrange(20)}{number}"
        for number in range(chance.randrange(1, 60))
    ]
    wanted = {name: pa.int64() for name in names if chance.randrange(3)} or {names[0]: pa.int64()}
    records = []
    for row in range(12):
        if not chance.randrange(4):
            chance.shuffle(names)
        present = [name for name in names if chance.randrange(4)]
        records.append(
            example(
                *(
                    entry(n.encode(), feature(3, b"\x08" + varint(len(n) * 99 + row)))
                    for n in present
                )
            )
        )
    assert check(records, wanted)


def test_more_keys_than_are_kept() -> None:
    """The kernel remembers a limited number of unwanted keys, and checks all.

    It remembers none of hundreds of bytes.
    """
    records = [
        example(
            *(entry(f"{row} {number}".encode(), ONE_TWO) for number in range(900)),
            entry(b"i", ONE_TWO),
        )
        for row in range(8)
    ]
    records += [
        example(entry(b"k" * 1000, ONE_TWO), entry(b"i", ONE_TWO), entry(b"k" * 1000, ONE_TWO))
    ] * 2
    assert check(records, TYPES)
    assert natively([*records, example(entry(b"k" * 1000 + b"\xff", ONE_TWO))], TYPES) is None


def test_columns_that_grow() -> None:
    """Lists that get longer and longer keep all their values.

    They follow rows of nulls and need more memory than expected.
    """
    chance = np.random.default_rng(1)
    records = [b""] * 30
    for size in (1, 0, 3, 200, 0, 5_000, 70_000):
        numbers = b"".join(
            varint(int(n))
            for n in chance.integers(0, 2**63 - 1, size) >> chance.integers(0, 63, size)
        )
        texts = b"".join(delimited(1, b"t" * int(n)) for n in chance.integers(0, 40, size))
        records += [
            example(
                entry(b"b", feature(1, texts)),
                entry(b"f", feature(2, delimited(1, chance.bytes(4 * size)))),
                entry(b"i", feature(3, delimited(1, numbers))),
            )
        ]
    assert check(records, TYPES)


def test_frames_and_slices() -> None:
    """Framed records, and slices of both widths, are read in place."""
    records = [example(entry(b"i", feature(3, delimited(1, bytes([n]) * n)))) for n in range(20)]
    framed = _native.frame(pa.array(records, pa.binary()))
    arrays = [
        (framed, True),
        (pa.array(records, pa.binary()), False),
        (pa.array(records, pa.large_binary()), False),
    ]
    for start, stop in ((0, 20), (3, 9), (19, 20), (20, 20)):
        for array, is_framed in arrays:
            found = _native.parse_examples(
                array.slice(start, stop - start), TYPES, framed=is_framed
            )
            assert found is not None
            check_same(found, by_tfx_bsl(records[start:stop], TYPES))


def test_columns_outlive_their_batch() -> None:
    """A column keeps its memory when its batch is gone.

    Other batches may have come and gone meanwhile.
    """
    records = [
        example(
            entry(b"i", feature(3, delimited(1, b"\7" * 5000))), entry(b"b", feature(1, b"\x0a\1a"))
        )
        for _ in range(300)
    ]
    array = pa.array(records)
    batch = _native.parse_examples(array, TYPES)
    assert batch is not None
    column, values = batch.column("b"), batch.column("i").flatten()
    del batch
    gc.collect()
    for _ in range(5):
        _native.parse_examples(array, {"i": pa.int64()})
        shared.kernels.parse_examples(
            [array.__arrow_c_array__()], None, ([b"i"], b"l", [-1], [None]), None, False, False
        )  # a result that is never imported
    assert column.to_pylist() == [[b"a"]] * 300
    assert values.equals(pa.array(np.full(1_500_000, 7)))


def test_names_with_a_zero_byte() -> None:
    """The result cuts a name at a zero byte, like tfx-bsl.

    The kernel looks for the whole key.
    """
    records = [example(entry(b"i\0", ONE_TWO), entry(b"i", b"")), example(entry(b"i", ONE_TWO))]
    assert check(records, {"i\0": pa.int64()})
    assert check(records, TYPES)


def test_threads_parse_at_once() -> None:
    """Several threads get the result of one.

    None of them holds the interpreter's lock.
    """
    chance = random.Random(2)
    parts = [
        pa.array([any_record(chance, is_sequence=False) for _ in range(50)], pa.binary())
        for _ in range(40)
    ]
    expected = [_native.parse_examples(part, TYPES) for part in parts]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found, alone in zip(
            pool.map(lambda part: _native.parse_examples(part, TYPES), parts), expected, strict=True
        ):
            assert (found is None) == (alone is None)
            if found is not None and alone is not None:
                check_same(found, alone)


def test_what_nobody_should_ask_for() -> None:
    """Invalid arguments are errors of the caller.

    They are nulls, short frames, other types, and offsets that go back. The kernel declines two
    features of one name.
    """
    empty = [pa.array([b""]).__arrow_c_array__()]
    twice = [b"i", b"i"], b"ll", [-1, -1], [None, None]
    assert shared.kernels.parse_examples(empty, None, twice, None, False, False) is None
    with pytest.raises(ValueError, match="found a null at place 1"):
        _native.parse_examples(pa.array([b"", None]), TYPES)
    with pytest.raises(ValueError, match="found 15 bytes at place 0, expected a frame"):
        _native.parse_examples(pa.array([b"x" * 15]), TYPES, framed=True)
    with pytest.raises(TypeError, match="records: found int64"):
        _native.parse_examples(pa.array([1]), TYPES)
    offsets = pa.py_buffer(np.array([0, 9, 3], np.int64))
    array = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(b"\0" * 3)])
    with pytest.raises(ValueError, match="found offsets"):
        _native.parse_examples(array, TYPES)


@given(st.lists(st.lists(st.binary(max_size=9), max_size=4), min_size=1, max_size=4), st.data())
def test_rows_of_several_arrays_are_those_of_one(chunks, data):
    """Rows of chunks are parsed in order, as those of one array."""
    chunks = [
        [example(entry(b"b", feature(1, delimited(1, value)))) for value in chunk]
        for chunk in chunks
    ]
    records = [record for chunk in chunks for record in chunk]
    places = st.integers(0, len(records) - 1)
    rows = data.draw(st.lists(places, max_size=9) if records else st.just([]))
    found = _native.parse_examples(
        [pa.array(chunk, pa.large_binary()) for chunk in chunks],
        {"b": pa.large_binary()},
        rows=np.array(rows, np.int64),
    )
    wanted = pa.array([records[row] for row in rows], pa.large_binary())
    assert found.equals(_native.parse_examples(wanted, {"b": pa.large_binary()}))


@pytest.mark.parametrize("row", [-1, 3, 2**62])
def test_a_row_that_no_array_has_is_refused(row):
    """A row outside the arrays is an error."""
    chunks = [pa.array([b""], pa.binary()), pa.array([b"", b""], pa.large_binary())]
    with pytest.raises(ValueError, match="row"):
        _native.parse_examples(chunks, {"b": pa.large_binary()}, rows=np.array([0, row]))
