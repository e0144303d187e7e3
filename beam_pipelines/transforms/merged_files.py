"""Merges files in object stores, so that a reader needs few requests.

A chunk has a few hundred bytes for each partition, and a request takes tens of milliseconds. So
neighbouring partitions share a *bin*. What chunks hold for a bin is next to each other in their
files: a merge reads a span of each of many chunks, and writes one file, in which a partition has
one span. An engine may run a merge twice; each attempt writes a file with a new name, and the
addresses that the engine keeps are those of one attempt.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import apache_beam as beam

from beam_pipelines.files.beam.file_ranges import read_ranges
from beam_pipelines.transforms import exchange

# Neighbouring partitions in a bin.
BIN = 64
# Bytes that a merge reads, and holds in memory; and spans, whose addresses are one element.
MERGED_BYTES = 128 << 20
_MOST_SPANS = 4096
# Prefix of a frame: the length of its head.
_LENGTH = struct.Struct("<Q")


class _Span(Protocol):
    """An element to be merged; sorted, they are in order."""

    @property
    def length(self) -> int: ...


def bin_of(partition: Any) -> Any:
    """Returns the bin of a number or of a tuple."""
    if isinstance(partition, tuple):
        return (*partition[:-1], partition[-1] // BIN)
    return partition // BIN


@dataclasses.dataclass
class MergeBins(beam.PTransform):
    """Merges the spans of each bin, some in memory at a time.

    Input: ``(bin, [span])``; any worker can read the bytes of a span. Output: as ``SendMessages``
    gives it. Merges of one bin have consecutive spans.

    Attributes:
      merge: makes the message of a bin and some of its spans, in order.
      folder: for the merged files.
    """

    merge: Callable[[Any, Sequence[Any]], exchange.Message]
    folder: str

    def expand(
        self, spans: beam.PCollection[tuple[Any, list[Any]]]
    ) -> beam.PCollection[tuple[Any, list[exchange.Sent]]]:
        return (
            spans
            | "Group" >> beam.GroupByKey()
            | "Cut" >> beam.FlatMapTuple(cut)
            | "Spread" >> beam.Reshuffle()
            | "Merge" >> beam.MapTuple(self.merge)
            | "Send" >> exchange.SendMessages(self.folder)
        )


def cut(bin_: Any, spans: Iterable[Sequence[_Span]]) -> Iterator[tuple[Any, tuple[_Span, ...]]]:
    """Yields a bin with consecutive spans, as many as fit in memory."""
    own: list[_Span] = []
    size = 0
    for span in sorted(itertools.chain.from_iterable(spans)):  # type: ignore[type-var]  # tuples
        if own and (size + span.length > MERGED_BYTES or len(own) == _MOST_SPANS):
            yield bin_, tuple(own)
            own, size = [], 0
        own.append(span)
        size += span.length
    yield bin_, tuple(own)


def to_bins(message: exchange.Message) -> exchange.Message:
    """Frames a message's payloads by bin."""
    bins: dict[Any, list[tuple[Any, exchange.Buffers]]] = {}
    for partition, payload in message.payloads.items():
        bins.setdefault(bin_of(partition), []).append((partition, payload))
    return message._replace(payloads={bin_: frame(parts) for bin_, parts in bins.items()})


def merge_messages(_bin: Any, sent: Sequence[exchange.Sent], folder: str) -> exchange.Message:
    """Merges messages that ``to_bins`` made: partition -> its payloads with their orders.

    Args:
      sent: of one bin, in order.
      folder: as in ``SendMessages``.
    """
    merged: dict[Any, list[tuple[Any, exchange.Buffers]]] = {}
    for each, framed in zip(sent, read_ranges(exchange.addresses(sent, folder)), strict=True):
        for partition, payload in parts_of(framed):
            merged.setdefault(partition, []).append((each.order, payload))
    return exchange.Message(
        sent[0].order, {partition: frame(own) for partition, own in merged.items()}
    )


def receive_merged(
    partition: Any, sent: Iterable[Sequence[exchange.Sent]], folder: str
) -> exchange.Received:
    """Returns the payloads of one partition, in memory, as ``merge_messages`` merged them.

    Args:
      partition, sent, folder: as in ``exchange.receive``.
    """
    framed = read_ranges(exchange.receive(partition, sent, folder).contents)  # type: ignore[arg-type]  # of addresses
    parts = [part for each in framed for part in parts_of(each)]
    parts.sort(key=operator.itemgetter(0))
    return exchange.Received(
        partition, tuple(part for _, part in parts), tuple(order for order, _ in parts)
    )


def frame(parts: Sequence[tuple[Any, exchange.Buffers]]) -> list[Any]:
    """Returns buffers that hold payloads with their keys."""
    payloads: list[Any] = [[part] if isinstance(part, bytes) else [*part] for _, part in parts]
    sizes = [sum(map(len, own)) for own in payloads]
    keys = [(key, size) for (key, _), size in zip(parts, sizes, strict=True)]
    head = json.dumps(keys, default=int).encode()
    return [_LENGTH.pack(len(head)), head, *itertools.chain.from_iterable(payloads)]


def parts_of(framed: bytes) -> Iterator[tuple[Any, bytes]]:
    """Yields the keys and payloads of a ``frame``."""
    (length,) = _LENGTH.unpack_from(framed)
    end = _LENGTH.size + length
    for key, size in json.loads(framed[_LENGTH.size : end]):
        yield _tuples(key), framed[end : end + size]
        end += size


def _tuples(key: Any) -> Any:
    """Returns the lists of JSON as the tuples that they were."""
    return tuple(map(_tuples, key)) if isinstance(key, list) else key
