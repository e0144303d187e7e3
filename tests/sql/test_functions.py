"""Functions of expressions: their values depend on their arguments alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from beam_pipelines.sql import functions
from beam_pipelines.sql.database import ExpressionError, connection
from beam_pipelines.sql.expressions import evaluate, parse_expression

# Values of DuckDB's types of arguments.
SAMPLES = {
    "BIGINT": "3",
    "BIGINT[]": "[3, 1, 2]",
    "BIT": "'1011'::BIT",
    "BLOB": "'ab'::BLOB",
    "BOOLEAN": "true",
    "DATE": "DATE '2024-02-29'",
    "DECIMAL": "1.5",
    "DOUBLE": "0.5::DOUBLE",
    "DOUBLE[]": "[0.5, 2]::DOUBLE[]",
    "FLOAT": "0.5::FLOAT",
    "HUGEINT": "3::HUGEINT",
    "INTEGER": "3::INTEGER",
    "INTERVAL": "INTERVAL 1 DAY",
    "JSON": """'{"a": [1, 2]}'::JSON""",
    "T": "3",
    "T[]": "[3, 1, 2]",
    "TIME": "TIME '10:00:01'",
    "TIMESTAMP": "TIMESTAMP '2024-02-29 10:00:01'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2024-07-29 23:00:01'",
    "TIMESTAMP_NS": "TIMESTAMP_NS '2024-02-29 10:00:01'",
    "UUID": "'0190163d-8694-739b-aea5-966c26f8ad91'::UUID",
    "VARCHAR": "'day'",
    "VARCHAR[]": "['day', 'a']",
    "ANY": "'day'",
    "ANY[]": "['day', 'a']",
    "K[]": "['day', 'a']",
    "MAP(K, V)": "MAP {'day': 1}",
    "K": "'day'",
}
OF_THE_RUN = r"""
now(); NOW(); "now"(); main.now(); pg_catalog.now(); a + (now() - now())
list_transform([1], x -> now()); [now() for x in [1]]; {'a': now()}.a; MAP {'a': now()}['a']
CASE WHEN now() > t THEN 1 END; t BETWEEN now() AND now(); t IN (now())
COALESCE(NULL, now()); TRY(now()); TRY_CAST(now() AS DATE); now() AT TIME ZONE 'UTC'
EXTRACT(year FROM now()); current_date; CURRENT_DATE; current_date(); today(); current_time
current_timestamp; localtime; localtimestamp; get_current_timestamp()
transaction_timestamp(); age(t); AGE(t::DATE); main.age(t); t.age(); ago(INTERVAL 1 DAY)
'now'::DATE; 'today'::TIMESTAMP; 'tomorrow'::TIMESTAMPTZ; DATE 'now'
'10:00+01'::TIMETZ AT TIME ZONE 'Europe/Berlin'
TIMETZ '10:00+01' AT TIME ZONE 'Europe/Berlin'
CAST('10:00' AS TIME WITH  TIME ZONE)::VARCHAR; TRY_CAST(b AS TIMETZ)::VARCHAR
([b]::TIMETZ[])[1]::VARCHAR; ({'a': b}::STRUCT(a TIMETZ)).a::VARCHAR
from_json('"10:00+01"', '"TIMETZ"')::VARCHAR
json_transform('"10:00+01"', '"TIME' || 'TZ"')::VARCHAR; random(); uuid(); uuidv7()
gen_random_uuid(); setseed(0.5); list_sort([1], random()::VARCHAR)
list_aggregate([1, 2], 'reservoir_quantile', 0.5)
list_aggr([1, 2], 'reservoir' || '_quantile', 0.5)
[1, 2].list_aggregate('reservoir_quantile', 0.5); nextval('a'); current_user; user
session_user; current_role; current_setting('TimeZone'); current_schema(); getvariable('a')
getenv('USER'); version(); hash(b); txid_current(); current_query(); rowid
pg_postmaster_start_time(); pg_typeof(now()); typeof(random())
"""
BATCH = pa.record_batch({"a": [1], "b": ["x"], "t": pa.array([0], pa.timestamp("us"))})

OF_NESTING = """json_pretty(b); json_contains(b, '1'); json_structure(b::JSON); b->'$..*'
b::JSON::VARIANT::VARCHAR; TRY_CAST([b] AS VARIANT[])::VARCHAR; b::STRUCT(c VARIANT)::VARCHAR
variant_typeof(b); json_merge_patch(b, b); damerau_levenshtein(b, b); b->>'$..*'; b->>['$.a', '$..*']
json_extract(b, '$.' || '.*'); json_value(b, lower('$..A')); b->>'"\\u002e"'
list_reduce([a], lambda p, q: p + q); reduce([b], lambda p, q: p || p)"""


@pytest.mark.parametrize("sql", re.split(r"; |\n", OF_NESTING))
def test_what_grows_with_nesting_is_refused(sql: str) -> None:
    """Texts that nest deep neither fill memory nor end the process."""
    with pytest.raises(ExpressionError, match=r"grows? with|found a path of JSON"):
        parse_expression("x", sql, BATCH.schema.names)


def test_deep_texts_end_no_process() -> None:
    """An allowed function that recursed into a text would end this process."""
    shapes = (
        "{}(b)",
        "{}(b, b)",
        "{}(b, '$')",
        "{}(b, '$', '1')",
        "{}(b::JSON)",
        "{}(b, '\"JSON\"')",
    )
    names = [name for name, why in functions._decided().items() if "json" in name and not why]
    called = 0
    for cell in ("[" * 500_000 + "]" * 500_000, '{"a":' * 500_000 + "1" + "}" * 500_000):
        for name, shape in itertools.product(names, shapes):
            with contextlib.suppress(ExpressionError):
                sql = f"length({shape.format(name)}::VARCHAR)"
                evaluate(pa.record_batch({"b": [cell]}), parse_expression("x", sql, ["b"]))
                called += 1
    assert called > 80


@pytest.mark.parametrize("sql", re.split(r"; |\n", OF_THE_RUN.strip()))
def test_what_depends_on_the_run_is_refused(sql: str) -> None:
    """Neither clock, chance, user nor settings enter a value."""
    with pytest.raises(ExpressionError):
        evaluate(BATCH, parse_expression("x", sql, BATCH.schema.names))


def test_every_scalar_function_is_decided() -> None:
    """Each function and macro of the installed DuckDB is in a list."""
    rows = duckdb.connect().execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'macro')"
    )
    names = [name for (name,) in rows.fetchall()]
    assert len(names) > 500
    assert [name for name in names if not functions.is_decided(name)] == []


def test_a_function_that_is_not_decided_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names it."""
    known = functions._kinds() | {"brand_new": {"scalar"}}
    monkeypatch.setattr(functions, "_kinds", lambda: known)
    with pytest.raises(ExpressionError, match="function 'brand_new', which this release"):
        parse_expression("x", "brand_new(a)", ["a"])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a - 1", 0),
        ("age(t, t - INTERVAL 1 DAY) = INTERVAL 1 DAY", True),
        ("year(t::TIMESTAMPTZ)", 1970),
        ("date_diff('day', t::DATE, DATE '1970-01-03')", 2),
        ("strftime(t AT TIME ZONE 'Europe/Berlin', '%H')", "23"),
        ("list_aggregate([1, 2], 'sum')", 3),
        ("list_sum([1, 2])", 3),
        ("""from_json('{"a": 2}', '{"a": "BIGINT"}').a""", 2),
        ("'Ä' COLLATE NOCASE = 'ä'", True),
        ("CASE WHEN a BETWEEN 0 AND 2 AND b SIMILAR TO 'x' THEN b || '!' END", "x!"),
    ],
)
def test_what_depends_on_the_row_alone_is_allowed(sql: str, expected: object) -> None:
    """Overloads for times with a zone condemn no other."""
    found = evaluate(BATCH, parse_expression("x", sql, BATCH.schema.names))
    assert found.to_pylist() == [expected]


