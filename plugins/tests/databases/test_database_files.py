"""Tables in SQLite and DuckDB files."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import re
import signal
import sqlite3
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines_plugins.databases import database_of
from plugins.tests.support.kept_rows import kept
from tests.support.made_source import made_source

SQLITE = """
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, score REAL, price DECIMAL(10,2),
  data BLOB, day DATE, empty INT);
INSERT INTO users VALUES (3, 'é', 1.5, 10, x'00ff', '2024-02-29', NULL),
  (1, NULL, -0.25, 2.5, NULL, NULL, NULL), (2, 'b', 2, 7, x'', '2024-01-01', NULL);
CREATE TABLE mixed (id INTEGER, x, big REAL, y NUMERIC);
"""
DUCKDB = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE kinds AS SELECT 1 AS id, true AS b, 170141183460469231::HUGEINT AS h,
  18446744073709551615::UBIGINT % 1000 AS u, 1.25::DECIMAL(10, 2) AS d, 0.5::FLOAT AS f,
  uuid_value::UUID AS id2, 'ok'::mood AS m, [1, 2] AS l, {'a': 1, 'b': 'x'} AS s,
  '2024-02-29'::DATE AS day, '2024-06-01 12:00:00+02'::TIMESTAMPTZ AS at, '\\x00'::BLOB AS raw,
  '{"a": 1}'::JSON AS j, TIME '12:00:00.5' AS t
  FROM (SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS uuid_value);
INSERT INTO kinds (id) VALUES (2);
"""


def sqlite_file(folder: pathlib.Path, script: str = SQLITE) -> str:
    """The path of a new SQLite file."""
    path = str(folder / "shop.sqlite")
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    return path


