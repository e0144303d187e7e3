"""Tests select.py and expressions.py against plain Python and SQLite."""

from __future__ import annotations

import sqlite3
import threading

import apache_beam as beam
import duckdb
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sql import database, expressions
from beam_pipelines.transforms.select import select
from beam_pipelines.transforms.select.errors import explained

BATCH = pa.record_batch(
    {
        "a": pa.array([1, 2, None, 4]),
        "b.c": ["1", "x", "y", "4"],
        "Lo w": [1.0, 2.0, 3.0, 4.0],
        'qu"ote': ["p", "q", None, "s"],
        "tags": pa.array([[1], [2, 3], None, []], pa.list_(pa.int64())),
        "raw": pa.array([b"\xff", b"", None, b"a"], pa.binary()),
    }
)


def plan_of(schema, **keys):
    return select.plan_select(Recipe("test", {}, "flights", **keys), schema)


def selected(**keys):
    return select.select_rows(plan_of(BATCH.schema, **keys), BATCH)


def in_sqlite(rows, query):
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE batch (a INTEGER, b INTEGER, t TEXT)")
        database.executemany("INSERT INTO batch VALUES (?, ?, ?)", rows)
        return database.execute(query).fetchall()


NUMBERS = st.none() | st.integers(-100, 100)
ROWS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.none() | st.sampled_from(["", "x", "xy", "ÄÖ"])), max_size=20
)


@given(
    ROWS,
    st.sampled_from(
        [
            "a > 3",
            "a > b OR t = 'x'",
            "a IS NULL",
            "t LIKE 'x%' AND b <> 0",
            "NOT (a = b)",
            "t IN ('xy', '')",
        ]
    ),
    st.sampled_from(
        [
            "a * 2 + b",
            "COALESCE(a, b, 0)",
            "CASE WHEN a > b THEN 1 WHEN t IS NULL THEN 2 END",
            "length(t)",
        ]
    ),
    st.lists(st.integers(0, 20), max_size=3),
)
def test_select_equals_sqlite_whatever_the_batches(rows, condition, expression, cuts):
    """Filter and derived columns equal SQLite's for any batches and slices."""
    batch = pa.record_batch(
        [
            pa.array([row[0] for row in rows], pa.int64()),
            pa.array([row[1] for row in rows], pa.int64()),
            pa.array([row[2] for row in rows], pa.string()),
        ],
        names=["a", "b", "t"],
    )
    plan = plan_of(
        batch.schema, filter=condition, derive={"x": expression, "y": "x + 1"}, drop=("a",)
    )
    query = (
        f"SELECT b, t, {expression}, ({expression}) + 1 FROM batch WHERE {condition} ORDER "  # noqa: S608
        "BY rowid"
    )
    expected = in_sqlite(rows, query)
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    found, filtered = [], 0
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        part, count = select.select_rows(plan, batch.slice(start, end - start))
        assert part.schema == plan.schema
        found += [tuple(row.values()) for row in part.to_pylist()]
        filtered += count
    assert found == expected
    assert filtered == len(rows) - len(expected)


def test_order_is_kept_in_large_batches():
    """Large batches keep their order.

    200,000 rows are more than a vector or row group of DuckDB.
    """
    batch = pa.record_batch({"a": pa.array(range(200_000))})
    plan = plan_of(batch.schema, filter="a % 3 = 0", derive={"b": "a + 1"})
    left, filtered = select.select_rows(plan, batch)
    assert left.column("b").to_pylist() == [number + 1 for number in range(0, 200_000, 3)]
    assert filtered == 200_000 - len(left)


@pytest.mark.parametrize(
    ("sql", "kind", "values"),
    [
        ("\"b.c\" || 'z'", pa.string(), ["1z", "xz", "yz", "4z"]),
        ('"lo w" + 1', pa.float64(), [2.0, 3.0, 4.0, 5.0]),
        ('"qu""ote"', pa.string(), ["p", "q", None, "s"]),
        ("A + 1", pa.int64(), [2, 3, None, 5]),
        ("a::TINYINT", pa.int64(), [1, 2, None, 4]),
        ("a::HUGEINT", pa.int64(), [1, 2, None, 4]),
        ("0.5 * a", pa.float64(), [0.5, 1.0, None, 2.0]),
        ("a::FLOAT", pa.float32(), [1.0, 2.0, None, 4.0]),
        ("a > 1", pa.bool_(), [False, True, None, True]),
        ("list_transform(tags, lambda x: x + 1)", pa.list_(pa.int64()), [[2], [3, 4], None, []]),
        ("list_sum(tags)", pa.int64(), [1, 5, None, None]),
        ("octet_length(raw)", pa.int64(), [1, 0, None, 1]),
        ("raw", pa.binary(), [b"\xff", b"", None, b"a"]),
        ("7", pa.int64(), [7, 7, 7, 7]),
        ("a -- a comment", pa.int64(), [1, 2, None, 4]),
        ("strftime(make_timestamp(0)::TIMESTAMPTZ, '%H')", pa.string(), ["00"] * 4),
    ],
)
def test_derived_types_and_values(sql, kind, values):
    """Derived columns have our types.

    The expressions have quoted names, any case, lambdas and DuckDB's types.
    """
    batch, filtered = selected(derive={"new": sql})
    assert filtered == 0
    assert batch.column("new").type == kind
    assert batch.column("new").to_pylist() == values


