"""Sources in PostgreSQL, on a real server."""

from __future__ import annotations

import json
import pathlib
import re

import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines_plugins.databases import postgres
from plugins.tests.support.kept_rows import kept
from plugins.tests.support.postgres_server import PASSWORD, Server
from tests.support.made_source import made_source

pytestmark = [pytest.mark.databases, pytest.mark.end_to_end]

KINDS = """
CREATE TABLE kinds (
  id int8, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(10,2),
  n0 numeric(12,0), nn numeric, t text, v varchar(5), c char(4), by bytea, d date, ti time,
  ts timestamp, tz timestamptz, u uuid, j json, jb jsonb, m mood, ia int4[], ta text[],
  na numeric(6,2)[], ma mood[], da date[], dom positive, o oid, nm name
)
"""
FULL = """
INSERT INTO kinds VALUES (
  1, true, -32768, 2147483647, 9223372036854775807, 1.5, 'NaN', 12345678.91, 999999999999,
  1.1, E'é"''\\\\', 'abc', 'ab', '\\x00ff', '2024-02-29', '23:59:59.999999',
  '1999-12-31 23:59:59.123456', '2024-06-01 12:00:00+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '{"a": 1}', '{"b":[1,2]}', 'ok', '{1,2}', '{"x","y,z"}', '{1.25,2.5}', '{ok,sad}',
  '{2024-01-01}', 5, 4294967295, 'nm'
)
"""
EXPECTED = {
    "id": 1,
    "b": True,
    "i2": -32768,
    "i4": 2147483647,
    "i8": 9223372036854775807,
    "f4": 1.5,
    "n": 12345678.91,
    "n0": 999999999999,
    "nn": 1.1,
    "t": "é\"'\\",
    "v": "abc",
    "c": "ab",
    "by": b"\x00\xff",
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "j": '{"a": 1}',
    "jb": '{"b": [1, 2]}',
    "m": "ok",
    "ia": [1, 2],
    "ta": ["x", "y,z"],
    "na": [1.25, 2.5],
    "ma": ["ok", "sad"],
    "dom": 5,
    "o": 4294967295,
    "nm": "nm",
}
MICROSECONDS = {
    "d": 19782,
    "ti": 86399999999,
    "ts": 946684799123456,
    "tz": 1717236000000000,
}


@pytest.fixture(scope="module")
def shop(running: Server) -> Server:
    """Tables of all kinds of values, and one with many rows."""
    running.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        KINDS,
        FULL,
        "INSERT INTO kinds (id) VALUES (2)",
        "CREATE TABLE users AS SELECT i::int8 AS user_id, (i * 7919 % 1000)::int4 AS age, "
        "'city ' || i % 50 AS city, (i % 997) / 10.0::float8 AS score, "
        "date '2020-01-01' + i % 2000 AS day FROM generate_series(1, 200000) AS i",
        "INSERT INTO users VALUES (NULL, 1, NULL, NULL, NULL)",
        "CREATE INDEX ON users (user_id)",
        "ANALYZE users",
    )
    return running


def planned(server: Server, **options: object) -> SourcePlan:
    """The plan of one source."""
    return plan_source(made_source("rows", url=server.url(), **options), "")


def rows_of(plan: SourcePlan) -> pa.Table:
    """All rows of a plan."""
    return read.read_table(plan, reject=False)[0]


def write_recipe(folder: pathlib.Path, text: str) -> str:
    """The path of a recipe's file."""
    path = folder / "recipe.yaml"
    path.write_text(text)
    return str(path)


