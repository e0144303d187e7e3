"""The read of a conversion notes how far a source is read."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_pipelines.core.bytes_read import add_consumed, take_consumed
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.pipeline.convert import Conversion
from beam_pipelines.pipeline.planning.plan import store_lists
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.read_splits import _LARGE_RANGE_BYTES, _NoteRead
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.sources.plan import ByteRange, FileInfo, cut_ranges

RECIPE = "name: t\nsources: {t: {path: t.csv}}\nduplicates: {by: [a], action: drop}\n"
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
    files = [FileInfo("file", size) for size in sizes]
    note = _NoteRead(log, [ByteRange(0, 0, file, 0, file.size_bytes) for file in files])
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


def test_the_graph_names_no_range(tmp_path, monkeypatch):
    """Ten times as many ranges add a level to trees."""
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 10_000)
    sizes = []
    for size in (30, 3):
        monkeypatch.setattr(cut_ranges, "__defaults__", (size,))
        plan = make_plan(parse_recipe(RECIPE, "recipe.yaml", str(tmp_path)))
        stored = store_lists(plan, str(tmp_path / "lists"))
        assert tuple(stored.base.ranges) == tuple(plan.base.ranges)
        assert tuple(stored.base.files) == plan.base.files
        pipeline = beam.Pipeline("FnApiRunner")
        _ = pipeline | Conversion(stored, RunFolders(str(tmp_path / "out")), 0.0)
        sizes.append(len(pipeline.to_runner_api().SerializeToString()))
    assert len(plan.base.ranges) > 10_000
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
