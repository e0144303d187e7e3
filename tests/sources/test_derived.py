"""Sources derive columns before the joins."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import Limits
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.joins.index import build_index, join_batch, table_batch
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.normal_form import from_normalised, normalised, recipe_hash
from beam_pipelines.recipe.unions import Union
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.sources.wrapping.unions import plan_union
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join.plan import plan_join
from beam_pipelines.transforms.row_positions import RowPositions
from tests.support.made_source import made_source
from tests.support.runs import short_ranges
from tests.support.tables import write_table

DERIVE = {"up": "upper(k)", "twice": "n * 2", "both": "up || '-' || twice"}
ROWS = [(f"k{n}\n" if n % 5 == 0 else f"k{n}", n) for n in range(400)]


def as_table(rows: Iterable[tuple[str, int]]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "n": n} for k, n in rows])


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 1,000 bytes."""
    short_ranges(monkeypatch, 1_000)


def plan_of(*paths: Path, **options: Any) -> SourcePlan:
    source = made_source("a", tuple(map(str, paths)), **{"derive": DERIVE, **options})
    return with_derived(plan_source(source, ""), source.derive)


def rows_of(plan: SourcePlan) -> list[dict[str, Any]]:
    return read.read_table(plan, reject=False)[0].to_pylist()


def derived(rows: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Returns the rows of a plain loop."""
    return [
        {"k": k, "n": n, "up": k.upper(), "twice": 2 * n, "both": f"{k.upper()}-{2 * n}"}
        for k, n in rows
    ]


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    """Columns are derived in each range of a file of each format."""
    plan = plan_of(write_table(tmp_path / f"a.{suffix}", as_table(ROWS), 90))
    assert rows_of(plan) == derived(ROWS)
    assert plan.schema.types[2:] == [pa.string(), pa.int64(), pa.string()]
    assert plan.as_read.schema.names == ["k", "n"]


def test_many_small_files(tmp_path: Path) -> None:
    """Files that are read together are as if they were read alone."""
    for number, row in enumerate(ROWS[:260]):
        write_table(tmp_path / f"{number:03}.csv", as_table([row]))
    plan = plan_of(tmp_path / "*.csv")
    assert plan.ranges[0].members == (0, 260)
    assert rows_of(plan) == derived(ROWS[:260])
    bad = plan_of(tmp_path / "*.csv", derive={"i": "CASE n WHEN 251 THEN k ELSE '1' END::INT"})
    with pytest.raises(DataError, match=r"251\.csv, line 2, column 'i': found Conversion"):
        rows_of(bad)
    table, _, [rejected] = read.read_table(bad, reject=True)
    assert (table.num_rows, rejected.file) == (259, str(tmp_path / "251.csv"))


@pytest.mark.usefixtures("small_ranges")
def test_unions(tmp_path: Path) -> None:
    """A union has the derived columns of its sources, and its own."""
    write_table(tmp_path / "a.csv", as_table(ROWS))
    write_table(tmp_path / "b.jsonl", as_table(ROWS))
    members = [
        plan_of(tmp_path / "a.csv", derive={"low": "lower(k)"}),
        dataclasses.replace(plan_of(tmp_path / "b.jsonl", derive={"low": "upper(k)"})),
    ]
    own = {"size": "length(low)"}
    source = made_source("u", union=Union(("a", "b")), key=("size",), derive=own)
    rows = rows_of(with_derived(plan_union(source, members), own))
    assert [row["low"] for row in rows] == [
        *(k.lower() for k, _ in ROWS),
        *(k.upper() for k, _ in ROWS),
    ]
    assert all(row["size"] == len(row["low"]) for row in rows)


def test_selected_columns(tmp_path: Path) -> None:
    """Expressions see the selected columns, and no others."""
    (tmp_path / "a.csv").write_bytes(b"a,b,c\n1,2,3\n")
    plan = plan_of(tmp_path / "a.csv", columns=("a",), derive={"b": "a + 1"}, key=("b",))
    assert rows_of(plan) == [{"a": 1, "b": 2}]
    with pytest.raises(RecipeProblems, match="found column 'c'"):
        plan_of(tmp_path / "a.csv", columns=("a",), derive={"d": "c + 1"})


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("m + 1", "found column 'm', which is not"),
        ("n +", "syntax error at the end"),
        ("k - 1", "Cannot|Could not|No function"),
        ("now()", "'now', whose value is another one in every run"),
        ("current_date", "whose value is another one in every run"),
        ("random()", "whose value is another one in every run"),
        ("sum(n)", "expected an expression over the columns of one row"),
        ("INTERVAL 1 DAY", "expected a scalar"),
    ],
)
def test_expressions_that_are_refused(tmp_path: Path, sql: str, message: str) -> None:
    """They are problems of planning, at the line of the recipe."""
    write_table(tmp_path / "a.csv", as_table(ROWS))
    with pytest.raises(RecipeProblems) as caught:
        plan_of(tmp_path / "a.csv", derive={"x": sql, "y": "x || 'a'"})
    [problem] = caught.value.problems
    assert problem.path == ("sources", "a", "derive", "x")
    assert re.search(message, problem.message)


def test_names_of_columns_are_taken(tmp_path: Path) -> None:
    """A derived column has a new name, in any case."""
    write_table(tmp_path / "a.csv", as_table(ROWS))
    with pytest.raises(RecipeProblems, match="found 'K', but the rows have a column 'k'"):
        plan_of(tmp_path / "a.csv", derive={"K": "lower(k)"})


BAD: list[tuple[str, bytes, str, list[str]]] = [
    ("a.csv", b'k,n\n"1\n",1\nx,2\n3,3\ny,4\n', "k::INT", ["line 4", "line 6"]),
    ("a.csv", b"k,n\nx,1\nx,2\n3,3\nq,4\n", "k::INT", ["line 2", "line 3", "line 5"]),
    ("a.jsonl", b'{"k": "x", "n": 1}\n{"k": "2", "n": 2}\n', "k::INT", ["line 1"]),
    ("a.csv", b"k,n\na,1\nb,2\n", "k || (9223372036854775807 - 1 + n)::VARCHAR", ["line 3"]),
    ("a.csv", b"k,n\na,1\nb,2\n", "raw([n, CASE WHEN n > 1 THEN NULL ELSE 2 END])", ["line 3"]),
]


@pytest.mark.parametrize(("name", "content", "sql", "places"), BAD)
def test_bad_rows(tmp_path: Path, name: str, content: bytes, sql: str, places: list[str]) -> None:
    """A row without a value is an error, or rejected."""
    (tmp_path / name).write_bytes(content)
    plan = plan_of(tmp_path / name, derive={"i": sql, "j": "i"})
    with pytest.raises(DataError) as caught:
        rows_of(plan)
    assert f"{name}, {places[0]}, column 'i': found " in str(caught.value)
    assert "Use TRY_CAST or TRY" in str(caught.value)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert [bad.position for bad in rejected] == places
    assert {bad.column for bad in rejected} == {"i"}
    assert counts == {"read": table.num_rows, "rejected": len(places)}
    assert all(bad.text in content.decode() and bad.text for bad in rejected)
    # Rows that are found bad later have their own places.
    good = RowPositions(plan).find(0, range(table.num_rows))
    assert not {place.place for place in good} & {*places}


def test_private_values_are_hidden(tmp_path: Path) -> None:
    """A message of a private source shows no value of an expression."""
    (tmp_path / "a.csv").write_bytes(b"k,n\nsecret,1\n")
    plan = plan_of(tmp_path / "a.csv", derive={"i": "k::INT"})
    plan = dataclasses.replace(plan, private=("k",))
    with pytest.raises(DataError) as caught:
        rows_of(plan)
    [bad] = read.read_table(plan, reject=True)[2]
    assert "secret" not in f"{caught.value}{bad}"


def test_large_columns(tmp_path: Path) -> None:
    """``limits.derived_bytes`` stops the read, with the row's place."""
    write_table(tmp_path / "a.csv", as_table(ROWS))
    plan = plan_of(
        tmp_path / "a.csv", derive={"x": "repeat(k, 1000)"}, limits=Limits(derived_bytes=10_000)
    )
    with pytest.raises(DataError, match=r"a\.csv, line \d+: .*derived_bytes"):
        rows_of(plan)


RECIPE = """
name: t
sources:
  a: {path: a.csv, derive: {x: n + 1, y: x + 1}}
"""


def test_recipes_keep_the_order_of_columns() -> None:
    """A dataset's recipe has it, and another order is another recipe."""
    recipe = recipes.parse_recipe(RECIPE, "r.yaml", encodings=ENCODING_FOR_KIND)
    again = from_normalised(json.loads(json.dumps(normalised(recipe))), "")
    assert list(again.sources["a"].derive.items()) == [("x", "n + 1"), ("y", "x + 1")]
    other = RECIPE.replace("x: n + 1, y: x + 1", "y: x + 1, x: n + 1")
    plain = RECIPE.replace(", derive: {x: n + 1, y: x + 1}", "")
    hashes = {
        recipe_hash(recipes.parse_recipe(text, "r.yaml", encodings=ENCODING_FOR_KIND))
        for text in (RECIPE, other, plain)
    }
    assert len(hashes) == 3


KEYS = st.text(" aAbB0", min_size=0, max_size=4)
DAYS = st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3))  # noqa: DTZ001
EXPRESSIONS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "lower(k)": (KEYS, str.lower),
    "trim(k)": (KEYS, lambda key: key.strip(" ")),
    "lpad(k, 3, '0')": (KEYS, lambda key: key.rjust(3, "0")[:3]),
    "k::DATE": (DAYS, lambda key: key.date()),
}


