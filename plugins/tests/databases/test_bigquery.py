"""Sources in BigQuery, on a server with its interfaces."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery_storage_v1
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
    BigQueryReadGrpcTransport,
)

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read
from plugins.tests.support.bigquery_server import PROJECT, Server, bigquery_server
from plugins.tests.support.kept_rows import kept
from tests.support.made_source import made_source

pytestmark = pytest.mark.end_to_end

URL = f"bigquery://{PROJECT}/shop"
UTC = datetime.timezone.utc
# Name, type of REST, Arrow type of the interface, value, value of the dataset.
KINDS: list[tuple[str, str, pa.DataType, Any, Any]] = [
    ("i", "INTEGER", pa.int64(), -(1 << 63), -(1 << 63)),
    ("f", "FLOAT", pa.float64(), 0.1, 0.1),
    ("b", "BOOLEAN", pa.bool_(), True, True),
    ("s", "STRING", pa.string(), "é 😀", "é 😀"),
    ("raw", "BYTES", pa.binary(), b"\x00\xff", b"\x00\xff"),
    ("j", "JSON", pa.string(), '{"a":1}', '{"a":1}'),
    ("g", "GEOGRAPHY", pa.string(), "POINT(1 2)", "POINT(1 2)"),
    ("n", "NUMERIC", pa.decimal128(38, 9), decimal.Decimal("12345678.91"), 12345678.91),
    ("bn", "BIGNUMERIC", pa.decimal256(76, 38), decimal.Decimal("1.1"), 1.1),
    ("d", "DATE", pa.date32(), datetime.date(1, 1, 1), datetime.date(1, 1, 1)),
    ("t", "TIME", pa.time64("us"), datetime.time(23, 59, 59, 1), datetime.time(23, 59, 59, 1)),
]
VISIT = pa.struct([("page", pa.string()), ("n", pa.int64())])
STAMP = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
KINDS += [
    ("dt", "DATETIME", pa.timestamp("us"), STAMP.replace(tzinfo=None), STAMP.replace(tzinfo=None)),
    ("ts", "TIMESTAMP", pa.timestamp("us", "UTC"), STAMP, STAMP),
]


def field(name: str, kind: str, mode: str = "NULLABLE", **more: Any) -> dict[str, Any]:
    """A field as REST describes it."""
    return {"name": name, "type": kind, "mode": mode, **more}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with tables of all kinds, and of many rows."""
    with bigquery_server() as server:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", server.rest)
        original = bigquery_storage_v1.BigQueryReadClient

        def client() -> Any:
            options = [("grpc.max_receive_message_length", -1)]
            channel = grpc.insecure_channel(server.storage, options=options)
            return original(transport=BigQueryReadGrpcTransport(channel=channel))

        monkeypatch.setattr(bigquery_storage_v1, "BigQueryReadClient", client)
        monkeypatch.setattr(
            "google.auth.default",
            lambda **_: (AnonymousCredentials(), PROJECT),  # type: ignore[no-untyped-call]
        )
        columns = {name: pa.array([value, None], type_) for name, _, type_, value, _ in KINDS}
        fields = [field(name, kind) for name, kind, *_ in KINDS]
        place = pa.struct([("city", pa.string()), ("zip", pa.int64())])
        columns["place"] = pa.array([{"city": "x", "zip": 7}, None], place)
        columns["tags"] = pa.array([["a", "b"], []], pa.list_(pa.string()))
        parts = [field("city", "STRING"), field("zip", "INTEGER")]
        fields += [field("place", "RECORD", fields=parts), field("tags", "STRING", "REPEATED")]
        columns["visits"] = pa.array([[{"page": "a", "n": 1}], []], pa.list_(VISIT))
        visit = [field("page", "STRING"), field("n", "INTEGER")]
        fields += [field("visits", "RECORD", "REPEATED", fields=visit)]
        server.put("shop.kinds", pa.table(columns), fields)
        numbers = pa.array(range(50_000), pa.int64())
        cities = pa.array([f"city {number % 50}" for number in range(50_000)])
        server.put("shop.users", pa.table({"user_id": numbers, "city": cities}))
        yield server


def planned(**options: Any) -> SourcePlan:
    """The plan of one source."""
    return plan_source(made_source("rows", url=URL, **options), "")


def rows_of(plan: SourcePlan) -> pa.Table:
    """All rows of a plan."""
    return read.read_table(plan, reject=False)[0]


