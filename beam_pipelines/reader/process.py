"""Reads groups in a process of its own, into shared memory.

A training then keeps the interpreter's lock to itself. The other process is a new interpreter, not
a fork: a fork would have the locks and the CUDA context of the training's threads. The arrays of a
group are packed into one block of memory, which one call copies to a device.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import mmap
import os
import select
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from queue import LifoQueue, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.process import python_process
from beam_pipelines.reader import pipeline
from beam_pipelines.reader.columns import DenseColumn
from beam_pipelines.reader.frameworks import Batch, mapped
from beam_pipelines.reader.sequence import StreamPlace

# One for each group that is prepared ahead or in use, and three that the other process copies: a
# thread that waits for a block never waits for a group behind its own.
BLOCKS = pipeline.groups_ahead(pipeline.MAX_THREADS) + 4
_COMMAND = """
from beam_pipelines.reader.process import serve
serve([int(number) for number in sys.argv[1:]])
"""
# Packed arrays begin at multiples of it, so no cache line has two.
_ALIGNMENT = 64

# Arrays, and the first byte of each in a block.
Contents = list[tuple[int, npt.NDArray[Any]]]


@dataclasses.dataclass(frozen=True)
class PackedArray:
    """An array in a block.

    Attributes:
      start: its first byte.
      dtype: of numpy.
      shape: of the array.
    """

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """The byte behind the array."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


class PackedGroup(NamedTuple):
    """The batches of a group.

    Attributes:
      features: their names, in order.
      behind: the place behind each batch.
      edges: the edges of the batches in the rows of the group.
      stacks: features of one type and shape, and an array [features, rows, ...].
      others: other features -> a list with the values of each batch: an array, ``Ragged`` or
        ``Keyed``.
      bytes: size of the block, a multiple of the sizes of all numbers.
    """

    features: list[str]
    behind: tuple[StreamPlace, ...]
    edges: list[int]
    stacks: list[tuple[list[str], Any]]
    others: dict[str, list[Any]]
    bytes: int

    def unpacked(self, view: Callable[[PackedArray], Any]) -> PackedGroup:
        """Returns the same with arrays instead of each ``PackedArray``."""
        return self._replace(
            stacks=[(names, view(stack)) for names, stack in self.stacks],
            others={
                name: [mapped(view, value) for value in values]
                for name, values in self.others.items()
            },
        )

    def batch(self, number: int) -> Batch:
        """Returns a batch of unpacked arrays, without a copy."""
        start, stop = self.edges[number], self.edges[number + 1]
        found = {name: values[number] for name, values in self.others.items()}
        for names, stack in self.stacks:
            found.update(zip(names, stack[:, start:stop], strict=True))
        return {name: found[name] for name in self.features}


