"""Moves payloads from the pieces that make them to the partitions that need them, in a fixed order.

Two ways with one interface. On a cluster the payloads themselves go through the engine's GroupByKey. On one machine,
where Beam's local runner would hold them in memory (and, with its flush timer on, lose some: see runners.py), they go
through files and only their addresses are grouped.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines import files
from beam_pipelines.errors import DataError

# Places that a sender holds, some hundred bytes each, before it sends them.
_MOST_HELD = 50_000


class Parcel(NamedTuple):
    """What one piece sends.

    Attributes:
      order: orders the parcels of a partition, and is unique among them: ``(range_number, part, …)``.
      payloads: partition -> bytes, or several, also Arrow's buffers, that stand one behind the other.
    """

    order: tuple[int, ...]
    payloads: Mapping[int, bytes | Sequence[bytes | pa.Buffer]]


class Address(NamedTuple):
    """Where a payload lies: ``length`` bytes at ``offset`` of a file."""

    path: str
    offset: int
    length: int


class Delivery(NamedTuple):
    """What one partition gets.

    Attributes:
      partition: its number.
      contents: payloads, or their addresses, in order.
      orders: the parcels' orders, one for each content.
    """

    partition: int
    contents: tuple[bytes | Address, ...]
    orders: tuple[tuple[int, ...], ...]

    def payloads(self) -> Iterator[bytes]:
        """Yields the payloads in order, one in memory at a time."""
        for content in self.contents:
            yield load_payload(content)


def store_parcel(folder: str, parcel: Parcel) -> dict[int, Address]:
    """Writes a parcel's payloads one after the other into one file, named by its order, so that a retry replaces it."""
    path = _path_of(folder, parcel.order)
    addresses: dict[int, Address] = {}
    offset = 0
    with files.replace(path) as file:
        for partition, payload in parcel.payloads.items():
            start = offset
            for part in _parts(payload):
                file.write(part)
                offset += len(part)
            addresses[partition] = Address(path, start, offset - start)
    return addresses


def _path_of(folder: str, order: tuple[int, ...]) -> str:
    return files.join(folder, "_".join(map(str, order)))


def _parts(payload: bytes | Sequence[bytes | pa.Buffer]) -> Sequence[bytes | pa.Buffer]:
    return [payload] if isinstance(payload, bytes) else payload


def payload_size(content: bytes | Address) -> int:
    """Returns the bytes of a payload."""
    return len(content) if isinstance(content, bytes) else content.length


def load_payload(content: bytes | Address, start: int = 0, end: int | None = None) -> bytes:
    """Returns a payload, or its bytes from ``start`` until before ``end``, from its file where it has only an address."""
    end = payload_size(content) if end is None else end
    if isinstance(content, bytes):
        return content[start:end]
    with files.open_read(content.path) as file:
        file.seek(content.offset + start)
        payload = file.read(end - start)
    if len(payload) != end - start:
        raise DataError(
            f"{content.path}: found {len(payload)} bytes at {content.offset + start}, expected {end - start}. "
            "A temporary file was changed or removed during the run: run again."
        )
    return payload


@dataclasses.dataclass
class Exchange(beam.PTransform):
    """Groups payloads by partition.

    Input: ``Parcel`` elements, in one PCollection or several. Output: one ``Delivery`` for each partition that was sent
    anything, in no order; its payloads are ordered by their parcels' ``order``, whatever the runner.

    Attributes:
      folder: where the payloads wait, or ``None`` to send them through the engine.
    """

    folder: str | None

    def expand(
        self, parcels: beam.PCollection[Parcel] | Sequence[beam.PCollection[Parcel]]
    ) -> beam.PCollection[Delivery]:
        # Flattened only after they are stored: Beam's local runner carries what it flattens through its own memory.
        branches = [parcels] if isinstance(parcels, beam.PCollection) else parcels
        stored = [
            branch | f"Store{number}" >> beam.ParDo(_Send(self.folder))  # (partition, [(order, payload or place)])
            for number, branch in enumerate(branches)
        ]
        return stored | beam.Flatten() | "Group" >> beam.GroupByKey() | "Deliver" >> beam.Map(_deliver, self.folder)


class _Send(beam.DoFn):
    """Sends parcels. Output: ``(partition, [(order, payload)])``, or where there is a folder ``(partition, [(order, (offset, length))])``.

    Places of many parcels are one element: each costs Beam's local runner 200 bytes, several times over.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        self._places: dict[int, list[tuple[tuple[int, ...], tuple[int, int]]]] = {}
        self._held = 0

    def process(self, parcel: Parcel) -> Iterator[tuple[int, list[tuple[tuple[int, ...], Any]]]]:
        if self._folder is None:
            for partition, payload in parcel.payloads.items():
                yield partition, [(parcel.order, b"".join(_parts(payload)))]
            return
        for partition, address in store_parcel(self._folder, parcel).items():
            self._places.setdefault(partition, []).append((parcel.order, (address.offset, address.length)))
        self._held += len(parcel.payloads)
        if self._held > _MOST_HELD:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        for sent in self._flush():
            yield GlobalWindows.windowed_value(sent)

    def _flush(self) -> Iterator[tuple[int, list[tuple[tuple[int, ...], tuple[int, int]]]]]:
        yield from self._places.items()
        self._places, self._held = {}, 0


def _deliver(group: tuple[int, Iterable[Sequence[tuple[tuple[int, ...], Any]]]], folder: str | None) -> Delivery:
    partition, sent = group
    ordered = sorted(itertools.chain.from_iterable(sent), key=lambda entry: entry[0])
    contents = (content if folder is None else Address(_path_of(folder, order), *content) for order, content in ordered)
    return Delivery(partition, tuple(contents), tuple(order for order, _ in ordered))