def duckdb_file(folder: pathlib.Path, script: str = DUCKDB) -> str:
    """The path of a new DuckDB file."""
    path = str(folder / "shop.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(script)
    return path


def planned(url: str, **options: Any) -> SourcePlan:
    """The plan of one source."""
    return plan_source(made_source("rows", url=url, **options), "")


def both(url: str, folder: pathlib.Path, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table, which are the same live and kept."""
    plan = planned(url, **options)
    found = kept({"rows": plan}, folder / "kept")["rows"]
    rows = read.read_table(plan, reject=False)[0]
    assert read.read_table(found, reject=False)[0].equals(rows)
    assert found.snapshot is not None
    assert found.snapshot.rows == (None if "query" in options else rows.num_rows)
    return list(rows.to_pylist())


def test_sqlite_types(tmp_path: pathlib.Path) -> None:
    """Types of SQLite follow from values, else from declarations."""
    rows = both(sqlite_file(tmp_path), tmp_path, table="users", partition="id")
    assert rows == [
        {**dict.fromkeys(rows[0]), "id": 1, "score": -0.25, "price": 2.5},
        {
            "id": 2,
            "name": "b",
            "score": 2.0,
            "price": 7.0,
            "data": b"",
            "day": "2024-01-01",
            "empty": None,
        },
        {
            "id": 3,
            "name": "é",
            "score": 1.5,
            "price": 10.0,
            "data": b"\x00\xff",
            "day": "2024-02-29",
            "empty": None,
        },
    ]
    schema = planned(sqlite_file(tmp_path / ".", ""), table="users").schema
    assert schema.field("empty").type == pa.int64()


def test_sqlite_declared_types(tmp_path: pathlib.Path) -> None:
    """``types`` converts exactly."""
    types = {"day": "date", "id": "text", "price": "float64"}
    rows = both(sqlite_file(tmp_path), tmp_path, table="users", types=types, partition="id")
    assert [row["day"] for row in rows] == [
        None,
        datetime.date(2024, 1, 1),
        datetime.date(2024, 2, 29),
    ]
    assert [row["id"] for row in rows] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("column", "first", "late", "said"),
    [
        ("x", 1, "two", "Failed to parse string: 'two' as a scalar of type int64"),
        ("x", 1, 1.5, "Float value 1.500000 was truncated converting to int64"),
        ("x", 1, "7", 7),
        ("x", "one", 2, "2"),
        ("x", b"1", "2", b"2"),
        ("x", b"1", 2, "from int64 to binary"),
        ("y", 1.5, "two", "Failed to parse string: 'two' as a scalar of type double"),
        ("y", 1.5, (1 << 53) + 1, "an integer that no float64 equals"),
        ("y", 1.5, 1 << 60, float(1 << 60)),
    ],
)
def test_sqlite_values_of_other_types(
    tmp_path: pathlib.Path, column: str, first: object, late: object, said: object
) -> None:
    """A value of another type is converted exactly, or an error."""
    path = sqlite_file(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.executemany(
            f"INSERT INTO mixed (id, {column}) VALUES (?, ?)",
            list(enumerate([*[first] * 10_000, late])),
        )
    options = {"table": "mixed", "columns": (column,)}
    if not isinstance(said, str) or said == str(late):
        assert both(path, tmp_path, **options)[-1][column] == said
        return
    where = rf"#mixed, row 10001, column '{column}' \(.*\): .*{re.escape(said)}"
    with pytest.raises(DataError, match=where):
        both(path, tmp_path, **options)
    if not isinstance(first, bytes):
        rows = both(path, tmp_path, **options, types={column: "text"})
        assert rows[-1][column] == str(late)


def test_sqlite_mixed_types_in_the_first_rows(tmp_path: pathlib.Path) -> None:
    """A column of several types is a problem of the recipe."""
    path = sqlite_file(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO mixed (x) VALUES (?)", [(1,), ("b",)])
    with pytest.raises(RecipeProblems, match="found integer and text, which no column type"):
        planned(path, table="mixed")


def test_duckdb_types(tmp_path: pathlib.Path) -> None:
    """Types of DuckDB are exact, with nulls, lists and structs."""
    first, second = both(duckdb_file(tmp_path), tmp_path, table="kinds")
    expected = {
        "id": 1,
        "b": True,
        "h": 170141183460469231,
        "u": 615,
        "d": 1.25,
        "f": 0.5,
        "id2": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "m": "ok",
        "l": [1, 2],
        "s.a": 1,
        "s.b": "x",
        "day": datetime.date(2024, 2, 29),
        "raw": b"\x00",
        "j": '{"a": 1}',
        "t": datetime.time(12, 0, 0, 500_000),
        "at": datetime.datetime(2024, 6, 1, 10, 0, tzinfo=datetime.timezone.utc),
    }
    assert first == expected
    assert {name for name, value in second.items() if value is not None} == {"id"}
    assert decimal.Decimal(first["d"]) == decimal.Decimal("1.25")


@pytest.mark.parametrize(
    "expression",
    [
        *("'infinity'::DATE", "'-infinity'::TIMESTAMP", "'infinity'::TIMESTAMPTZ"),
        *("['infinity'::DATE]", "{'a': ['-infinity'::DATE]}"),
    ],
)
def test_duckdb_values_without_an_equal(tmp_path: pathlib.Path, expression: str) -> None:
    """Infinite dates are errors with their rows."""
    query = f"SELECT i, CASE WHEN i = 2 THEN {expression} END AS x FROM range(3) AS t(i)"
    with pytest.raises(DataError, match=r"#query, row 3, column 'x' \(.*\): found infinity"):
        both(duckdb_file(tmp_path), tmp_path, query=query)


@pytest.mark.parametrize(
    "expression", ["INTERVAL 1 MONTH", "'101'::BIT", "'12:00+02'::TIMETZ", "1::UHUGEINT"]
)
def test_duckdb_types_without_an_equal(tmp_path: pathlib.Path, expression: str) -> None:
    """Types without an equal are refused, and read as text."""
    query = f"SELECT {expression.replace('12:00+02', '12:00:00+02')} AS x"
    path = duckdb_file(tmp_path)
    with pytest.raises(RecipeProblems, match="which no column type equals"):
        planned(path, query=query)
    assert both(path, tmp_path, query=query, types={"x": "text"})[0]["x"]


def test_duckdb_reaches_no_other_file(tmp_path: pathlib.Path) -> None:
    """A query reads the database's file only."""
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match="DuckDB answered"):
        planned(duckdb_file(tmp_path), query=f"SELECT * FROM read_csv('{tmp_path}/other.csv')")


def test_a_view_without_an_end_is_interrupted(tmp_path: pathlib.Path) -> None:
    """A signal ends the read of a view that never ends."""
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
    path = sqlite_file(tmp_path, f"CREATE VIEW users AS {endless};")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(DataError, match="interrupted"):
            planned(path, table="users")
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.end_to_end
def test_sqlite_texts_that_are_no_utf8(tmp_path: pathlib.Path) -> None:
    """They are bad rows with their places."""
    script = "CREATE TABLE t (i INTEGER, s TEXT); "
    script += "INSERT INTO t VALUES (1, 'é'), (2, CAST(x'ff41' AS TEXT)), (3, NULL)"
    path = sqlite_file(tmp_path, script)
    said = r"shop.sqlite#t, row 2, column 's': found b'\\xffA', expected text in UTF-8"
    with pytest.raises(DataError, match=said):
        both(path, tmp_path, table="t", partition="i")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("name: a\nsources: {t: shop.sqlite}\non_error: {reject: 1}\n")
    bp.convert(str(recipe), str(tmp_path / "out"))
    assert "row 2" in (tmp_path / "out" / "rejected" / "t.jsonl").read_text()
    counts = json.loads((tmp_path / "out" / "dataset.json").read_text())["counts"]
    assert (counts["rejected"], counts["written"]) == (1, 2)


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
def test_volatile_queries_are_read_once(make: Any, tmp_path: pathlib.Path) -> None:
    """Rows of a volatile query are kept, and not counted."""
    plan = planned(make(tmp_path), query="SELECT random() AS x")
    found = kept({"rows": plan}, tmp_path / "kept")["rows"]
    assert found.snapshot is not None
    assert found.snapshot.rows is None
    assert read.read_table(found, False)[0].equals(read.read_table(found, False)[0])


def test_a_writer_does_not_show(tmp_path: pathlib.Path) -> None:
    """Tables of a file are of one moment, while another connection writes."""
    path = sqlite_file(
        tmp_path, "PRAGMA journal_mode = WAL; CREATE TABLE a (x); CREATE TABLE b (x)"
    )
    with sqlite3.connect(path) as writer:
        writer.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(40_000)])
        writer.execute("INSERT INTO b VALUES (40000)")
        writer.commit()
        plans = {
            name: plan_source(made_source(name, url=path, table=name), "") for name in ("a", "b")
        }

        def write(rows: int) -> None:
            writer.execute("INSERT INTO a VALUES (-1)")
            writer.execute("UPDATE b SET x = x + 1")
            writer.commit()

        found = kept(plans, tmp_path / "kept", write)
    rows = read.read_table(found["a"], reject=False)[0]
    assert rows.num_rows == read.read_table(found["b"], reject=False)[0].column("x")[0].as_py()
    assert rows.num_rows == 40_000


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
@pytest.mark.parametrize("name", ["my table", '"', 'a"b'])
def test_names_with_quotes(make: Any, tmp_path: pathlib.Path, name: str) -> None:
    """Any name without a dot is taken; the only table needs none."""
    quoted = '"' + name.replace('"', '""') + '"'
    path = make(tmp_path, f"CREATE TABLE {quoted} AS SELECT 'a' AS \"#guard\", 2 AS x")
    assert both(path, tmp_path, table=name)[0]["x"] == 2
    assert planned(path).source.options["table"] == name


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("shop.sqlite", {}, "found 2 tables: mixed, users, expected one to be named"),
        ("shop.sqlite", {"table": "user"}, "SQLite answered: no such table: user. Check"),
        ("shop.sqlite", {"query": "SELECT missing"}, "no such column: missing"),
        ("nothing.sqlite", {"table": "a"}, "there is no file"),
    ],
)
def test_problems(tmp_path: pathlib.Path, name: str, options: dict[str, str], said: str) -> None:
    """Missing files, tables and columns are problems of the recipe."""
    sqlite_file(tmp_path)
    with pytest.raises((RecipeProblems, DataError)) as raised:
        planned(str(tmp_path / name), **options)
    assert said in str(raised.value)


