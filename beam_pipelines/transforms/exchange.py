"""Moves payloads from chunks to partitions, in a fixed order.

If all workers share a filesystem, payloads are files, and the runner moves only their addresses. If
the output is on an object store, whose reads take tens of milliseconds each, the engine's
GroupByKey moves the payloads, in slices of at most 1 MiB (``core/slices.py``).
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.core import slices
from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files

# Items, of some hundred bytes each, that a sender collects.
_MOST_HELD = 50_000
# Items in one element.
_MOST_IN_ELEMENT = slices.MAX_ELEMENT_BYTES // 128


class Message(NamedTuple):
    """The payloads of one chunk.

    Attributes:
      order: orders the messages of a partition: ``(range_number, part, …)``.
      payloads: partition (an integer or a tuple) -> bytes, or buffers to concatenate.
    """

    order: tuple[int, ...]
    payloads: Mapping[Any, slices.Buffers]


class Address(NamedTuple):
    """Where a payload is stored: ``length`` bytes at ``offset`` of a file."""

    path: str
    offset: int
    length: int


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
    attempt, sent, offset = new_attempt(), [], 0
    with files.replace(_path_of(folder, message.order, attempt)) as file:
        for partition, payload in message.payloads.items():
            start = offset
            parts: Any = [payload] if isinstance(payload, bytes) else payload
            for part in parts:
                file.write(part)
                offset += len(part)
            sent.append((partition, Sent(message.order, attempt, (start, offset - start))))
    return sent


def new_attempt() -> str:
    """Returns a unique name for an attempt to write."""
    return uuid.uuid4().hex[:12]


def _path_of(folder: str, order: tuple[int, ...], attempt: str) -> str:
    return files.join(folder, "_".join([*map(str, order), attempt]))


def load_payload(content: bytes | Address) -> bytes:
    """Returns a payload.

    Raises:
      DataError: the payload's file is too short.
    """
    if isinstance(content, bytes):
        return content
    with files.open_read(content.path) as file:
        file.seek(content.offset)
        payload = file.read(content.length)
    if len(payload) != content.length:
        raise DataError(
            f"{content.path}: found {len(payload)} bytes at {content.offset}, expected "
            f"{content.length}. "
            "A temporary file was changed or removed during the run: run again."
        )
    return payload


@dataclasses.dataclass
class SendMessages(beam.PTransform):
    """Sends payloads to their partitions.

    Input: ``Message`` elements. Output: ``(partition, [Sent])``; ``receive`` makes a ``Received``
    of a partition's elements. No element is larger than ``slices.MAX_ELEMENT_BYTES``.

    Attributes:
      folder: for the payloads, on storage that all workers share; ``None`` sends them through the
        engine.
    """

    folder: str | None

    def expand(
        self, messages: beam.PCollection[Message]
    ) -> beam.PCollection[tuple[Any, list[Sent]]]:
        return messages | "Store" >> beam.ParDo(
            _SendSlices() if self.folder is None else CollectByPartition(store_message, self.folder)
        )


@dataclasses.dataclass
class Exchange(beam.PTransform):
    """Groups payloads by partition.

    Input: ``Message`` elements, in one PCollection or several. Output: one ``Received`` for each
    partition with a payload, in any order. On every runner, its payloads are ordered by their
    messages' ``order``.

    Attributes:
      folder: as in ``SendMessages``.
    """

    folder: str | None

    def expand(
        self, messages: beam.PCollection[Message] | Sequence[beam.PCollection[Message]]
    ) -> beam.PCollection[Received]:
        # Flatten after sending: engines materialize the inputs of a Flatten, and a message has no
        # size limit.
        branches = [messages] if isinstance(messages, beam.PCollection) else messages
        sent = [
            branch | f"Send{number}" >> SendMessages(self.folder)
            for number, branch in enumerate(branches)
        ]
        return (
            sent
            | beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "Deliver"
            >> beam.Map(lambda group, folder: receive(group[0], group[1], folder), self.folder)
        )


class Sent(NamedTuple):
    """The part of a payload that crosses the runner.

    Attributes:
      order: of its message.
      attempt: tells apart messages of one order, and attempts to send one message.
      content: a slice of the payload; or offset and length of its address.
    """

    order: tuple[int, ...]
    attempt: str
    content: slices.Slice | tuple[int, int]


class _SendSlices(beam.DoFn):
    """Sends payloads as ``(partition, [Sent])``, with one slice each."""

    def process(self, message: Message) -> Iterator[tuple[Any, list[Sent]]]:
        attempt = new_attempt()
        for partition, payload in message.payloads.items():
            for part in slices.cut(payload):
                yield partition, [Sent(message.order, attempt, part)]


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
            if len(items) >= _MOST_IN_ELEMENT:
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


def receive(partition: Any, sent: Iterable[Sequence[Sent]], folder: str | None) -> Received:
    """Returns the payloads of one partition.

    Args:
      partition: its number.
      sent: all that ``SendMessages`` gave for it, in any order.
      folder: as in ``SendMessages``.
    """
    ordered = sorted(itertools.chain.from_iterable(sent), key=lambda each: (each[0], each[1]))
    contents: list[bytes | Address] = []
    orders = []
    for (order, attempt), own in itertools.groupby(ordered, key=lambda each: (each[0], each[1])):
        if folder is None:
            contents.append(slices.concatenate(slices.Slice(*content) for _, _, content in own))
        else:
            contents.extend(
                Address(_path_of(folder, order, attempt), *content) for _, _, content in own
            )
        orders.append(order)
    return Received(partition, tuple(contents), tuple(orders))


def receive_all(sent: Iterable[tuple[Any, Sequence[Sent]]], folder: str | None) -> list[Received]:
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