@pytest.mark.parametrize("sql", EXPRESSIONS)
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_joins_by_computed_keys(tmp_path: Path, sql: str, data: st.DataObject) -> None:
    """A join by an expression is that of a loop."""
    keys, function = EXPRESSIONS[sql]
    type_ = pa.timestamp("us") if keys is DAYS else pa.string()
    lists = st.lists(st.none() | keys, min_size=1, max_size=8)
    left, right = data.draw(lists), data.draw(lists)
    how = data.draw(st.sampled_from(["left", "inner"]))
    plans = {}
    for name, values in (("a", left), ("b", right)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"k": pa.array(values, type_), name: range(len(values))}), path)
        source = Source(name, (str(path),), derive={"key": sql})
        plans[name] = with_derived(plan_source(source, ""), source.derive)
    join = Join("b", (("key", "key"),), how=how, prefix="b_")
    [step] = plan_join((join,), plans["a"], plans).steps
    tables = [read.read_table(plans[name], reject=False)[0] for name in "ab"]
    index = build_index(tables[1], step.join, step.added)
    joined, _ = join_batch(table_batch(tables[0]), index, step.join)
    expected: list[tuple[int, int | None]] = []
    for place, key in enumerate(left):
        matches: list[int | None] = [
            other
            for other, value in enumerate(right)
            if None not in (key, value) and function(key) == function(value)
        ]
        expected += [(place, other) for other in matches or [None] * (how == "left")]
    assert [(row["a"], row["b_b"]) for row in joined.to_pylist()] == expected


def test_expressions_of_the_documents() -> None:
    """Each expression of docs/joins.md has a value."""
    page = (Path(__file__).parents[2] / "docs/joins.md").read_text()
    table = page.split("| Wanted | Expression |\n")[1].split("\n\n")[0]
    shown = re.findall("`(.*?)`", "".join(re.split(r"(?<!\\)\|", table)[5::3]))
    time = datetime.datetime(2024, 1, 1, 23)  # noqa: DTZ001
    row = {"id": 42, "k": "a-b", "url": "?id=7", "a": "x", "b": "y", "t": time}
    batch = pa.RecordBatch.from_pylist([{**row, "z": time.replace(tzinfo=datetime.timezone.utc)}])
    found = []
    for sql in shown:
        expression = parse_expression("x", sql.replace("\\|", "|"), batch.schema.names)
        found.append(evaluate(batch, expression).to_pylist()[0])
    assert len(found) == 14
    assert found[:3] == [42, "000042", "a-b"]
    assert found[8:10] == [datetime.date(2024, 1, 2), time.replace(hour=22, tzinfo=found[9].tzinfo)]
    assert found[10:] == ["a", "a-b", "7", "x-y"]
