"""transforms/exchange.py delivers every payload once and in order.

It does so through files and through the engine.
"""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import exchange
from beam_pipelines.transforms.exchange import (
    Address,
    Exchange,
    Message,
    load_payload,
    store_message,
)

PARCELS = [
    Message((1, 0), {0: b"c", 2: b"x" * 1000}),
    Message((0, 1), {0: b"b"}),
    Message((0, 0), {0: b"a", 1: b""}),
    Message((10, 0), {0: b"d"}),
]


@pytest.mark.parametrize("by_files", [True, False])
def test_both_ways_deliver_in_order(tmp_path: Path, by_files: bool) -> None:
    """Payloads arrive by partition, ordered by their messages."""
    with beam.Pipeline("FnApiRunner") as pipeline:
        all_received = (
            pipeline
            | beam.Create(PARCELS)
            | Exchange(str(tmp_path / "blocks") if by_files else None)
            | beam.Map(
                lambda received: (received.partition, received.orders, list(received.payloads()))
            )
        )
        assert_that(
            all_received,
            equal_to(
                [
                    (0, ((0, 0), (0, 1), (1, 0), (10, 0)), [b"a", b"b", b"c", b"d"]),
                    (1, ((0, 0),), [b""]),
                    (2, ((1, 0),), [b"x" * 1000]),
                ]
            ),
        )


@pytest.mark.parametrize(
    ("most_held", "most_in_element", "elements"), [(50_000, 8_192, 3), (1, 8_192, 5), (9, 2, 4)]
)
def test_addresses_of_many_messages_share_elements(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_held: int,
    most_in_element: int,
    elements: int,
) -> None:
    """A bundle's addresses are one element for each partition.

    None is lost.
    """
    monkeypatch.setattr(exchange, "_MOST_HELD", most_held)
    monkeypatch.setattr(exchange, "_MOST_IN_ELEMENT", most_in_element)
    sender = exchange.CollectByPartition(exchange.store_message, str(tmp_path))
    sender.start_bundle()
    sent = [element for message in PARCELS for element in sender.process(message)]
    sent += [windowed.value for windowed in sender.finish_bundle()]
    assert len(sent) == elements
    contents: dict[int, list[bytes]] = {}
    for partition in {partition for partition, _ in sent}:
        received = exchange.receive(
            partition, [places for to, places in sent if to == partition], str(tmp_path)
        )
        contents[partition] = list(received.payloads())
    assert contents == {0: [b"a", b"b", b"c", b"d"], 1: [b""], 2: [b"x" * 1000]}


def test_a_retry_leaves_the_first_attempt(tmp_path: Path) -> None:
    """A retried bundle does not change the files of the first attempt."""
    first = store_message(Message((3, 4), {7: b"seven", 8: b"eight"}), str(tmp_path))
    second = store_message(Message((3, 4), {8: b"8", 7: b"7"}), str(tmp_path))
    for attempt, payloads in ((first, [b"seven", b"eight"]), (second, [b"8", b"7"])):
        received = [exchange.receive(to, [[sent]], str(tmp_path)) for to, sent in attempt]
        assert [next(each.payloads()) for each in received] == payloads


def test_a_short_file_is_noticed(tmp_path: Path) -> None:
    """A truncated temporary file is an error, not a short payload."""
    path = tmp_path / "block"
    path.write_bytes(b"abc")
    with pytest.raises(DataError, match="found 2 bytes at 1, expected 5"):
        load_payload(Address(str(path), 1, 5))
