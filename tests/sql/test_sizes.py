"""Expressions whose values would outgrow the columns."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pyarrow as pa
import pytest

from beam_pipelines.checks.expectations import Expectation
from beam_pipelines.core.chunks import ROW, Chunk
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import Limits
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sql import expressions
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms.select.errors import explained
from beam_pipelines.transforms.select.reject import Checks, select_good
from beam_pipelines.transforms.select.select import plan_select, select_rows

BATCH = pa.record_batch(
    {
        "a": ["x", "{}"],
        "n": [3, 4],
        "x": pa.array([[1], [2, 3]], pa.list_(pa.int64())),
        "j": ['{"k": {"m": 1}}', "{}"],
        "t": pa.array([0, 86_400_000_000], pa.timestamp("us")),
    }
)
TOO_LARGE = (
    "length(repeat('x', 3000000000))",
    "len(range(400000000))",
    "string_split(repeat('a,', 200000000), ',')",
    "format('{:>1500000000}', a)",
    "list_resize([1], 400000000)",
    "lpad('x', 1500000000, 'y')",
    "rpad(a, 1_500_000_000, 'y')",
    "printf('%1500000000d', n)",
    "printf('%.1500000000f', 1.5)",
    "len(generate_series(1, 400000000))",
    "len(range(0, -400000000, -1))",
    "array_resize(x, 400000000, 7)",
    "length(bitstring('1', 4000000000))",
    "repeat(a, 1001).repeat(1000)",
    "repeat([1], 100000000)",
    "repeat(repeat(a, 1000), 1001)",
    "repeat(a, 1000) || repeat(repeat(a, 1000), 1001)",
    "repeat('0123456789', 100001)",
    "REPEAT(a, 3000000000::BIGINT)",
    "left(repeat(a, 3000000000), 1)",
    "CASE WHEN n > 5 THEN repeat(a, 3000000000) END",
    "CASE WHEN repeat(a, 3000000000) = 'x' THEN 1 END",
    "COALESCE(a, repeat(a, 3000000000))",
    "a IN ('x', repeat(a, 3000000000))",
    "a BETWEEN 'x' AND repeat(a, 3000000000)",
    "NOT starts_with(repeat(a, 3000000000), a)",
    "TRY(repeat(a, 3000000000))",
    "[repeat(a, 3000000000)][1]",
    "{'k': repeat(a, 3000000000)}.k",
    "list_transform(range(2000), lambda i: repeat(a, 1000))",
    "list_transform(range(2000), lambda i: range(1000))[1]",
    "[repeat(a, 1000) for i in range(2000)]",
    "[i for i in x if repeat(a, 2000000) = '']",
    "list_transform([repeat(a, 100000)], lambda y: replace(y, 'x', y))",
    "list_transform([range(10000)], lambda y: flatten(list_transform(y, lambda z: y)))[1]",
    "replace(repeat('a', 100000), 'a', repeat('b', 100000))",
    "replace(replace(repeat(a, 100000), 'a', 'bbbb'), 'b', 'aaaaaa')",
    "regexp_replace(repeat('a', 100000), 'a', 'aaaaaaaaaaaa', 'g')",
    r"regexp_replace(repeat('a', 500000), '(.*)', '\1\1\1')",
    "array_to_string(range(10000)::VARCHAR[], repeat('-', 10000))",
    "list_aggregate(range(10000)::VARCHAR[], 'string_agg', repeat('-', 10000))",
    "list_select([repeat(a, 10000)], list_transform(range(10000), lambda i: 1))[1]",
    "json_extract(repeat(j, 10000), list_transform(range(10000), lambda i: '$'))[1]",
    "bin(bin(bin(bin(bin(bin(bin(a)))))))",
    f"{'hex(' * 21}a{')' * 21}",
)
OF_THE_ROW = (
    "repeat(a, n)",
    "repeat(a, n % 5)",
    "repeat(a, length(a))",
    "repeat(a, '3')",
    "repeat(a, greatest(n, 3))",
    "lpad(a, n, '0')",
    "rpad(a, n::INTEGER, '0')",
    "range(n)",
    "range(n, 10)",
    "range(0, 10, n)",
    "range(0, least(n, 9), -1)",
    "range(least(n, 0), 10)",
    "range(t, t + INTERVAL 1 DAY, INTERVAL 1 SECOND)",
    "generate_series(1, n)",
    "list_resize(x, n)",
    "bitstring('1', n)::VARCHAR",
    "format(a, 1)",
    "format('{:>{}}', a, n)",
    "format('{:{}}', a, n)",
    "format('{{{:{}}', a, n)",
    "format('{:' || '>5}', a)",
    "printf('%*d', n, n)",
    "printf(a, 1)",
    "list_transform(x, lambda i: repeat('x', i))",
    "[repeat('x', i) for i in x]",
)
ORDINARY = (
    ("lpad(n::VARCHAR, 5, '0')", ["00003", "00004"]),
    ("printf('%05d', n)", ["00003", "00004"]),
    ("format('{:02d}', n)", ["03", "04"]),
    ("format('{{}} 5000000: {}', n)", ["{} 5000000: 3", "{} 5000000: 4"]),
    ("printf('%d %% 5000000', n)", ["3 % 5000000", "4 % 5000000"]),
    ("range(3)", [[0, 1, 2]] * 2),
    ("range(1000000, 1000002)", [[1000000, 1000001]] * 2),
    ("range(2, 0, -1)", [[2, 1]] * 2),
    ("list_resize(x, 2)", [[1, None], [2, 3]]),
    ("repeat('x', least(n, 3))", ["xxx", "xxx"]),
    ("repeat(a, -3)", ["", ""]),
    ("range(least(n, 3))", [[0, 1, 2]] * 2),
    ("length(repeat('x', 1000000))", [1_000_000] * 2),
    ("list_sum(list_transform(range(1000), lambda i: i + n))", [502_500, 503_500]),
    ("[i + 1 for i in x if i > 1]", [[], [3, 4]]),
    ("j->'k'->>'m'", ["1", None]),
    ("j->>'$.k.m'", ["1", None]),
    ("replace(replace(a, '&', '&amp;'), '<', '&lt;')", ["x", "{}"]),
    ("regexp_replace(a, 'x', ' ', 'g')", [" ", "{}"]),
    ("array_to_string(x::VARCHAR[], ', ')", ["1", "2, 3"]),
    ("concat_ws(' ', a, n)", ["x 3", "{} 4"]),
    (" || ':' || ".join(["lpad(n::VARCHAR, 12, '0')[:1]"] * 9), [":".join("0" * 9)] * 2),
    ("left(a, 1) || right(a, 1) || substring(a, 1, 1)", ["xxx", "{}{"]),
)


@pytest.mark.parametrize("sql", TOO_LARGE)
def test_a_value_that_may_be_too_large_is_refused(sql: str) -> None:
    """Nothing is evaluated; numbers multiply along the nesting."""
    with pytest.raises(ExpressionError, match="expected at most 1,000,000; use"):
        parse_expression("z", sql, BATCH.schema.names)


@pytest.mark.parametrize("sql", OF_THE_ROW)
def test_a_size_that_depends_on_the_row_is_refused(sql: str) -> None:
    """The message shows a form that is allowed."""
    with pytest.raises(
        ExpressionError, match=r"size that depends on the row.*expected one such as"
    ):
        parse_expression("z", sql, BATCH.schema.names)


@pytest.mark.parametrize(("sql", "expected"), ORDINARY)
def test_ordinary_uses_have_values(sql: str, expected: list[object]) -> None:
    """Small numbers, and numbers with a bound, are allowed."""
    found = evaluate(BATCH, parse_expression("z", sql, BATCH.schema.names))
    assert found.to_pylist() == expected


def recipe_of(**keys: Any) -> Recipe:
    """Returns a recipe of expressions."""
    checks = {"expect": keys.pop("expect")} if "expect" in keys else {}
    return Recipe("r", {}, "a", checks=checks, **keys)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"filter": "repeat(a, 3000000000) = 'x'"}, ("filter",)),
        ({"filter": "n > 1 AND length(repeat(a, n)) > 1"}, ("filter",)),
        ({"derive": {"z": "repeat(a, 1000)", "y": "repeat(Z, 1001)"}}, ("derive", "y")),
        ({"derive": {"z": "range(2000)", "y": "list_transform(z, lambda i: range(1000))[1]"}}, ("derive", "y")),
        ({"expect": [Expectation("e", row="repeat(a, 3000000000) = 'x'")]}, ("expect", 0, "row")),
        ({"expect": [Expectation("e", column="max(length(repeat(a, 3000000000))) > 1")]}, ("expect", 0, "column")),
        ({"expect": [Expectation("e", column="repeat(min(repeat(a, 1001)), 1000) > 'x'")]}, ("expect", 0, "column")),
        ({"derive": {"z": "repeat(a, 1001)"}, "expect": [Expectation("e", row="repeat(z, 1000) = 'x'")]}, ("expect", 0, "row")),
        ({"derive": {"z": "repeat(a, 1001)"}, "expect": [Expectation("e", column="max(repeat(z, 1000)) = 'x'")]}, ("expect", 0, "column")),
    ],
)  # fmt: skip
def test_every_place_of_an_expression_is_measured(keys, place):
    """A derived column has the size of its expression."""
    with pytest.raises(RecipeProblems) as caught:
        plan_select(recipe_of(**keys), BATCH.schema)
    (problem,) = caught.value.problems
    assert problem.path == place
    assert "expected" in problem.message


def test_numbers_that_are_derived_have_no_size() -> None:
    """Chains of them may be of any length."""
    derive = {"d0": "length(repeat(a, 1000))"}
    derive |= {f"d{i + 1}": f"(d{i} + d{i}) % 7" for i in range(40)}
    found, _ = select_rows(plan_select(recipe_of(derive=derive), BATCH.schema), BATCH)
    assert found.column("d1").to_pylist() == [2000 % 7, 4000 % 7]


def test_a_derived_value_above_the_limit_stops_the_run() -> None:
    """The message has expression and row, also where bad rows are rejected."""
    keys = {"derive": {"z": "repeat(a, least(n, 1000))"}, "limits": Limits(cell_bytes=7)}
    plan = plan_select(recipe_of(**keys), BATCH.schema)
    message = re.escape(
        "f.csv, derived column 'z' (repeat(a, least(n, 1000))) in the row {a: '{}', n: 4}: "
        "found a value of 8 bytes, expected at most 7 (the limit 'cell_bytes')"
    )
    with pytest.raises(DataError, match=message), explained("f.csv"):
        select_rows(plan, BATCH)
    columns = [*BATCH.columns, pa.array([0, 1])]
    batch = pa.RecordBatch.from_arrays(columns, [*BATCH.schema.names, ROW])
    chunk = Chunk(0, 0, batch, {"read": 2}, path="f.csv")
    with pytest.raises(DataError, match=message):
        select_good(chunk, Checks(plan, None))
    raised = dataclasses.replace(plan, limits=Limits(cell_bytes=8))
    assert select_rows(raised, BATCH)[0].column("z").to_pylist() == ["xxx", "{}{}{}{}"]


MANY = pa.record_batch(
    {"a": ["x", None, "", "yz"] * 5, "n": list(range(20)), "v": [[1], None, [], [2, 3]] * 5}
)
EXPRESSIONS = [
    "repeat(a, 3)",
    "n % 7 > 3",
    "list_transform(v, lambda x: x * 2)",
    "'constant'",
    "coalesce(a, 'none')",
    "CAST(n AS DECIMAL(10, 2))",
    "list_aggregate(v, 'sum')",
]


@pytest.mark.parametrize("sql", EXPRESSIONS)
@pytest.mark.parametrize("piece", [1, 100, 1000])
def test_rows_that_are_evaluated_in_pieces(sql, piece, monkeypatch):
    """Values and types are those of all rows at once."""
    expression = parse_expression("z", sql, MANY.schema.names)
    whole, none = evaluate(MANY, expression), evaluate(MANY.slice(0, 0), expression)
    monkeypatch.setattr(expressions, "_PIECE_BYTES", piece)
    assert evaluate(MANY, expression).equals(whole)
    assert evaluate(MANY.slice(0, 0), expression).equals(none)


def test_large_values_of_a_chunk_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows after the limit are not evaluated; the message names it."""
    monkeypatch.setattr(expressions, "_PIECE_BYTES", 4_000)
    calls: list[int] = []
    run = expressions._evaluate

    def counted(batch: pa.RecordBatch, expression: expressions.Expression) -> pa.Array:
        calls.append(batch.num_rows)
        return run(batch, expression)

    monkeypatch.setattr(expressions, "_evaluate", counted)
    keys = {"derive": {"z": "repeat(a, 1000)"}, "limits": Limits(derived_bytes=5_000)}
    plan = plan_select(recipe_of(**keys), MANY.schema)
    calls.clear()
    message = (
        r"f.csv, derived column 'z' \(repeat\(a, 1000\)\) in the row {a: 'yz'}: found values of "
        r"6,\d+ bytes together, expected at most 5,000 \(the limit 'derived_bytes'\)"
    )
    with pytest.raises(DataError, match=message), explained("f.csv"):
        select_rows(plan, MANY)
    assert len(calls) < MANY.num_rows
    raised = dataclasses.replace(plan, limits=Limits(derived_bytes=1 << 20))
    assert select_rows(raised, MANY)[0].column("z")[3].as_py() == "yz" * 1000


@pytest.mark.parametrize(
    ("sql", "largest"),
    [
        ("length(repeat(a, 1000)) > 5", 1000),
        ("left(repeat(a, 1000), 2)", 1000),
        ("CASE WHEN repeat(a, 30) = 'x' THEN 1 END", 30),
        ("n + 1", 2),
    ],
)
def test_the_largest_part_counts(sql: str, largest: int) -> None:
    """Values that an expression makes on its way count."""
    assert parse_expression("z", sql, MANY.schema.names).largest >= largest