def test_damaged_files(tmp_path: pathlib.Path) -> None:
    """A file of something else is an error that names it."""
    for name in ("a.sqlite", "b.duckdb", "c.db"):
        path = tmp_path / name
        path.write_bytes(b"something else " * 100)
        with pytest.raises(DataError, match=rf"{name}#t: (SQLite|DuckDB) answered"):
            planned(str(path), table="t")


def test_a_duckdb_file_of_another_name(tmp_path: pathlib.Path) -> None:
    """A ``.db`` file is SQLite's; the error of another has the remedy."""
    one = pathlib.Path(sqlite_file(tmp_path)).rename(tmp_path / "one.db")
    assert database_of(str(one)).name == "SQLite"
    other = pathlib.Path(duckdb_file(tmp_path)).rename(tmp_path / "other.db")
    with pytest.raises(DataError, match=r"other\.db.*one of DuckDB needs the suffix \.duckdb"):
        planned(str(other), table="t")


@pytest.mark.end_to_end
def test_a_conversion_of_both(tmp_path: pathlib.Path) -> None:
    """A table of SQLite is joined with one of DuckDB."""
    sqlite_file(tmp_path)
    duckdb_file(tmp_path, "CREATE TABLE sizes AS SELECT i AS id, i * 10 AS size FROM range(9) t(i)")
    (tmp_path / "recipe.yaml").write_text(
        "name: users\nsources:\n  users: {url: shop.sqlite, table: users, partition: id}\n"
        "  sizes: shop.duckdb#sizes\nfrom: users\njoin: [{source: sizes, on: id}]\n"
    )
    bp.convert(str(tmp_path / "recipe.yaml"), str(tmp_path / "out"))
    manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert manifest["splits"]["train"]["rows"] == 3
    assert manifest["joins"][0]["matched"] == 3
    assert {name: source["format"] for name, source in manifest["sources"].items()} == {
        "users": "sqlite",
        "sizes": "duckdb",
    }