def calls() -> Iterator[str]:
    """Yields a call of each overload of each allowed function."""
    rows = connection().execute(
        "SELECT DISTINCT lower(function_name), parameter_types FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'macro') ORDER BY ALL"
    )
    for name, types in rows.fetchall():
        if functions.refused_name(name) is None:
            given = ", ".join(SAMPLES.get(str(kind), "'a'") for kind in types)
            yield f'"{name}"({given})'


@pytest.mark.parametrize(
    ("sql", "column"),
    [("order > 1", "order"), ("group + 1", "group"), ("x-y > 1", "x-y"), ("prix € + 1", "prix €")],
)
def test_names_that_need_quotes_are_shown_with_them(sql: str, column: str) -> None:
    """An error says how such a column is written."""
    known = ["order", "group", "x-y", "prix €", "n"]
    with pytest.raises(ExpressionError, match=f'Write the column as "{column}"'):
        parse_expression("x", sql, known)
    quoted = sql.replace(column, f'"{column}"')
    assert parse_expression("x", quoted, known).columns == (column,)
    with pytest.raises(ExpressionError, match=r"^[^W]*$"):
        parse_expression("x", "n >", known)


def values() -> dict[str, str]:
    """Returns call -> its value as a text.

    Calls without one are left out.
    """
    found = {}
    for sql in calls():
        try:
            parse_expression("x", sql, [])
            (row,) = connection().execute(f"SELECT CAST(({sql}) AS VARCHAR)").fetchall()
        except (ExpressionError, duckdb.Error):
            continue
        found[sql] = row[0]
    return found


def test_values_are_the_same_for_another_user_zone_and_moment() -> None:
    """Each overload of each allowed function is called in two processes."""
    program = (
        "import json; from tests.sql.test_functions import values; print(json.dumps(values()))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "TZ": zone, "USER": user, "HOME": f"/{user}", "LANG": user},
            stdout=subprocess.PIPE,
        )
        for zone, user in (("Asia/Tokyo", "ann"), ("America/St_Johns", "bob"))
    ]
    found = [json.loads(run.communicate()[0]) for run in runs]
    names = {sql.partition("(")[0] for sql in found[0]}
    assert len(names) > 350
    assert {sql: value for sql, value in found[0].items() if found[1][sql] != value} == {}


def test_no_progress_bar_is_written_to_standard_output() -> None:
    """Python without a program's file counts as interactive for DuckDB."""
    program = (
        "from beam_pipelines.sql.database import connection\n"
        "sql = \"SELECT current_setting('enable_progress_bar')\"\n"
        "print([connection(way).execute(sql).fetchall() for way in (True, False)])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout == b"[[(False,)], [(False,)]]\n"


def test_functions_that_duckdb_marks_are_refused() -> None:
    """No volatile function is allowed, but for a zone's sake."""
    rows = connection().execute(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
        "WHERE stability <> 'CONSISTENT' AND function_type IN ('scalar', 'macro') AND NOT "
        "(stability <> 'VOLATILE' AND len(parameter_types) > 0 AND list_append(parameter_types, "
        "return_type)::TEXT SIMILAR TO '.*(TZ|TIME ZONE).*') ORDER BY ALL"
    )
    names = [name for (name,) in rows.fetchall()]
    assert {"now", "random", "current_schema"} <= set(names)
    assert [name for name in names if functions.refused_name(name) is None] == []
