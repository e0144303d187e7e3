"""Copies groups of batches to the current CUDA device, one ahead."""

from __future__ import annotations

import collections
import mmap
import weakref
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.reader.frameworks import Batch, mapped
from beam_pipelines.reader.packing import PackedArray, PackedGroup
from beam_pipelines.reader.pipeline import Reading
from beam_pipelines.reader.process import Filled, ReadingProcess
from beam_pipelines.reader.sequence import StreamPlace


def check_devices(as_: str) -> None:
    """Checks that tensors can be copied to a CUDA device.

    Raises:
      ValueError: batches are of another kind, or PyTorch finds no CUDA device.
    """
    if as_ != "torch":
        raise ValueError(f"pin_memory: found it with as_='{as_}', expected as_='torch'.")
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "pin_memory: found no CUDA device, expected one that PyTorch can use. Leave pin_memory "
            "out."
        )


class _Copied(NamedTuple):
    """A group on the device.

    Attributes:
      memory: all arrays, as one tensor of bytes.
      group: its batches, with views of the memory.
      event: the end of the copy.
      block: of the shared memory, which the copy reads.
    """

    memory: Any
    group: PackedGroup
    event: Any
    block: int


class Device:
    """Reads in another process, and copies to the current CUDA device.

    The shared memory is pinned. Copies run in a stream of their own. The stream that is current
    when a batch is asked for waits for the copy of its group, not for that of the next one.
    """

    def __init__(self) -> None:
        self._process: ReadingProcess | None = None
        self._pinned: dict[int, _Pinned] = {}
        self._stream: Any = None

    def read(self, reading: Reading) -> Generator[tuple[StreamPlace, Batch], None, None]:
        """Yields the batches of a pass, with the places behind them.

        Raises:
          DataError: as ``read_groups``.
          ChildProcessError: the process that reads has ended.
        """
        import torch

        if self._process is None:
            self._process = ReadingProcess()
        self._stream = self._stream or torch.cuda.Stream()
        self._process.begin(reading)
        is_complete = False
        try:
            yield from self._batches(self._process)
            is_complete = True
        finally:
            if not is_complete:
                self.close()

    def copy(self, batch: Batch) -> Batch:
        """Returns a batch whose tensors are copied to the device."""
        return {name: mapped(lambda array: array.cuda(), value) for name, value in batch.items()}

    def close(self) -> None:
        """Ends the process, and frees the pinned memory."""
        if self._process is not None:
            self._process.close()
            self._stream.synchronize()
        for pinned in self._pinned.values():
            pinned.close()
        self._process, self._pinned = None, {}

    def _batches(self, process: ReadingProcess) -> Generator[tuple[StreamPlace, Batch], None, None]:
        import torch

        waiting: collections.deque[_Copied] = collections.deque()
        copying: collections.deque[_Copied] = collections.deque()
        has_more = True
        while True:
            if has_more and not waiting:
                _free(process, copying, waits=True)  # the process may wait for a block
                has_more = self._begin_copy(process, waiting, copying)
            if not waiting:
                _free(process, copying, waits=True)
                return
            now = waiting.popleft()
            for number, behind in enumerate(now.group.behind):
                _free(process, copying, waits=False)
                if has_more and not waiting and process.is_ready():
                    has_more = self._begin_copy(process, waiting, copying)
                current = torch.cuda.current_stream()
                current.wait_event(now.event)
                # Its memory is not given to another tensor before this stream is done with it.
                now.memory.record_stream(current)
                yield behind, now.group.batch(number)

    def _begin_copy(
        self,
        process: ReadingProcess,
        waiting: collections.deque[_Copied],
        copying: collections.deque[_Copied],
    ) -> bool:
        """Begins to copy the next group; returns whether there is one."""
        import torch

        filled = process.next()
        if filled is None:
            return False
        block = self._block(process, filled)
        with torch.cuda.stream(self._stream):
            memory = torch.empty(len(block), dtype=torch.uint8, device="cuda")
            memory.copy_(block, non_blocking=True)
            event = self._stream.record_event()

        def view(packed: PackedArray) -> Any:
            dtype = torch.from_numpy(np.empty(0, packed.dtype)).dtype
            return memory[packed.start : packed.end].view(dtype).view(packed.shape)

        waiting.append(_Copied(memory, filled.group.unpacked(view), event, filled.block))
        copying.append(waiting[-1])
        return True

    def _block(self, process: ReadingProcess, filled: Filled) -> Any:
        """Returns a group's bytes in pinned memory, as a tensor."""
        pinned = self._pinned.get(filled.block)
        if pinned is None or pinned.bytes != filled.block_bytes:
            if pinned is not None:
                pinned.close()
            pinned = _Pinned(process.blocks[filled.block], filled.block_bytes)
            self._pinned[filled.block] = pinned
        return pinned.memory[: filled.group.bytes]


def _free(process: ReadingProcess, copying: collections.deque[_Copied], waits: bool) -> None:
    """Gives blocks back whose copies have ended.

    Waits for all if asked to.
    """
    while copying and (waits or copying[0].event.query()):
        copied = copying.popleft()
        copied.event.synchronize()
        process.free(copied.block)


class _Pinned:
    """A block of the shared memory, pinned.

    Attributes:
      bytes: its size.
      memory: the block, as a tensor of bytes.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        import torch

        self.bytes = size
        block = mmap.mmap(descriptor, size)
        self.memory = torch.frombuffer(block, dtype=torch.uint8)
        place = self.memory.data_ptr()
        runtime: Any = torch.cuda.cudart()
        torch.cuda.check_error(int(runtime.cudaHostRegister(place, size, 0)))
        # Unpinned before it is unmapped.
        self.close = weakref.finalize(self, _unpin, runtime, place, block)


def _unpin(runtime: Any, place: int, _block: mmap.mmap) -> None:
    runtime.cudaHostUnregister(place)