def test_types_are_exact(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """Each type arrives with its values and nulls, live and kept."""
    plan = planned(server, table="kinds")
    for found in (plan, kept({"rows": plan}, tmp_path)["rows"]):
        table = rows_of(found)
        first, second = table.to_pylist()
        assert {name: first[name] for name in EXPECTED} == EXPECTED
        assert first["f8"] != first["f8"]
        for name, number in MICROSECONDS.items():
            column = table.column(name)
            whole = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
            assert column.cast(whole)[0].as_py() == number
        assert set(second) - {"id"} == {name for name, value in second.items() if value is None}


def test_declared_types_keep_digits(shop: Server, server: Server) -> None:
    """``types`` reads a numeric by its digits, others by their texts."""
    types = {"n": "text", "nn": "float64", "d": "text", "u": "text", "ia": "list<int64>"}
    (row, _) = rows_of(planned(server, table="kinds", types=types)).to_pylist()
    assert (row["n"], row["nn"], row["d"]) == ("12345678.91", 1.1, "2024-02-29")


@pytest.mark.parametrize(
    "expression",
    [
        *("'infinity'::date", "'-infinity'::date", "'infinity'::timestamp"),
        *("'-infinity'::timestamp", "'infinity'::timestamptz"),
        "'294247-01-10 04:00:54.775807'::timestamp",
        "'294276-12-31 23:59:59.999999'::timestamptz",
        "ARRAY[NULL, '294276-01-01'::timestamp]",
        "ARRAY['infinity'::date]",
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_times_without_an_equal_are_errors(
    shop: Server, server: Server, tmp_path: pathlib.Path, expression: str, is_kept: bool
) -> None:
    """A time that no column type equals is an error."""
    value = f"CASE WHEN id = 2 THEN {expression} END"
    query = f"SELECT id, {value} AS x FROM kinds ORDER BY id"
    plan = planned(server, query=query)
    with pytest.raises(DataError, match=r"#query, row 2, column 'x' \(.*\): found infinity, or"):
        rows_of(kept({"rows": plan}, tmp_path)["rows"] if is_kept else plan)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("ARRAY[[1, 2], [3, 4]]", r'"{{1,2},{3,4}} has several dimensions; types: text reads it"'),
        ("'[5:6]={1,2}'::int4[]", "Array value with lower bound not in {0, 1} is not supported"),
    ],
)
def test_arrays_without_an_equal_are_errors(server: Server, expression: str, said: str) -> None:
    """The server and its driver refuse arrays that are no lists."""
    with pytest.raises(DataError, match=f"#query: PostgreSQL answered: .*{re.escape(said)}"):
        rows_of(planned(server, query=f"SELECT {expression} AS x"))


@pytest.mark.parametrize(
    "number",
    [
        *("0", "1.5", "'NaN'", "'-Infinity'", "1.7976931348623157e308", "-1.7976931348623157e308"),
        *("4.9e-324", "-2.4703282292062329e-324"),
    ],
)
def test_numbers_at_the_ends_of_float64(server: Server, number: str) -> None:
    """The nearest float64 is read; others are no errors of the server."""
    query = f"SELECT {number}::numeric AS x, ARRAY[{number}::numeric] AS y"
    (row,) = rows_of(planned(server, query=query)).to_pylist()
    expected = float(number.strip("'"))
    assert str(row) == str({"x": expected, "y": [expected]})


@pytest.mark.parametrize(
    ("expression", "declared", "text"),
    [
        ("ARRAY[1, 2]", "text", "{1,2}"),
        ("ARRAY[[1, 2], [3, 4]]", "text", "{{1,2},{3,4}}"),
        ("'[5:6]={1,2}'::int4[]", "text", "[5:6]={1,2}"),
        ("ARRAY['infinity'::date, NULL]", "text", "{infinity,NULL}"),
        ("ARRAY[interval '1 day']", "text", "{P1D}"),
        ("ARRAY['infinity'::date]", "list<text>", ["infinity"]),
        ("ARRAY['294276-01-01'::timestamp]", "list<text>", ["294276-01-01 00:00:00"]),
        ("ARRAY[interval '1 day']", "list<text>", ["P1D"]),
        ("ARRAY[1.50::numeric]", "list<text>", ["1.50"]),
        ("ARRAY[1e-330::numeric]", "list<text>", [f"0.{'0' * 329}1"]),
    ],
)
def test_arrays_are_read_as_texts(
    server: Server, expression: str, declared: str, text: object
) -> None:
    """``types`` reads the server's text of an array, or of its items."""
    table = rows_of(
        planned(server, query=f"SELECT {expression} AS x", types={"x": declared}),
    )
    assert table.column("x").to_pylist() == [text]


def test_the_last_time(server: Server) -> None:
    """The largest number of microseconds but one is read as it is."""
    last = "'294247-01-10 04:00:54.775806'"
    table = rows_of(planned(server, query=f"SELECT {last}::timestamp AS x, {last}::timestamptz y"))
    for column in table.columns:
        assert column.cast(pa.int64())[0].as_py() == (1 << 63) - 2


@pytest.mark.parametrize(
    "expression",
    ["interval '1 month'", "inet '::1'", "point(1, 2)", "(1, 2)", "int4range(1, 2)", "money '1'"],
)
def test_other_types_are_texts(shop: Server, server: Server, expression: str) -> None:
    """Other types are read as the server's texts."""
    query = f"SELECT {expression} AS x"
    (row,) = rows_of(planned(server, query=query)).to_pylist()
    ((text,),) = server.run("SET intervalstyle TO 'iso_8601'", f"SELECT ({expression})::text AS x")
    assert row == {"x": text}


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("'NaN'::numeric(9, 0)", "cannot convert NaN to bigint"),
        ("1e400::numeric", "out of range for type double precision"),
        ("-1e-330::numeric(400, 350)", "out of range for type double precision"),
        ("ARRAY[1, NULL, 1e400::numeric]", "out of range for type double precision"),
    ],
)
def test_numbers_beyond_their_types(server: Server, number: str, said: str) -> None:
    """The server refuses to make another number of them."""
    with pytest.raises(DataError, match=f"#query: PostgreSQL answered: .*{said}"):
        rows_of(planned(server, query=f"SELECT {number} AS x"))


