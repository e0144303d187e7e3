"""transforms/exchange.py delivers every payload once and in order.

It does so through files of single messages, and through merged ones.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam.file_ranges import Address
from beam_pipelines.transforms import exchange, meet, merged_files
from beam_pipelines.transforms.exchange import Message, Received, load_payload, store_message
from beam_pipelines.transforms.meet import MeetByKey
from beam_pipelines.transforms.merged_files import merge_messages, receive_merged, to_bins

Deliver = Callable[[Any, str], Any]

PARCELS = [
    Message((1, 0), {0: b"c", 2: b"x" * 1000}),
    Message((0, 1), {0: b"b"}),
    Message((0, 0), {0: b"a", 1: b""}),
    Message((10, 0), {0: b"d"}),
]


def merged(messages: beam.PCollection[Message], folder: str) -> beam.PCollection[Received]:
    """Delivers messages as in an object store."""
    merge = merged_files.MergeBins(partial(merge_messages, folder=folder), f"{folder}/merged")
    return (
        messages
        | beam.Map(to_bins)
        | exchange.SendMessages(folder)
        | merge
        | beam.GroupByKey()
        | beam.MapTuple(lambda *group: receive_merged(*group, f"{folder}/merged"))
    )


def unmerged(messages: beam.PCollection[Message], folder: str) -> beam.PCollection[Received]:
    """Delivers messages as on a filesystem."""
    return messages | MeetByKey(None, lambda received: [received], folder)


@pytest.mark.parametrize("deliver", [unmerged, merged])
def test_both_ways_deliver_in_order(tmp_path: Path, deliver: Deliver) -> None:
    """Payloads arrive by partition, ordered by their messages."""
    with beam.Pipeline("FnApiRunner") as pipeline:
        received = deliver(pipeline | beam.Create(PARCELS), str(tmp_path / "blocks"))
        assert_that(
            received | "Shown" >> beam.Map(lambda own: (*own[::2], list(own.payloads()))),
            equal_to(
                [
                    (0, ((0, 0), (0, 1), (1, 0), (10, 0)), [b"a", b"b", b"c", b"d"]),
                    (1, ((0, 0),), [b""]),
                    (2, ((1, 0),), [b"x" * 1000]),
                ]
            ),
        )


def pieces_of(
    partition: int, sent: Sequence[exchange.Sent], piece_bytes: int
) -> dict[tuple[int, ...], list[exchange.Sent]]:
    """Cuts a partition's addresses, whatever all pieces have: key -> addresses."""
    pieces: dict[tuple[int, ...], list[exchange.Sent]] = collections.defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meet, "PIECE_BYTES", piece_bytes)
        patch.setattr(meet, "PIECE_TIMES", 0)
        patch.setattr(exchange, "MOST_IN_ELEMENT", 3)
        first, *more = meet.cut_partition(partition, [sent[::2], sent[1::2]])
    pieces[first[0]] += itertools.chain(*first[1])
    for key, some in (tagged.value for tagged in more):
        assert len(some) <= 3
        pieces[key] += some
    return pieces


PAYLOADS = st.dictionaries(st.integers(0, 9), st.binary(max_size=9), max_size=6)
MESSAGES = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), PAYLOADS, max_size=9)


@given(MESSAGES, st.integers(1, 5), st.integers(1, 200), st.integers(1, 4))
def test_merged_payloads_are_those_of_single_messages(
    tmp_path_factory: pytest.TempPathFactory,
    messages: dict[tuple[int, int], dict[int, bytes]],
    bin_size: int,
    most_bytes: int,
    most_spans: int,
) -> None:
    """Bins and merges of any size change neither payloads nor orders."""
    first, second = (str(tmp_path_factory.mktemp(name)) for name in ("bins", "merged"))
    sent: dict[int, list[exchange.Sent]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_files, "BIN", bin_size)
        patch.setattr(merged_files, "MERGED_BYTES", most_bytes)
        patch.setattr(merged_files, "_MOST_SPANS", most_spans)
        bins: dict[int, list[exchange.Sent]] = {}
        for order, payloads in messages.items():
            for bin_, each in store_message(to_bins(Message(order, payloads)), first):
                bins.setdefault(bin_, []).append(each)
        for bin_, own in bins.items():
            for _, some in merged_files.cut(bin_, [own]):
                for partition, each in store_message(merge_messages(bin_, some, first), second):
                    sent.setdefault(partition, []).append(each)
        found = {
            partition: (received.orders, [*received.payloads(0)], [*received.payloads()])
            for partition, own in sent.items()
            for received in [receive_merged(partition, [own[::-1]], second)]
        }
        for partition, own in sent.items():
            pieces = [
                meet._piece(receive_merged, key, [some], second)
                for key, some in pieces_of(partition, own, 1).items()
            ]
            shared = sum(order[0] == 0 for order in found[partition][0])
            assert {piece.orders[:shared] for piece in pieces} == {found[partition][0][:shared]}
            rest = [order for piece in pieces for order in piece.orders[shared:]]
            assert (*rest,) == found[partition][0][shared:]
            loaded = [each for piece in pieces for each in [*piece.payloads()][shared:]]
            assert loaded == found[partition][2][shared:]
    expected = {}
    for partition in {key for payloads in messages.values() for key in payloads}:
        orders = tuple(sorted(order for order in messages if partition in messages[order]))
        payloads_ = [messages[order][partition] for order in orders]
        of_kind = [messages[order][partition] for order in orders if order[0] == 0]
        expected[partition] = orders, of_kind, payloads_
    assert found == expected


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
    monkeypatch.setattr(exchange, "MOST_IN_ELEMENT", most_in_element)
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
