"""Parts good JSON lines from bad ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter

import numpy as np
import pyarrow as pa

from beam_pipelines.sources import bad_rows
from beam_pipelines.sources.bad_rows import BadRow
from beam_pipelines.sources.json.bad_lines import BadLines, ReadLines
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.quotes import Positions

# Lines are judged one by one, ``_JUDGED`` at a time, after ``_MANY`` bad ones if at least one in
# ``_FEW`` is bad.
_FEW, _MANY, _JUDGED = 100, 20, 2_000

# A bad line: where it begins, the line, its column and error.
BadLine = tuple[int, bytes, tuple[str, str]]
_Parse = Callable[[bytes], pa.RecordBatch]


def sift(
    data: bytes, plan: SourcePlan, read_lines: ReadLines
) -> Iterator[pa.RecordBatch | BadLine]:
    """Yields batches of good lines, and the bad ones, both in order.

    Where many are bad, each is judged before any is parsed.

    Args:
      data: whole lines.
      plan: of the source.
      read_lines: see ``BadLines``.
    """
    starts, ends = blocks.filled_lines(data)
    bad_lines = BadLines(plan, read_lines)
    place, are_many = 0, False

    def parse(lines: bytes) -> pa.RecordBatch:
        return read_lines(lines, plan)

    while place < len(starts):
        stop = min(place + _JUDGED, len(starts)) if are_many else len(starts)
        try_lines = _judge if are_many else _try
        rows = bad = 0  # since many were bad
        for found in try_lines(data, starts[place:stop], ends[place:stop], parse, bad_lines):
            yield found
            lines = found.num_rows if isinstance(found, pa.RecordBatch) else 1
            place += lines
            rows += lines
            bad += not isinstance(found, pa.RecordBatch)
            if bad >= _MANY and not are_many:
                if bad * _FEW > rows:
                    break
                rows = bad = 0
        are_many = bad * _FEW > rows


def _try(
    data: bytes, starts: Positions, ends: Positions, parse: _Parse, bad_lines: BadLines
) -> Iterator[pa.RecordBatch | BadLine]:
    """Parses neighbouring lines."""
    for found in bad_rows.sift(
        lambda start, end: parse(data[starts[start] : ends[end - 1]]), 0, len(starts)
    ):
        if isinstance(found, BadRow):
            start = int(starts[found.number])
            line = data[start : ends[found.number]].strip()
            yield start, line, bad_lines.explain(line, found.error)
        else:
            yield found


def _judge(
    data: bytes, starts: Positions, ends: Positions, parse: _Parse, bad_lines: BadLines
) -> Iterator[pa.RecordBatch | BadLine]:
    """Judges lines, and parses those that are not certainly bad."""
    lines = [
        data[start:end].strip() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    verdicts = [bad_lines.judge(line) for line in lines]
    found = [
        (start, line, verdict)
        for start, line, verdict in zip(starts.tolist(), lines, verdicts, strict=True)
        if verdict is not None
    ]
    left = np.array([verdict is None for verdict in verdicts])
    kept, lengths = starts[left], (ends - starts)[left]
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    for part in _try(
        blocks.joined(data, kept, ends[left]), edges[:-1], edges[1:], parse, bad_lines
    ):
        if isinstance(part, pa.RecordBatch):
            yield part
        else:
            found.append((int(kept[np.searchsorted(edges, part[0])]), *part[1:]))
    yield from sorted(found, key=itemgetter(0))
