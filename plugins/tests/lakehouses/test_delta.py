"""Tables of Delta Lake: versions, deleted rows, changed columns, bad input."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms import read
from plugins.tests.support import delta_tables as delta
from plugins.tests.support.kept_rows import kept
from tests.sources.support import plan_of, read_rows

DAY = datetime.date(2026, 11, 23)
MOMENT = datetime.datetime(2026, 11, 23, 8, 30, 0, 250_000, datetime.timezone.utc)


def by(rows: list[dict[str, Any]], name: str = "n") -> list[dict[str, Any]]:
    """Returns rows in the order of a column."""
    return sorted(rows, key=lambda row: (row[name] is not None, row[name]))


def test_rows_are_those_of_the_package(tmp_path: Path) -> None:
    """All types, nulls and partition columns come as the package reads them."""
    rows = {
        "n": pa.array([1, 2, 3], pa.int32()),
        "flag": [True, None, False],
        "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")]),
        "bytes": [b"\0\xff", None, b""],
        "day": [DAY, None, DAY],
        "moment": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "tags": [["a", "b"], None, []],
        "inner": [{"x": 1.5, "y": "z"}, None, {"x": None, "y": None}],
        "part": ["a b/c=d%", None, "é"],
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
    }
    delta.write(tmp_path / "t", rows, partition_by=["part", "at"])
    found = by(read_rows(tmp_path / "t"))
    assert [(row["n"], row["part"], row["inner.x"], row["tags"]) for row in found] == [
        (1, "a b/c=d%", 1.5, ["a", "b"]), (2, None, None, None), (3, "é", None, [])
    ]  # fmt: skip
    plain = [
        {**{k: v for k, v in row.items() if k != "inner"},
         "inner.x": (row["inner"] or {}).get("x"), "inner.y": (row["inner"] or {}).get("y"),
         "price": None if row["price"] is None else float(row["price"]),
         }
        for row in by(delta.scanned(tmp_path / "t"))
    ]  # fmt: skip
    assert found == plain


def test_a_folder_needs_no_format(tmp_path: Path) -> None:
    """The plan says which version it reads, with its rows."""
    delta.write(tmp_path / "t", {"n": [1, 2]})
    plan = plan_of(tmp_path / "t")
    assert plan.format == "delta"
    assert plan.snapshot is not None
    assert (plan.snapshot.id, plan.snapshot.rows) == ("0", 2)
    assert plan.decisions[0].startswith(f"Delta table {tmp_path}/t, version 0 of ")
    assert plan.decisions[0].endswith("UTC: 2 rows in 1 file")


def test_versions(tmp_path: Path) -> None:
    """``version`` reads the rows of then; others are refused."""
    path = tmp_path / "t"
    for number in range(3):
        delta.write(path, {"n": [number]})
    assert len(read_rows(path, format="delta", version=1)) == 2
    assert len(read_rows(path, format="delta")) == 3
    words = "LogSegment end version 2 not the same as the specified end version 7"
    with pytest.raises(RecipeProblems, match=words) as error:
        plan_of(path, format="delta", version=7)
    assert error.value.problems[0].path == ("sources", "s", "version")


def test_deletion_vectors(tmp_path: Path) -> None:
    """Deleted rows are left out, and others stay."""
    path = tmp_path / "t"
    names = [f"row {number}" for number in range(5_000)]
    delta.write(path, {"n": pa.array(range(5_000)), "name": names})
    (file,) = pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist()
    deleted = [0, 1, 999, 1_000, 1_001, 4_999, *range(2_000, 3_000)]
    delta.delete_rows(path, file, deleted)
    expected = [number for number in range(5_000) if number not in set(deleted)]
    assert [row["n"] for row in read_rows(path)] == expected
    assert sorted(row["n"] for row in delta.scanned(path)) == expected
    plan = plan_of(path)
    assert plan.snapshot is not None
    assert plan.snapshot.rows is None
    assert plan.decisions[0].endswith(
        "1 file, read before the run by the table's library, as it has deletion vectors"
    )
    assert len(read_rows(path, version=0, format="delta")) == 5_000


@pytest.mark.parametrize("way", ["relative", "link", "odd"])
def test_deletion_vectors_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Paths may be relative, lead through links, and have odd names."""
    path = tmp_path / ("a bé" if way == "odd" else "t")
    delta.write(path, {"n": [1, 2], "part": ["a b/c=d%é", None]}, partition_by=["part"])
    for file in pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist():
        delta.delete_rows(path, file, [0])
    delta.write(path, {"n": [3], "part": ["a b/c=d%é"]})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(path)
    given = {"relative": Path("t"), "link": tmp_path / "link", "odd": path}[way]
    assert [row["n"] for row in read_rows(given)] == [3]


