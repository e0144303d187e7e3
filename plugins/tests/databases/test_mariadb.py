"""Sources in MariaDB, on a real server."""

from __future__ import annotations

import datetime
import pathlib
import random
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines_plugins.databases import mysql
from beam_pipelines_plugins.databases.options import DatabaseOptions
from plugins.tests.support.kept_rows import kept
from plugins.tests.support.mariadb_server import PASSWORD, USER, Server
from tests.support.made_source import made_source

pytestmark = [pytest.mark.databases, pytest.mark.end_to_end]

KINDS = """
CREATE TABLE shop.kinds (
  id int, b boolean, i1 tinyint, u1 tinyint unsigned, i2 smallint, i3 mediumint, i8 bigint,
  u8 bigint unsigned, zf int(6) zerofill, f4 float, f8 double, fd double(10,2), n decimal(10,2),
  n0 decimal(12,0), nu decimal(18,0) unsigned, big decimal(30,10), t text, v varchar(5), c char(4),
  latin varchar(9) CHARACTER SET latin1, by1 varbinary(5), by2 blob, d date, dt datetime,
  dt6 datetime(6), ts timestamp(3) NULL, ti time(6), y year, bits bit(9), j json,
  e enum('sad', 'ok'), s set('x', 'y'), u uuid, ip inet6
)
"""
FULL = """
INSERT INTO shop.kinds VALUES (
  1, true, -128, 255, -32768, -8388608, -9223372036854775808, 9223372036854775807, 7, 0.1,
  0.30000000000000004, 1.25, 12345678.91, 999999999999, 999999999999999999, 1.1, 'é"''\\\\ 😀\\n\\0',
  'abc', 'ab', 'ü', x'00ff', '', '2024-02-29', '1000-01-01 00:00:00',
  '9999-12-31 23:59:59.123456', '2024-06-01 12:00:00.5', '23:59:59.999999', 1999, b'101',
  '{"a": 1}', 'ok', 'x,y', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '::1'
)
"""
EXPECTED = {
    "id": 1,
    "b": 1,
    "i1": -128,
    "u1": 255,
    "i2": -32768,
    "i3": -8388608,
    "i8": -(1 << 63),
    "u8": (1 << 63) - 1,
    "zf": 7,
    "f4": 0.10000000149011612,
    "f8": 0.30000000000000004,
    "fd": 1.25,
    "n": 12345678.91,
    "n0": 999999999999,
    "nu": 999999999999999999,
    "big": 1.1,
    "t": "é\"'\\ 😀\n\0",
    "v": "abc",
    "c": "ab",
    "latin": "ü",
    "by1": b"\x00\xff",
    "by2": b"",
    "d": datetime.date(2024, 2, 29),
    "dt": datetime.datetime(1000, 1, 1),  # noqa: DTZ001 - chunks have no zones
    "dt6": datetime.datetime(9999, 12, 31, 23, 59, 59, 123456),  # noqa: DTZ001
    "ts": datetime.datetime(2024, 6, 1, 10, 0, 0, 500_000, datetime.timezone.utc),
    "ti": datetime.time(23, 59, 59, 999_999),
    "y": 1999,
    "bits": 5,
    "j": '{"a": 1}',
    "e": "ok",
    "s": "x,y",
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ip": "::1",
}