def terminate(server: Server, condition: str) -> int:
    """Ends connections of other sessions; returns how many."""
    ended = server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = "
        f"'client backend' AND pid <> pg_backend_pid() AND {condition}"
    )
    return len(ended)


def test_a_lost_snapshot_fails(
    shop: Server, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose snapshot is lost fails, and leaves no dataset."""
    begin = postgres.Postgres.begin

    def begin_and_break(session: postgres.Postgres) -> str:
        found = begin(session)
        assert terminate(server, "query LIKE '%txid_current_snapshot%'")
        return found

    monkeypatch.setattr(postgres.Postgres, "begin", begin_and_break)
    recipe = f"name: users\nsources: {{users: {{url: '{server.url()}', table: users}}}}\n"
    with pytest.raises(DataError, match="PostgreSQL answered"):
        bp.convert(write_recipe(tmp_path, recipe), str(tmp_path / "out"))
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_names_with_dots(server: Server) -> None:
    """A query reads a table whose name has dots."""
    server.run('CREATE TABLE "my.table" AS SELECT date \'2024-01-01\' AS "#guard"')
    plan = planned(server, query='SELECT * FROM "my.table"')
    assert rows_of(plan).column_names == ["#guard"]


def test_bad_rows_are_named(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """A rejected row is named by table and number."""
    recipe = f"""
name: users
sources:
  users: {{url: "{server.url()}", partition: user_id, types: {{x: int64}}, query: "
    SELECT user_id, CASE WHEN user_id = 17 THEN 'n/a' ELSE age::text END AS x FROM users
    WHERE user_id < 100"}}
"""
    path = write_recipe(tmp_path, recipe)
    with pytest.raises(DataError, match=r"#query, row 17, column 'x': found 'n/a'"):
        bp.convert(path, str(tmp_path / "out"))
    path = write_recipe(tmp_path, f"{recipe}on_error: {{reject: 1}}\n")
    bp.convert(path, str(tmp_path / "out"))
    (rejected,) = (tmp_path / "out").glob("rejected/users.jsonl")
    assert "row 17" in rejected.read_text()


def test_a_dataset_is_replaced(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """A table converts into a folder with a dataset."""
    for options in ([], ["--overwrite"]):
        given = ["convert", f"{server.url()}#kinds", "-q", "-o", str(tmp_path / "out"), *options]
        assert main_module.run(given) == 0


def test_new_rows_of_a_dataset(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """``transform`` takes another table, or a file with the same columns."""
    query = "SELECT user_id, city, age FROM users WHERE user_id <= 50 ORDER BY user_id"
    recipe = f"name: users\nsources: {{users: {{url: '{server.url()}', query: '{query}'}}}}\n"
    recipe += "encode: {city: vocabulary}\n"
    out = str(tmp_path / "out")
    bp.convert(write_recipe(tmp_path, recipe), out)
    server.run(
        "DROP TABLE IF EXISTS fresh",
        "CREATE TABLE fresh AS SELECT user_id, city, age FROM users WHERE user_id < 8",
    )
    (tmp_path / "fresh.csv").write_text("user_id,city,age\n5,12,7\n")
    for number, (data, rows) in enumerate(
        ((f"{server.url()}#fresh", 7), (str(tmp_path / "fresh.csv"), 1))
    ):
        new = str(tmp_path / f"new{number}")
        assert main_module.run(["transform", out, data, "--output", new, "--quiet"]) == 0
        manifest = json.loads(pathlib.Path(new, "dataset.json").read_text())
        assert manifest["splits"]["test"]["rows"] == rows


def test_passwords_come_from_files_and_environment(
    shop: Server, running: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords come from libpq's own places, and are in no file."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    recipe = write_recipe(
        tmp_path, f"name: a\nsources: {{kinds: {{url: '{running.url()}', table: kinds}}}}\n"
    )
    with pytest.raises((DataError, RecipeError), match=r"no password supplied|password"):
        bp.convert(recipe, str(tmp_path / "out"))
    monkeypatch.setenv("PGPASSWORD", "another one, wrong")
    with pytest.raises(DataError, match=r"authentication failed for user \*\*\*") as raised:
        bp.convert(recipe, str(tmp_path / "out"))
    assert "another one" not in str(raised.value)
    assert "shop" not in str(raised.value)
    monkeypatch.delenv("PGPASSWORD")
    known = tmp_path / "pgpass"
    known.write_text(f"127.0.0.1:{running.port}:*:shop:{PASSWORD}\n")
    known.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(known))
    bp.convert(recipe, str(tmp_path / "out"))
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    assert not any(PASSWORD.encode() in path.read_bytes() for path in written)
