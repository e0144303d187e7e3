"""Equal hashes: the kernel, and the code without it, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native

if not _native.KERNELS_AVAILABLE:
    pytest.skip("the extension is not built: there is no compiler", allow_module_level=True)

from tests.support.kernels import without_kernels

RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4"), ("split", "u1")])
# Halves that share their low bits, by which records are ordered, and the number of a slot.
HALVES = st.sampled_from([0, 1, 1 << 32, 1 | 1 << 48, 1 | 1 << 63, 2**64 - 1])


def records_of(hashes: list[tuple[int, int]]) -> np.ndarray:
    return np.array([(*pair, place, place % 3) for place, pair in enumerate(hashes)], RECORD)


def repeats_by_loop(hashes: list[tuple[int, int]]) -> list[list[int]]:
    seen: dict[tuple[int, int], int] = {}
    firsts = [seen.setdefault(pair, place) for place, pair in enumerate(hashes)]
    return [[first, place] for place, first in enumerate(firsts) if first != place]


@given(st.lists(st.tuples(HALVES, HALVES), max_size=200))
def test_repeats_against_a_loop(hashes: list[tuple[int, int]]) -> None:
    """A repeat has the first record of its hash, also without kernels."""
    records, expected = records_of(hashes), repeats_by_loop(hashes)
    assert _native.find_repeats(records).tolist() == expected
    with without_kernels():
        assert _native.find_repeats(records).tolist() == expected


def test_many_hashes() -> None:
    """A table that does not fit into a cache finds the same."""
    generator = np.random.default_rng(1)
    records = np.zeros(300_000, RECORD)
    for field in ("high", "low"):
        records[field] = generator.integers(0, 2**64, len(records), np.uint64)
    rows = generator.choice(len(records) // 2, 500, replace=False)
    copies = len(records) // 2 + generator.choice(len(records) // 2, 500, replace=False)
    records["high"][copies], records["low"][copies] = records["high"][rows], records["low"][rows]
    found = _native.find_repeats(records)
    assert sorted(map(tuple, found.tolist())) == sorted(
        zip(rows.tolist(), copies.tolist(), strict=True)
    )


def test_hashes_with_equal_slots() -> None:
    """Hashes whose slots and numbers are equal are compared whole."""
    # The number of a hash is its high half xor its low half with the words exchanged: here 0.
    highs = [place << 32 | 7 for place in range(2000)]
    hashes = [(high, 7 << 32 | high >> 32) for high in highs]
    assert len(_native.find_repeats(records_of(hashes))) == 0
    assert _native.find_repeats(records_of(hashes * 2)).tolist() == [
        [place, place + 2000] for place in range(2000)
    ]


def test_records_of_another_size_are_refused() -> None:
    """A record holds a hash."""
    with pytest.raises(ValueError, match="16 to 1,024 bytes"):
        _native.find_repeats(np.zeros(3, "<u8"))