def test_types_are_exact(server: Server, tmp_path: pathlib.Path) -> None:
    """Each type arrives with its values and nulls, live and kept."""
    plan = planned(table="kinds")
    expected = {name: value for name, *_, value in KINDS}
    expected |= {"place.city": "x", "place.zip": 7, "tags": ["a", "b"]}
    for found in (plan, kept({"rows": plan}, tmp_path)["rows"]):
        first, second = rows_of(found).to_pylist()
        assert {name: first[name] for name in expected} == expected
        assert set(first) - set(expected) == {"visits.page", "visits.n"}
        assert (first["visits.page"], first["visits.n"]) == (["a"], [1])
        given = {name for name, value in second.items() if value}
        assert not given
    assert "column 'n' is numeric: the nearest float64" in " ".join(plan.decisions)


def test_the_remedies_of_types(server: Server) -> None:
    """Texts of decimals and intervals come from a query."""
    server.put(
        "shop.odd",
        pa.table({"x": pa.array(["1-2"]), "n": pa.array([decimal.Decimal("1.10")])}),
        [field("x", "INTERVAL"), field("n", "NUMERIC")],
    )
    with pytest.raises(RecipeProblems, match="found interval, which no column type equals"):
        planned(table="odd")
    plan = planned(table="odd", types={"x": "text", "n": "text"})
    assert rows_of(plan).to_pylist() == [{"x": "1-2", "n": "1.10"}]
    assert "CAST(q.`x` AS STRING)" in server.queries[-1]


def test_fields_and_snapshot_are_sent(server: Server, tmp_path: pathlib.Path) -> None:
    """A query names fields and snapshot; the manifest the snapshot."""
    plan = planned(table="users", columns=("city",))
    found = kept({"rows": plan}, tmp_path)["rows"]
    assert found.snapshot is not None
    assert found.snapshot.rows == 50_000
    moment = found.snapshot.id.replace("T", " ")
    table = f"`{PROJECT}.shop.users` AS q FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'"
    assert server.queries[1] == f"SELECT q.`city` AS `city` FROM {table}"
    assert server.sessions[-1].max_stream_count == 1
    assert rows_of(found).column("city").to_pylist() == [f"city {n % 50}" for n in range(50_000)]


def test_all_tables_are_of_one_snapshot(server: Server, tmp_path: pathlib.Path) -> None:
    """Tables are of one moment, while another program changes them."""
    stops = threading.Event()

    def write() -> None:
        for number in range(1, 1000):
            server.put("shop.a", pa.table({"x": pa.array(range(number), pa.int64())}))
            server.put("shop.b", pa.table({"rows": pa.array([number], pa.int64())}))
            if stops.wait(0.002):
                return

    thread = threading.Thread(target=write)
    server.put("shop.a", pa.table({"x": pa.array([0], pa.int64())}))
    server.put("shop.b", pa.table({"rows": pa.array([1], pa.int64())}))
    plans = {name: plan_source(made_source(name, url=f"{URL}", table=name), "") for name in "ab"}
    thread.start()
    try:
        for attempt in range(5):
            found = kept(plans, tmp_path / str(attempt))
            rows = rows_of(found["a"]).num_rows
            assert rows - rows_of(found["b"]).column("rows")[0].as_py() in (0, 1)
            assert found["a"].snapshot is not None
            assert found["a"].snapshot.rows == rows
    finally:
        stops.set()
        thread.join()


def test_a_broken_stream_goes_on(server: Server, tmp_path: pathlib.Path) -> None:
    """A stream that breaks is resumed at its offset."""
    server.breaks = [3000, 2000, 1000]
    found = kept({"rows": planned(table="users")}, tmp_path)["rows"]
    assert rows_of(found).column("user_id").to_pylist() == list(range(50_000))
    assert {1000, 3000, 6000} <= set(server.offsets)


def test_a_count_of_other_rows_fails(server: Server, tmp_path: pathlib.Path) -> None:
    """Rows that the server counts and does not give are an error."""
    server.lost = 1
    with pytest.raises(DataError, match=r"counts 50,000 rows, and 49,999 came"):
        kept({"rows": planned(table="users")}, tmp_path)


