"""transforms/shuffle.py orders rows repeatably, and packs them for an engine."""

from __future__ import annotations

import os

import pyarrow as pa

from beam_pipelines.transforms import shuffle

SCHEMA = pa.schema({"row": pa.binary()})


def test_permutation_is_pinned() -> None:
    """The permutation never changes.

    A seed has to give the same order forever.
    """
    assert shuffle.permutation((7, 1), 8).tolist() == PINNED


PINNED = [5, 4, 0, 2, 6, 7, 3, 1]


def test_blocks_round_trip_slices() -> None:
    """Packing a slice packs its own records only."""
    batch = pa.RecordBatch.from_pydict(
        {"row": [os.urandom(100_000), b"a", b"b", os.urandom(100_000)]}, SCHEMA
    )
    first, second = (shuffle.pack_block(batch.slice(*rows)) for rows in ((1, 2), (2, 1)))
    assert len(first) + len(second) < 2000
    unpacked = shuffle.unpack_blocks([first, second, first])
    assert unpacked is not None
    assert unpacked["row"].to_pylist() == [b"a", b"b", b"b", b"a", b"b"]
    assert shuffle.unpack_blocks([]) is None
