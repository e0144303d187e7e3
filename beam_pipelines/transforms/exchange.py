"""Moves payloads from chunks to partitions, in a fixed order.

Payloads are files on storage that all workers share, and the runner moves only their addresses. In
object stores, whose reads take tens of milliseconds each, they are merged in between
(``transforms/merged_files.py``).
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_ranges import Address, read_range

# The largest encoded element that may cross an engine. Flink fails on a record that is larger than
# a sort buffer; gRPC sends an element in one message; Dataflow's shuffle takes values of some MB.
MAX_ELEMENT_BYTES = 1 << 20
# Items, of some hundred bytes each, that a sender collects.
_MOST_HELD = 50_000
# Items in one element.
MOST_IN_ELEMENT = MAX_ELEMENT_BYTES // 128


# Bytes, or buffers to concatenate.
Buffers: TypeAlias = bytes | Sequence[bytes | pa.Buffer]


class Message(NamedTuple):
    """The payloads of one chunk.

    Attributes:
      order: orders the messages of a partition: ``(range_number, part, …)``.
      payloads: partition (an integer or a tuple) -> bytes, or buffers to concatenate.
    """

    order: tuple[int, ...]
    payloads: Mapping[Any, Buffers]


class Received(NamedTuple):
    """The payloads of one partition.

    Attributes:
      partition: its number or tuple.
      contents: payloads, or their addresses, in order.
      orders: the order of each content's message.
    """

    partition: Any
    contents: tuple[bytes | Address, ...]
    orders: tuple[tuple[int, ...], ...]

    def payloads(self, kind: int | None = None) -> Iterator[bytes]:
        """Yields the payloads in order, one in memory at a time.

        Args:
          kind: first number in the order of the messages; ``None``: of all.
        """
        for content, order in zip(self.contents, self.orders, strict=True):
            if kind in (None, order[0]):
                yield load_payload(content)


def store_message(message: Message, folder: str) -> list[tuple[Any, Sent]]:
    """Writes a message's payloads to a new file; returns their addresses.

    Its name is new each time: an engine may run a bundle twice, with other elements in it, while
    consumers still read the first attempt's file.
    """
    attempt, sent, offset = uuid.uuid4().hex[:12], [], 0
    with files.replace(_path_of(folder, message.order, attempt)) as file:
        for partition, payload in message.payloads.items():
            start = offset
            parts: Any = [payload] if isinstance(payload, bytes) else payload
            for part in parts:
                file.write(part)
                offset += len(part)
            sent.append((partition, Sent(message.order, attempt, start, offset - start)))
    return sent


def _path_of(folder: str, order: tuple[int, ...], attempt: str) -> str:
    return files.join(folder, "_".join([*map(str, order), attempt]))


def load_payload(content: bytes | Address) -> bytes:
    """Returns a payload; raises as ``read_range``."""
    return content if isinstance(content, bytes) else read_range(content)


@dataclasses.dataclass
class SendMessages(beam.PTransform):
    """Sends payloads to their partitions.

    Input: ``Message`` elements. Output: ``(partition, [Sent])``; ``receive`` makes a ``Received``
    of a partition's elements. No element is larger than ``MAX_ELEMENT_BYTES``.

    Attributes:
      folder: for the payloads, on storage that all workers share.
    """

    folder: str

    def expand(
        self, messages: beam.PCollection[Message]
    ) -> beam.PCollection[tuple[Any, list[Sent]]]:
        return messages | "Store" >> beam.ParDo(CollectByPartition(store_message, self.folder))


class Sent(NamedTuple):
    """The address of a payload, as it crosses the runner.

    Attributes:
      order: of its message.
      attempt: tells apart messages of one order, and attempts to send one message.
      offset, length: of its bytes in the message's file.
    """

    order: tuple[int, ...]
    attempt: str
    offset: int
    length: int


class CollectByPartition(beam.DoFn):
    """Sends items as ``(partition, [item])``.

    The items of many elements are in one, because each element costs Beam's local runner several
    times 200 bytes.
    """

    def __init__(self, items_of: Callable[..., Iterable[tuple[Any, Any]]], *args: Any) -> None:
        """Takes what an element is sent as.

        Args:
          items_of: returns (partition, item) pairs of an element; an item has at most 128 bytes.
          args: further arguments of it.
        """
        self._items_of, self._args = items_of, args

    def start_bundle(self) -> None:
        self._items: dict[Any, list[Any]] = {}
        self._held = 0

    def process(self, element: Any) -> Iterator[tuple[Any, list[Any]]]:
        for partition, item in self._items_of(element, *self._args):
            items = self._items.setdefault(partition, [])
            items.append(item)
            self._held += 1
            if len(items) >= MOST_IN_ELEMENT:
                self._held -= len(items)
                yield partition, self._items.pop(partition)
        if self._held > _MOST_HELD:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        for items in self._flush():
            yield GlobalWindows.windowed_value(items)

    def _flush(self) -> Iterator[tuple[Any, list[Any]]]:
        yield from self._items.items()
        self._items, self._held = {}, 0


def addresses(sent: Iterable[Sent], folder: str) -> list[Address]:
    """Returns where payloads are; ``folder`` is that of ``SendMessages``."""
    return [
        Address(_path_of(folder, each.order, each.attempt), each.offset, each.length)
        for each in sent
    ]


def receive(partition: Any, sent: Iterable[Sequence[Sent]], folder: str) -> Received:
    """Returns the payloads of one partition.

    Args:
      partition: its number.
      sent: all that ``SendMessages`` gave for it, in any order.
      folder: as in ``SendMessages``.
    """
    ordered = sorted(itertools.chain.from_iterable(sent))
    return Received(
        partition, tuple(addresses(ordered, folder)), tuple(each.order for each in ordered)
    )


def receive_all(sent: Iterable[tuple[Any, Sequence[Sent]]], folder: str) -> list[Received]:
    """Returns the payloads of all partitions, ordered by partition.

    Args:
      sent: all that ``SendMessages`` gave, in any order.
      folder: as in ``SendMessages``.
    """
    by_partition: dict[Any, list[Sequence[Sent]]] = {}
    for partition, some in sent:
        by_partition.setdefault(partition, []).append(some)
    return [
        receive(partition, by_partition[partition], folder) for partition in sorted(by_partition)
    ]
