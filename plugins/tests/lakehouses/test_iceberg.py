"""Tables of Apache Iceberg: snapshots, deleted rows, changed columns, bad input."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from plugins.tests.support import iceberg_tables as iceberg
from plugins.tests.support.kept_rows import kept
from tests.support.made_source import made_source

DAY = datetime.date(2026, 11, 23)
MOMENT = datetime.datetime(2026, 11, 23, 8, 30, 0, 250_000)  # noqa: DTZ001 - without a zone


def plan_of(folder: Path, path: Path | None = None, **options: Any) -> SourcePlan:
    """Plans the table of a folder's catalog, or of a metadata file."""
    place = iceberg.source_of(folder)["path"] if path is None else str(path)
    return plan_source(made_source("s", (place,), format="iceberg", **options), "")


def read_rows(folder: Path, path: Path | None = None, **options: Any) -> list[dict[str, Any]]:
    """Returns the rows of a table."""
    table, _, _ = read.read_table(plan_of(folder, path, **options), reject=False)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_rows_are_those_of_the_package(tmp_path: Path) -> None:
    """All types and nulls come as the package reads them."""
    rows = pa.table(
        {
            "n": pa.array([1, 2], pa.int32()),
            "flag": [True, None],
            "price": pa.array([decimal.Decimal("1.25"), None]),
            "bytes": [b"\0\xff", None],
            "day": [DAY, None],
            "moment": pa.array([MOMENT, None], pa.timestamp("us")),
            "zoned": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "tags": [["a", "b"], None],
            "inner": [{"x": 1.5, "y": "z"}, None],
            "counts": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = iceberg.create(tmp_path, rows)
    found = read_rows(tmp_path)
    assert found == [
        {"n": 1, "flag": True, "price": 1.25, "bytes": b"\0\xff", "day": DAY, "moment": MOMENT,
         "zoned": MOMENT.replace(tzinfo=datetime.timezone.utc), "tags": ["a", "b"], "inner.x": 1.5, "inner.y": "z",
         "counts.key": ["a"], "counts.value": [1]},
        {"n": 2} | dict.fromkeys(["flag", "price", "bytes", "day", "moment", "zoned", "tags",
                                  "inner.x", "inner.y", "counts.key", "counts.value"]),
    ]  # fmt: skip
    assert table.scan().to_arrow()["n"].to_pylist() == [1, 2]
    plan = plan_of(tmp_path)
    assert plan.snapshot is not None
    assert plan.snapshot.rows == 2
    assert "metadata.json, snapshot " in plan.decisions[0]
    assert plan.decisions[0].endswith("UTC: 2 rows in 1 file")
    (metadata,) = [table.metadata_location.removeprefix("file://")]
    assert read_rows(tmp_path, Path(metadata)) == found


def test_columns_that_changed(tmp_path: Path) -> None:
    """Ids of fields are followed through renames, widened types and added columns."""
    table = iceberg.create(
        tmp_path,
        pa.table({"n": pa.array([1, 2], pa.int32()), "x": pa.array([0.5, None], pa.float32()),
                  "s": [{"a": 1}, {"a": 2}], "gone": ["p", "q"]}),
    )  # fmt: skip
    first = table.current_snapshot()
    assert first is not None
    with table.update_schema() as update:
        update.rename_column("n", "number")
        update.update_column("n", LongType())
        update.update_column("x", DoubleType())
        update.add_column("extra", StringType())
        update.add_column(("s", "b"), LongType())
        update.rename_column("s.a", "c")
        update.delete_column("gone")
    table.append(pa.table({"number": [2**40], "x": [0.1], "s": [{"c": 3, "b": 4}], "extra": ["y"]}))
    assert read_rows(tmp_path) == [
        {"number": 1, "x": 0.5, "s.c": 1, "s.b": None, "extra": None},
        {"number": 2, "x": None, "s.c": 2, "s.b": None, "extra": None},
        {"number": 2**40, "x": 0.1, "s.c": 3, "s.b": 4, "extra": "y"},
    ]
    assert read_rows(tmp_path, snapshot_id=first.snapshot_id)[1] == {
        "n": 2, "x": None, "s.a": 2, "gone": "q"
    }  # fmt: skip


def test_partitions_and_files_without_ids(tmp_path: Path) -> None:
    """Imported files lack ids, and columns of partitions."""
    catalog = iceberg.catalog_of(tmp_path)
    fields = [NestedField(1, "n", LongType()), NestedField(2, "part", StringType())]
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(iceberg.NAME, Schema(*fields), partition_spec=spec)
    table.append(pa.table({"n": [1, 2], "part": ["a b/c", None]}))
    assert "library" not in plan_of(tmp_path).decisions[0]
    pq.write_table(pa.table({"n": [3], "part": ["z"]}), tmp_path / "own.parquet")
    table.add_files([f"file://{tmp_path}/own.parquet"])
    expected = [(1, "a b/c"), (2, None), (3, "z")]
    assert sorted((row["n"], row["part"]) for row in read_rows(tmp_path)) == expected
    assert "as it has a mapping of names" in plan_of(tmp_path).decisions[0]
    # The file of an imported table, whose folder has the partition.
    pq.write_table(pa.table({"n": [3]}), tmp_path / "own.parquet")
    assert sorted((row["n"], row["part"]) for row in read_rows(tmp_path)) == expected


def test_files_of_other_ids(tmp_path: Path) -> None:
    """Columns are found by names only where files have the table's ids."""
    table = iceberg.create(tmp_path, pa.table({"n": [1, 2]}))
    (task,) = table.scan().plan_files()
    path = task.file.file_path.removeprefix("file://")
    for field in (
        pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "7"}),
        pa.field("n", pa.int64()),
    ):
        pq.write_table(pa.table({"n": [1, 2]}, pa.schema([field])), path)
        with pytest.raises(DataError, match=r"parquet: found fields with other ids than the table"):
            read_rows(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "puffin"])
