"""Cuts of ordered rows, against sorted lists."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms.exchange import Received
from beam_pipelines.transforms.split import stratify

# Few hashes, so that rows tie: classes and hashes of rows, by chunk.
HASHES = st.sampled_from([0, 1, 5, 1 << 40, 1 << 63, (1 << 64) - 1])
CHUNKS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), HASHES), max_size=12), min_size=1, max_size=6
)


@given(CHUNKS, st.integers(1, 4), st.data())
def test_cuts_against_sorted_rows(
    tmp_path_factory: pytest.TempPathFactory,
    chunks: list[list[tuple[int, int]]],
    partitions: int,
    data: st.DataObject,
) -> None:
    """Of each class, a piece has the rows between two ranks."""
    folder = tmp_path_factory.mktemp("cuts")
    addresses = [divmod(number, 2) for number in range(len(chunks))]
    arrays = [
        (np.array([c for c, _ in rows], np.uint64), np.array([h for _, h in rows], np.uint64))
        for rows in chunks
    ]
    messages = [
        stratify.send_keys(address, *own, partitions)
        for address, own in zip(addresses, arrays, strict=True)
    ]
    stored = []
    for partition in range(partitions):
        own = [message for message in messages if partition in message.payloads]
        if own:
            received = Received(
                partition,
                tuple(bytes(message.payloads[partition]) for message in own),
                tuple(message.order for message in own),
            )
            stored += stratify.sort_keys(received, str(folder))
    counted = stratify.count_classes(stored)
    rows = []
    for count in counted.values():
        first = data.draw(st.integers(0, count))
        second = data.draw(st.integers(0, count - first))
        rows.append([first, second, count - first - second])
    found = stratify.find_cuts(
        stored, {number: str(number) for number in counted}, np.array(rows).reshape(-1, 3)
    )
    found.save(str(folder / "cuts"))
    found = stratify.Cuts.load(str(folder / "cuts"))
    expected = {}
    for own_class, own_rows in zip(counted, rows, strict=True):
        ordered = sorted(
            (hash_, address, row)
            for address, chunk in zip(addresses, chunks, strict=True)
            for row, (number, hash_) in enumerate(chunk)
            if number == own_class
        )
        ends = list(itertools.accumulate(own_rows))
        for rank, (_, address, row) in enumerate(ordered):
            expected[address, row] = next(n for n, end in enumerate(ends) if rank < end)
    assert found.names == tuple(map(str, counted))
    for address, own in zip(addresses, arrays, strict=True):
        pieces = found.pieces_of(address, *own).tolist() if counted else []
        assert pieces == [expected[address, row] for row in range(len(own[0]))]


def test_too_many_classes(tmp_path: Path) -> None:
    """A column with many values stops the run."""
    many = np.arange(5_000, dtype=np.uint64)
    payload = bytes(stratify.send_keys((0, 0), many, many, 1).payloads[0])
    with pytest.raises(DataError, match="more than 4,096 classes"):
        list(stratify.sort_keys(Received(0, (payload,), ((0, 0),)), str(tmp_path)))