def test_a_limit_comes_before_the_filter(tmp_path: pathlib.Path) -> None:
    """A part of the rows is taken before any is left out."""
    script = "CREATE TABLE rows AS SELECT range AS id FROM range(100)"
    recipe = tmp_path / "recipe.yaml"
    duckdb_file(tmp_path, script)
    recipe.write_text("name: a\nsources: {rows: shop.duckdb}\nfilter: id >= 10\n")
    for given, expected in ((["--limit", "30"], (30, 10, 20)), ([], (100, 10, 90))):
        out = tmp_path / f"out{len(given)}"
        assert main_module.run(["convert", str(recipe), "-o", str(out), "-q", *given]) == 0
        counts = json.loads((out / "dataset.json").read_text())["counts"]
        assert (counts["read"], counts["filtered"], counts["written"]) == expected


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
def test_a_filter_that_takes_nothing(make: Any, tmp_path: pathlib.Path) -> None:
    """It gives a dataset without rows, as with a file."""
    path = make(tmp_path, "CREATE TABLE rows AS SELECT 1 AS id UNION ALL SELECT 2")
    (tmp_path / "rows.csv").write_text("id\n1\n2\n")
    found = []
    for name in (f"{path}#rows", "rows.csv"):
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(f"name: a\nsources: {{rows: '{name}'}}\nfilter: id > 1000\n")
        bp.convert(str(recipe), str(tmp_path / "out"), overwrite=True)
        manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
        found.append((manifest["counts"], manifest["splits"]["train"]["rows"]))
    assert found[0] == found[1]
    assert found[0][0]["filtered"] == 2
    assert found[0][1] == 0


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
def test_a_table_without_rows(make: Any, tmp_path: pathlib.Path) -> None:
    """It is an error, also with a filter."""
    path = make(tmp_path, "CREATE TABLE rows (id INTEGER)")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"name: a\nsources: {{rows: '{path}#rows'}}\nfilter: id > 1000\n")
    with pytest.raises(DataError, match="found no rows, expected data"):
        bp.convert(str(recipe), str(tmp_path / "out"))