def test_deleted_positions(tmp_path: Path, kind: str) -> None:
    """Rows deleted by position are left out, of their file only."""
    table = iceberg.create(tmp_path, pa.table({"n": list(range(1_000))}))
    table.append(pa.table({"n": list(range(1_000, 1_010))}))
    first = next(
        task.file.file_path for task in table.scan().plan_files() if task.file.record_count == 1_000
    )
    deleted = [0, 7, 999, *range(500, 600)]
    path = tmp_path / f"deletes.{kind}"
    write = iceberg.positions if kind == "parquet" else iceberg.vectors
    rows = write(path, {first: deleted, "file:///another.parquet": [1, 2]})
    metadata = iceberg.with_deletes(table, path, FileFormat[kind.upper()], rows)
    expected = [number for number in range(1_010) if number not in set(deleted)]
    assert [row["n"] for row in read_rows(tmp_path, metadata)] == expected
    plan = kept({"s": plan_of(tmp_path, metadata)}, tmp_path)["s"]
    assert plan.snapshot is not None
    assert plan.snapshot.rows == len(expected)
    assert read.read_table(plan, reject=False)[0]["n"].to_pylist() == expected
    own = StaticTable.from_metadata(str(metadata)).scan().to_arrow()
    assert sorted(own["n"].to_pylist()) == expected
    path.unlink()
    with pytest.raises(DataError, match=r"deletes\."):
        read_rows(tmp_path, metadata)


def test_deleted_values_are_refused(tmp_path: Path) -> None:
    """Rows deleted by their values are an error with a remedy."""
    table = iceberg.create(tmp_path, pa.table({"n": [1, 2]}))
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    metadata = iceberg.with_deletes(table, path, FileFormat.PARQUET, 1, ids=[1])
    with pytest.raises(DataError, match="does not yet support equality deletes"):
        plan_of(tmp_path, metadata)
    parent = table.current_snapshot()
    assert parent is not None
    assert len(read_rows(tmp_path, metadata, snapshot_id=parent.snapshot_id)) == 2


def test_snapshots(tmp_path: Path) -> None:
    """``snapshot_id`` reads the rows of then; others list the latest."""
    table = iceberg.create(tmp_path, pa.table({"n": [1]}))
    first = table.current_snapshot()
    table.append(pa.table({"n": [2]}))
    assert first is not None
    assert len(read_rows(tmp_path, snapshot_id=first.snapshot_id)) == 1
    assert len(read_rows(tmp_path)) == 2
    with pytest.raises(RecipeProblems, match=f"latest are {first.snapshot_id}") as error:
        plan_of(tmp_path, snapshot_id=5)
    assert error.value.problems[0].path == ("sources", "s", "snapshot_id")


def test_what_is_not_there(tmp_path: Path) -> None:
    """Tables and snapshots that are not there are errors."""
    iceberg.catalog_of(tmp_path).create_table(iceberg.NAME, pa.schema([("n", pa.int64())]))
    with pytest.raises(RecipeProblems, match="found no such snapshot"):
        plan_of(tmp_path)
    with pytest.raises(DataError, match=r"version-hint\.text: there is no such file"):
        plan_of(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("format: delta, path: a, as_of: 2026-01-01", "unknown key 'as_of'"),
        ("format: iceberg, catalog: prod, table: db.t", "found no 'path', expected one"),
        ("format: iceberg, path: a, catalog: prod", "unknown key 'catalog'"),
    ],
)
def test_values_of_keys(keys: str, words: str) -> None:
    """Values that are none of their key are problems of the recipe."""
    text = f"name: a\nsources: {{a: {{{keys}}}}}\noutput: {{}}\n"
    with pytest.raises(RecipeError, match=words):
        parse_recipe(text, "recipe.yaml", "")


@pytest.mark.parametrize(
    ("keys", "key", "words"),
    [
        ("format: delta, path: [a, b]", "path", "expected one 'path', the folder"),
        ("format: delta, path: a, table: b", "table", "expected it with database only"),
        ("format: delta, path: a, snapshot_id: 1", "snapshot_id", "expected it with iceberg only"),
        ("format: delta, path: a, nulls: [x]", "nulls", "found it with 'format: delta'"),
        ("format: delta, path: a, delimiter: x", "delimiter", "with csv, tsv only"),
        ("path: a.csv, version: 1", "version", "expected it with delta only"),
        ("format: iceberg, path: [a, b]", "path", "folder or its newest metadata.json"),
    ],
)
def test_keys_that_do_not_fit(keys: str, key: str, words: str, tmp_path: Path) -> None:
    """Keys that contradict each other are found before a table is read."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    recipe = parse_recipe(f"name: a\nsources: {{a: {{{keys}}}}}\n", "recipe.yaml", "")
    with pytest.raises(RecipeProblems) as error:
        plan_source(recipe.sources["a"], str(tmp_path))
    found = {problem.path: problem.message for problem in error.value.problems}
    assert words in found["sources", "a", key]
