"""Blocks of records: the bytes and offsets of many TFRecord frames.

They save a Python object for each record. A frame is ``length (uint64) · its CRC (uint32) · data ·
its CRC (uint32)``; ``tfrecord/framing.py`` finds and checks frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core._native.shared import FOOTER_BYTES, HEADER_BYTES
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.errors import DataError


class RecordBlock(Sequence[bytes]):
    """Serialized records, in order; a slice shares their bytes.

    Attributes:
      data: bytes of a TFRecord file.
      starts: int64[n + 1], the offset in ``data`` of each of the n frames, and the end of the last
        one.
    """

    def __init__(self, data: bytes, starts: npt.NDArray[np.int64]) -> None:
        """Takes frames with checked CRCs."""
        self.data = data
        self.starts = starts

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> RecordBlock: ...

    def __getitem__(self, place: int | slice) -> bytes | RecordBlock:
        """Returns a record, or a slice of neighbouring ones.

        Raises:
          IndexError: no record has the number.
          ValueError: a slice with a step.
        """
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError(f"found a step of {step}, expected neighbouring records")
            return RecordBlock(self.data, self.starts[start : max(start, stop) + 1])
        number = range(len(self))[place]
        return self.data[
            self.starts[number] + HEADER_BYTES : self.starts[number + 1] - FOOTER_BYTES
        ]

    def __iter__(self) -> Iterator[bytes]:
        """Yields each record. The loop runs in C (``map`` of C functions)."""
        heads, tails = self.starts[:-1] + HEADER_BYTES, self.starts[1:] - FOOTER_BYTES
        return map(
            bytes.__getitem__,
            itertools.repeat(self.data),
            map(slice, heads.tolist(), tails.tolist()),
        )

    @property
    def framed_bytes(self) -> int:
        """The number of bytes of all frames."""
        return int(self.starts[-1] - self.starts[0])

    def frames(self) -> pa.LargeBinaryArray:
        """Returns the frames as n values of an array, without copying.

        The array has no nulls.
        """
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.starts)), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


def part_edges(records: pa.LargeBinaryArray, part_size: int) -> npt.NDArray[np.int64]:
    """Returns the first record of each part, and the number of records."""
    offsets, edges = offsets_of(records), [0]
    while edges[-1] < len(records):
        start = edges[-1]
        end = int(np.searchsorted(offsets, offsets[start] + part_size, side="right")) - 1
        edges.append(max(end, start + 1))
    return np.array(edges, np.int64)


def framed_records(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64] | None,
    record: str | None,
    lists: Collection[str] = (),
) -> pa.LargeBinaryArray:
    """Returns one TFRecord record for each row.

    Args:
      batch: features as columns.
      rows: rows in the order of the records; ``None``: all.
      record: the column whose values are the records, or ``None``.
      lists: names of feature lists; with any, records are tf.SequenceExamples, else tf.Examples.

    Raises:
      DataError: a null in the column ``record``.
    """
    if record is None:
        return _native.serialize(batch, rows, lists)
    values = (batch if rows is None else take_rows(batch, rows)).column(record)
    if values.null_count:
        raise DataError(missing_records(record, values.null_count))
    return _native.frame(values.cast(pa.binary()))


def missing_records(record: str, nulls: int) -> str:
    """Returns the message for rows with a null as their record."""
    return (
        f"output.record '{record}': found {nulls:,} rows without a value, expected none; nothing "
        "was written. Leave them out "
        f"with 'filter: {record} IS NOT NULL'."
    )
