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
        (pa.date32(), 2**31 - 1, "5881580-07-11"),
        (pa.date32(), -(2**31), "-5877641-06-23"),
        (pa.date32(), -719_163, "0000-12-31"),
        (US, 2**63 - 1, "294247-01-10 04:00:54.775807"),
        (US, -(2**63), "-290308-12-21 19:59:05.224192"),
        (pa.timestamp("s"), 2**40, "36812-02-20 00:36:16"),
        (pa.timestamp("s"), 2**62, "146138514283-06-19 07:45:04"),
        (pa.timestamp("ms", "UTC"), 2**61, "73071226-02-26 19:48:13.952Z"),
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


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_texts_have_the_order_of_days(numbers: list[int | None]) -> None:
    """The text of any timestamp is of its day and time."""
    for number, text in zip(numbers, texts_of(stored(numbers, US)).to_pylist(), strict=True):
        if number is None:
            assert text is None
            continue
        day, clock = text.rsplit(" ", 1)
        seconds, micros = divmod(number, 10**6)
        hours, minutes = seconds // 3600 % 24, seconds // 60 % 60
        assert clock == f"{hours:02}:{minutes:02}:{seconds % 60:02}.{micros:06}"
        # Every 400 years the calendar begins again.
        year, rest = day[:-6], day[-6:]
        cycles = (int(year) - 2000) // 400
        within = datetime.date.fromisoformat(f"{int(year) - 400 * cycles:04}{rest}")
        assert (within - datetime.date(1970, 1, 1)).days + 146_097 * cycles == number // (
            86_400 * 10**6
        )


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


def test_a_time_below_zero() -> None:
    """It has no text."""
    with pytest.raises(pa.ArrowInvalid, match="below 0"):
        texts_of(stored([-1], pa.time64("us")))
