"""Parquet files: row groups, columns, types."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import re
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.parquet import footers as pieces_module
from beam_pipelines.sources.parquet import format as format_module
from beam_pipelines.sources.parquet.footers import pieces_of
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write


def write_table(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


@given(st.integers(1, 300), st.integers(1, 50), st.integers(200, 5000))
def test_every_row_group_belongs_to_one_range(tmp_path_factory, rows, group, range_bytes):
    """Each row is read once, in order, for every cut."""
    path = write_table(
        tmp_path_factory.getbasetemp() / "a.parquet", {"n": range(rows)}, row_group_size=group
    )
    assert [row["n"] for row in read_rows(path, range_bytes=range_bytes)] == list(range(rows))


def test_types_become_column_types(tmp_path: Path) -> None:
    """Every type with a column type is converted, dictionaries and structs included."""
    moment = datetime.datetime(2013, 1, 31, 5, 15, tzinfo=datetime.timezone.utc)
    path = write_table(
        tmp_path / "a.parquet",
        {
            "u": pa.array([1, None], pa.uint64()),
            "h": pa.array([1.5, None], pa.float32()),
            "m": pa.array([decimal.Decimal("1.25"), None]),
            "c": pa.array(["x", None]).dictionary_encode(),
            "t": pa.array([moment, None], pa.timestamp("ms", "Europe/Berlin")),
            "b": pa.array([b"ab", None], pa.binary(2)),
            "l": pa.array([[1], None], pa.large_list(pa.int8())),
            "s": pa.array([{"p": 1, "q": ["a"]}, None]),
            "v": pa.nulls(2),
        },
    )
    row = {"u": 1, "h": 1.5, "m": 1.25, "c": "x", "t": moment, "b": b"ab", "l": [1]}
    assert read_rows(path) == [
        {**row, "s.p": 1, "s.q": ["a"], "v": None},
        dict.fromkeys([*row, "s.p", "s.q", "v"]),
    ]
    assert plan_of(path).null_columns == ("v",)
    assert read_rows(path, columns=("s.q", "u")) == [
        {"s.q": ["a"], "u": 1},
        {"s.q": None, "u": None},
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            pa.array([1, 2, 2**63, 4], pa.uint64()),
            "found 9223372036854775808, expected an integer from",
        ),
        (pa.array([[1], [2], [None], []]), "found a null inside a list"),
        (pa.array([0, 1000, 1, 0], pa.timestamp("ns")), "expected a timestamp"),
    ],
)
def test_a_bad_row_is_found(tmp_path: Path, values: pa.Array, message: str) -> None:
    """A value without an exact equal is an error with its row.

    Rejecting leaves out that row and no other.
    """
    path = write_table(tmp_path / "a.parquet", {"x": values}, row_group_size=2)
    plan = plan_of(path)
    with pytest.raises(DataError) as caught:
        read.read_table(plan, reject=False)
    assert str(caught.value).startswith(f"{path}, row 3, column 'x': ")
    assert message in str(caught.value)
    _, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 3, "rejected": 1}
    assert [bad.position for bad in rejected] == ["row 3"]


def test_declared_types_are_cast(tmp_path: Path) -> None:
    """A declared type is an exact cast.

    An impossible one is a problem.
    """
    path = write_table(tmp_path / "a.parquet", {"a": [1, 300], "l": [[1], [2]]})
    assert read_rows(path, types={"a": "text"}, columns=("a",)) == [{"a": "1"}, {"a": "300"}]
    with pytest.raises(
        DataError, match="row 2, column 'a': found 300, expected an integer from -128 to 127"
    ):
        read_rows(path, types={"a": "int8"})
    assert "cannot become date" in problems_of(path, types={"l": "date"})["sources", "s", "types"]
    assert (
        "compressed inside" in problems_of(path, compression="gzip")["sources", "s", "compression"]
    )


@pytest.mark.parametrize("other", [{"a": [1], "c": [2]}, {"a": ["x"], "b": [2]}])
def test_files_of_one_source_must_agree(tmp_path: Path, other: dict) -> None:
    """A file with other columns or types names both files.

    Null and narrower columns make no difference.
    """
    write_table(tmp_path / "1.parquet", {"a": [1], "b": [2]})
    write_table(tmp_path / "2.parquet", {"b": pa.array([2], pa.int8()), "a": pa.nulls(1)})
    rows = [{"a": 1, "b": 2}, {"a": None, "b": 2}]
    assert read_rows(tmp_path / "*.parquet") == rows
    plan = plan_of(tmp_path / "*.parquet")
    write_table(tmp_path / "2.parquet", other)
    with pytest.raises(DataError, match=r"2\.parquet.*1\.parquet|1\.parquet.*2\.parquet"):
        plan_of(tmp_path / "*.parquet")
    with pytest.raises(DataError, match=r"2\.parquet.*1\.parquet|1\.parquet.*2\.parquet"):
        read.read_table(plan, reject=True)


def test_bad_files(tmp_path: Path) -> None:
    """Damaged and empty files, and impossible types, name the file."""
    path = write(tmp_path / "a.parquet", b"PAR1 not really")
    with pytest.raises(DataError, match=r"a\.parquet: found damaged Parquet data"):
        plan_of(path)
    write_table(tmp_path / "a.parquet", {"a": pa.array([], pa.int64())})
    with pytest.raises(DataError, match="found no rows"):
        plan_of(path)
    write_table(tmp_path / "a.parquet", {"a": [[[1]], [[1, 2]]], "b": [1, 2]})
    with pytest.raises(DataError, match=r"column 'a': found list.* without one shape"):
        plan_of(path)
    assert read_rows(path, columns=("b",)) == [{"b": 1}, {"b": 2}]


class _Noting(io.FileIO):
    """A file that notes how many bytes are read at a time."""

    largest = 0

    def read(self, size: int = -1) -> bytes:
        """Reads and notes."""
        data = super().read(size)
        type(self).largest = max(type(self).largest, len(data))
        return data


def test_a_large_row_group_is_read_in_parts(tmp_path, monkeypatch):
    """A large row group is read in parts of about a MiB.

    The group has 24 MB and counts as large here; the rows are the same.
    """
    path = tmp_path / "a.parquet"
    table = pa.table(
        {name: np.random.default_rng(1).integers(0, 1 << 60, 1_000_000) for name in "abc"}
    )
    pq.write_table(table, path, row_group_size=1_000_000, compression="none", use_dictionary=False)
    monkeypatch.setattr(format_module, "_BUFFERED_BYTES", 3 << 20)
    monkeypatch.setattr(files, "open_read", _Noting)
    plan = planner.plan_source(Source("a", (str(path),)), "")
    assert read.read_table(plan, reject=False)[0].equals(table)
    assert _Noting.largest < 2 << 20


@pytest.mark.parametrize(
    ("files", "groups", "pieces"), [(1, 1, 2), (1, 3, 6), (1, 4, 4), (2, 1, 2), (2, 2, 2)]
)
def test_few_large_row_groups_are_cut(tmp_path, monkeypatch, files, groups, pieces):
    """Two workers share a large row group, if the source has few."""
    rows = 2501 * groups
    path = tmp_path / "a.parquet"
    table = pa.table({"n": np.arange(rows), "t": np.random.default_rng(1).random(rows)})
    pq.write_table(table, path, row_group_size=2501)
    monkeypatch.setattr(pieces_module, "RANGE_BYTES", 16_000)
    found = list(pieces_of(pq.read_metadata(path), files))
    assert len(found) == pieces
    assert sum(piece.stop - piece.start for piece in found) == rows
    assert found == sorted(found)


@given(st.integers(1, 400), st.integers(130, 400), st.integers(200, 2000), st.data())
def test_cut_row_groups_are_read_once(tmp_path_factory, rows, group, range_bytes, data):
    """Each row of cut groups is read once, in order."""
    path = tmp_path_factory.getbasetemp() / "cut.parquet"
    pq.write_table(pa.table({"n": range(rows)}), path, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "RANGE_BYTES", data.draw(st.integers(1, 400)))
        patch.setattr(format_module, "MAX_CHUNK_ROWS", data.draw(st.integers(1, 200)))
        assert [row["n"] for row in read_rows(path, range_bytes=range_bytes)] == list(range(rows))
        plan = plan_of(path, range_bytes=range_bytes)
        for part in plan.ranges:
            values = [
                value
                for found in plan.reader.read(plan, part, {}, False)
                for value in found.batch.column("n").to_pylist()
            ]
            if values:
                assert plan.reader.numbering(plan, part) == ("row", 1 + values[0])


def test_a_name_that_occurs_twice_can_be_left_out(tmp_path: Path) -> None:
    """``columns`` protects from the names that it leaves out."""
    arrays = [pa.array([1, 2]), pa.array(["a", "b"]), pa.array([3, 4])]
    table = pa.Table.from_arrays(arrays, names=["id", "name", "id"])
    for number in range(2):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    with pytest.raises(DataError, match=r"two columns named 'id'.*'columns'"):
        read_rows(tmp_path / "*.parquet")
    found = read_rows(tmp_path / "*.parquet", columns=("name",))
    assert found == [{"name": "a"}, {"name": "b"}] * 2


@pytest.mark.parametrize("name", ["finding-histogram", "finding-lost-row-group"])
def test_a_damaged_footer_is_an_error(tmp_path: Path, name: str) -> None:
    """A footer that ended the process, or lost rows.

    Is an error with the file.
    """
    corpus = Path(__file__).parents[1] / "fuzz" / "corpus" / "parquet_files"
    path = tmp_path / "a.parquet"
    path.write_bytes((corpus / name).read_bytes())
    if name == "finding-histogram" and int(pa.__version__.split(".")[0]) < 19:
        assert len(read_rows(path)) == 3  # this Arrow reads no histograms
        return
    with pytest.raises(DataError, match=r"a\.parquet: found damaged Parquet data"):
        read.read_table(planner.plan_source(Source("s", (str(path),)), ""), reject=False)


@pytest.mark.parametrize("columns", [(), ("x",)])
def test_the_index_of_pandas_is_a_finding(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """It is a column, unless the recipe names those to read."""
    path = write_table(tmp_path / "a.parquet", {"x": [1, 2], "__index_level_0__": [7, 5]})
    plan = plan_of(path, columns=columns)
    assert plan.schema.names == list(columns or ("x", "__index_level_0__"))
    told = ["'drop: [__index_level_0__]'" in decision for decision in plan.decisions]
    assert told == ([] if columns else [True])


@pytest.mark.parametrize(
    "values",
    itertools.combinations([1, 1.5, "x", True, datetime.date(2024, 1, 2), [1], [1.5], ["x"]], 2),
)
def test_types_of_files_that_differ_have_a_remedy(tmp_path: Path, values: tuple[Any, Any]) -> None:
    """The error's type reads both files, but for lists next to values."""
    paths = [write_table(tmp_path / f"{n}.parquet", {"v": [one]}) for n, one in enumerate(values)]
    with pytest.raises(DataError, match="as in") as caught:
        read_rows(*paths)
    types = yaml.safe_load(re.findall("'types: (.*?)'", str(caught.value))[0])
    if [isinstance(one, list) for one in values] in ([True, True], [False, False]):
        assert len(read_rows(*paths, types=types)) == 2


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no UUIDs")
@given(st.lists(st.none() | st.uuids()), st.integers(0, 3))
def test_uuids_are_texts(ids: list[uuid.UUID | None], start: int) -> None:
    """They are written as Python writes them, also in a slice."""
    array = pa.array([one and one.bytes for one in ids], pa.uuid()).slice(start)
    assert shapes.stored_array(array).to_pylist() == [one and str(one) for one in ids[start:]]
