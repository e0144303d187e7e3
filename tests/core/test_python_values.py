"""Values of Arrow as Python's, and texts of times."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow.python_values import (
    python_rows,
    python_value,
    python_values,
    texts_of,
)

US = pa.timestamp("us")


def stored(numbers: list[int | None], type_: pa.DataType) -> pa.Array:
    """An array of the numbers that Arrow keeps of dates or times."""
    return pa.array(numbers, f"int{type_.bit_width}").cast(type_)


@pytest.mark.parametrize(
    ("type_", "number", "text"),
    [
        (pa.date32(), -719_163, "0000-12-31"),
        (US, 253_402_300_800_000_000, "10000-01-01 00:00:00.000000"),
        (pa.time64("us"), 86_400_000_000, "24:00:00.000000"),
        (pa.time64("ns"), 90_000_000_000_001, "25:00:00.000000001"),
        (pa.time32("s"), 86_400, "24:00:00"),
    ],
)
def test_times_beyond_others(type_: pa.DataType, number: int, text: str) -> None:
    """Each date and time has a text, also as Python's value."""
    assert texts_of(stored([number, None], type_)).to_pylist() == [text, None]
    assert python_values(stored([number], type_)) == [text]


@given(st.lists(st.none() | st.datetimes(), max_size=4))
def test_values_of_python_stay(times: list[datetime.datetime | None]) -> None:
    """Values that Python has are those of ``to_pylist``, nested ones too."""
    for array in (
        pa.array(times, US),
        pa.array([times, None, []], pa.list_(US)),
        pa.array([{"a": time, "b": 1} for time in times] + [None], pa.struct([("a", US)])),
        pa.array([time and time.date() for time in times], pa.date32()),
        pa.array([time and time.time() for time in times], pa.time64("us")),
    ):
        assert python_values(array) == array.to_pylist()


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (pa.array([[2**62], None, []], pa.list_(pa.int64())).cast(pa.list_(US)), 3),
        (pa.array([{"a": None}, None], pa.struct([("a", US)])), 2),
        (pa.array(["<value out of range: 1>"]), 1),
        (pa.array(["a", "a"]).dictionary_encode(), 2),
    ],
)
def test_other_types(array: pa.Array, found: int) -> None:
    """Lists, structs and texts keep their nulls and lengths."""
    values = python_values(array)
    assert len(values) == found
    assert [value is None for value in values] == array.is_null().to_pylist()
    assert python_value(array, 0) == values[0]


def test_rows() -> None:
    """Rows are dictionaries of such values."""
    batch: Any = pa.record_batch({"a": [1, 2], "t": stored([0, 86_400_000_000], pa.time64("us"))})
    assert python_rows(batch) == [
        {"a": 1, "t": "00:00:00.000000"},
        {"a": 2, "t": "24:00:00.000000"},
    ]
    assert python_rows(batch.slice(0, 1)) == [{"a": 1, "t": datetime.time(0)}]
    assert python_rows(batch.select([])) == [{}, {}]


@pytest.mark.parametrize(
    ("type_", "number", "reason"),
    [
        (pa.time64("us"), -1, "below 0"),
        (pa.date32(), 2**31 - 1, "beyond 32,767"),
        (US, -(2**63), "beyond 32,767"),
    ],
)
def test_what_has_no_text(type_: pa.DataType, number: int, reason: str) -> None:
    """Times below 0, and years that Arrow has not."""
    with pytest.raises(pa.ArrowInvalid, match=reason):
        texts_of(stored([number], type_))


def test_a_year_without_text_is_shown() -> None:
    """Its number is."""
    assert python_values(stored([2**31 - 1], pa.date32())) == ["<value out of range: 2147483647>"]
