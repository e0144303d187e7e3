"""Blocks of records: the bytes and offsets of many TFRecord frames.

They save a Python object for each record. A frame is ``length (uint64) · its CRC (uint32) · data ·
its CRC (uint32)``; ``tfrecord/framing.py`` finds and checks frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import FOOTER_BYTES, HEADER_BYTES
from beam_pipelines.core.arrow.binary_arrays import offsets_of


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