def pack(group: pipeline.Group) -> tuple[PackedGroup, Contents]:
    """Plans the block of a group, and returns the block's contents."""
    contents: Contents = []
    end = 0

    def place(arrays: Sequence[npt.NDArray[Any]], shape: tuple[int, ...]) -> PackedArray:
        """Plans arrays of one type and shape, one behind the other."""
        nonlocal end
        packed = PackedArray(end, arrays[0].dtype, shape)
        for number, array in enumerate(arrays):
            contents.append((end + number * array.nbytes, array))
        end = -(-packed.end // _ALIGNMENT) * _ALIGNMENT
        return packed

    def alone(array: npt.NDArray[Any]) -> Any:
        return place([array], array.shape)

    dense: dict[Any, dict[str, npt.NDArray[Any]]] = {}
    others: dict[str, list[Any]] = {}
    for name, column in group.columns.items():
        if isinstance(column, DenseColumn):
            array = column.cut(0, group.edges[-1])
            dense.setdefault((array.dtype, array.shape), {})[name] = array
        else:
            cuts = itertools.pairwise(group.edges)
            others[name] = [mapped(alone, column.cut(*edges)) for edges in cuts]
    stacks: list[tuple[list[str], Any]] = []
    for (_, shape), found in dense.items():
        arrays = list(found.values())
        stacks.append((list(found), place(arrays, (len(arrays), *shape))))
    return PackedGroup(
        list(group.columns), group.behind, group.edges, stacks, others, end
    ), contents


def fill(block: npt.NDArray[np.uint8], contents: Contents) -> None:
    """Copies the contents that ``pack`` returns to a block."""
    for start, array in contents:
        place = block[start : start + array.nbytes].view(array.dtype)
        np.copyto(place.reshape(array.shape), array)


class Filled(NamedTuple):
    """A group in the shared memory.

    Attributes:
      block: the number of its block; ``free`` gives it back.
      block_bytes: size of the block.
      group: what is where in the block.
    """

    block: int
    block_bytes: int
    group: PackedGroup


class ReadingProcess:
    """A process that reads one pass after the other.

    Attributes:
      blocks: file descriptors of the blocks of shared memory.
    """

    def __init__(self) -> None:
        own, other = socket.socketpair()
        self.blocks = [os.memfd_create("beam-pipelines-reader") for _ in range(BLOCKS)]
        with other:
            descriptors = [other.fileno(), *self.blocks]
            self._process = python_process.start(
                _COMMAND,
                [str(number) for number in descriptors],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
        self._connection = Connection(own.detach())
        self._readiness = select.poll()  # the connection's own ``poll`` makes one for each call
        self._readiness.register(self._connection.fileno(), select.POLLIN)
        # Also at the end of the interpreter.
        self.close = weakref.finalize(
            self, _end, os.getpid(), self._process, self._connection, self.blocks
        )

    def begin(self, reading: pipeline.Reading) -> None:
        """Begins a pass; all groups of the one before were returned."""
        self._send(reading)

    def is_ready(self) -> bool:
        """Whether ``next`` returns at once."""
        return bool(self._readiness.poll(0))

    def next(self) -> Filled | None:
        """Returns the next group, or ``None`` at the end of the pass.

        Raises:
          DataError: as ``read_groups``.
          ChildProcessError: the process has ended.
        """
        try:
            found: Filled | Exception | None = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(found, Exception):
            raise found
        return found

    def free(self, block: int) -> None:
        """Gives a block back, to be filled again."""
        self._send(block)

    def _send(self, message: pipeline.Reading | int) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise self._ended() from None

    def _ended(self) -> ChildProcessError:
        status = self._process.wait()
        return ChildProcessError(
            f"device: the process that reads has ended with status {status}, expected it to "
            "live as long as the reader. If something killed it, such as a lack of memory, free "
            "memory and read on; or leave the device out, to read in this process."
        )


def _end(
    owner: int, process: subprocess.Popen[bytes], connection: Connection, blocks: list[int]
) -> None:
    if os.getpid() != owner:  # a fork of the training, which goes on reading
        return
    connection.close()
    process.kill()
    process.wait()
    for block in blocks:
        os.close(block)


def serve(descriptors: list[int]) -> None:
    """Reads what the other process asks for, until it ends.

    Args:
      descriptors: of the socket, and of the blocks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends this process
    connection = Connection(descriptors[0])
    blocks = [_SharedBlock(number, descriptor) for number, descriptor in enumerate(descriptors[1:])]
    free: LifoQueue[_SharedBlock] = LifoQueue()  # few threads fill few blocks, again and again
    for block in reversed(blocks):
        free.put(block)
    readings: SimpleQueue[pipeline.Reading] = SimpleQueue()

    def receive() -> None:
        while True:
            try:
                message = connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # the other process has ended
            if isinstance(message, int):
                free.put(blocks[message])
            else:
                readings.put(message)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        for message in _messages(readings.get(), free):
            try:
                connection.send(message)
            except OSError:
                os._exit(0)


def _messages(
    reading: pipeline.Reading, free: LifoQueue[_SharedBlock]
) -> Iterator[Filled | Exception | None]:
    """Yields the groups of a pass, then ``None`` or an error."""
    try:
        yield from pipeline.read_groups(reading, partial(_fill, reading.most, free))
    except Exception as error:  # noqa: BLE001 - the other process raises it
        yield error
    else:
        yield None


def _fill(most: int, free: LifoQueue[_SharedBlock], group: pipeline.Group) -> Filled:
    """Copies a group to a free block."""
    packed, contents = pack(group)
    block = free.get()
    # The first groups have fewer batches than later ones, and numbers of values vary.
    expected = packed.bytes * most // len(packed.behind)
    fill(block.view(packed.bytes, max(packed.bytes, expected) * 9 // 8), contents)
    return Filled(block.number, block.bytes, packed)


class _SharedBlock:
    """A block of the shared memory.

    Attributes:
      number: of the block.
      bytes: its size.
    """

    def __init__(self, number: int, descriptor: int) -> None:
        self.number, self._descriptor, self.bytes = number, descriptor, 0
        self._whole: npt.NDArray[Any] = np.zeros(0, np.uint8)

    def view(self, size: int, expected: int) -> npt.NDArray[np.uint8]:
        """Returns the first bytes; a smaller block grows to the expected size."""
        if size > self.bytes or not self.bytes:
            self.bytes = (expected // mmap.PAGESIZE + 1) * mmap.PAGESIZE
            os.ftruncate(self._descriptor, self.bytes)
            self._whole = np.frombuffer(mmap.mmap(self._descriptor, self.bytes), np.uint8)
        return self._whole[:size]
