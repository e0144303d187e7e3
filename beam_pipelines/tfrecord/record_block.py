"""Records as they lie in a TFRecord file: the bytes of many frames and where each begins, instead
of a Python object for each record.

A frame is ``length (uint64) · its CRC (uint32) · data · its CRC (uint32)``; ``tfrecord/framing.py``
finds frames and checks them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADER_BYTES, FOOTER_BYTES = 12, 4


class RecordBlock(Sequence[bytes]):
    """Serialized records, in order; a slice of them shares their bytes.

    Attributes:
      data: bytes of a TFRecord file.
      starts: int64[n + 1], where in ``data`` the frame of each of the n records begins, and where
        the last one ends.
    """

    def __init__(self, data: bytes, starts: npt.NDArray[np.int64]) -> None:
        """Takes frames that were checked."""
        self.data = data
        self.starts = starts

    def __len__(self) -> int:
        """Returns how many records there are."""
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> RecordBlock: ...

    def __getitem__(self, place: int | slice) -> bytes | RecordBlock:
        """Returns a record, or neighbouring ones.

        Raises:
          IndexError: there is no such record.
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
        """How many bytes the frames have, all together."""
        return int(self.starts[-1] - self.starts[0])

    def frames(self) -> pa.LargeBinaryArray:
        """Returns the frames as n values of an array, without a copy; no nulls."""
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.starts)), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
