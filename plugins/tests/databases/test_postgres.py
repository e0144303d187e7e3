"""Sources in PostgreSQL, on a real server."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
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
    query = f"SELECT {number}::numeric AS x, ARRAY[NULL, {number}::numeric] AS y"
    (row,) = rows_of(planned(server, query=query, list_nulls={"y": ("drop",)})).to_pylist()
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "usres"}, "there is no table 'usres' in PostgreSQL. Did you mean 'users'?"),
        ({"table": "users", "columns": ("agee",)}, "Did you mean 'age'?"),
        ({"table": "users", "types": {"nothing": "text"}}, "there is no column 'nothing'"),
        ({"query": "SELEC 1"}, "syntax error"),
    ],
)
def test_problems_of_recipes(
    shop: Server, server: Server, options: dict[str, object], said: str
) -> None:
    """Unknown tables and columns are problems with the place in the recipe."""
    with pytest.raises(RecipeProblems) as raised:
        planned(server, **options)
    (problem, *_) = raised.value.problems
    assert problem.path[:2] == ("sources", "rows")
    assert said in problem.message


@pytest.mark.parametrize("column", ["user_id", "age", "day"])
def test_parts_have_each_row_once(
    shop: Server, server: Server, tmp_path: pathlib.Path, column: str
) -> None:
    """Parts have each row once, in order, nulls too."""
    plan = planned(server, table="users", partition=column, columns=("user_id", "age", "day"))
    found = rows_of(kept({"rows": plan}, tmp_path)["rows"])
    keys = found.column(column).drop_null()
    assert len(set(found.column("user_id").to_pylist())) == found.num_rows == 200_001
    assert keys.to_pylist() == sorted(keys.to_pylist())


@contextlib.contextmanager
def writing(server: Server) -> Iterator[None]:
    """Moves amounts between accounts, adds and removes some, until the body ends."""
    stops, moves = threading.Event(), 0

    def move() -> None:
        nonlocal moves
        with server.connected() as connection, connection.cursor() as cursor:
            while not stops.is_set():
                one, other = moves * 7919 % 50_000, moves * 104_729 % 50_000
                for statement in (
                    "BEGIN",
                    f"UPDATE accounts SET amount = amount - 5 WHERE id = {one}",
                    f"UPDATE accounts SET amount = amount + 5 WHERE id = {other}",
                    f"INSERT INTO accounts VALUES ({100_000 + moves}, 3), ({-1 - moves}, -3)",
                    "UPDATE totals SET accounts = accounts + 2",
                    "COMMIT",
                ):
                    cursor.execute(statement)
                moves += 1

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        stops.set()
        thread.join()
    assert moves > 20


def test_all_reads_are_of_one_snapshot(server: Server, tmp_path: pathlib.Path) -> None:
    """Parts and tables are of one moment, while another connection writes."""
    server.run(
        "CREATE TABLE accounts AS SELECT i::int8 AS id, 100::int8 AS amount "
        "FROM generate_series(0, 49999) AS i",
        "CREATE INDEX ON accounts (id)",
        "CREATE TABLE totals AS SELECT 50000::int8 AS accounts",
    )
    with writing(server):
        for attempt in range(3):
            plans = {
                "accounts": planned(server, table="accounts", partition="id"),
                "totals": planned(server, table="totals"),
            }
            found = kept(plans, tmp_path / str(attempt))
            rows = rows_of(found["accounts"])
            assert sum(rows.column("amount").to_pylist()) == 5_000_000
            assert rows.num_rows == rows_of(found["totals"]).column("accounts")[0].as_py()
            assert found["accounts"].snapshot is not None
            assert found["accounts"].snapshot.rows == rows.num_rows
            assert len({plan.snapshot and plan.snapshot.id for plan in found.values()}) == 1


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


def test_a_count_of_other_rows_fails(
    shop: Server, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the server counts and does not give are an error."""
    own_read = postgres.Postgres.read

    def read_fewer(*given: Any) -> Iterator[Any]:
        for batch in own_read(*given):
            yield [values[1:] for values in batch]

    monkeypatch.setattr(postgres.Postgres, "read", read_fewer)
    plan = planned(server, table="users")
    with pytest.raises(DataError, match=r"counts 200,001 rows, and .* came"):
        kept({"rows": plan}, tmp_path)


def test_a_volatile_query_is_read_once(server: Server, tmp_path: pathlib.Path) -> None:
    """A query with volatile functions is read once."""
    query = "SELECT i, random() AS x FROM generate_series(1, 5000) AS i WHERE random() < 0.5"
    found = kept({"rows": planned(server, query=query)}, tmp_path)["rows"]
    assert rows_of(found).equals(rows_of(found))
    assert found.snapshot is not None
    assert found.snapshot.rows is None


def test_names_with_dots(server: Server) -> None:
    """A name with dots is in quotation marks, also in hints."""
    server.run(
        'CREATE TABLE "my.table" AS SELECT date \'2024-01-01\' AS "#guard"',
        'CREATE SCHEMA "a.b"',
        'CREATE TABLE "a.b"."c.d" AS SELECT 2 AS x',
    )
    assert rows_of(planned(server, table='"my.table"')).column_names == ["#guard"]
    assert rows_of(planned(server, table='public."my.table"')).num_rows == 1
    assert rows_of(planned(server, table='"a.b"."c.d"')).num_rows == 1
    for table, hint in (("my.table", '"my.table"'), ("a.b.c.d", '"a.b"."c.d"')):
        with pytest.raises(RecipeProblems) as raised:
            planned(server, table=table)
        assert f"Did you mean '{hint}'?" in raised.value.problems[0].message


