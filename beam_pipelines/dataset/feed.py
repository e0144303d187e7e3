"""Measures how fast a dataset feeds a trainer, and what bounds it."""

from __future__ import annotations

import contextlib
import resource
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.reader.columns import Ragged
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.images import Image, usable_cores
from beam_pipelines.reader.pipeline import THREADS

# Shares of a resource from which on it counts as used up.
_BUSY_THREAD, _BUSY_CORES = 0.8, 0.8
# Share of the seconds that each reading with less takes: of one column, and without pictures.
_SHARE = 0.2
_DISK_BLOCK = 512
# Bytes a second from disk that are more than files' ends and indexes.
_DISK_RATE = 1 << 20
PARTS = "read and inflate", "parse columns", "decode pictures"
ADVICE = {
    "this thread": (
        "Give larger batches or fewer 'columns'; Python hands each feature of a batch over. "
        "as_='torch' with device='cuda' reads in another process."
    ),
    "read and inflate": "Convert with 'output: {compression: none}', or take more cores.",
    "parse columns": "Name the 'columns' that the model takes, or take more cores.",
    "decode pictures": (
        "Make the pictures smaller by the recipe ('image: {resize: …}'), or take more cores."
    ),
    "network": "Give bp.open a 'cache' on this machine, or copy the dataset nearer.",
    "disk": "Use a faster disk, or memory for the files: the next epoch reads them from there.",
    "other programs": "Stop the programs that take this machine's processors, and measure again.",
    "lock": (
        "Python's lock: read in several processes, each a rank of its own; or name fewer 'columns'."
    ),
}


class Rate(NamedTuple):
    """The batches of a reading, and the time that they took.

    Attributes:
      rows, batches: that were read.
      wall, cpu: seconds, of the clock and of all threads.
      consumer: seconds in which the thread that took the batches worked, or waited for a processor.
      queued: seconds in which it and those that read and parse waited for one, all together.
      disk: bytes that did not come from memory.
      first: seconds to the first batch, which do not count.
    """

    rows: int
    batches: int
    wall: float
    cpu: float
    consumer: float
    queued: float
    disk: float
    first: float


class Feed(NamedTuple):
    """The rates at which a dataset feeds a trainer.

    Attributes:
      rows_per_second, steps_per_second: that were read.
      cores_busy, cores: processors that worked, and that this process may use.
      first_batch: seconds until it was there.
      cpu: part of the work -> microseconds of CPU of a row.
      bound: what was used up: a key of ``ADVICE``.
      advice: what to change.
      step: seconds of a step; ``None``: not asked for.
      waits: share of its time that a trainer with this step waits.
      others_busy: processors that other programs took from this one.
    """

    rows_per_second: float
    steps_per_second: float
    cores_busy: float
    cores: int
    first_batch: float
    cpu: dict[str, float]
    bound: str
    advice: str
    step: float | None
    waits: float | None
    others_busy: float


def measure_feed(
    dataset: Dataset,
    split: str | None,
    batch_size: int,
    seconds: float,
    images: Mapping[str, Image],
    step: float | None = None,
) -> Feed:
    """Reads shuffled batches as a trainer does, whose step takes no processor.

    Args:
      dataset: to read.
      split: default: the first.
      batch_size: rows of a step.
      seconds: to read for.
      images: feature -> how its pictures are decoded.
      step: seconds of a step.

    Raises:
      DataError, ValueError: as ``Dataset.batches``; the split has fewer rows than a batch.
    """
    name = next(iter(dataset.splits)) if split is None else split
    if dataset.splits.get(name, batch_size) < batch_size:
        raise ValueError(
            f"--batch {batch_size}: found a split '{name}' of {dataset.splits[name]:,} rows, "
            "expected a batch at least: an epoch of less measures its start. Take fewer rows."
        )
    numbers = [name for name, found in dataset.features.items() if found.dtype != "bytes"]
    options: list[dict[str, Any]] = [{"columns": [*numbers, *dataset.features][:1]}, {}]
    if images:
        options.append({"images": images})
    least = [_read(dataset, split, batch_size, seconds * _SHARE, some) for some in options[:-1]]
    rest = seconds * (1 - _SHARE * len(least))
    rate = _read(dataset, split, batch_size, rest, options[-1])
    return judge(rate, parts_of([*least, rate]), "://" in dataset.folder, step)


def _read(
    dataset: Dataset, split: str | None, batch_size: int, seconds: float, options: dict[str, Any]
) -> Rate:
    begun = time.perf_counter()
    # One pass keeps its threads, whose times end with them.
    with dataset.batches(split, batch_size, epochs=1 << 40, **options) as reader:
        next(reader)
        own = (one.native_id or 0 for one in threading.enumerate() if THREADS in one.name)
        threads = [threading.get_native_id(), *own]
        before, start, rows, batches = _used(threads), time.perf_counter(), 0, 0
        for batch in reader:
            one = next(iter(batch.values()))
            rows += len(one.is_present) if isinstance(one, Ragged) else len(one)
            batches += 1
            if (wall := time.perf_counter() - start) >= seconds:
                break
        used = zip(_used(threads), before, strict=True)
    cpu, consumer, queued, disk = (now - then for now, then in used)
    return Rate(rows, batches, wall, cpu, consumer, queued, disk, start - begun)


def _used(threads: Sequence[int]) -> tuple[float, float, float, float]:
    """Returns ``cpu``, ``consumer``, ``queued`` and ``disk`` of ``Rate`` until now.

    Queues are those of Linux; elsewhere 0.

    Args:
      threads: the one that takes the batches, and those that read.
    """
    queued = [0.0] * len(threads)
    for number, thread in enumerate(threads):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
            queued[number] = int(file.read().split()[1]) / 1e9
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    return time.process_time(), time.thread_time() + queued[0], sum(queued), blocks * _DISK_BLOCK


def parts_of(rates: Sequence[Rate]) -> dict[str, float]:
    """Returns each part's microseconds of CPU of a row.

    Args:
      rates: of one column, of all, and with pictures if there are any: each with one part more.
    """
    costs = [rate.cpu / rate.rows * 1e6 for rate in rates]
    more = [cost - before for cost, before in zip(costs, [0.0, *costs], strict=False)]
    return {name: max(0.0, cost) for name, cost in zip(PARTS, more, strict=False)}


def judge(rate: Rate, cpu: dict[str, float], is_remote: bool, step: float | None) -> Feed:
    """Says what bounds a rate, and whether it feeds a step.

    Args:
      rate: of all columns, as they were asked for.
      cpu: part -> microseconds of a row.
      is_remote: whether shards come over the network.
      step: seconds of a step.
    """
    cores, busy, steps = usable_cores(), rate.cpu / rate.wall, rate.batches / rate.wall
    others = max(0.0, min(rate.queued / rate.wall, cores - busy))
    if busy >= _BUSY_CORES * cores:
        bound = max(cpu, key=lambda name: cpu[name])
    elif rate.consumer >= _BUSY_THREAD * rate.wall:
        bound = "this thread"
    elif busy + others >= _BUSY_CORES * cores or (rate.queued > rate.cpu and not is_remote):
        bound = "other programs"
    elif is_remote:
        bound = "network"
    else:
        bound = "disk" if rate.disk >= _DISK_RATE * rate.wall else "lock"
    return Feed(
        rows_per_second=rate.rows / rate.wall,
        steps_per_second=steps,
        cores_busy=busy,
        cores=cores,
        first_batch=rate.first,
        cpu=cpu,
        bound=bound,
        advice=ADVICE[bound],
        step=step,
        waits=None if step is None else max(0.0, 1 - steps * step),
        others_busy=others,
    )
