"""The hashes of values never change, and spread evenly.

``test_native_hash.py`` compares them with their definition.
"""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core import _native

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")


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
    (pa.string(), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x3D0428C097E97AC4),
    (pa.string(), None, 0x8CB2369A629251C8),
    (pa.date32(), datetime.date(2013, 1, 1), 0xC2D4B737258FAAE5),
    (pa.list_(pa.int64()), [], 0xE220A8397B1DCDAF),
    (pa.list_(pa.int64()), [1], 0xEFDEE215EF0CEFA9),
    (pa.list_(pa.int64()), [1, None], 0xAAEB7866522BB419),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "pinned"), PINNED)
def test_hash_of_a_value_never_changes(kind, value, pinned):
    """A value's hash is the one that datasets were split by before."""
    assert _native.hash_column(pa.array([value], kind)).tolist() == [pinned]


def test_hash_of_a_row_never_changes():
    """A row's hash never changes, with and without a seed."""
    arrays = [pa.array([1]), pa.array(["a"]), pa.array([None], pa.float64())]
    assert _native.hash_rows(arrays).tolist() == [0xB559A40C89D896C1]
    assert _native.hash_rows(arrays, 7).tolist() == [0x96AF79EC563E1859]


def test_text_and_bytes_hash_alike():
    """A column may become text or bytes without its rows changing splits."""
    values = ["", "a", "Zürich", "x" * 100, None]
    text = pa.array(values, pa.string())
    assert (
        _native.hash_column(text).tolist() == _native.hash_column(text.cast(pa.binary())).tolist()
    )


def test_hash_spreads_evenly():
    """Neighbouring numbers and texts fill 64 buckets evenly.

    The limit is the 0.999 quantile of chi-square with 63 degrees of freedom.
    """
    numbers = pa.array(np.arange(20_000))
    for array in (numbers, numbers.cast(pa.string()), pa.array(np.arange(20_000) / 4)):
        for shift in (0, 58):
            counts = np.bincount(
                (_native.hash_rows([array]) >> np.uint64(shift)) & np.uint64(63), minlength=64
            )
            expected = len(array) / 64
            assert ((counts - expected) ** 2 / expected).sum() < 103.4