def test_a_query_is_read_once_and_in_order(server: Server, tmp_path: pathlib.Path) -> None:
    """A query runs once; its result is read by one stream."""
    query = "SELECT city, count(*) AS n FROM users GROUP BY city ORDER BY city DESC"
    plan = planned(query=query, columns=("n", "city"))
    assert not server.queries
    found = kept({"rows": plan}, tmp_path)["rows"]
    rows = rows_of(found)
    assert rows.schema.names == ["n", "city"]
    assert rows.column("city").to_pylist() == sorted({f"city {n}" for n in range(50)}, reverse=True)
    assert server.queries == ["SELECT CURRENT_TIMESTAMP() AS t", query]
    assert server.sessions[-1].max_stream_count == 1
    assert found.snapshot is not None
    assert found.snapshot.rows is None
    assert any("not of the snapshot" in decision for decision in found.decisions)


def test_a_partition_orders_the_rows_of_a_table(server: Server, tmp_path: pathlib.Path) -> None:
    """A query reads them in order, at the snapshot."""
    found = kept({"rows": planned(table="users", partition="city")}, tmp_path)["rows"]
    assert found.snapshot is not None
    assert found.snapshot.rows == 50_000
    cities = rows_of(found).column("city").to_pylist()
    assert cities == sorted(cities)
    moment = found.snapshot.id.replace("T", " ")
    assert f"AS q FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}' ORDER BY" in server.queries[1]


def test_views_are_queries(server: Server, tmp_path: pathlib.Path) -> None:
    """A view is read by a query."""
    server.put("shop.seen", server.rows_at("shop.users").slice(0, 7))
    server.kinds["shop.seen"] = "VIEW"
    plan = planned(table="seen")
    assert any("a view is of the moment" in decision for decision in plan.decisions)
    found = kept({"rows": plan}, tmp_path)["rows"]
    assert found.snapshot is not None
    assert found.snapshot.rows == rows_of(found).num_rows == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "usres"}, "BigQuery answered: Catalog Error"),
        ({"table": "users", "columns": ("citty",)}, "Did you mean 'city'?"),
        ({"table": "users", "partition": "user"}, "there is no column 'user' in bigquery://"),
        ({"query": "SELEC 1"}, "BigQuery answered: "),
        ({}, "found no table, expected one to be named"),
    ],
)
def test_problems_of_recipes(server: Server, options: dict[str, Any], said: str) -> None:
    """Unknown tables and columns are problems with the place in the recipe."""
    with pytest.raises((RecipeProblems, DataError)) as raised:
        planned(**options)
    assert said in str(raised.value)


def test_a_table_without_rows(server: Server, tmp_path: pathlib.Path) -> None:
    """A table without rows is an error."""
    server.put("shop.empty", server.rows_at("shop.users").slice(0, 0))
    with pytest.raises(DataError, match="found no rows, expected data"):
        kept({"rows": planned(table="empty")}, tmp_path)


RECIPE = f"""
name: scores
sources:
  users: {{url: "{URL}", table: users}}
  cities: {{url: "{URL}", query: "SELECT DISTINCT city, LENGTH(city) AS size FROM users
    ORDER BY city", key: city}}
from: users
join: [{{source: cities, on: city}}]
output: {{shuffle: false}}
"""


def test_a_conversion_with_a_join(server: Server, tmp_path: pathlib.Path) -> None:
    """Base and joined source come from the server; ``--limit`` works."""
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    bp.convert(str(tmp_path / "recipe.yaml"), str(tmp_path / "out"))
    manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert manifest["splits"]["train"]["rows"] == 50_000
    assert manifest["sources"]["users"]["snapshot"]["rows"] == 50_000
    assert manifest["sources"]["users"]["files"][0]["path"] == f"{URL}#users"
    given = ["convert", f"{URL}#users", "--output", str(tmp_path / "some"), "--limit", "1500"]
    assert main_module.run([*given, "--quiet"]) == 0
    some = json.loads((tmp_path / "some" / "dataset.json").read_text())
    assert some["sources"]["users"]["snapshot"]["rows"] == 1500


def test_commands_take_a_table(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """``plan`` and ``preview`` understand ``URL#table``."""
    assert main_module.run(["plan", f"{URL}#users"]) == 0
    assert "about 50,000 rows by BigQuery's estimate" in capsys.readouterr().out
    assert main_module.run(["preview", f"{URL}#users"]) == 0
    assert "user_id" in capsys.readouterr().out


def test_credentials_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A file of credentials that is not there is an error."""
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nothing.json"))
    with pytest.raises(DataError, match=r"BigQuery answered: File .*nothing.json was not found"):
        planned(table="users")
