"""core/hashing.py against its definition in plain Python.

Fixed vectors check that the hashes never change.
"""

from __future__ import annotations

import datetime
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import hashing

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15
NULL = int.from_bytes(b"nullnull", "big")


def mix(value):
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


def expected_hash(value, seed=0):
    """The definition, one value at a time."""
    if value is None:
        return mix(NULL + seed)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        words = [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8)]
    elif isinstance(value, list):
        words = [expected_hash(item, seed) for item in value]
    else:
        if isinstance(value, float):
            bits = (
                0x7FF8 << 48
                if math.isnan(value)
                else struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
            )
        elif isinstance(value, datetime.datetime):
            bits = (value - datetime.datetime.fromisoformat("1970-01-01")) // datetime.timedelta(
                microseconds=1
            )
        elif isinstance(value, datetime.date):
            bits = (value - datetime.date(1970, 1, 1)).days
        elif isinstance(value, datetime.time):
            bits = (
                (value.hour * 60 + value.minute) * 60 + value.second
            ) * 1000000 + value.microsecond
        else:
            bits = int(value)
        return mix(bits + G + seed)
    return mix(
        len(value)
        + G
        + seed
        + sum(mix(word ^ mix((place + 1) * G + seed)) for place, word in enumerate(words))
    )


def expected_row(values, seed=0):
    total = mix(seed)
    for value in values:
        total = mix((total ^ expected_hash(value, seed)) + G)
    return total


INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES_FOR_TYPE = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), INT64),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=90)),
    (pa.binary(), st.binary(max_size=90)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.time64("us"), st.times()),
    (pa.list_(pa.int64()), st.lists(st.none() | INT64, max_size=5)),
    (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=20), max_size=5)),
    (pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=5)),
]
TYPED_VALUES = st.one_of(
    [
        st.tuples(st.just(kind), st.lists(st.none() | values, max_size=12))
        for kind, values in VALUES_FOR_TYPE
    ]
)


@settings(max_examples=80, deadline=None)
@given(TYPED_VALUES, st.integers(0, 12), st.integers(0, 12), st.integers(0, MASK))
def test_hash_column_is_as_defined(typed, start, length, seed):
    """The hash of a column equals its definition.

    This holds for every type, with nulls, in slices and with any seed.
    """
    kind, values = typed
    array = pa.array(values, kind).slice(start, length)
    assert hashing.hash_column(array, seed).tolist() == [
        expected_hash(value, seed) for value in values[start : start + length]
    ]


# Pinned on 2026-11-21. A change of any of these moves rows of existing datasets to other splits:
# never change them.
PINNED = [
    (pa.int64(), 0, 0xE220A8397B1DCDAF),
    (pa.int64(), -1, 0xE4D971771B652C20),
    (pa.int64(), 9223372036854775807, 0x2A67D7552E039EA7),
    (pa.bool_(), True, 0x910A2DEC89025CC1),
    (pa.float64(), 1.5, 0xD6DAB18E1392608A),
    (pa.float32(), 1.5, 0xD6DAB18E1392608A),
    (pa.float64(), float("nan"), 0xC72971D82E15BB46),
    (pa.float64(), -0.0, 0xE220A8397B1DCDAF),
    (pa.string(), "", 0xE220A8397B1DCDAF),
    (pa.string(), "a", 0x76543F2EE5A11477),
    (pa.string(), "a\x00", 0xFAC6D8A83456F56F),
    (pa.binary(), b"12345678", 0x44CDBE8D4615ABFF),
    (pa.string(), "123456789", 0xEBD1E050DEDA5E8D),
    (pa.string(), "Zürich", 0x4BBB7D52F513EC52),
    (
        pa.string(),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        0x3D0428C097E97AC4,
    ),
    (pa.string(), None, 0x8CB2369A629251C8),
    (pa.date32(), datetime.date(2013, 1, 1), 0xC2D4B737258FAAE5),
    (pa.list_(pa.int64()), [], 0xE220A8397B1DCDAF),
    (pa.list_(pa.int64()), [1], 0xEFDEE215EF0CEFA9),
    (pa.list_(pa.int64()), [1, None], 0xAAEB7866522BB419),
]


@pytest.mark.parametrize(("kind", "value", "pinned"), PINNED)
def test_hash_of_a_value_never_changes(kind, value, pinned):
    """A value's hash is the one that datasets were split by before."""
    assert hashing.hash_column(pa.array([value], kind)).tolist() == [pinned]


def test_hash_of_a_row_never_changes():
    """A row's hash never changes, with and without a seed."""
    arrays = [pa.array([1]), pa.array(["a"]), pa.array([None], pa.float64())]
    assert hashing.hash_rows(arrays).tolist() == [0xB559A40C89D896C1]
    assert hashing.hash_rows(arrays, 7).tolist() == [0x96AF79EC563E1859]


def test_text_and_bytes_hash_alike():
    """A column may become text or bytes without its rows changing splits."""
    values = ["", "a", "Zürich", "x" * 100, None]
    text = pa.array(values, pa.string())
    assert (
        hashing.hash_column(text).tolist() == hashing.hash_column(text.cast(pa.binary())).tolist()
    )


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
def test_hash_does_not_depend_on_blocks(monkeypatch, block_bytes):
    """The hash is the same for every block size."""
    values = ["x" * (7 * number % 83) for number in range(50)] + [None]
    monkeypatch.setattr(hashing, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(hashing, "_BLOCK_BYTES", block_bytes)
    hashes = hashing.hash_column(pa.array(values)).tolist()
    assert hashes == [expected_hash(value) for value in values]


def test_hash_spreads_evenly():
    """Neighbouring numbers and texts fill 64 buckets evenly.

    The limit is the 0.999 quantile of chi-square with 63 degrees of freedom.
    """
    numbers = pa.array(np.arange(100_000))
    for array in (numbers, numbers.cast(pa.string()), pa.array(np.arange(100_000) / 4)):
        for shift in (0, 58):
            counts = np.bincount(
                (hashing.hash_rows([array]) >> np.uint64(shift)) & np.uint64(63), minlength=64
            )
            expected = len(array) / 64
            assert ((counts - expected) ** 2 / expected).sum() < 103.4


def test_a_struct_cannot_be_hashed():
    """A type that is no column type is refused, by its name."""
    with pytest.raises(TypeError, match="struct"):
        hashing.hash_column(pa.array([{"a": 1}]))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.none() | INT64, st.none() | st.text(max_size=9)), max_size=20),
    st.integers(0, MASK),
)
def test_hash_rows_is_as_defined(rows, seed):
    """Rows hash as the definition says."""
    arrays = [
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([row[1] for row in rows], pa.string()),
    ]
    assert hashing.hash_rows(arrays, seed).tolist() == [expected_row(row, seed) for row in rows]
