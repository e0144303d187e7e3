"""Tests that PostgreSQL and MariaDB share, on real servers."""

from __future__ import annotations

import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from beam_pipelines_plugins.databases import database_of
from plugins.tests.support.kept_rows import kept
from tests.support.made_source import made_source

pytestmark = [pytest.mark.databases, pytest.mark.end_to_end]


class Kind(NamedTuple):
    """A kind of server, with its own SQL.

    Attributes:
      name: in messages.
      server: the running one.
      label: of its tables, to which ``#users`` is added.
      series: rows of the numbers from one to another, in a column ``i``.
      day: the day that a number of days follows 2020-01-01.
      password: where its password is.
      syntax: what it says of a wrong statement.
    """

    name: str
    server: Any
    label: str
    series: str
    day: str
    password: str
    syntax: str

    def rows(self, first: int, last: int) -> str:
        """The SQL of numbers, behind FROM."""
        return self.series.format(first=first, last=last)


@pytest.fixture(params=["server", "mariadb"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each server in turn."""
    server = request.getfixturevalue(request.param)
    if request.param == "server":
        return Kind(
            "PostgreSQL",
            server,
            f"postgresql://127.0.0.1:{server.port}/postgres",
            "generate_series({first}, {last}) AS t(i)",
            "date '2020-01-01' + i % 2000",
            "PGPASSWORD",
            "syntax error",
        )
    return Kind(
        "MariaDB",
        server,
        f"mariadb://127.0.0.1:{server.port}/shop",
        "(SELECT CAST(seq AS SIGNED) AS i FROM seq_{first}_to_{last}) AS t",
        "DATE '2020-01-01' + INTERVAL i % 2000 DAY",
        "MYSQL_PWD",
        "error in your SQL syntax",
    )


ROWS = 100_000


@pytest.fixture
def users(kind: Kind) -> Kind:
    """A server with a table of many rows, and one without keys."""
    with contextlib.suppress(Exception):
        kind.server.run("SELECT 1 FROM people WHERE user_id = 1")
        return kind
    kind.server.run(
        f"CREATE TABLE people AS SELECT NULLIF(i, 0) AS user_id, (i % 1009 * 7919) % 1000 AS age, "
        f"CONCAT('city ', i % 50) AS city, {kind.day} AS day FROM {kind.rows(1, ROWS)}",
        "INSERT INTO people VALUES (NULL, 1, NULL, NULL)",
        "CREATE TABLE others AS SELECT 1 AS x",
    )
    return kind


def planned(kind: Kind, **options: object) -> SourcePlan:
    """The plan of one source."""
    return plan_source(made_source("rows", url=kind.server.url(), **options), "")


def rows_of(plan: SourcePlan) -> Any:
    """All rows of a plan."""
    return read.read_table(plan, reject=False)[0]


def write_recipe(folder: pathlib.Path, text: str) -> str:
    """The path of a recipe's file."""
    path = folder / "recipe.yaml"
    path.write_text(text)
    return str(path)


def test_problems_of_recipes(users: Kind) -> None:
    """Unknown tables and columns are problems with the place in the recipe."""
    for options, said in (
        ({"table": "people", "columns": ("agee",)}, "Did you mean 'age'?"),
        ({"table": "people", "types": {"nothing": "text"}}, "there is no column 'nothing'"),
        ({"table": "people", "partition": "nothing"}, "there is no column 'nothing'"),
        ({}, "found no table, expected one to be named"),
    ):
        with pytest.raises(RecipeProblems) as raised:
            planned(users, **options)
        (problem, *_) = raised.value.problems
        assert problem.path[:2] == ("sources", "rows")
        assert said in problem.message
    for options, said in (({"table": "peopel"}, "peopel"), ({"query": "SELEC 1"}, users.syntax)):
        with pytest.raises(DataError, match=f"{users.name} answered: .*{said}.* Check 'url', 'tab"):
            planned(users, **options)


@pytest.mark.parametrize("column", ["user_id", "age", "day", "city"])
def test_a_partition_orders_the_rows(users: Kind, tmp_path: pathlib.Path, column: str) -> None:
    """Each row comes once, in the order of the column, nulls last."""
    plan = planned(users, table="people", partition=column)
    found = rows_of(kept({"rows": plan}, tmp_path)["rows"])
    keys = found.column(column).to_pylist()
    assert len(set(found.column("user_id").to_pylist())) == found.num_rows == ROWS + 1
    assert keys[:-1] == sorted(keys[:-1])
    assert keys[-1] is None or column == "age"


@contextlib.contextmanager
def writing(kind: Kind) -> Iterator[None]:
    """Moves amounts between accounts, adds some, until the body ends."""
    stops, moves = threading.Event(), 0

    def move() -> None:
        nonlocal moves
        with kind.server.connected() as connection, connection.cursor() as cursor:
            while not stops.is_set():
                one, other = moves * 7919 % 20_000, moves * 104_729 % 20_000
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
        while thread.is_alive() and not moves:
            time.sleep(0.01)
        yield
    finally:
        stops.set()
        thread.join()
    assert moves > 20


def test_all_reads_are_of_one_snapshot(kind: Kind, tmp_path: pathlib.Path) -> None:
    """All tables are of one moment, while another connection writes."""
    kind.server.run(
        f"CREATE TABLE accounts AS SELECT i AS id, 100 AS amount FROM {kind.rows(0, 19_999)}",
        "CREATE INDEX own ON accounts (id)",
        "CREATE TABLE totals AS SELECT 20000 AS accounts",
    )
    seen = set()
    with writing(kind):
        for attempt in range(3):
            plans = {
                "accounts": planned(kind, table="accounts", partition="id"),
                "totals": planned(kind, table="totals"),
            }
            found = kept(plans, tmp_path / str(attempt))
            rows, snapshot = rows_of(found["accounts"]), found["accounts"].snapshot
            assert sum(rows.column("amount").to_pylist()) == 2_000_000
            assert rows.num_rows == rows_of(found["totals"]).column("accounts")[0].as_py()
            assert snapshot is not None
            assert snapshot.rows == rows.num_rows
            assert found["totals"].snapshot is not None
            assert snapshot.id == found["totals"].snapshot.id
            seen.add(snapshot.id)
    assert len(seen) == 3
    assert kind.name != "MariaDB" or all(one.startswith("log.00000") for one in seen)


def test_a_count_of_other_rows_fails(
    users: Kind, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the server counts and does not give are an error."""
    database = database_of(users.server.url())
    own_read = database.read

    def read_fewer(*given: Any) -> Iterator[Any]:
        for number, batch in enumerate(own_read(*given)):
            yield [values[number == 0 :] for values in batch]

    monkeypatch.setattr(database, "read", read_fewer)
    plan = planned(users, table="people")
    with pytest.raises(DataError, match=r"counts 100,001 rows, and 100,000 came"):
        kept({"rows": plan}, tmp_path)


def test_a_volatile_query_is_read_once(kind: Kind, tmp_path: pathlib.Path) -> None:
    """A query with volatile functions is read once, and not counted."""
    draw = "random()" if kind.name == "PostgreSQL" else "rand()"
    query = f"SELECT i, {draw} AS x FROM {kind.rows(1, 5000)} WHERE {draw} < 0.5"
    found = kept({"rows": planned(kind, query=query)}, tmp_path)["rows"]
    assert rows_of(found).equals(rows_of(found))
    assert found.snapshot is not None
    assert found.snapshot.rows is None


def test_no_rows(kind: Kind, tmp_path: pathlib.Path) -> None:
    """A table without rows is an error."""
    plan = planned(kind, query=f"SELECT i FROM {kind.rows(1, 9)} WHERE i > 9")
    with pytest.raises(DataError, match="found no rows, expected data"):
        kept({"rows": plan}, tmp_path)


RECIPE = """
name: scores
sources:
  users: {{url: "{url}", table: people, partition: user_id, columns: [user_id, city, age]}}
  cities: {{url: "{url}", query: "SELECT DISTINCT city, length(city) AS size FROM people
    WHERE city IS NOT NULL ORDER BY city", key: city}}
from: users
join: [{{source: cities, on: city}}]
split: {{train: 0.8, eval: 0.2}}
output: {{num_shards: 2, shuffle: false}}
"""


def test_a_conversion_with_a_join(users: Kind, tmp_path: pathlib.Path) -> None:
    """Base and joined source come from the server; TensorFlow reads the rows."""
    out = tmp_path / "out"
    recipe = write_recipe(tmp_path, RECIPE.format(url=users.server.url()))
    bp.convert(recipe, str(out))
    manifest = json.loads((out / "dataset.json").read_text())
    source = manifest["sources"]["users"]
    assert source["snapshot"] == {**source["snapshot"], "rows": ROWS + 1}
    assert source["snapshot"]["id"] == manifest["sources"]["cities"]["snapshot"]["id"]
    assert source["files"][0]["path"] == f"{users.label}#people"
    shards = sorted(map(str, out.glob("examples/Split-*/*.gz")))
    found = {}
    for record in tf.data.TFRecordDataset(shards, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        if feature["user_id"].int64_list.value:
            city = feature["city"].bytes_list.value[0].decode()
            found[feature["user_id"].int64_list.value[0]] = city
            assert feature["size"].int64_list.value[0] == len(city)
    assert len(found) == ROWS
    assert all(city == f"city {user % 50}" for user, city in found.items())
    assert not (out / "_temporary").exists()
    given = ["convert", recipe, "--output", str(tmp_path / "some"), "--limit", "1000", "--quiet"]
    assert main_module.run(given) == 0
    some = json.loads((tmp_path / "some" / "dataset.json").read_text())
    assert some["counts"]["written"] == some["sources"]["users"]["snapshot"]["rows"] == 1000


def test_commands_take_a_table(
    users: Kind, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``plan``, ``preview``, ``init`` and ``describe`` understand ``URL#table``."""
    table = f"{users.server.url()}#people"
    assert main_module.run(["plan", table]) == 0
    assert f"rows by {users.name}'s estimate" in capsys.readouterr().out
    assert main_module.run(["preview", table]) == 0
    assert "user_id" in capsys.readouterr().out
    recipe = tmp_path / "users.yaml"
    assert main_module.run(["init", table, "--output", str(recipe)]) == 0
    text = recipe.read_text()
    assert f"url: {users.server.url()}" in text.replace('"', "")
    assert "table: people" in text
    assert main_module.run(["describe", table, "--output", str(tmp_path / "d")]) == 0
    described = json.loads((tmp_path / "d" / "description.json").read_text())
    assert described["sources"]["people"]["read"] == ROWS + 1


def test_a_password_is_refused_and_never_shown(
    kind: Kind, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A password in a URL is refused by a message without it."""
    secret, url = "open-sesame-9", kind.server.url()
    for own in (url.replace("shop@", f"shop:{secret}@"), f"{url}?password={secret}"):
        path = write_recipe(tmp_path, f"name: a\nsources: {{users: {{url: '{own}', table: t}}}}\n")
        for given in (path, f"{own}#users"):
            assert main_module.run(["convert", given, "--output", str(tmp_path / "out")]) == 2
            said = capsys.readouterr()
            assert "found a password in the URL" in said.err
            assert kind.password in said.err
            assert secret not in said.err + said.out


@pytest.mark.parametrize(
    ("scheme", "name"), [("postgresql", "PostgreSQL"), ("mysql", "MySQL"), ("mariadb", "MariaDB")]
)
def test_no_server(scheme: str, name: str) -> None:
    """A server that does not answer is an error with its address."""
    with pytest.raises(DataError, match=rf"{scheme}://127.0.0.1:9/shop#t: {name} answered"):
        plan_source(made_source("t", url=f"{scheme}://127.0.0.1:9/shop", table="t"), "")
