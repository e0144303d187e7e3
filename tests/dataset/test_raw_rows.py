"""Raw rows of every form become the columns that encodings take."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.encodings import raw_rows
from beam_pipelines.reader.encodings.raw_rows import to_batch

DAY, UTC = datetime.date(2024, 2, 29), datetime.timezone.utc
NOON = datetime.datetime(2024, 2, 29, 12)  # noqa: DTZ001 - of a column without a zone
MIDNIGHT = datetime.datetime(2024, 2, 29)  # noqa: DTZ001 - of a column without a zone
TYPES = {"date": pa.date32(), "time": pa.timestamp("us"), "zoned": pa.timestamp("us", "UTC")}
TIMES = [
    ("2024-02-29", MIDNIGHT),
    ("2024-02-29T12:00:00", NOON),
    ("2024-02-29 12:00:00.000", NOON),
    ("2024-02-29T12:00:00.000Z", NOON),
    ("2024-02-29T14:00:00+02:00", NOON),
    ("2024-02-29T00:00:00Z", MIDNIGHT),
    (DAY, MIDNIGHT),
    (NOON, NOON),
    (MIDNIGHT, MIDNIGHT),
    (NOON.replace(tzinfo=UTC), NOON),
    (pd.Timestamp(NOON), NOON),
    (pd.Timestamp(NOON, tz="UTC"), NOON),
    (np.datetime64("2024-02-29T12:00"), NOON),
    (np.datetime64("2024-02-29"), MIDNIGHT),
    (None, None),
    (pd.NaT, None),
]


def forms(name: str, value: Any) -> list[Any]:
    """A row of one value, as a list, frames and tables."""
    found: list[Any] = [[{name: value}]]
    if not isinstance(value, np.datetime64):
        found += [
            pd.DataFrame({name: [value]}),
            pa.table({name: [None if pd.isna(value) else value]}),
        ]
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("value", "expected"), TIMES)
def test_days_and_times_fit_columns_that_hold_them(kind, value, expected):
    """A time has one value in each form.

    A time of day is no date.
    """
    columns = pa.schema([("t", TYPES[kind])])
    for rows in forms("t", value):
        if kind == "date" and expected == NOON:
            with pytest.raises(DataError, match=r"column 't': found .*it has a time of day"):
                to_batch(rows, columns)
            continue
        [found] = to_batch(rows, columns)["t"].to_pylist()
        if kind == "date" and expected is not None:
            assert found == expected.date()
        else:
            assert (found and found.replace(tzinfo=None)) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "29.02.2024", "2023-02-29", "2024-02-29T25:00:00", "12:00"]
)
@pytest.mark.parametrize("kind", TYPES)
def test_texts_that_are_no_iso_times_are_errors(kind, text):
    """A text that is no ISO 8601 time is no time."""
    for rows in forms("t", text):
        with pytest.raises(DataError, match=r"column 't': found .*expected (date|timestamp)"):
            to_batch(rows, pa.schema([("t", TYPES[kind])]))


ANY = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=3)
    | st.binary(max_size=3)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=st.sampled_from([None, UTC]))
)


@settings(max_examples=200)
@given(
    st.sampled_from(
        [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), *TYPES.values()]
    ),
    st.lists(ANY, min_size=1, max_size=2),
)
def test_plain_values_become_what_others_do(type_, values):
    """The short way gives the columns and errors of the long way."""
    columns, rows = pa.schema([("x", type_)]), [{"x": value} for value in values]

    def found():
        try:
            return str(to_batch(rows, columns)["x"])
        except DataError as error:
            return str(error)

    short = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_rows, "_PLAIN", {})
        assert found() == short


NESTED = pa.schema(
    [
        ("a", pa.int64()),
        ("s.n", pa.float64()),
        ("s.in.t", pa.string()),
        ("s.d", pa.date32()),
        ("l.n", pa.list_(pa.int64())),
        ("x.y", pa.int64()),
    ]
)
FLAT = {"a": 1, "s.n": 2.5, "s.in.t": "u", "s.d": DAY, "l.n": [3, 4], "x.y": 5}
OUTER = {
    "s": {"n": 2.5, "in": {"t": "u"}, "d": "2024-02-29", "other": 0},
    "l": [{"n": 3}, {"n": 4}],
}


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        (FLAT, {}),
        ({"a": 1, "x.y": 5, **OUTER}, {}),
        ({"a": 1, "x": {"y": 5}, **OUTER}, {}),
        ({"a": 1, "x": {"y": 6}, "x.y": 5, **OUTER}, {}),
        ({"a": 1, "x": None, **OUTER}, {"x.y": None}),
        ({"a": 1, "x": {"y": None}, **OUTER, "l": []}, {"x.y": None, "l.n": []}),
        ({"a": 1, "x.y": 5, **OUTER, "s": None}, {"s.n": None, "s.in.t": None, "s.d": None}),
        ({"a": 1, "x.y": 5, "s.in": {"t": "v"}, **FLAT, "s.in.t": "v"}, {"s.in.t": "v"}),
    ],
)
def test_nested_rows_are_as_flat_ones(row, changed):
    """A nested row, table or frame has a flat one's columns."""
    expected = pa.RecordBatch.from_pylist([FLAT | changed], NESTED)
    for rows in (row, [row], (row,), pd.DataFrame([row]), pa.Table.from_pylist([row])):
        assert to_batch(rows, NESTED).equals(expected)


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        ({"a": 1, "x.y": 5, "l": []}, "s.n"),
        ({"a": 1, "x.y": 5, **OUTER, "s": {"n": 1.0}}, "s.in.t"),
        ({"a": 1, "x.y": 5, **OUTER, "s": 7}, "s.n"),
        ({"a": 1, "x.y": 5, **OUTER, "l": [{"n": 1}, {}]}, "l.n"),
    ],
)
def test_fields_that_a_row_lacks_are_errors(row, missing):
    """A nested row without a field names its column."""
    for rows in (row, [row]):
        with pytest.raises(DataError, match=f"found no column '{missing}', expected one of type"):
            to_batch(rows, NESTED)
