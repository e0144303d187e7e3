"""Numbers as raw bytes: of arrays, and by the SQL function ``raw``."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow.raw_numbers import raw_numbers
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import evaluate, parse_expression

TYPES = {
    pa.float64(): ("d", st.floats()),
    pa.float32(): ("f", st.floats(width=32)),
    pa.int64(): ("q", st.integers(-(2**63), 2**63 - 1)),
    pa.uint8(): ("B", st.integers(0, 255)),
    pa.bool_(): ("?", st.booleans()),
}


def packed(value: Any, code: str) -> bytes:
    """Returns the bytes that ``struct`` makes of numbers."""
    if isinstance(value, list):
        return b"".join(packed(item, code) for item in value)
    return struct.pack("<" + code, value)


@given(st.data())
def test_bytes_are_those_of_struct(data: st.DataObject) -> None:
    """Scalars and lists, with nulls, whole and sliced, become their bytes."""
    type_, (code, values) = data.draw(st.sampled_from(list(TYPES.items())))
    for _ in range(data.draw(st.integers(0, 2))):
        type_, values = pa.list_(type_), st.lists(values, max_size=3)
    rows = data.draw(st.lists(st.none() | values, max_size=6))
    start = data.draw(st.integers(0, len(rows)))
    found = raw_numbers(pa.array(rows, type_)[start:])
    assert found.to_pylist() == [None if row is None else packed(row, code) for row in rows[start:]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([[1.0, None]]), "a null inside a list"),
        (pa.array([[[1], None]]), "a null inside a list"),
        (pa.array(["1"]), "type string, expected integers, floats or bools"),
        (pa.array([[]], pa.list_(pa.date32())), "type date32"),
    ],
)
def test_values_without_bytes(array: pa.Array, message: str) -> None:
    """Nulls inside lists and other types than numbers are errors."""
    with pytest.raises(pa.ArrowInvalid, match=message):
        raw_numbers(array)


BATCH = pa.RecordBatch.from_pydict(
    {"a": [0.1, 1e-300, None], "b": [3, 2**53 + 1, 5], "t": ["1 2", "0.1 7", None]}
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("raw(a)", [[0.1], [1e-300], None]),
        ("raw([a, a + 1])", [[0.1, 1.1], [1e-300, 1.0], "a null inside a list"]),
        ("raw(CASE WHEN b < 4 THEN [a, 0.5] END)", [[0.1, 0.5], None, None]),
        ("raw([a, b]::DOUBLE[2])", [[0.1, 3.0], [1e-300, 2.0**53], "a null inside a list"]),
        ("raw(string_split(t, ' ')::DOUBLE[])", [[1.0, 2.0], [0.1, 7.0], None]),
        ("raw(b)", [np.array([3]), np.array([2**53 + 1]), np.array([5])]),
        ("raw(a, b)", "raw() of 2 values, expected one: a number, or a list such as raw([a, b])"),
        ("raw(t)", "found values of type string, expected integers, floats or bools"),
        ("raw(0.5)", "found values of type decimal128(2, 1), expected"),
        ("TRY(raw([a, a]))", [[0.1, 0.1], [1e-300, 1e-300], None]),
    ],
)
def test_the_function_raw(sql: str, expected: Any) -> None:
    """SQL values become bytes; errors have no name of Python's."""
    expression = parse_expression("x", sql, BATCH.schema.names)
    rows = expected if isinstance(expected, list) else [expected] * 3
    for row, value in enumerate(rows):
        if isinstance(value, str):
            with pytest.raises(ExpressionError) as error:
                evaluate(BATCH.slice(row, 1), expression)
            assert value in str(error.value)
            assert "Arrow" not in str(error.value)
        else:
            wanted = None if value is None else np.asarray(value).tobytes()
            assert evaluate(BATCH.slice(row, 1), expression).to_pylist() == [wanted]


def test_rows_of_many_vectors_keep_their_order() -> None:
    """DuckDB calls the function for some thousand rows at a time."""
    batch = pa.RecordBatch.from_pydict({"a": np.arange(10_000.0)})
    found = evaluate(batch, parse_expression("x", "raw([a, -a])", ["a"]))
    numbers = np.frombuffer(b"".join(found.to_pylist())).reshape(-1, 2)
    assert (numbers == np.stack([np.arange(10_000.0), -np.arange(10_000.0)], axis=1)).all()
