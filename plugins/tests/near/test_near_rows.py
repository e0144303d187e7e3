"""Similar rows, against a comparison of all pairs."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.checks.meet import hash_name
from beam_pipelines.core import _native
from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines_plugins.near import near_rows
from beam_pipelines_plugins.near.meet_near import near_chunks, send_rows
from beam_pipelines_plugins.near.near_rows import REQUESTS, NearRule

Address = tuple[int, int, int]


def exchanged(messages: Iterable[Message]) -> list[Received]:
    """Returns what an exchange delivers."""
    held = list(messages)
    return [
        Received(
            partition,
            tuple(bytes(message.payloads[partition]) for message in own),
            tuple(message.order for message in own),
        )
        for partition in sorted({name for message in held for name in message.payloads})
        if (own := sorted((m for m in held if partition in m.payloads), key=lambda m: m.order))
    ]


def found_in(
    chunks: list[Chunk], rule: NearRule, splits: list[np.ndarray] | None = None
) -> dict[Address, tuple[Address, float]]:
    """Returns each near row with the first similar one."""
    sent = [
        near_rows.send_bands(chunk, rule, None if splits is None else splits[number])
        for number, chunk in enumerate(chunks)
    ]
    met = [
        message
        for received in exchanged(sent)
        for message in near_rows.find_candidates(received, splits is not None)
    ]
    requests = [message for message in met if message.order[0] == REQUESTS]
    pairs = [message for message in met if message.order[0] != REQUESTS]
    values = [near_rows.send_values(chunk, rule.column) for chunk in chunks]
    answers = [
        message
        for received in exchanged([*requests, *values])
        for message in near_rows.answer_requests(received)
    ]
    rows = [send_rows(chunk, (), False) for chunk in chunks]
    found = {}
    for received in exchanged([*pairs, *answers, *rows]):
        for chunk, near in near_chunks(received, rule):
            for row, first, similarity in zip(
                near.rows.tolist(), near.firsts.tolist(), near.similarities.tolist(), strict=True
            ):
                found[chunk.range_number, chunk.part, row] = (tuple(first[:3]), similarity)
    return found


def chunks_of(texts: list[list[str | None]]) -> list[Chunk]:
    """Returns chunks of two ranges in turn; rows have every other number."""
    return [
        Chunk(
            number % 2,
            number // 2,
            pa.record_batch(
                [
                    pa.array(own, pa.string()),
                    pa.array([2 * row for row in range(len(own))], pa.int64()),
                ],
                [hash_name("m"), PLACE],
            ),
            {},
        )
        for number, own in enumerate(texts)
    ]


def similarity(one: str | None, other: str | None) -> float:
    (found,) = _native.similarities(pa.array([one], pa.string()), pa.array([other], pa.string()))
    return float(found)


WORDS = st.sampled_from(["red", "green", "blue", "a long word", ""])
TEXTS = st.none() | st.lists(WORDS, max_size=4).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.tuples(TEXTS, st.integers(0, 2)), max_size=6), min_size=1, max_size=5),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0.5, 0.8, 1.0]),
)
def test_near_rows_against_all_pairs(
    table: list[list[tuple[str | None, int]]], partitions: int, has_splits: bool, least: float
) -> None:
    """Near rows have a similar one before them."""
    chunks = chunks_of([[text for text, _ in own] for own in table])
    splits = [np.array([split for _, split in own], np.uint8) for own in table]
    rule = NearRule("m", least, partitions)
    found = found_in(chunks, rule, splits if has_splits else None)
    known = sorted(
        ((split if has_splits else 0), (number % 2, number // 2, 2 * row), text)
        for number, own in enumerate(table)
        for row, (text, split) in enumerate(own)
        if text
    )
    for split, place, text in known:
        before = [
            (other, similarity(text, same))
            for rank, other, same in known
            if (rank < split if has_splits else other < place)
        ]
        if place in found:
            first, value = found[place]
            assert (first, value) in [pair for pair in before if pair[1] >= least]
        else:
            assert all(value < 1 for _, value in before)
    assert len(found) <= len(known)


def test_recall_and_precision_of_planted_pairs() -> None:
    """Of 3,000 planted pairs 99 % are found, and no others."""
    generator = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz     "
    originals, copies = [], []
    while len(copies) < 3_000:
        text = "".join(generator.choices(letters, k=generator.randrange(40, 160)))
        other = list(text)
        for _ in range(generator.randrange(0, 3)):
            other[generator.randrange(len(other))] = generator.choice(letters)
        if similarity(text, "".join(other)) >= 0.8:
            originals.append(text)
            copies.append("".join(other))
    texts = [*originals, *copies]
    cuts = [texts[start : start + 1_000] for start in range(0, len(texts), 1_000)]
    chunks = [
        Chunk(number, 0, pa.record_batch([pa.array(own)], [hash_name("m")]), {})
        for number, own in enumerate(cuts)
    ]
    found = found_in(chunks, NearRule("m", 0.8, 5))
    expected = {(3 + row // 1_000, 0, row % 1_000): row for row in range(3_000)}
    hits = [place for place, row in expected.items() if place in found]
    assert len(hits) / len(expected) >= 0.99
    assert len(found) == len(hits)
    assert all(found[place][0] == (row // 1_000, 0, row % 1_000) for place, row in expected.items() if place in found)  # fmt: skip


@pytest.mark.parametrize("rows", [50, 5_000])
def test_many_similar_texts(rows: int) -> None:
    """Texts of one template have few candidates each, and all are found."""
    texts = [f"your parcel number {row:06} is on its way to the address you gave us, please be at home between nine and twelve" for row in range(rows)]  # fmt: skip
    (chunk,) = [Chunk(0, 0, pa.record_batch([pa.array(texts)], [hash_name("m")]), {})]
    rule = NearRule("m", 0.8, 3)
    messages = [
        message
        for received in exchanged([near_rows.send_bands(chunk, rule)])
        for message in near_rows.find_candidates(received, False)
    ]
    sent = sum(len(own) for message in messages for own in message.payloads.values())
    found = found_in([chunk], rule)
    assert len(found) == rows - 1
    assert sent < 18 * 16 * 34 * rows
