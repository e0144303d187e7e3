"""The read of a conversion notes how far a source is read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.consumed import add_consumed, take_consumed
from beam_pipelines.pipeline.read_splits import _LARGE_RANGE_BYTES, _NoteRead
from beam_pipelines.runners.progress import ProgressLog

LARGE = 2 * _LARGE_RANGE_BYTES


@pytest.mark.parametrize(
    ("sizes", "steps", "expected"),
    [
        # (range, part, bytes that were read before) -> bytes noted in all, after each chunk
        ([100, 50], [(0, 0, 100), (0, 1, 0), (1, 0, 50)], [100, 100, 150]),
        ([100, 50], [(0, 0, 0), (0, 1, 0), (1, 0, 0)], [100, 100, 150]),
        ([100, 50], [(0, 0, 30), (0, 1, 40), (1, 0, 20)], [30, 70, 120]),
        ([LARGE], [(0, 0, 10), (0, 1, 20), (0, 2, 5)], [10, 30, 35]),
        ([LARGE, 50], [(0, 0, 10), (1, 0, 50)], [10, LARGE + 50]),
        ([LARGE], [(0, 0, 10), (0, 1, 3 * LARGE), (0, 2, 9)], [10, LARGE, LARGE]),
    ],
)
def test_bytes_of_large_ranges_are_noted_as_they_are_read(sizes, steps, expected, tmp_path):
    """An uncut file counts as far as it is read."""
    log = ProgressLog(str(tmp_path))
    note = _NoteRead(log, sizes)
    batch = pa.RecordBatch.from_pydict({"x": [1, 2]})
    take_consumed()
    found = []
    for number, part, consumed in steps:
        add_consumed(consumed)
        chunk = Chunk(number, part, batch, {})
        assert list(note.process(chunk)) == [chunk]
        found.append(log.totals().bytes_read)
    assert found == expected
    note.finish_bundle()
    assert log.totals().bytes_read == sum(sizes)
    assert log.totals().rows_read == 2 * len(steps)
    log.close()