def test_no_rows(server: Server, tmp_path: pathlib.Path) -> None:
    """A table without rows is an error."""
    plan = planned(server, query="SELECT 1 AS x WHERE false")
    with pytest.raises(DataError, match="found no rows, expected data"):
        kept({"rows": plan}, tmp_path)


RECIPE = """
name: scores
sources:
  users: {{url: "{url}", table: users, partition: user_id, columns: [user_id, city, score]}}
  cities: {{url: "{url}", query: "SELECT DISTINCT city, length(city) AS size FROM users
    WHERE city IS NOT NULL ORDER BY city", key: city}}
from: users
join: [{{source: cities, on: city}}]
split: {{train: 0.8, eval: 0.2}}
output: {{num_shards: 2, shuffle: false}}
"""


def test_a_conversion_with_a_join(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """Base and joined source come from the server; TensorFlow reads the rows."""
    out = tmp_path / "out"
    bp.convert(write_recipe(tmp_path, RECIPE.format(url=server.url())), str(out))
    manifest = json.loads((out / "dataset.json").read_text())
    users = manifest["sources"]["users"]
    assert users["snapshot"] == {**users["snapshot"], "rows": 200_001}
    assert users["snapshot"]["id"] == manifest["sources"]["cities"]["snapshot"]["id"]
    assert users["files"][0]["path"] == f"postgresql://127.0.0.1:{server.port}/postgres#users"
    shards = sorted(map(str, out.glob("examples/Split-*/*.gz")))
    found = {}
    for record in tf.data.TFRecordDataset(shards, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        if feature["user_id"].int64_list.value:
            city = feature["city"].bytes_list.value[0].decode()
            found[feature["user_id"].int64_list.value[0]] = city
            assert feature["size"].int64_list.value[0] == len(city)
    assert len(found) == 200_000
    assert all(city == f"city {user % 50}" for user, city in found.items())
    assert not (out / "_temporary").exists()


def test_bad_rows_are_named_by_key(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """A rejected row is named by table, key and number."""
    recipe = f"""
name: users
sources:
  users: {{url: "{server.url()}", partition: user_id, types: {{x: int64}}, query: "
    SELECT user_id, CASE WHEN user_id = 17 THEN 'n/a' ELSE age::text END AS x FROM users
    WHERE user_id < 100"}}
"""
    path = write_recipe(tmp_path, recipe)
    with pytest.raises(DataError, match=r"#query, user_id 17, row 17, column 'x': found 'n/a'"):
        bp.convert(path, str(tmp_path / "out"))
    path = write_recipe(tmp_path, f"{recipe}on_error: {{reject: 1}}\n")
    bp.convert(path, str(tmp_path / "out"))
    (rejected,) = (tmp_path / "out").glob("rejected/users.jsonl")
    assert "user_id 17, row 17" in rejected.read_text()


def test_the_first_rows_only(shop: Server, server: Server, tmp_path: pathlib.Path) -> None:
    """``--limit`` takes the first rows of the partition's order."""
    path = write_recipe(tmp_path, RECIPE.format(url=server.url()))
    out = str(tmp_path / "out")
    status = main_module.run(["convert", path, "--output", out, "--limit", "1000", "--quiet"])
    assert not status
    manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert manifest["counts"]["written"] == 1000
    assert manifest["sources"]["users"]["snapshot"]["rows"] == 1000


def test_commands_take_a_table(
    shop: Server, server: Server, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``plan``, ``preview``, ``init`` and ``describe`` understand ``URL#table``."""
    table = f"{server.url()}#users"
    assert main_module.run(["plan", table]) == 0
    assert "about 200,001 rows by PostgreSQL's estimate" in capsys.readouterr().out
    assert main_module.run(["preview", table]) == 0
    assert "user_id" in capsys.readouterr().out
    recipe = str(tmp_path / "users.yaml")
    assert main_module.run(["init", table, "--output", recipe]) == 0
    text = pathlib.Path(recipe).read_text()
    assert f"url: {server.url()}" in text.replace('"', "")
    assert "table: users" in text
    assert main_module.run(["describe", table, "--output", str(tmp_path / "d")]) == 0
    described = json.loads((tmp_path / "d" / "description.json").read_text())
    assert described["sources"]["users"]["read"] == 200_001


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


def test_a_password_is_refused_and_never_shown(
    running: Server, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A password in a URL is refused by a message without it."""
    secret = "open-sesame-9"
    for url in (
        running.url().replace("shop@", f"shop:{secret}@"),
        f"{running.url()}?password={secret}",
    ):
        path = write_recipe(
            tmp_path, f"name: a\nsources: {{users: {{url: '{url}', table: users}}}}\n"
        )
        for given in (path, f"{url}#users"):
            assert main_module.run(["convert", given, "--output", str(tmp_path / "out")]) == 2
            said = capsys.readouterr()
            assert "found a password in the URL" in said.err
            assert "PGPASSWORD" in said.err
            assert secret not in said.err + said.out


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


def test_no_server(tmp_path: pathlib.Path) -> None:
    """A server that does not answer is an error with its address."""
    with pytest.raises(DataError, match=r"postgresql://127.0.0.1:9/shop#t: PostgreSQL answered"):
        plan_source(made_source("t", url="postgresql://127.0.0.1:9/shop", table="t"), "")
