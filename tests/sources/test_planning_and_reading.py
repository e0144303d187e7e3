"""Planning, reading ranges, and the stage in a pipeline."""

from __future__ import annotations

import pickle
from pathlib import Path

import apache_beam as beam
import google_crc32c
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import plan as plans
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write

QUOTED = "a,b\n" + "".join(f'{number},"x\n{number}"\n' for number in range(2000))
PLAIN = "a,b\n" + "".join(f"{number},x{number}\n" for number in range(2000))


@pytest.mark.parametrize("content", [QUOTED, PLAIN])
def test_the_stage_reads_what_reading_alone_does(tmp_path: Path, content: str) -> None:
    """Every range gives the same chunks in a pipeline and outside.

    Cuts may be inside quotes.
    """
    path = write(tmp_path / "a.csv", content)
    plan = plan_of(path, range_bytes=2000)
    table, counts, _ = read.read_table(plan, reject=False)
    assert bool(list(read.ranges_to_scan(plan)))

    def check(chunks: list[Chunk]) -> None:
        ordered = sorted(chunks, key=lambda chunk: (chunk.range_number, chunk.part))
        assert {chunk.range_number for chunk in ordered} == set(range(len(plan.ranges)))
        assert pa.Table.from_batches([chunk.batch for chunk in ordered]).equals(table)
        assert sum(chunk.counts["read"] for chunk in ordered) == counts["read"] == 2000

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        assert_that(pipeline | "Read" >> read.ReadChunks(plan), check)


def test_every_range_has_a_chunk_and_a_checksum(tmp_path: Path) -> None:
    """A range without records gives an empty chunk.

    Checksums cover each byte once.
    """
    content = b'a,b\n1,"' + b"x" * 5000 + b'"\n2,y\n'
    path = write(tmp_path / "a.csv", content)
    plan = plan_of(path, range_bytes=1000)
    states = {path: b"\x00" + b"\x02" * (len(plan.ranges) - 1) + b"\x00"}
    chunks = [
        list(read.read_range(plan, byte_range, states, reject=False)) for byte_range in plan.ranges
    ]
    assert [[chunk.batch.num_rows for chunk in of_range] for of_range in chunks] == [
        [1],
        [0],
        [0],
        [0],
        [1],
    ]
    for byte_range, (chunk,) in zip(plan.ranges, chunks, strict=True):
        assert chunk.crc32c == google_crc32c.value(content[byte_range.start : byte_range.end])
        assert chunk.path == path


def test_a_cut_with_quotes_needs_its_scan(tmp_path: Path) -> None:
    """A range of a cut file without its scan is an error.

    It may begin within quotes.
    """
    plan = plan_of(write(tmp_path / "a.csv", QUOTED), range_bytes=2000)
    with pytest.raises(RuntimeError, match="without the states of a scan"):
        list(read.read_range(plan, plan.ranges[1], {}, reject=False))


def test_long_ranges_are_cut_into_chunks(tmp_path: Path) -> None:
    """Narrow rows make several chunks of bounded length."""
    plan = plan_of(write(tmp_path / "a.csv", "a\n" + "1\n" * 300_000))
    chunks = list(read.read_range(plan, plan.ranges[0], {}, reject=False))
    assert [chunk.batch.num_rows for chunk in chunks] == [131_072, 131_072, 37_856]
    assert [chunk.crc32c is None for chunk in chunks] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("orders 2025.csv", " Did you mean 'orders_2025.csv'?"),
        ("clients.csv", ""),
        ("secrets.csv", ""),
        ("orders 2025.*", ""),
        ("none/orders 2025.csv", ""),
        ("../data/orders 2025.csv", " Did you mean 'orders_2025.csv'?"),
    ],
)
def test_a_misspelt_file(tmp_path: Path, name: str, hint: str) -> None:
    """The error names the nearest file in its folder.

    A hidden file is never named.
    """
    (tmp_path / "data" / "orders 2025").mkdir(parents=True)
    for other in ("orders_2025.csv", ".secrets.csv"):
        write(tmp_path / "data" / other, "a\n1\n")
    path = f"{tmp_path}/data/{name}"
    [message] = problems_of(path).values()
    assert message == f"no file matches '{path}'.{hint}"