def test_filter_is_applied_before_derive():
    """A filtered row cannot make a derived column fail.

    A condition of null is not true.
    """
    batch, filtered = selected(
        filter="\"b.c\" NOT IN ('x', 'y')", derive={"n": '"b.c"::INTEGER'}, keep=("n",)
    )
    assert (batch.to_pydict(), filtered) == ({"n": [1, 4]}, 2)
    assert selected(filter="a > 0", keep=("a",))[0].to_pydict() == {"a": [1, 2, 4]}


def test_drop_and_keep_do_not_touch_duckdb(monkeypatch):
    """Without filter and derive only Arrow is used.

    The order of the columns stays.
    """
    monkeypatch.setattr(database, "connection", None)
    assert selected(drop=("a", "raw", "tags"))[0].schema.names == ["b.c", "Lo w", 'qu"ote']
    assert selected(keep=("tags", "a"))[0].schema.names == ["a", "tags"]
    batch, filtered = selected()
    assert batch.equals(BATCH)
    assert filtered == 0


def test_columns_that_decide_the_split_stay():
    """A dropped column is kept for the split."""
    by = Split(fractions={"train": 0.5, "eval": 0.5}, by=("a",))
    assert selected(drop=("a", "raw"), split=by)[0].schema.names == [
        "a",
        "b.c",
        "Lo w",
        'qu"ote',
        "tags",
    ]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("sum(a)", "function 'sum', which would see one batch only"),
        ("count(*)", "which would see one batch only"),
        ("a > 1 AND geomean(a) > 1", "function 'geomean', which would see one batch only"),
        ("wavg(a, a)", "which would see one batch only"),
        ("row_number() OVER ()", "a window function"),
        ("(SELECT 1)", "a subquery"),
        ("a IN (SELECT 2)", "a subquery"),
        ("EXISTS (FROM read_csv('x.csv'))", "a subquery"),
        ("now()", "another one in every run"),
        ("current_date", "another one in every run"),
        ("CURRENT_TIMESTAMP", "another one in every run"),
        ("ago(INTERVAL 1 DAY)", "another one in every run"),
        ("random()", "another one in every run"),
        ("uuid()", "another one in every run"),
        ("nextval('x')", "another one in every run"),
        ("unnest([1, 2])", "several rows of one"),
        ("*", r"'\*', which is not one value"),
        ("COLUMNS(*)", r"'\*', which is not one value"),
        ("$1", "a parameter"),
        ("#1", "by its position"),
        ("1) FROM t WHERE (true", "a whole statement or several values"),
        ("a), (a", "a whole statement or several values"),
        ("1); SELECT (2", "a whole statement or several values"),
        ("a > 0) OR (a < 9", "syntax error"),
        ("a > 0) + (1", "syntax error"),
        (
            "TIMETZ '10:00:00+02'",
            "a value of type TIME WITH TIME ZONE, expected one that a column can hold",
        ),
        ("['101'::BIT]", r"a value of type BIT\[\], expected one that a column can hold"),
        ("a +", 'syntax error at the end of the expression"'),
        ('"b.c" + 1', "You might need to add explicit type casts\\.[\"']"),
        ("b.c", 'a dot in quotes: "b.c"'),
        ("aa + 1", "found column 'aa', which is not there"),
        ('"x" = 1', r"Texts stand in .'single quotes"),
        ("foo(a)", "Function with name foo does not exist"),
        ("strlen(a)", "No function matches"),
        ("read_text('/etc/hostname')", "which makes a table"),
        ("INTERVAL 1 DAY", "expected a scalar or a list of scalars"),
        ("{x: a}", "expected a scalar or a list of scalars"),
        ("[[a]]", "expected a scalar or a list of scalars"),
    ],
)
def test_refused_expressions(sql, said):
    """Planning refuses expressions that depend on several rows.

    The error has the reason.
    """
    for keys, path in (
        ({"derive": {"new": sql}}, ("derive", "new")),
        ({"filter": sql}, ("filter",)),
    ):
        with pytest.raises(RecipeProblems, match=said) as caught:
            plan_of(BATCH.schema, **keys)
        assert [problem.path for problem in caught.value.problems] == [path]


def test_every_volatile_function_and_aggregate_is_refused():
    """Every aggregate and volatile function of DuckDB's catalogue is refused."""
    rows = database.connection().execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE function_type = 'aggregate' OR stability = 'VOLATILE'"
    )
    names = [name for (name,) in rows.fetchall()]
    assert len(names) > 80
    for name in names:
        with pytest.raises(database.ExpressionError):
            expressions.parse_expression("new", f'"{name}"(a)', ["a"])