@pytest.fixture(scope="module")
def shop(running_mariadb: Server) -> Server:
    """Tables of all kinds of values, and one with many rows."""
    running_mariadb.run(
        "SET time_zone = '+02:00'",
        KINDS,
        FULL,
        "INSERT INTO shop.kinds (id) VALUES (2)",
        "CREATE TABLE shop.users (user_id bigint, age int, city varchar(20), score double, day "
        "date, KEY (user_id)) AS SELECT seq AS user_id, seq * 7919 % 1000 AS age, "
        "CONCAT('city ', seq % 50) AS city, (seq % 997) / 10e0 AS score, "
        "DATE '2020-01-01' + INTERVAL seq % 2000 DAY AS day FROM seq_1_to_100000",
        "INSERT INTO shop.users VALUES (NULL, 1, NULL, NULL, NULL)",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE shop.odd (id int, d date, dt datetime, ti time, u bigint unsigned, "
        "b bit(64), g point)",
        "INSERT INTO shop.odd (id) VALUES (1)",
        "INSERT INTO shop.odd VALUES (2, '2024-02-31', '0000-00-00', '24:00:00', "
        "9223372036854775808, 9223372036854775808, POINT(1, 2))",
        "CREATE TABLE shop.old (id int) ENGINE = MyISAM",
        "INSERT INTO shop.old VALUES (1), (2)",
        "CREATE TABLE shop.`a``b 'c` (`x``y` int, `order` int, `now` int)",
        "INSERT INTO shop.`a``b 'c` VALUES (1, 2, 3)",
        "CREATE FUNCTION shop.dice() RETURNS int NOT DETERMINISTIC NO SQL RETURN 4",
        "CREATE VIEW shop.drawn AS SELECT user_id AS x FROM shop.users WHERE rand() < 0.5",
    )
    return running_mariadb


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


def test_types_are_exact(shop: Server, mariadb: Server, tmp_path: pathlib.Path) -> None:
    """Each type arrives with its values and nulls, live and kept."""
    plan = planned(mariadb, table="kinds", partition="id")
    for found in (plan, kept({"rows": plan}, tmp_path)["rows"]):
        first, second = rows_of(found).to_pylist()
        assert first == EXPECTED
        assert {name for name, value in second.items() if value is not None} == {"id"}
    said = " ".join(plan.decisions)
    assert "column 'big' is decimal(30,10): the nearest float64" in said
    assert "'n0' is" not in said


def test_the_scheme_of_mysql(shop: Server, mariadb: Server) -> None:
    """``mysql://`` reads the same rows."""
    plan = plan_source(made_source("rows", url=mariadb.url(scheme="mysql"), table="kinds"), "")
    assert rows_of(plan).equals(rows_of(planned(mariadb, table="kinds")))
    assert plan.format == "mysql"


def test_floats_are_exact(mariadb: Server) -> None:
    """Random floats of both widths arrive bit for bit."""
    drawn = random.Random(1)
    doubles = [drawn.uniform(-1, 1) * 10.0 ** drawn.randint(-300, 300) for _ in range(2000)]
    singles = pa.array([drawn.uniform(-1, 1) * 10.0 ** drawn.randint(-30, 30) for _ in doubles])
    singles = singles.cast(pa.float32(), safe=False).to_pylist()
    values = ", ".join(
        f"({number}, {one!r}, {other!r})"
        for number, (one, other) in enumerate(zip(doubles, singles, strict=True))
    )
    mariadb.run(
        "CREATE OR REPLACE TABLE shop.floats (id int, f8 double, f4 float)",
        f"INSERT INTO shop.floats VALUES {values}",
    )
    found = rows_of(planned(mariadb, table="floats", partition="id"))
    assert found.column("f8").to_pylist() == doubles
    assert found.column("f4").to_pylist() == singles


def test_declared_types_keep_digits(shop: Server, mariadb: Server) -> None:
    """``types`` reads a decimal by its digits, others by their texts."""
    types = {"n": "text", "big": "text", "n0": "text", "d": "text", "u8": "text", "bits": "text"}
    (row, _) = rows_of(planned(mariadb, table="kinds", types=types)).to_pylist()
    assert {name: row[name] for name in types} == {
        "n": "12345678.91",
        "big": "1.1000000000",
        "n0": "999999999999",
        "d": "2024-02-29",
        "u8": "9223372036854775807",
        "bits": "5",
    }


@pytest.mark.parametrize(
    ("column", "kind", "text"),
    [
        ("d", "date", "2024-02-31"),
        ("dt", "datetime", "0000-00-00 00:00:00"),
        ("ti", "time", "24:00:00"),
        ("u", "bigint", "9223372036854775808"),
        ("b", "bit", "9223372036854775808"),
    ],
)
def test_values_without_an_equal_are_errors(
    shop: Server, mariadb: Server, tmp_path: pathlib.Path, column: str, kind: str, text: str
) -> None:
    """A value without an equal is an error; its text is read."""
    options = {"table": "odd", "partition": "id", "columns": ("id", column)}
    plan = planned(mariadb, **options)
    where = rf"#odd, row 2, column '{column}' \({kind}\): Failed to parse string: '.*{text}'"
    with pytest.raises(DataError, match=where):
        rows_of(plan)
    with pytest.raises(DataError, match=where):
        kept({"rows": plan}, tmp_path)
    read_as_text = planned(mariadb, **options, types={column: "text"})
    assert rows_of(read_as_text).column(column).to_pylist() == [None, text]


def test_types_without_an_equal_are_problems(shop: Server, mariadb: Server) -> None:
    """A geometry is refused, and read as text."""
    with pytest.raises(RecipeProblems, match="found geometry, which no column type equals"):
        planned(mariadb, table="odd", columns=("g",))
    plan = planned(mariadb, table="odd", columns=("g",), types={"g": "text"})
    assert rows_of(plan).column("g").to_pylist() == [None, "POINT(1 2)"]


def test_names_are_quoted(shop: Server, mariadb: Server, tmp_path: pathlib.Path) -> None:
    """Any name of a table and a column can be read."""
    plan = planned(mariadb, table="a`b 'c", partition="order")
    assert rows_of(kept({"rows": plan}, tmp_path)["rows"]).to_pylist() == [
        {"x`y": 1, "order": 2, "now": 3}
    ]
    whole = plan_source(
        made_source("rows", url=mariadb.url("").rstrip("/"), table="shop.users"), ""
    )
    assert whole.schema.names == ["user_id", "age", "city", "score", "day"]


def test_wide_rows(mariadb: Server, tmp_path: pathlib.Path) -> None:
    """Rows of megabytes arrive, beyond the size of the protocol's packets too."""
    mariadb.run(
        "SET GLOBAL max_allowed_packet = 67108864",
        "CREATE OR REPLACE TABLE shop.wide (id int, x longblob)",
    )
    with mariadb.connected() as connection, connection.cursor() as cursor:
        for number, size in enumerate((3, (1 << 24) - 6, 1 << 24, 1 << 25, 0)):
            cursor.execute(f"INSERT INTO shop.wide VALUES ({number}, REPEAT('é', {size // 2}))")
    plan = planned(mariadb, table="wide", partition="id")
    found = rows_of(kept({"rows": plan}, tmp_path)["rows"]).column("x")
    lengths = [len(value) // 2 for value in found.to_pylist()]
    assert lengths == [1, (1 << 23) - 3, 1 << 23, 1 << 24, 0]


def test_long_lists_are_not_cut(mariadb: Server) -> None:
    """GROUP_CONCAT is not cut off at the server's limit."""
    mariadb.run("SET GLOBAL group_concat_max_len = 100")
    plan = planned(mariadb, query="SELECT GROUP_CONCAT(user_id) AS x FROM users")
    assert rows_of(plan).column("x")[0].as_py().count(",") == 99_999


@pytest.mark.parametrize("kill", ["KILL", "KILL QUERY"])
def test_a_broken_connection_fails(
    shop: Server,
    mariadb: Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    kill: str,
) -> None:
    """A connection that breaks in the middle leaves no dataset."""
    own_read = mysql.Mysql.read

    def read_and_break(database: mysql.Mysql, *given: Any) -> Iterator[Any]:
        for number, batch in enumerate(own_read(database, *given)):
            yield batch
            if number == 0:
                mariadb.run(f"{kill} {database._connection.thread_id()}")

    monkeypatch.setattr(mysql.Mysql, "read", read_and_break)
    # More than the sockets hold, so the server is not done.
    mariadb.run(
        "CREATE OR REPLACE TABLE shop.texts AS SELECT REPEAT('x', 4000) AS text FROM seq_1_to_9999"
    )
    recipe = f"name: texts\nsources: {{texts: {{url: '{mariadb.url()}', table: texts}}}}\n"
    with pytest.raises(DataError, match=r"#texts: MariaDB answered"):
        bp.convert(write_recipe(tmp_path, recipe), str(tmp_path / "out"))
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_an_abandoned_read_ends_on_the_server(shop: Server, mariadb: Server) -> None:
    """A read that is given up ends its SELECT."""
    database = mysql.Mariadb(mariadb.url())
    request = DatabaseOptions(query="SELECT a.age, SLEEP(0) AS s FROM users a, users b")
    rows = database.read(request, database.describe(request, {}).columns, None)
    assert next(rows)
    rows.close()
    database.close()
    for _ in range(100):
        running = mariadb.run("SELECT info FROM information_schema.processlist")
        if not any("users a, users b" in (info or "") for (info,) in running):
            return
        time.sleep(0.1)
    pytest.fail("the SELECT still runs")


def test_no_error_names_the_user(mariadb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own refusals come without it."""
    for database, password, said in (
        ("mysql", None, r"Access denied for user \*\*\* to database 'mysql'"),
        ("mysql", "wrong", r"Access denied for user \*\*\* \(using password"),
    ):
        if password is not None:
            monkeypatch.setenv("MYSQL_PWD", password)
        with pytest.raises(DataError, match=said) as raised:
            plan_source(made_source("rows", url=mariadb.url(database), table="user"), "")
        assert USER not in str(raised.value)


def test_a_query_cannot_write(shop: Server, mariadb: Server) -> None:
    """A function that writes is refused by the server."""
    mariadb.run(
        "CREATE OR REPLACE TABLE shop.written (x int)",
        "CREATE OR REPLACE FUNCTION shop.writes() RETURNS int DETERMINISTIC "
        "BEGIN INSERT INTO shop.written VALUES (1); RETURN 1; END",
    )
    with pytest.raises(DataError, match="READ ONLY transaction"):
        planned(mariadb, query="SELECT writes() AS x")
    assert mariadb.run("SELECT * FROM shop.written") == []


def test_passwords_come_from_files_and_environment(
    shop: Server,
    running_mariadb: Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Passwords come from the usual places, and are in no file."""
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "name: a\nsources: {{kinds: {{url: '{url}', table: kinds}}}}\n"
    recipe = write_recipe(tmp_path, text.format(url=running_mariadb.url()))
    with pytest.raises(DataError, match=r"MariaDB answered: Access denied .*using password: NO"):
        bp.convert(recipe, str(tmp_path / "out"))
    monkeypatch.setenv("MYSQL_PWD", "another one, wrong")
    with pytest.raises(DataError, match="using password: YES") as raised:
        bp.convert(recipe, str(tmp_path / "out"))
    assert "another one" not in str(raised.value)
    options = f'[mysqld]\npassword=x\n[client]\nuser = shop\npassword = "{PASSWORD}"\n'
    (tmp_path / ".my.cnf").write_text(options)
    bp.convert(recipe, str(tmp_path / "home"))
    (tmp_path / ".my.cnf").rename(tmp_path / "named.cnf")
    url = running_mariadb.url().replace("shop@", "")
    recipe = write_recipe(
        tmp_path, text.format(url=f"{url}?defaults-file={tmp_path / 'named.cnf'}")
    )
    bp.convert(recipe, str(tmp_path / "named"))
    for out in (tmp_path / "home", tmp_path / "named"):
        written = [path for path in out.rglob("*") if path.is_file()]
        assert written
        assert not any(b"#secret" in path.read_bytes() for path in written)


def test_places_of_the_server(
    shop: Server, running_mariadb: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option file names what the URL leaves out."""
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    file = tmp_path / "a.cnf"
    socket = running_mariadb.folder / "socket"
    file.write_text(f"[client]\nsocket={socket}\nuser=shop\ndatabase=shop\npassword='{PASSWORD}'\n")
    url = f"mariadb://?defaults-file={file}"
    found = rows_of(plan_source(made_source("t", url=url, table="old"), ""))
    assert found.column("id").to_pylist() == [1, 2]


def ciphers(server: Server, options: str, folder: pathlib.Path, host: str = "127.0.0.1") -> str:
    """The cipher of a connection with options of a file, or ""."""
    file = folder / "options.cnf"
    file.write_text(f"[client]\n{options}\n")
    url = server.url().replace("127.0.0.1", host)
    query = "SELECT variable_value AS x FROM information_schema.session_status "
    query += "WHERE variable_name = 'SSL_CIPHER'"
    source = made_source("t", url=f"{url}?defaults-file={file}", query=query)
    return str(rows_of(plan_source(source, "")).column("x")[0].as_py())


def test_encryption(mariadb: Server, tmp_path: pathlib.Path) -> None:
    """Connections are encrypted, and checked where options ask."""
    authority = f"ssl-ca={mariadb.folder / 'authority.pem'}"
    assert ciphers(mariadb, "", tmp_path).startswith("TLS_")
    assert ciphers(mariadb, "skip-ssl", tmp_path) == ""
    assert ciphers(mariadb, "ssl-mode=REQUIRED", tmp_path).startswith("TLS_")
    assert ciphers(mariadb, authority, tmp_path).startswith("TLS_")
    assert ciphers(mariadb, authority, tmp_path, "localhost").startswith("TLS_")
    checked = f"{authority}\nssl-verify-server-cert"
    assert ciphers(mariadb, checked, tmp_path).startswith("TLS_")
    with pytest.raises(DataError, match="certificate is not valid for 'localhost'"):
        ciphers(mariadb, checked, tmp_path, "localhost")
    with pytest.raises(DataError, match="certificate verify failed"):
        ciphers(mariadb, "ssl-mode=VERIFY_CA", tmp_path)


def test_no_password_in_clear_text(
    shop: Server, mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that asks for the password itself does not get it."""
    mariadb.run("INSTALL SONAME 'auth_pam'", "CREATE USER open@'%' IDENTIFIED VIA pam")
    url = mariadb.url().replace("shop@", "open@")
    with pytest.raises(DataError, match="asks for the password in clear text"):
        plan_source(made_source("t", url=url, table="old"), "")
