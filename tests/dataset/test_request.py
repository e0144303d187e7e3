"""An encoder derives columns as a conversion does."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import beam_pipelines as bp
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.encodings.request import ColumnTypes, plan_request
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.protect import Protection
from beam_pipelines.sql.derive import Deriver
from beam_pipelines.sql.expressions import NoValueError
from beam_pipelines.transforms.select import select
from tests.dataset.test_encoder import assert_same, rows_of

COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("t", pa.string()),
        ("Lo w", pa.string()),
        ("flag", pa.bool_()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("v", pa.list_(pa.int64())),
        ("raw", pa.binary()),
    ]
)
INTS = st.none() | st.integers(-100, 100) | st.sampled_from([2**62, -(2**63), 2**53 + 1])
TEXTS = st.none() | st.sampled_from(["", "7", "x", "Ä'\"\0", "2020-02-30", "1e3"]) | st.text()
DAYS = st.none() | st.dates()
TIMES = st.none() | st.datetimes()
ROWS = st.fixed_dictionaries(
    {
        "a": INTS,
        "b": INTS,
        "f": st.none() | st.floats(),
        "g": st.none() | st.floats(width=32),
        "t": TEXTS,
        "Lo w": TEXTS,
        "flag": st.none() | st.booleans(),
        "d": DAYS,
        "ts": TIMES,
        "zoned": st.none() | st.datetimes(timezones=st.just(datetime.timezone.utc)),
        "v": st.none() | st.lists(st.integers(0, 9), max_size=3),
        "raw": st.none() | st.binary(max_size=3),
    }
)
# Each has places for two columns of numbers, a text, and a time.
EXPRESSIONS = (
    "{0} + {1}",
    "{0} / {1}",
    "{0} * 1.10",
    "TRY_CAST({2} AS BIGINT)",
    "CAST({2} AS DOUBLE)",
    "upper({2}) || '-' || {0}",
    "CASE WHEN {0} > 3 THEN 'much' WHEN {0} IS NULL THEN '?' END",
    "coalesce({0}, {1}, 7)",
    "{0} > {1} AND flag",
    "length({2}) % 3",
    "year({3})",
    "date_diff('day', {3}, ts)",
    "date_trunc('month', {3})",
    "CAST({3} AS VARCHAR)",
    "hour(zoned)",
    "{2} IN ('x', '7')",
    "CAST({0} AS HUGEINT) * {1}",
    "CAST({0} AS FLOAT)",
    "CAST(f AS DECIMAL(18, 3))",
    "list_sum(v) + {0}",
    "[{0}, {1}]",
    "{2}[1:2]",
    '"Lo w" = {2}',
    "CAST({2} AS BLOB)",
    "3",
    "sqrt({0})",
)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """A recipe that derives columns of columns, some of derived ones."""
    numbers, texts, times, derive = ["a", "b", "f", "g"], ["t", '"Lo w"'], ["d", "ts"], {}
    for place in range(draw(st.integers(1, 5))):
        expression = draw(st.sampled_from(EXPRESSIONS)).format(
            draw(st.sampled_from(numbers)),
            draw(st.sampled_from(numbers)),
            draw(st.sampled_from(texts)),
            draw(st.sampled_from(times)),
        )
        derive[f"new{place}"] = expression
        if expression.startswith(("length", "coalesce", "year")):
            numbers.append(f"new{place}")
        if expression.startswith(("upper", "CASE")):
            texts.append(f"new{place}")
    return Recipe("test", {"rows": Source("rows")}, "rows", derive=derive)


def types_of(columns: dict[str, str], **sources: dict[str, str]) -> ColumnTypes:
    """The types of columns of a manifest."""
    own = {field.name: type_name(field.type) for field in COLUMNS}
    return ColumnTypes(columns, {"rows": own, **sources})


@settings(max_examples=25)
@given(recipes(), st.lists(ROWS, min_size=1, max_size=4))
def test_columns_are_those_of_a_conversion(recipe: Recipe, rows: list[dict[str, Any]]) -> None:
    """Single rows and batches have the values of shards, to the bit."""
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    plan = select.plan_select(recipe, COLUMNS)
    types = {field.name: type_name(field.type) for field in plan.schema}
    request = plan_request(recipe, types_of(types), plan.schema, "out")
    assert set(request.columns.names) == set(COLUMNS.names)
    assert [column.name for column in request.derived] == list(recipe.derive)
    derive = Deriver(request.derived, request.columns, request.most_bytes)
    for place in range(len(rows)):
        assert_derived(plan, derive, batch.slice(place, 1))
    assert_derived(plan, derive, batch)


def assert_derived(plan: select.SelectPlan, derive: Deriver, batch: pa.RecordBatch) -> None:
    """Compares a selection's columns with a request's, or that both fail."""
    try:
        expected, _ = select.select_rows(plan, batch)
    except NoValueError as error:
        with pytest.raises(NoValueError, match=re.escape(str(error))):
            derive(batch)
        return
    got = derive(batch)
    for name in expected.schema.names:
        assert got.column(name).type == expected.column(name).type, name
        # Bits: NaN is equal, and the zeros differ.
        first, second = (str(each.column(name).to_pylist()) for each in (got, expected))
        assert first == second, name


RENAMED = Recipe(
    "test",
    {
        "rows": Source("rows", derive={"k": "a + 1", "k2": "k * 2"}),
        "other": Source("other", derive={"key": "lower(code)"}),
    },
    "rows",
    join=(Join("other", (("t", "key"),), prefix="o_"),),
    rename={"a": "A1", "k2": "twice", "o_x": "x"},
    derive={
        "sum": "A1 + x",
        "hashed": "b || 'x'",
        "later": "hashed || t",
        "label": "f > 0",
        "of_joined": "length(o_more)",
    },
    protect={"b": Protection("mask"), "d": Protection("drop")},
)
JOINED = {"other": {"code": "text", "x": "int8", "more": "text"}}


@pytest.mark.parametrize(
    ("columns", "wanted", "derived"),
    [
        ({"A1": "int64", "f": "float64"}, {"A1", "f"}, []),
        ({"twice": "int64"}, {"A1"}, ["k", "twice"]),
        ({"sum": "int64", "twice": "int64"}, {"A1", "x"}, ["k", "twice", "sum"]),
        ({"b": "text"}, {"b"}, []),
        ({"hashed": "text"}, {"hashed"}, []),
        ({"later": "text"}, {"hashed", "t"}, ["later"]),
        ({"of_joined": "int64"}, {"o_more"}, ["of_joined"]),
    ],
)
def test_requests_have_what_features_need(
    columns: dict[str, str], wanted: set[str], derived: list[str]
) -> None:
    """Renamed, joined and protected columns are told apart."""
    every = columns | {"hashed": "text"}
    schema = pa.schema(
        [
            (name, {"int64": pa.int64(), "float64": pa.float64()}.get(type_, pa.string()))
            for name, type_ in columns.items()
        ]
    )
    request = plan_request(RENAMED, types_of(every, **JOINED), schema, "out")
    assert set(request.columns.names) == wanted
    assert [column.name for column in request.derived] == derived


def test_sources_derive_under_their_own_names() -> None:
    """An expression of a source sees the names before ``rename``."""
    schema = pa.schema([("twice", pa.int64()), ("sum", pa.int64())])
    types = {"twice": "int64", "sum": "int64"}
    request = plan_request(RENAMED, types_of(types, **JOINED), schema, "out")
    derive = Deriver(request.derived, request.columns, request.most_bytes)
    rows = pa.RecordBatch.from_pylist([{"A1": 4, "x": 9}, {"A1": None, "x": 1}], request.columns)
    for batch in (rows, rows.slice(0, 1), rows.slice(0, 0)):
        found = derive(batch).select(["twice", "sum"]).to_pylist()
        assert found == [{"twice": 10, "sum": 13}, {"twice": None, "sum": None}][: len(batch)]


def test_a_reader_without_duckdb_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a feature of a derived column needs DuckDB."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    types = types_of({"sum": "int64"}, **JOINED)
    with pytest.raises(DataError, match=r"out: found columns that the recipe derives.*duckdb"):
        plan_request(RENAMED, types, pa.schema([("sum", pa.int64())]), "out")
    plain = pa.schema([("A1", pa.int64())])
    assert plan_request(RENAMED, types, plain, "out").columns == plain


RECIPE = """
name: orders
sources:
  orders: {path: orders.csv, types: {ref: text}, derive: {"day": "CAST(placed AS DATE)"}}
  days: {path: days.csv, key: day}