def test_rows_keep_their_numbers(tmp_path: Path) -> None:
    """A bad row is named by its place in the file."""
    path = tmp_path / "t"
    rows = pa.table({"n": range(3_000), "text": ["x" * 20] * 3_000})
    added = delta.add(path, "part-0.parquet", rows)["add"]
    name = path / "part-0.parquet"
    pq.write_table(rows, name, row_group_size=500)
    added |= {"size": name.stat().st_size}
    fields = [delta.field("n", "long"), delta.field("text", "string")]
    delta.commit(path, [delta.protocol(), delta.metadata(fields), {"add": added}])
    plan = plan_of(path, types={"n": "int8"}, columns=("n",), range_bytes=3_000)
    assert len(plan.ranges) > 2
    table, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 128, "rejected": 3_000 - 128}
    assert table["n"].to_pylist() == list(range(128))
    assert [bad.position for bad in rejected] == [f"row {row + 1}" for row in range(128, 3_000)]
    assert rejected[0].file == str(name)
    with pytest.raises(DataError, match=r"part-0.parquet, row 129, column 'n': found 128"):
        read.read_table(plan, reject=False)


def test_kept_rows(tmp_path: Path) -> None:
    """Kept rows have numbers that go on from range to range."""
    path = tmp_path / "t"
    delta.write(path, {"n": list(range(40_000)), "text": ["x" * 1_000] * 40_000})
    (file,) = pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist()
    delta.delete_rows(path, file, [3])
    live = plan_of(path, columns=("n", "text"))
    delta.write(path, {"n": [7], "text": [""]})
    plan = kept({"s": live}, tmp_path / "kept")["s"]
    assert plan.snapshot is not None
    assert (plan.snapshot.id, plan.snapshot.rows, len(plan.ranges)) == ("1", 39_999, 3)
    for one in (live, plan):
        table, _, _ = read.read_table(one, reject=False)
        assert sorted(table["n"].to_pylist()) == [n for n in range(40_000) if n != 3]
    delta.write(tmp_path / "u", {"n": [1]})
    (file,) = pa.table(DeltaTable(str(tmp_path / "u")).get_add_actions())["path"].to_pylist()
    delta.delete_rows(tmp_path / "u", file, [0])
    with pytest.raises(DataError, match="found no rows at 1, expected data"):
        kept({"s": plan_of(tmp_path / "u")}, tmp_path / "none")


def test_renamed_columns(tmp_path: Path) -> None:
    """Old files keep their names; new columns are null in them."""
    path = tmp_path / "t"
    inner = pa.struct([("c-21", pa.int64())])
    old = pa.table({"c-1": [1, 2], "c-2": pa.array([{"c-21": 5}, None], inner)})
    new = pa.table({"c-1": [3], "c-2": pa.array([{"c-21": 6}], inner), "c-3": ["x"]})
    struct = {
        "type": "struct",
        "fields": [delta.mapped("a", "long", 21, "c-21"), delta.mapped("b", "string", 22, "c-22")],
    }
    fields = [
        delta.mapped("n", "long", 1, "c-1"),
        delta.mapped("s", struct, 2, "c-2"),
        delta.mapped("extra", "string", 3, "c-3"),
        delta.mapped("day", "date", 4, "c-4"),
    ]
    settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "22"}
    delta.commit(
        path,
        [
            delta.protocol("columnMapping"),
            delta.metadata(fields, ["day"], **settings),
            delta.add(path, "a.parquet", old, {"c-4": "2026-11-23"}),
            delta.add(path, "b.parquet", new, {"c-4": None}),
        ],
    )
    expected = [
        {"n": 1, "s.a": 5, "s.b": None, "extra": None, "day": DAY},
        {"n": 2, "s.a": None, "s.b": None, "extra": None, "day": DAY},
        {"n": 3, "s.a": 6, "s.b": None, "extra": "x", "day": None},
    ]
    assert read_rows(path) == expected
    assert [(row["n"], row["extra"], row["day"]) for row in by(delta.scanned(path))] == [
        (row["n"], row["extra"], row["day"]) for row in expected
    ]
    assert read_rows(path, columns=("extra", "day"))[0] == {"extra": None, "day": DAY}


