"""The kernel and its reference hash as the definition says."""

from __future__ import annotations

import datetime
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15
NULL = int.from_bytes(b"nullnull", "big")
INT64 = st.integers(-(2**63), 2**63 - 1)


def mix(value: int) -> int:
    """The finaliser of SplitMix64."""
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


def as_int(value: object) -> int:
    """The 64 bits of a number or time."""
    if isinstance(value, float):
        return (
            0x7FF8 << 48
            if math.isnan(value)
            else struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
        )
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime.fromisoformat("1970-01-01")) // datetime.timedelta(
            microseconds=1
        )
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000000 + value.microsecond
    return int(value)


def expected(value: object, seed: int = 0) -> int:
    """The definition, one value at a time."""
    if value is None:
        return mix(NULL + seed)
    value = value.encode() if isinstance(value, str) else value
    if isinstance(value, bytes):
        words = [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8)]
    elif isinstance(value, list):
        words = [expected(item, seed) for item in value]
    else:
        return mix(as_int(value) + G + seed)
    return mix(
        len(value)
        + G
        + seed
        + sum(mix(word ^ mix((place + 1) * G + seed)) for place, word in enumerate(words))
    )


def expected_row(values: tuple[object, ...], seed: int) -> int:
    """The definition of a row's hash."""
    total = mix(seed)
    for value in values:
        total = mix((total ^ expected(value, seed)) + G)
    return total


VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): INT64,
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=90),
    pa.binary(): st.binary(max_size=90),
    pa.large_binary(): st.binary(max_size=20),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.time64("us"): st.times(),
    pa.list_(pa.int64()): st.lists(st.none() | INT64, max_size=5),
    pa.large_list(pa.string()): st.lists(st.none() | st.text(max_size=20), max_size=5),
    pa.list_(pa.bool_()): st.lists(st.booleans(), max_size=5),
    pa.list_(pa.list_(pa.int64())): st.lists(
        st.none() | st.lists(st.none() | INT64, max_size=3), max_size=3
    ),
    pa.list_(pa.float32(), 2): st.lists(st.floats(width=32), min_size=2, max_size=2),
}


@given(st.sampled_from(list(VALUES)), st.data(), st.integers(0, MASK), st.booleans())
@settings(max_examples=100)
def test_hashes_are_as_defined(kind, data, seed, is_dictionary):
    """Each value of a slice hashes by the definition.

    Values may be null and in a dictionary.
    """
    array = pa.array(data.draw(st.lists(st.none() | VALUES[kind], max_size=12)), kind)
    if is_dictionary and not pa.types.is_nested(kind):
        array = array.dictionary_encode()
    start = data.draw(st.integers(0, len(array)))
    array = array.slice(start, data.draw(st.integers(0, len(array) - start)))
    assert _native.hash_column(array, seed).tolist() == [
        expected(value, seed) for value in array.to_pylist()
    ]


@given(
    st.lists(st.tuples(st.none() | INT64, st.none() | st.text(max_size=9)), max_size=20),
    st.integers(0, MASK),
)
def test_hash_rows_is_as_defined(rows: list[tuple[object, ...]], seed: int) -> None:
    """Rows hash as the definition says."""
    arrays = [
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([row[1] for row in rows], pa.string()),
    ]
    assert _native.hash_rows(arrays, seed).tolist() == [expected_row(row, seed) for row in rows]


def test_long_texts_and_lists_hash_as_defined() -> None:
    """Places beyond those whose keys are kept hash as the others."""
    values = ["x" * size for size in (511, 512, 513, 520, 521, 5000)]
    assert _native.hash_column(pa.array(values)).tolist() == [expected(value) for value in values]
    lists = [list(range(size)) for size in (63, 64, 65, 300)]
    assert _native.hash_column(pa.array(lists)).tolist() == [expected(value) for value in lists]


def test_what_cannot_be_hashed_is_refused() -> None:
    """Unknown types, unequal lengths and a missing column are refused."""
    with pytest.raises(TypeError, match="type struct<a: int64> has no 64-bit value"):
        _native.hash_rows([pa.array([1]), pa.array([{"a": 1}])])
    with pytest.raises(ValueError, match=r"1 and 2 values|one length"):
        _native.hash_rows([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(ValueError, match=r"no columns|one or more"):
        _native.hash_rows([])


def test_hashes_of_many_rows_equal_those_of_few() -> None:
    """Long arrays, whose memory is another result's, hash as their parts."""
    array = pa.array(np.arange(30_000))
    whole = _native.hash_column(array)
    again = _native.hash_column(array)
    assert np.array_equal(whole, again)
    parts = [
        _native.hash_column(array.slice(start, 7_000)) for start in range(0, len(array), 7_000)
    ]
    assert np.array_equal(np.concatenate(parts), whole)