join: [{source: days, on: day, prefix: day_}]
rename: {price: usd}
filter: usd < 1000
derive:
  total: usd * amount
  is_large: total > 100
  weekday: dayname(placed)
  wet: coalesce(day_rain > 0.5, false)
  rest: CAST(ref AS BIGINT) % 7
  late: delay > 15
drop: [ref, usd, delay, placed, day]
encode:
  total: [{fill: median}, log1p, z_score]
  weekday: {vocabulary: {num_oov: 1}}
label: late
split: {train: 0.7, eval: 0.3}
from: orders
"""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of joined rows with derived columns."""
    folder = tmp_path_factory.mktemp("orders")
    lines = ["id,placed,price,amount,delay,ref"]
    for number in range(200):
        price = "" if number % 7 == 0 else number * 1.25
        lines.append(
            f"{number},2026-03-{1 + number % 9:02d} 0{number % 10}:00:00,{price},"
            f"{number % 4},{number % 30},{number}"
        )
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")
    days = [f"2026-03-{day:02d},{day / 10}" for day in range(1, 8)]
    (folder / "days.csv").write_text("\n".join(["day,rain", *days]) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    bp.convert(str(folder / "recipe.yaml"), str(folder / "out"))
    return folder


@pytest.mark.end_to_end
def test_an_encoder_derives_what_shards_have(orders: Path) -> None:
    """A request of raw columns has the features of the shards."""
    dataset = bp.open(orders / "out")
    encode = dataset.encoder()
    assert encode.columns == {
        "id": "int64",
        "placed": "timestamp",
        "usd": "float64",
        "amount": "int64",
        "ref": "text",
        "day_rain": "float64",
    }
    [expected] = dataset.batches("eval", 1000, shuffle=False)
    del expected["late"]
    requests = []
    for number in expected["id"].tolist():
        day = 1 + number % 9
        requests.append(
            {
                "id": number,
                "placed": datetime.datetime(2026, 3, day, number % 10),  # noqa: DTZ001
                "usd": None if number % 7 == 0 else number * 1.25,
                "amount": number % 4,
                "ref": str(number),
                "day_rain": day / 10 if day < 8 else None,
                "total": "what the recipe derives is not taken",
            }
        )
    assert_same(encode(requests), expected, len(requests))
    assert_same(encode(pa.Table.from_pylist(requests)), expected, len(requests))
    singles = [encode(request) for request in requests]
    for name, values in expected.items():
        assert [rows_of(single[name], 1)[0] for single in singles] == rows_of(values, len(requests))
    label = dataset.encoder(["late"])
    assert label({"delay": 16})["late"].tolist() == [1]


@pytest.mark.end_to_end
def test_requests_without_an_answer_are_explained(orders: Path) -> None:
    """A missing column is named, and an expression without a value."""
    dataset = bp.open(orders / "out")
    row = {"id": 1, "placed": None, "usd": 1.0, "amount": 2, "ref": "1", "day_rain": None}
    with pytest.raises(DataError, match="row 0: found no column 'usd', expected one of type float"):
        dataset.encoder(["total"])({"amount": 2, "total": 2.0})
    with pytest.raises(DataError, match="found no column 'day_rain', expected one of type"):
        dataset.encoder()({name: row[name] for name in row if name != "day_rain"})
    with pytest.raises(DataError, match="row 0, column 'amount': found 'x', expected int64"):
        dataset.encoder()(row | {"amount": "x"})
    message = r"row 1, derived column 'rest' \(CAST\(ref AS BIGINT\) % 7\): found .*'x' to INT64"
    with pytest.raises(DataError, match=message):
        dataset.encoder()([row, row | {"ref": "x"}])
    with pytest.raises(DataError, match=message.replace("row 1", "row 0")):
        dataset.encoder()(row | {"ref": "x"})
