"""Sizes that Arrow IPC messages state, before they are decompressed.

Format: https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa

from beam_pipelines.core.limits import Limits, exceeds_ratio, ratio_exceeded

# Vectors of the flatbuffers: buffers of a message, and messages of a file.
_BUFFER = np.dtype([("offset", "<i8"), ("size", "<i8")])
_BLOCK = np.dtype([("offset", "<i8"), ("size", "<i4"), ("", "<i4"), ("body", "<i8")])
_DICTIONARIES, _BATCH = 2, 3
# Marks a compressed message before version 1 of the format.
_EARLY = b"ARROW:experimental_compression"


class _FlatTable(NamedTuple):
    """A table of a flatbuffer."""

    data: bytes
    place: int

    def number(self, place: int, layout: str = "<i") -> int:
        return int(struct.unpack_from(layout, self.data, place)[0])

    def field(self, number: int) -> int:
        """Returns the place of a field; 0 if there is none."""
        slots, slot = self.place - self.number(self.place), 4 + 2 * number
        known = slot < self.number(slots, "<H")
        offset = self.number(slots + slot, "<H") if known else 0
        return self.place + offset if offset else 0

    def table(self, number: int) -> _FlatTable:
        place = self.field(number)
        return _FlatTable(self.data, place + self.number(place))

    def structs(self, number: int, dtype: np.dtype) -> list[tuple[int, ...]]:
        start = self.table(number).place if self.field(number) else 0
        count = self.number(start) if start else 0
        return np.frombuffer(self.data, dtype, count, start + 4).tolist() if count else []


def batch_sizes(file: BinaryIO, is_file: bool) -> Iterator[tuple[int, int]]:
    """Yields the bytes of each batch, and how many they become.

    Dictionaries count to the batch behind them. The position of the file stays.

    Raises:
      ValueError: a message cannot be read.
    """
    try:
        compressed = decompressed = 0
        position = file.tell()
        for kind, *sizes in _listed(file) if is_file else _streamed(file):
            if kind in (_DICTIONARIES, _BATCH):
                compressed, decompressed = compressed + sizes[0], decompressed + sizes[1]
            if kind == _BATCH:
                file.seek(position)
                yield compressed, decompressed
                compressed = decompressed = 0
                position = file.tell()
        file.seek(position)
    except (struct.error, IndexError) as error:
        raise ValueError("a message cannot be read") from error


def check_growth(data: bytes | pa.Buffer) -> None:
    """Checks a small file of a dataset before it is decompressed.

    Raises:
      ValueError: it cannot be read, or grows beyond the default limit.
    """
    for sizes in batch_sizes(cast("BinaryIO", pa.BufferReader(data)), is_file=True):
        if exceeds_ratio(Limits(), *sizes):
            raise ValueError(ratio_exceeded(Limits(), *sizes))


def _listed(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yields kind and sizes of the messages in a file's footer."""
    end = file.seek(0, os.SEEK_END) - 10
    (size,) = struct.unpack("<i", _read(file, end, 4))
    footer = _root(_read(file, end - size, size))
    for start, size, *_ in footer.structs(2, _BLOCK) + footer.structs(3, _BLOCK):
        yield _message(file, start, size)


def _streamed(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yields kind and sizes of the messages of a stream."""
    place = 0
    while file.seek(place) == place and len(start := file.read(8)) == 8:
        mark, size = struct.unpack("<ii", start)
        size = 8 + size if mark == -1 else 4 + mark  # early streams have no mark
        if size in (4, 8):
            return
        yield (message := _message(file, place, size))
        place += size + message[1]


def _message(file: BinaryIO, start: int, size: int) -> tuple[int, int, int]:
    """Returns a message's kind, and bytes of its body and buffers."""
    data = _read(file, start, size)
    message = _root(data[8 if data.startswith(b"\xff" * 4) else 4 :])
    kind = message.number(message.field(1), "<B") if message.field(1) else 0
    own = message.number(message.field(3), "<q") if message.field(3) else 0
    if kind not in (_DICTIONARIES, _BATCH):
        return kind, own, own
    batch = message.table(2).table(1) if kind == _DICTIONARIES else message.table(2)
    if not batch.field(3) and _EARLY not in data:
        return kind, own, own
    stated = 0
    for offset, length in batch.structs(2, _BUFFER):
        if length >= 8:
            (known,) = struct.unpack("<q", _read(file, start + size + offset, 8))
            stated += length - 8 if known < 0 else known  # -1: as it is
    return kind, own, stated


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    if min(start, size) < 0:
        raise ValueError("a message begins before the file, or has less than no bytes")
    file.seek(start)
    return file.read(size)


def _root(data: bytes) -> _FlatTable:
    return _FlatTable(data, 0)._replace(place=_FlatTable(data, 0).number(0))
