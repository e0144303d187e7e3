"""Moves payloads from the pieces that make them to the partitions that need them, in a fixed order.

Two ways with one interface. On a cluster the payloads themselves go through the engine's GroupByKey. On one machine,
where Beam's local runner would hold them in memory (and, with its flush timer on, lose some: see runners.py), they go
through files and only their addresses are grouped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_pipelines import files
from beam_pipelines.errors import DataError


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
    path = files.join(folder, "_".join(str(number) for number in parcel.order))
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
            branch | f"Store{number}" >> beam.FlatMap(_send, self.folder)  # (partition, (order, payload or address))
            for number, branch in enumerate(branches)
        ]
        return stored | beam.Flatten() | "Group" >> beam.GroupByKey() | "Deliver" >> beam.MapTuple(_deliver)


def _send(parcel: Parcel, folder: str | None) -> Iterator[tuple[int, tuple[tuple[int, ...], bytes | Address]]]:
    if folder is None:
        contents: Mapping[int, bytes | Address] = {
            to: b"".join(_parts(payload)) for to, payload in parcel.payloads.items()
        }
    else:
        contents = store_parcel(folder, parcel)
    for partition, content in contents.items():
        yield partition, (parcel.order, content)


def _deliver(partition: int, sent: Iterable[tuple[tuple[int, ...], bytes | Address]]) -> Delivery:
    ordered = sorted(sent, key=lambda entry: entry[0])
    return Delivery(partition, tuple(content for _, content in ordered), tuple(order for order, _ in ordered))