def test_problems_with_paths(tmp_path: Path) -> None:
    """Missing, folder and repeated paths, and globs without matches, are problems."""
    write(tmp_path / "a.csv", "a\n1\n")
    where = ("sources", "s", "path")
    assert "no file matches" in problems_of(tmp_path / "b.csv")[where]
    assert "no file matches" in problems_of(tmp_path / "*.tsv")[where]
    (tmp_path / "folder").mkdir()
    assert "found no file in" in problems_of(tmp_path / "folder")[where]
    assert "matched twice" in problems_of(tmp_path / "a.csv", tmp_path / "*.csv")[where]


def test_the_advice_for_an_unknown_suffix_follows_from_its_content(tmp_path: Path) -> None:
    """JSON has its format, and bytes of no text are no table."""
    text, json, raw = "a\n1\n", '{"a": 1}\n{"a": 2}\n', "RAW\1\2\3\0\0"
    cures = {text: ": csv' if it is", json: ": json_lines', or", raw: "' if one of these reads"}
    for content, cure in cures.items():
        [message] = problems_of(write(tmp_path / "a.log", content)).values()
        assert f"Set 'format{cure}" in message


def test_relative_paths_start_at_the_recipe(tmp_path: Path) -> None:
    """A relative pattern is looked for in the recipe's folder."""
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.csv", "a\n1\n")
    plan = planner.plan_source(Source("s", ("data/*.csv",)), str(tmp_path))
    path = tmp_path / "data" / "a.csv"
    assert plan.files == (plans.FileInfo(str(path), 4, path.stat().st_mtime),)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One look at a source reports all that is wrong with it."""
    path = write(tmp_path / "a.csv", "a,b\n1,2\n")
    wrong = {"delimiter": "xx", "types": {"a": "int"}, "compression": "zip"}
    assert len(problems_of(path, tmp_path / "no.csv", **wrong)) == 4
    assert len(problems_of(path, key=("c",), types={"d": "text"})) == 2


def test_ranges_are_numbered_over_files(tmp_path: Path) -> None:
    """Numbers go on over files, cut or compressed, and order their rows."""
    write(tmp_path / "a.csv", PLAIN)
    write(tmp_path / "b.csv", PLAIN)
    plan = plan_of(tmp_path / "*.csv", range_bytes=10_000)
    assert [byte_range.number for byte_range in plan.ranges] == list(range(len(plan.ranges)))
    assert [byte_range.number_in_file for byte_range in plan.ranges] == [0, 1, 0, 1]
    rows = read_rows(tmp_path / "*.csv", range_bytes=10_000)
    assert [row["a"] for row in rows] == [*range(2000), *range(2000)]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6), st.integers(1, 9))
def test_ranges_follow_from_files(found: list[tuple[int, bool]], size: int) -> None:
    """A range is the same by number, slice and loop.

    Only files that can be cut have several, the last one up to half as large again.
    """
    listed = [plans.FileInfo(str(number), own) for number, (own, _) in enumerate(found)]
    ranges = plans.cut_ranges(listed, lambda file: found[int(file.path)][1], size)
    expected = [
        (file, part, part * size, (part + 1) * size if part + 1 < count else file.size_bytes)
        for file, (own, cut) in zip(listed, found, strict=True)
        for count in [max(1, round(own / size)) if cut else 1]
        for part in range(count)
    ]
    assert [(one.file, one.number_in_file, one.start, one.end) for one in ranges] == expected
    assert [one.number for one in ranges] == [*range(len(expected))]
    assert list(ranges) == list(ranges[:]) == [ranges[at] for at in range(len(ranges))]
    assert list(ranges[-2:]) == list(ranges)[-2:]


def test_a_plan_travels(tmp_path: Path) -> None:
    """A plan survives pickling into a worker."""
    plan = plan_of(write(tmp_path / "a.csv", PLAIN))
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301