def test_physical_names_without_a_mapping(tmp_path: Path) -> None:
    """Physical names count only while the table has a mapping."""
    path = tmp_path / "t"
    fields = [delta.mapped("n", "long", 1, "c-1")]
    added = delta.add(path, "a.parquet", pa.table({"n": [1], "c-1": [2]}))
    delta.commit(path, [delta.protocol(), delta.metadata(fields), added])
    assert read_rows(path) == [{"n": 1}] == delta.scanned(path)


def test_partitions_that_files_have(tmp_path: Path) -> None:
    """The log has a partition's values, whatever files have."""
    path, rows = tmp_path / "t", pa.table({"n": [1], "day": ["z"]})
    fields = [delta.field("n", "long"), delta.field("day", "string")]
    added = [delta.add(path, f"{day}.parquet", rows, {"day": day}) for day in ("a", None)]
    delta.commit(path, [delta.protocol(), delta.metadata(fields, ["day"]), *added])
    assert read_rows(path) == [{"n": 1, "day": None}, {"n": 1, "day": "a"}]
    assert by(delta.scanned(path), "day") == read_rows(path)


def test_widened_types(tmp_path: Path) -> None:
    """Narrow values of old files stay in a wider type."""
    path, rows = tmp_path / "t", pa.table({"n": pa.array([1], pa.int32())})
    actions = [delta.protocol("typeWidening"), delta.metadata([delta.field("n", "long")])]
    delta.commit(path, [*actions, delta.add(path, "a.parquet", rows)])
    assert read_rows(path) == [{"n": 1}]
    assert plan_of(path).schema.field("n").type == pa.int64()


def test_added_columns(tmp_path: Path) -> None:
    """Columns that were added later are null in the rows before."""
    path = tmp_path / "t"
    delta.write(path, {"n": [1]})
    delta.write(path, {"n": [2], "extra": [0.5], "deep": [[[1, 2]]]}, schema_mode="merge")
    found = read_rows(path, types={"deep": "list<int64>"})
    assert by(found) == [{"n": 1, "extra": None, "deep": None},
                         {"n": 2, "extra": 0.5, "deep": [1, 2]}]  # fmt: skip
    delta.write(tmp_path / "u", {"n": [1, 2], "deep": [[[1, 2], [3, 4]]] * 2})
    assert read_rows(tmp_path / "u")[1] == {"n": 2, "deep": [1, 2, 3, 4]}


def test_files_that_are_not_as_the_log_says(tmp_path: Path) -> None:
    """A file that is damaged or gone is named."""
    path = tmp_path / "t"
    delta.write(path, {"n": list(range(100))})
    (file,) = path.glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    with pytest.raises(DataError, match="damaged Parquet data"):
        read_rows(path)
    file.unlink()
    with pytest.raises(DataError, match="is gone"):
        read_rows(path)
    file.write_bytes(content)
    assert len(read_rows(path)) == 100


def test_limits(tmp_path: Path) -> None:
    """Limits on columns, nesting and decompression hold, as for Parquet."""
    path = tmp_path / "t"
    delta.write(path, {"n": [1], "deep": [{"a": {"b": 1}}]})
    for limits, words in (
        (Limits(columns=1), "'columns'|limits: {columns"),
        (Limits(nesting_depth=2), "nesting_depth"),
    ):
        with pytest.raises(DataError, match=words):
            plan_of(path, limits=limits)


def test_what_is_not_supported(tmp_path: Path) -> None:
    """Features and folders that cannot be read are errors."""
    path = tmp_path / "t"
    delta.write(path, {"n": [1]})
    delta.commit(path, [delta.protocol("deletionVectors", "someday")])
    with pytest.raises(DataError, match=r"someday|cannot be read"):
        plan_of(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"empty: the Delta table cannot be read: .*No files in log"
    ):
        plan_of(tmp_path / "empty", format="delta")
    delta.write(tmp_path / "none", pa.table({"n": pa.array([], pa.int64())}))
    with pytest.raises(DataError, match="found no rows at version 0, expected data"):
        plan_of(tmp_path / "none")
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    log.write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        plan_of(path)


def test_a_version_stays_while_the_table_grows(tmp_path: Path) -> None:
    """A plan reads its version, whatever is written meanwhile."""
    path = tmp_path / "t"
    delta.write(path, {"n": [1, 2]})
    plan = plan_of(path)
    delta.write(path, {"n": [3]})
    DeltaTable(str(path)).delete("n = 1")
    table, _, _ = read.read_table(plan, reject=False)
    assert table["n"].to_pylist() == [1, 2]
