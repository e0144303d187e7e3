"""Copies batches of tensors to the current CUDA device, one ahead."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from beam_pipelines.reader.frameworks import Batch, mapped

_Place = TypeVar("_Place")


def check_devices(as_: str, pin_memory: bool) -> None:
    """Checks that tensors can be copied to a CUDA device.

    Raises:
      ValueError: batches are of another kind, or PyTorch finds no CUDA device.
    """
    if not pin_memory:
        return
    if as_ != "torch":
        raise ValueError(f"pin_memory: found it with as_='{as_}', expected as_='torch'.")
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "pin_memory: found no CUDA device, expected one that PyTorch can use. Leave pin_memory "
            "out."
        )


def on_device(
    batches: Generator[tuple[_Place, Batch], None, None],
) -> Generator[tuple[_Place, Batch], None, None]:
    """Yields batches on the current CUDA device, one copied ahead.

    Copies run from pinned memory in a stream of their own. The stream that is current when a batch
    is asked for waits for its copy, not for that of the next one.
    """
    import torch

    device = torch.cuda.current_device()
    stream = torch.cuda.Stream(device)

    def start(found: tuple[_Place, Batch]) -> tuple[_Place, Batch, Any]:
        place, batch = found
        with torch.cuda.stream(stream):
            copied = {name: mapped(copy, value) for name, value in batch.items()}
            return place, copied, stream.record_event()

    def copy(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        return tensor.pin_memory().to(device, non_blocking=True)

    def use(tensor: Any) -> Any:
        # Its memory is not given to another tensor before the current stream is done with it.
        if isinstance(tensor, torch.Tensor):
            tensor.record_stream(torch.cuda.current_stream(device))
        return tensor

    try:
        waiting = None
        for found in batches:
            copied = start(found)
            if waiting is not None:
                yield _wait(waiting, use)
            waiting = copied
        if waiting is not None:
            yield _wait(waiting, use)
    finally:
        batches.close()


def _wait(started: tuple[Any, Batch, Any], use: Any) -> tuple[Any, Batch]:
    """Makes the current stream wait for a copy, and returns the batch."""
    import torch

    place, batch, event = started
    torch.cuda.current_stream().wait_event(event)
    return place, {name: mapped(use, value) for name, value in batch.items()}
