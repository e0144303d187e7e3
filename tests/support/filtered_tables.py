"""Filters that databases evaluate in part, and the rows that must remain."""

from __future__ import annotations

import itertools
import pathlib

import pyarrow as pa

from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms import read
from beam_pipelines_plugins.databases.conditions import with_condition
from beam_pipelines_plugins.databases.keep import keep_tables

INTEGERS = (None, 0, 1, -1, 5, (1 << 63) - 1, -(1 << 63))
FLOATS = (None, 0.0, 0.1, 0.3, -2.5, 1e30, 5.0)
TEXTS = (None, "", "a", "A", "a ", "é", "it''s")
DAYS = (None, "2024-02-28", "2024-02-29", "1999-12-31")
TIMES = (None, "2024-02-29 00:00:00", "2024-02-29 12:30:00.5", "2024-02-29 12:30:00")
# Filters with parts that a server gets, and others.
SENT = (
    "i >= 1",
    "i > 0 AND i <= 5",
    "5 > i",
    "i IN (0, -1, 9223372036854775807)",
    "i BETWEEN -1 AND 1 AND x IS NOT NULL",
    "x > 0.1",
    "x >= 0.3 AND (t = 'a' OR i > 1)",
    "x IN (0, 0.1)",
    "t = 'a'",
    "t IN ('a', 'é', '')",
    "t IS NOT NULL AND t <> 'a'",
    "day >= '2024-02-29'",
    "day BETWEEN DATE '2000-01-01' AND DATE '2024-02-28'",
    "ts > TIMESTAMP '2024-02-29 12:30:00'",
    "ts = '2024-02-29 12:30:00.500'",
    "ts <= DATE '2024-02-29' AND t IS NOT NULL",
)
NOT_SENT = (
    "t > 'a'",
    "NOT (i > 1)",
    "i > 1 OR x > 1",
    "i + 1 > 1",
    "t = 'it''s'",
    "x > 0.12345678901234567",
    "i IS NULL",
)


def table_rows() -> list[str]:
    """Rows with values in many combinations, as VALUES of an INSERT."""
    columns = (INTEGERS, FLOATS, TEXTS, DAYS, TIMES)
    longest = max(map(len, columns))
    rows = [
        tuple(
            values[(number * step + shift) % len(values)] for step, values in enumerate(columns, 1)
        )
        for number, shift in itertools.product(range(longest), range(longest))
    ]
    return [f"({number}, {', '.join(map(_literal, row))})" for number, row in enumerate(rows)]


def check_filters(plan: SourcePlan, folder: pathlib.Path, texts: bool = False) -> None:
    """Checks that the server loses no row of any filter.

    Args:
      plan: of a table with ``table_rows``, by ``partition: id`` or in the order of ``id``.
      folder: for the rows.
      texts: whether days and times are texts, which have no order there.
    """
    whole = _rows(plan, folder / "whole")
    for number, condition in enumerate((*SENT, *NOT_SENT)):
        if texts and ("day" in condition or "ts " in condition):
            continue
        expression = parse_expression("filter", condition, whole.schema.names)
        pushed = with_condition(plan, expression, {})
        kept = keep_tables({"rows": pushed}, {}, str(folder / str(number)))["rows"]
        assert (" WHERE " in " ".join(pushed.decisions)) == (condition in SENT), condition
        left = read.read_table(kept, reject=False)[0].combine_chunks().to_batches()[0]
        expected = whole.filter(evaluate(whole, expression))
        found = left.filter(evaluate(left, expression))
        # NaN equals itself in a text.
        assert str(found.to_pydict()) == str(expected.to_pydict()), condition
        assert expected.num_rows, condition
        assert kept.left_out == whole.num_rows - left.num_rows, condition
        assert (kept.left_out > 0) == (condition in SENT), condition


def _rows(plan: SourcePlan, folder: pathlib.Path) -> pa.RecordBatch:
    kept = keep_tables({"rows": plan}, {}, str(folder))["rows"]
    assert kept.left_out == 0
    return read.read_table(kept, reject=False)[0].combine_chunks().to_batches()[0]


def _literal(value: float | str | None) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else repr(value)
