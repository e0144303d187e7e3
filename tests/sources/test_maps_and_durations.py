"""Maps, durations and ragged lists of lists, of Parquet and Arrow files."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources.nesting import nested
from tests.sources.support import read_rows, types_of
from tests.support.tables import write_table

MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_map_is_two_parallel_lists(tmp_path: Path, suffix: str) -> None:
    """Keys and values are columns; null and empty maps stay different."""
    maps = pa.array([[("a", 1), ("b", 2)], None, [], [("c", 3)]], MAP)
    deep = pa.array([{"m": [("x", 1)]}, {"m": None}, None, {"m": []}], pa.struct([("m", MAP)]))
    path = write_table(tmp_path / f"a.{suffix}", pa.table({"m": maps, "o": deep}))
    assert types_of(path) == {
        "m.key": "list<item: string>",
        "m.value": "list<item: int64>",
        "o.m.key": "list<item: string>",
        "o.m.value": "list<item: int64>",
    }
    rows = read_rows(path)
    assert [row["m.key"] for row in rows] == [["a", "b"], None, [], ["c"]]
    assert [row["m.value"] for row in rows] == [[1, 2], None, [], [3]]
    assert [row["o.m.value"] for row in rows] == [[1], None, None, []]
    assert read_rows(path, columns=("m.key",))[0] == {"m.key": ["a", "b"]}
    assert read_rows(path, types={"m.value": "list<float32>"})[0]["m.value"] == [1.0, 2.0]


@given(
    maps=st.lists(
        st.none() | st.dictionaries(st.text("ab", max_size=2), st.integers(-9, 9), max_size=3),
        max_size=6,
    ),
    start=st.integers(0, 3),
)
def test_slices_of_maps(maps: list[dict[str, int] | None], start: int) -> None:
    """A slice has its own pairs, against Python's dictionaries."""
    pairs = [value if value is None else list(value.items()) for value in maps]
    array = pa.array(pairs, MAP).slice(start)
    found = dict(nested.flatten_array("m", array))
    wanted = maps[start:]
    assert found["m.key"].to_pylist() == [None if m is None else list(m) for m in wanted]
    assert found["m.value"].to_pylist() == [None if m is None else [*m.values()] for m in wanted]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_duration_is_microseconds(tmp_path: Path, unit: str, suffix: str) -> None:
    """The file's unit does not matter, nor a declared type."""
    values = [datetime.timedelta(seconds=90), None, datetime.timedelta(days=-1)]
    table = pa.table(
        {
            "d": pa.array(values, pa.duration(unit)),
            "l": pa.array([values[:1], None, []], pa.list_(pa.duration(unit))),
            "f": pa.array(values, pa.duration(unit)),
        }
    )
    path = write_table(tmp_path / f"a.{suffix}", table)
    found = read_rows(path, types={"f": "float64"})
    assert [row["d"] for row in found] == [90_000_000, None, -86_400_000_000]
    assert [row["l"] for row in found] == [[90_000_000], None, []]
    assert [row["f"] for row in found] == [9e7, None, -8.64e10]


def test_a_part_of_a_microsecond_is_an_error(tmp_path: Path) -> None:
    """Nanoseconds that microseconds do not have are a bad row."""
    table = pa.table({"d": pa.array([1000, 1001], pa.duration("ns"))})
    path = write_table(tmp_path / "a.parquet", table)
    with pytest.raises(DataError, match=r"row 2, column 'd': found"):
        read_rows(path)


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ([[[1, 2], [3]], [[4]], None, []], 2),
        ([[[0.5], []], [[1.5, 2.5]]], 2),
        ([[["a"]], [["b", "c"], ["d"]]], 2),
        ([[[1, 2]], [[3], [4]], None], 3),
        ([[[[1]]], [[[1, 2]], [[3]]]], 1),
        ([[[[1]]], [[[1, 2]]]], 2),
    ],
)
def test_the_types_proposed_for_ragged_lists_read_them(tmp_path, values, number):
    """Each type that the error proposes is planned and read."""
    path = write_table(tmp_path / "a.parquet", pa.table({"x": values}))
    with pytest.raises(DataError, match="without one shape") as caught:
        read_rows(path)
    options = re.findall(r"'(types: \{.*?\})'(?: with '(sequence: \{.*?\})')?", str(caught.value))
    assert len(options) == number
    for types, sequence in options:
        quoted = re.sub(r": (\w[^}]*)\}", r": '\1'}", types)
        recipe = parse_recipe(
            f"name: a\nsources: {{s: {{path: {path}, {quoted}}}}}\n{sequence}", "r.yaml"
        )
        make_plan(recipe)
        rows = read_rows(path, types=recipe.sources["s"].types)
        assert len(rows) == len(values)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("last", [[[1, 2], [3]], [[1, 2, 3]]])
def test_an_array_of_another_shape_behind_the_sample(tmp_path, monkeypatch, suffix, last):
    """The type that the bad row's error proposes reads all rows."""
    monkeypatch.setattr("beam_pipelines.sources.parquet.format.SAMPLE_ROWS", 2)
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 60)
    values = [[[1, 2], [3, 4]]] * 9 + [last]
    path = write_table(tmp_path / f"a.{suffix}", pa.table({"x": values}))
    with pytest.raises(DataError, match=r"10, column 'x': found") as caught:
        read_rows(path)
    [type_] = re.findall(r"declare 'types: \{x: (.*?)\}'", str(caught.value))
    assert len(read_rows(path, types={"x": type_})) == 10


@pytest.mark.parametrize("kind", ["i", "[i]", "{'x': 1, 'i': i}", "map {'x': i}", "[{'i': [i]}]"])
def test_an_interval_of_parquet_is_refused(tmp_path: Path, kind: str) -> None:
    """The error names two ways out, which work."""
    path = str(tmp_path / "a.parquet")
    rows = duckdb.sql("SELECT 7 AS id, INTERVAL 2 DAY AS i")
    rows.project(f"id, {kind} AS v").write_parquet(path)
    with pytest.raises(DataError, match=r"'v\S*': found .*interval.*'columns', or .* as epoch\("):
        read_rows(path)
    assert read_rows(path, columns=("id",)) == [{"id": 7}]
    rows.project("epoch(i) AS v").write_parquet(path)
    assert read_rows(path) == [{"v": 172800.0}]
