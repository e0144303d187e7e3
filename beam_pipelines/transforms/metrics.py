"""Counts what a job does, by Beam's metrics.

All have one namespace, so that engines show them together. They count chunks and shards at once,
never single rows. An engine that repeats work may count it twice.

Counters: ``rows_read``, ``rows_rejected``, ``rows_filtered``, ``rows_matched``,
``rows_duplicate``, ``bytes_read`` (of the base source), ``rows_written``, ``bytes_written``, and
for each stage ``STAGE_cpu_msecs``. Distributions: ``chunk_rows``, ``shard_bytes``, and
``STAGE_ended_msecs`` after the start of the run.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Any, Literal

from apache_beam.metrics import Metrics, MetricsFilter

from beam_pipelines.core.chunks import LEFT_OUT, ChunkCounts
from beam_pipelines.core.events import log_event

NAMESPACE = "beam_pipelines"
Stage = Literal["first_pass", "write", "commit"]
STAGES: tuple[Stage, ...] = ("first_pass", "write", "commit")
# Counter -> the counts of a chunk that it adds up; those that end in a slash are several.
_OF_CHUNK = {
    "rows_read": "read",
    "rows_rejected": "rejected",
    "rows_filtered": "filtered",
    "rows_matched": "matched/",
    "rows_duplicate": f"{LEFT_OUT}/",
}
# Process -> CPU seconds that are counted. A fork begins anew.
_counted: dict[int, float] = {}
_lock = threading.Lock()

_counter = functools.cache(functools.partial(Metrics.counter, NAMESPACE))
_distribution = functools.cache(functools.partial(Metrics.distribution, NAMESPACE))


def count(**amounts: int) -> None:
    """Adds to counters, by name."""
    for name, amount in amounts.items():
        if amount:
            _counter(name).inc(amount)


def count_chunk(counted: ChunkCounts) -> None:
    """Counts the rows of a chunk of the base source."""
    found = counted.counts.items()
    for name, key in _OF_CHUNK.items():
        prefix = key if key.endswith("/") else f"{key}/\n"  # which starts no name
        count(**{name: sum(n for own, n in found if own == key or own.startswith(prefix))})
    _distribution("chunk_rows").update(sum(counted.rows.values()))
    count_cpu("first_pass")


def count_shard(rows: int, size: int) -> None:
    """Counts a shard that was written and read back.

    Args:
      rows: in it.
      size: bytes of its file.
    """
    count(rows_written=rows, bytes_written=size)
    _distribution("shard_bytes").update(size)
    count_cpu("write")


def begin() -> None:
    """Leaves out the CPU time that this process has taken so far."""
    _counted[os.getpid()] = time.process_time()


def count_cpu(stage: Stage) -> None:
    """Adds this process's CPU time since the last call, in all threads."""
    with _lock:
        now = time.process_time()
        spent = now - _counted.get(os.getpid(), 0.0)
        _counted[os.getpid()] = now
    count(**{f"{stage}_cpu_msecs": round(spent * 1000)})


def end_stage(stage: Stage, started: float, rows: int) -> None:
    """Notes and logs the end of a stage.

    Args:
      stage: that has ended.
      started: start of the run, in seconds since 1970.
      rows: that the stage has read or written.
    """
    count_cpu(stage)
    secs = time.time() - started
    _distribution(f"{stage}_ended_msecs").update(round(secs * 1000))
    log_event("stage", stage=stage, ended_secs=round(secs, 3), rows=rows)


def totals_of(result: Any) -> dict[str, Any]:
    """Returns the counters of a job that has ended, and its distributions.

    Args:
      result: Beam's, of any runner.

    Returns:
      Name -> a number; of a distribution, its ``count``, ``sum``, ``min`` and ``max``.
    """
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
    totals: dict[str, Any] = {}
    for each in found["counters"]:
        totals[each.key.metric.name] = totals.get(each.key.metric.name, 0) + each.result
    for each in found["distributions"]:
        name, data = each.key.metric.name, each.result.data
        totals[name] = totals[name].combine(data) if name in totals else data
    shown = ("count", "sum", "min", "max")
    return {
        name: n if isinstance(n, int) else {part: getattr(n, part) for part in shown}
        for name, n in sorted(totals.items())
    }