def test_columns_that_differ_in_case_only():
    """An exact name is taken.

    Names that SQL cannot tell apart are refused.
    """
    batch = pa.record_batch({"a": [1], "A": [2]})
    plan = plan_of(batch.schema, derive={"x": '"A" + 1', "y": '"a" + 1'}, keep=("x", "y"))
    assert plan.schema.names == ["x", "y"]
    with pytest.raises(RecipeProblems, match="which SQL cannot tell apart"):
        plan_of(batch.schema, derive={"x": '"A" + "a"'})
    ambiguous = pa.schema([("Ab", pa.int64()), ("aB", pa.int64())])
    with pytest.raises(RecipeProblems, match="may be any of"):
        plan_of(ambiguous, filter="ab > 1")
    assert select.select_rows(plan, batch)[0].to_pylist() == [{"x": 3, "y": 2}]


def test_a_derived_column_is_used_as_the_column_it_became():
    """Later columns see a derived one as int64.

    It does not overflow like INTEGER.
    """
    batch, _ = selected(derive={"x": "7", "y": "x * 1000000000"}, keep=("y",))
    assert batch.column("y").to_pylist() == [7_000_000_000] * 4


def test_all_problems_are_reported_at_once():
    """Problems of filter, derived columns, drop and keep are all reported.

    A derived column that only misses a wrong one is not.
    """
    with pytest.raises(RecipeProblems) as caught:
        plan_of(
            BATCH.schema,
            filter="a",
            derive={"x": "sum(a)", "A": "1", "y": "x + 1"},
            drop=("tag", "x"),
            keep=("rav",),
        )
    assert [problem.path for problem in caught.value.problems] == [
        ("filter",),
        ("derive", "x"),
        ("derive", "A"),
        ("drop", 0),
        ("keep", 0),
    ]
    assert "expected a condition" in caught.value.problems[0].message
    assert "the rows have a column 'a'" in caught.value.problems[2].message
    assert "Did you mean 'tags'?" in caught.value.problems[3].message
    with pytest.raises(RecipeProblems, match="no column left"):
        plan_of(BATCH.schema, drop=tuple(BATCH.schema.names))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"filter": '"b.c"::INTEGER > 0'},
            r"data/f.csv, filter \(.*Could not convert string 'x'.* in the row \{b.c: 'x'\}",
        ),
        (
            {"derive": {"ok": "a + 1", "n": 'ok + "b.c"::INTEGER', "fine": "n"}},
            r"data/f.csv, derived column 'n' \(.*Could not convert string 'x'.* in the row \{b.c: 'x', ok: 3\}.*TRY_CAST",
        ),
        (
            {"derive": {"n": "IF(a > 1, DATE 'infinity', DATE '2020-01-01')"}},
            r"derived column 'n'.*found an infinite date.*\{a: 2\}",
        ),
        (
            {"derive": {"n": "[IF(a > 1, TIMESTAMP '-infinity', NULL)]"}},
            r"derived column 'n'.*found an infinite.*\{a: 2\}",
        ),
        (
            {"derive": {"n": "(a + 9223372036854775804)"}},
            r"derived column 'n'.*Overflow.* in the row \{a: 4\}",
        ),
        (
            {"derive": {"n": "(a + 18446744073709551610)::UBIGINT"}},
            r"derived column 'n'.*int64.* in the row \{a: 1\}",
        ),
    ],
)
def test_failing_expression_shows_expression_and_row(keys, said):
    """An error shows the expression, the file, and one failing row."""
    with pytest.raises(DataError, match=said), explained("data/f.csv"):
        select.select_rows(plan_of(BATCH.schema, **keys), BATCH)


def test_settings_are_locked():
    """The database reads no files, loads no extensions, and keeps its settings."""
    connection = database.connection()
    for statement in (
        "SELECT * FROM read_text('/etc/hostname')",
        "SET enable_external_access = true",
        "SET threads = 4",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)


def test_threads_do_not_share_a_database():
    """Eight threads that select at once get their own rows."""
    plan = plan_of(pa.schema([("a", pa.int64())]), filter="a % 2 = 0", derive={"b": "a * 2"})
    found = {}

    def work(number):
        batch = pa.record_batch({"a": range(number, number + 2000)})
        found[number] = [
            select.select_rows(plan, batch)[0].column("b").to_pylist() for _ in range(3)
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        assert found[number] == [[a * 2 for a in range(number, number + 2000) if a % 2 == 0]] * 3


def test_select_batches_counts_what_it_filters():
    """A pipeline's chunks keep address and counts.

    They get ``filtered``.
    """
    plan = plan_of(BATCH.schema, filter="a > 1", keep=("a",))
    chunks = [
        Chunk(0, 0, BATCH, {"read": 4}, path="f.csv"),
        Chunk(0, 1, BATCH.slice(0, 1), {"read": 1}, (), 7, "f.csv"),
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create(chunks)
            | select.SelectChunks(plan)
            | beam.Map(
                lambda chunk: (*chunk[:2], chunk.batch["a"].to_pylist(), chunk.counts, chunk.crc32c)
            )
        )
        expected = [
            (0, 0, [2, 4], {"read": 4, "filtered": 2}, None),
            (0, 1, [], {"read": 1, "filtered": 1}, 7),
        ]
        assert_that(found, equal_to(expected))
