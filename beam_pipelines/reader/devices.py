"""Copies groups of batches to a CUDA device, one ahead."""

from __future__ import annotations

import collections
import importlib
import mmap
import weakref
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.reader.features import ReadFeature
from beam_pipelines.reader.frameworks import Batch, handover, mapped
from beam_pipelines.reader.images import Image, Pictures
from beam_pipelines.reader.pipeline import Reading
from beam_pipelines.reader.process import Filled, PackedArray, PackedGroup, ReadingProcess
from beam_pipelines.reader.sequence import StreamPlace


def check_device(device: Any, as_: str, sharding: Any, features: Sequence[ReadFeature]) -> None:
    """Checks that batches can be made on a device.

    Raises:
      ValueError: batches are of another kind, there is no such device, or a package is missing.
    """
    if as_ not in {"torch", "jax"}:
        raise ValueError(f"device: found it with as_='{as_}', expected as_='torch' or 'jax'.")
    if sharding is not None:
        raise ValueError("device: found it with 'sharding', expected one of both.")
    has_pictures = any(feature.image is not None and feature.image.device for feature in features)
    for package in ("torch", "torchvision", "triton") if has_pictures else ("torch",):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ValueError(
                f"device: {package} cannot be imported ({error}). Install {package}."
            ) from error
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "device: found no CUDA device, expected one that PyTorch can use. Leave 'device' out."
        )
    try:
        _index_of(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"device: found {device!r}, expected 'cuda', or 'cuda:0' to "
            f"'cuda:{torch.cuda.device_count() - 1}'."
        ) from error


def _index_of(device: Any) -> int:
    import torch

    found = torch.device(device)
    index: int = torch.cuda.current_device() if found.index is None else found.index
    if found.type != "cuda" or index >= torch.cuda.device_count():
        raise ValueError
    return index


class _Made(NamedTuple):
    """Batches on the device, and the event at which they are ready."""

    group: PackedGroup
    event: Any


class _Copied(NamedTuple):
    """A group on the device.

    Attributes:
      memory: all arrays, as one tensor of bytes.
      made: the batches, with views of the memory; of pictures, while a thread decodes them.
      block: of the shared memory, which is read until the event.
    """

    memory: Any
    made: Future[_Made]
    block: int


class Device:
    """Reads in another process, and copies to a CUDA device.

    The shared memory is pinned. Copies run in a stream of their own, and a thread has JPEGs decoded
    in it. The stream that is current when a batch is asked for waits for the work on its group, not
    for that on the next one.
    """

    def __init__(self, device: Any, as_: str, features: Sequence[ReadFeature]) -> None:
        """Chooses the device; ``check_device`` has checked the arguments."""
        import torch

        self._device = torch.device("cuda", _index_of(device))
        self._as = as_
        self._images = {
            feature.name: feature.image
            for feature in features
            if feature.image is not None and feature.image.device
        }
        self._process: ReadingProcess | None = None
        self._pinned: dict[int, _Pinned] = {}
        self._stream: Any = None
        self._seed = 0
        self._thread = ThreadPoolExecutor(1, "beam-pipelines-pictures")  # starts when it is used
        self._decoding: list[Future[_Made]] = []

    def read(self, reading: Reading) -> Generator[tuple[StreamPlace, Batch], None, None]:
        """Yields the batches of a pass, with the places behind them.

        Raises:
          DataError: as ``read_groups``; or a picture is damaged.
          ChildProcessError: the process that reads has ended.
        """
        import torch

        if self._process is None:
            self._process = ReadingProcess()
        self._stream = self._stream or torch.cuda.Stream(self._device)
        self._seed = reading.order.seed
        self._process.begin(reading)
        is_complete = False
        try:
            for behind, batch in self._batches(self._process):
                yield behind, self._handed_over(batch)
            is_complete = True
        finally:
            if not is_complete:
                self.close()

    def copy(self, batch: Batch, seed: int) -> Batch:
        """Returns a batch of numpy arrays on the device."""
        host = handover("torch")(batch)
        found = {
            name: mapped(lambda array: array.to(self._device), value)
            for name, value in host.items()
        }
        for name, image in self._images.items():
            found[name] = self._decoded(name, image, seed, host[name], found[name])
        return self._handed_over(found)

    def close(self) -> None:
        """Ends the process, and frees the pinned memory."""
        if self._process is not None:
            self._process.close()
            wait(self._decoding)
            self._stream.synchronize()
        for pinned in self._pinned.values():
            pinned.close()
        self._process, self._pinned = None, {}

    def _handed_over(self, batch: Batch) -> Batch:
        if self._as == "torch":
            return batch
        import jax

        return {name: mapped(jax.dlpack.from_dlpack, value) for name, value in batch.items()}

    def _decoded(self, name: str, image: Image, seed: int, host: Pictures, own: Pictures) -> Any:
        import torch

        from beam_pipelines.reader.device_images import decode_pictures

        with torch.cuda.device(self._device):
            return decode_pictures(name, image, seed, host, own)

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
            made = now.made.result()
            for number, behind in enumerate(made.group.behind):
                _free(process, copying, waits=False)
                if has_more and not waiting and process.is_ready():
                    has_more = self._begin_copy(process, waiting, copying)
                current = torch.cuda.current_stream(self._device)
                current.wait_event(made.event)
                batch = made.group.batch(number)
                # Memory is not given to another tensor before this stream is done with it.
                for tensor in (now.memory, *(batch[name] for name in self._images)):
                    tensor.record_stream(current)
                yield behind, batch

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
            memory = torch.empty(len(block), dtype=torch.uint8, device=self._device)
            memory.copy_(block, non_blocking=True)
        group = _unpacked(filled.group, memory)
        if self._images:
            made = self._thread.submit(self._decode, _unpacked(filled.group, block), group)
            self._decoding = [made]  # the last one ends last
        else:
            made = Future[_Made]()
            made.set_result(_Made(group, self._stream.record_event()))
        waiting.append(_Copied(memory, made, filled.block))
        copying.append(waiting[-1])
        return True

    def _decode(self, host: PackedGroup, group: PackedGroup) -> _Made:
        """Makes the pixels of a group's batches."""
        import torch

        others = dict(group.others)
        with torch.cuda.stream(self._stream):
            for name, image in self._images.items():
                both = zip(host.others[name], group.others[name], strict=True)
                others[name] = [self._decoded(name, image, self._seed, *one) for one in both]
            return _Made(group._replace(others=others), self._stream.record_event())

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
    while copying and (
        waits or (copying[0].made.done() and copying[0].made.result().event.query())
    ):
        copied = copying.popleft()
        copied.made.result().event.synchronize()
        process.free(copied.block)


def _unpacked(group: PackedGroup, memory: Any) -> PackedGroup:
    """Returns a group with tensors in some memory."""
    import torch

    def view(packed: PackedArray) -> Any:
        dtype = torch.from_numpy(np.empty(0, packed.dtype)).dtype
        return memory[packed.start : packed.end].view(dtype).view(packed.shape)

    return group.unpacked(view)


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
