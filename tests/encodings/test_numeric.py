"""Encodings of numbers, nulls, types, dates and vectors, as docs/encodings.md says.

Expected values are by hand or by plain Python.
"""

from __future__ import annotations

import datetime
import math
import statistics
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.formula import NUMPY
from beam_pipelines.encodings.kinds.date_parts import PARTS
from beam_pipelines.encodings.kinds.quantiles import normal_quantile
from tests.support.encoding_chains import Step, apply_chain, declared, fit_chain

INT, FLOAT, TEXT, BYTES = pa.int64(), pa.float32(), pa.string(), pa.binary()
INTS, FLOATS = pa.list_(INT), pa.list_(FLOAT)
NAN, INF = math.nan, math.inf


def encoded(
    step: Step,
    type_: pa.DataType,
    values: list[Any],
    training: list[Any] | None = None,
    **known: Any,
) -> list[Any]:
    """Returns values encoded by a step fitted to them or to others."""
    array = pa.array(values, type_)
    fitted, _ = fit_chain(
        [step],
        [Feature(type_, **known)],
        [array if training is None else pa.array(training, type_)],
    )
    return list(apply_chain(fitted, array).to_pylist())


# Name: step, type, values, what they become, values to fit on.
BEHAVIOUR: list[tuple[Step, pa.DataType, list[Any], list[Any], list[Any] | None]] = [
    ("z_score", FLOAT, [1, 3, None, NAN, INF, -INF], [-1, 1, None, NAN, INF, -INF], None),
    ("z_score", INT, [7, 7, None], [0, 0, None], None),
    ("z_score", FLOAT, [2.5, None], [2.5, None], []),
    ("z_score", FLOATS, [[1], [3, 1], [], None], [[-1], [1, -1], [], None], [[1], [3]]),
    ("z_score", FLOAT, [0.1, 9.1], [0, 9], [0.1] * 10),
    ("min_max", FLOAT, [10, 20, 15, 30, None, NAN, INF], [0, 1, 0.5, 2, None, NAN, INF], [10, 20, INF]),
    ({"min_max": [-1, 1]}, INT, [0, 1, 4, None], [-1, -0.5, 1, None], None),
    ({"min_max": [-1, 1]}, INT, [5, 6], [-1, 0], [5, 5]),
    ({"min_max": [2, 3]}, FLOAT, [2.5], [2.5], [None]),
    ("log1p", FLOAT, [0, -0.0, -1, -2, None, NAN, INF], [0, 0, -INF, NAN, None, NAN, INF], None),
    ("log1p", INTS, [[0], [], None], [[0], [], None], None),
    ({"clip": [0, 10]}, FLOAT, [-1, 5.5, 11, None, NAN, INF, -INF], [0, 5.5, 10, None, NAN, 10, 0],
    None), ({"clip": [None, 2**53 + 1]}, INT, [2**53 + 2, -(2**63), None], [2**53 + 1, -(2**63),
    None], None), ({"clip": [0.1, None]}, FLOATS, [[0, 1], [], None], [[0.1, 1], [], None], None),
    ({"bucketize": 2}, INT, [1, 2, 3, 4, None], [0, 0, 1, 1, None], None), ({"bucketize": 2}, FLOAT,
    [0, 1, -INF, INF, NAN, None], [0, 1, 0, 1, 1, None], [0, 0, 0, 1]), ({"bucketize": 9}, INT, [5,
    5, None], [0, 0, None], None), ({"bucketize": 9}, INT, [5], [0], []), ({"boundaries": [0, 0.7]},
    FLOAT, [-1, 0, 0.5, 0.7, NAN, None], [0, 1, 1, 2, 2, None], None), ({"boundaries": [2]}, INTS,
    [[1, 2, 3], [], None], [[0, 1, 1], [], None], None), ({"fill": 0}, FLOAT, [1.5, None, NAN, INF],
    [1.5, 0, 0, INF], None), ({"fill": False}, INT, [1, None], [1, 0], None), ({"fill": 2**24 + 1},
    FLOAT, [None], [2**24], None), ({"fill": "none"}, TEXT, ["", None], ["", "none"], None),
    ({"fill": "é"}, BYTES, [b"\xff", None], [b"\xff", b"\xc3\xa9"], None), ({"fill": "mean"}, FLOAT,
    [1, None, 2.5, NAN, INF], [1, 1.75, 2.5, 1.75, INF], None), ({"fill": "mean"}, INT, [1, None,
    2], [1, 1.5, 2], None), ({"fill": "median"}, INT, [1, 9, 7, 3, None], [1, 9, 7, 3, 3], None),
    ({"fill": "median"}, INT, [2**63 - 1, None], [2**63 - 1, 2**63 - 1], None), ({"fill": "median"},
    FLOAT, [0.5, NAN, 2, 0.25], [0.5, 0.5, 2, 0.25], None), ({"fill": "most_frequent"}, TEXT, ["a",
    "b", None, "b", "a", ""], ["a", "b", "b", "b", "a", ""], None), ({"fill": "most_frequent"},
    TEXT, ["", "", "x", None], ["", "", "x", ""], None), ({"fill": "most_frequent"}, BYTES,
    [b"\xff", b"\xfe", None], [b"\xff", b"\xfe", b"\xff"], None), ({"fill": "most_frequent"}, FLOAT,
    [NAN, NAN, -0.0, 0.0, 3], [0, 0, 0, 0, 3], None), ({"fill": "most_frequent"}, INT, [2**62 + 1,
    None], [2**62 + 1, 2**62 + 1], None), ({"cast": "int64"}, FLOAT, [2, -0.0, None], [2, 0, None],
    None), ({"cast": "float32"}, INT, [2**24 + 1, None], [2**24, None], None), ({"cast": "bool"},
    FLOAT, [0, -0.0, 0.5, NAN, None], [0, 0, 1, 1, None], None), ({"cast": "text"}, INT, [-5, None],
    ["-5", None], None), ({"cast": "text"}, BYTES, ["é".encode(), b"", None], ["é", "", None],
    None), ({"cast": "bytes"}, TEXT, ["é", None], ["é".encode(), None], None), ({"cast": "int8"},
    TEXT, ["-128", "007", None], [-128, 7, None], None), ({"cast": "float32"}, TEXT, [".5", "1e-2",
    "-inf", "nan", None], [0.5, 0.01, -INF, NAN, None], None), ({"cast": "float32"}, INTS, [[1, 2],
    [], None], [[1, 2], [], None], None), ({"one_hot": 3}, INT, [0, 2, 3, -1, None], [[1, 0, 0], [0,
    0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], None), ({"multi_hot": 3}, INTS, [[0, 2, 2], [5], [],
    None], [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], None), ({"cyclic": 4}, INT, [0, 1, 2, 3, 4,
    -1, None], [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 1], [-1, 0], [0, 0]], None), ({"cyclic":
    {"period": 12, "offset": 1}}, INT, [1, 4, 13], [[0, 1], [1, 0], [0, 1]], None), ({"cyclic":
    0.5}, FLOAT, [0.25, NAN, INF], [[0, -1], [NAN, NAN], [NAN, NAN]], None), ({"quantile_normal":
    3}, FLOAT, [1, 2, 3, 9, -9, INF, NAN, None],
     [-5.199337, 0, 5.199337, 5.199337, -5.199337, 5.199337, NAN, None], [1, 2, 3]),
    ("quantile_normal", FLOAT, [5, 4, 6], [0, -5.199337, 5.199337], [5, 5]),
    ("quantile_normal", FLOAT, [0, -1, 1], [0, -5.199337, 5.199337], []),
]  # fmt: skip


@pytest.mark.parametrize(("step", "type_", "values", "expected", "training"), BEHAVIOUR, ids=str)
def test_documented_behaviour(step, type_, values, expected, training):
    """Usual values, null, NaN, infinities, empty lists and no values, as documented."""
    got = encoded(step, type_, values, training)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        is_number = isinstance(other, int | float | list)
        assert one == (
            pytest.approx(other, rel=1e-6, abs=1e-30, nan_ok=True) if is_number else other
        )


PROBLEMS: list[tuple[Step, pa.DataType, str]] = [
    ({"z_score": 3}, FLOAT, "found parameter 'value', expected none"),
    ("z_score", TEXT, "found text, expected numbers"),
    ({"min_max": [1, 1]}, FLOAT, "two numbers, the first one less"),
    ({"min_max": [0, "a"]}, FLOAT, "found 'a', expected two numbers"),
    ({"min_max": {"low": 1}}, FLOAT, "found parameter 'low', expected value"),
    ({"log1p": 1}, FLOAT, "found parameter 'value'"),
    ("clip", FLOAT, "found None, expected a lower and an upper bound"),
    ({"clip": [None, None]}, FLOAT, "expected a lower and an upper bound"),
    ({"clip": [3, 1]}, FLOAT, "the lower one first"),
    ({"clip": [0, NAN]}, FLOAT, "found nan, expected"),
    ({"clip": [0.5, 1]}, INT, ("found bound 0.5 for int64, expected a whole number. Cast "
                              "to float32")),
    ("bucketize", FLOAT, "found None, expected a number of buckets of at least 2"),
    ({"bucketize": 1}, FLOAT, "found 1, expected a number of buckets"),
    ({"bucketize": {"like": "tft"}}, FLOAT, "found parameter 'like'"),
    ({"bucketize": {"bucket": 3}}, FLOAT, "found parameter 'bucket', expected buckets"),
    ({"bucketize": 5}, BYTES, "found bytes, expected numbers"),
    ({"boundaries": []}, FLOAT, r"found \[\], expected ascending numbers"),
    ({"boundaries": [1, 1]}, FLOAT, "each more than the one before"),
    ({"boundaries": [True]}, FLOAT, "found True, expected ascending numbers"),
    ({"boundaries": [10**400]}, FLOAT, "expected ascending numbers"),
    ({"quantile_normal": 1}, FLOAT, "found 1, expected a number of quantiles of at least 2"),
    ("fill", FLOAT, "found None, expected a number, a text, mean, median or most_frequent"),
    ({"fill": {"value": 0, "mising": True}}, FLOAT, "Did you mean 'missing'"),
    ({"fill": {"value": 0, "missing": 1}}, FLOAT, "found missing 1, expected true or false"),
    ({"fill": 1e39}, FLOAT, "expected a number"),
    ({"fill": "a"}, FLOAT, "found text 'a' for float32, expected a number"),
    ({"fill": 0}, TEXT, "found number 0 for text, expected a text"),
    ({"fill": 0.5}, INT, "found 0.5 for int64, expected a whole number. Cast to float32"),
    ({"fill": 2**63}, INT, "expected a whole number"),
    ({"fill": 0}, FLOATS, "found list<float32>, expected a number or text a row"),
    ({"fill": "mean"}, TEXT, "found text, expected numbers"),
    ({"fill": "most_frequent"}, INTS, "found list<int64>"),
    ("cast", FLOAT, "found None, expected one of int8"),
    ({"cast": "imt64"}, FLOAT, "Did you mean 'int64'"),
    ({"cast": "float64"}, FLOAT, "A feature of float64 is float32"),
    ({"cast": "text"}, FLOAT, "found float32, which cannot be cast to text. Derive a column"),
    ({"cast": "bool"}, TEXT, "found text, which cannot be cast to bool"),
    ({"cast": "int64"}, BYTES, "found bytes, which cannot be cast to int64. Cast to text first"),
    ({"cast": "bytes"}, INT, "found int64, which cannot be cast to bytes. Cast to text first"),
    ({"one_hot": 0}, INT, "found 0, expected the number of ids"),
    ("one_hot", FLOAT, "found float32, expected ids"),
    ("cyclic", INT, "found None, expected a period above 0"),
    ({"cyclic": 0}, INT, "found 0, expected a period above 0"),
    ({"cyclic": {"value": 1, "period": 2}}, INT, "found both"),
    ({"cyclic": 24}, INTS, "expected one number a row"),
    ("date_parts", INT, "found None, expected one or several of year, quarter"),
    ({"date_parts": "mnth"}, INT, "Did you mean 'month'"),
    ({"date_parts": ["day", "day"]}, INT, "expected one or several"),
    ({"date_parts": "day"}, INT, "found int64, expected a date or timestamp column"),
    ("vector", INT, "found None, expected a list of features"),
    ({"vector": {"columns": ["a"], "as": "text"}}, INT, "found as 'text', expected list or bytes"),
    ({"vector": {"columns": ["a"], "keep": 1}}, INT, "found keep 1, expected true or false"),
    ({"vector": {"columns": ["age"], "lengths": {"aeg": 3}}}, INT, "Did you mean 'age'"),
    ({"vector": {"columns": ["age"], "lengths": {"age": 0}}}, INT, "found 0, expected the lengths"),
    ({"vector": ["name"]}, TEXT, "'name': found text, expected numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "type_", "message"), PROBLEMS, ids=str)
def test_wrong_parameters_and_types_are_explained(step, type_, message):
    """A wrong parameter is a ValueError.

    It has the found and the expected value, and the nearest word.
    """
    with pytest.raises(ValueError, match=message):
        declared(step).output(Feature(type_))


REFUSED: list[tuple[Step, pa.DataType, list[Any], str]] = [
    ({"cast": "int64"}, FLOAT, [0.5], "not a whole number"),
    ({"cast": "int64"}, FLOAT, [NAN], "not a whole number"),
    ({"cast": "int64"}, FLOAT, [INF], "not a whole number"),
    ({"cast": "int64"}, FLOAT, [2.0**63], ""),
    ({"cast": "uint8"}, INT, [256], "beyond the range of uint8"),
    ({"cast": "int64"}, TEXT, ["0x1F"], "not a whole number"),
    ({"cast": "int64"}, TEXT, [""], "not a whole number"),
    ({"cast": "int64"}, TEXT, [" 1"], "not a whole number"),
    ({"cast": "int64"}, TEXT, ["9223372036854775808"], ""),
    ({"cast": "float32"}, TEXT, ["1e39"], "beyond the range of float32"),
    ({"cast": "float32"}, TEXT, ["1,5"], "not a number"),
    ({"cast": "text"}, BYTES, [b"\xff"], "(?i)utf"),
    ({"vector": ["age"]}, INT, [None], "'age' is null; fill it first"),
    ({"vector": ["pixels"]}, INTS, [[1]], "'pixels' is a list whose length is not known; give it"),
    ({"vector": {"columns": ["pixels"], "lengths": {"pixels": 2}}}, INTS, [[1]], "'pixels' is null or has not 2 values"),
    ("one_hot", INT, [1], "the number of ids is not known; give it, as in {one_hot: 12}"),
    ("multi_hot", INTS, [[1]], "give it, as in {multi_hot: 12}"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "type_", "values", "message"), REFUSED, ids=str)
def test_values_without_an_encoding_are_refused(step, type_, values, message):
    """A value without an exact encoding is an error."""
    with pytest.raises(pa.ArrowInvalid, match=message or None):
        encoded(step, type_, values)


@pytest.mark.parametrize("statistic", ["mean", "median", "most_frequent"])
def test_nothing_to_fill_with_is_explained(statistic: str) -> None:
    """The error for a mean of no values asks for a value."""
    with pytest.raises(ValueError, match=r"found no values .* Give a value, as in \{fill: 0\}"):
        encoded({"fill": statistic}, FLOAT, [None, NAN])


@pytest.mark.parametrize(
    ("type_", "values"),
    [(FLOAT, [1.0, None, NAN]), (INT, [1, None, None]), (TEXT, ["", None, None])],
)
def test_fill_says_what_was_missing(type_: pa.DataType, values: list[Any]) -> None:
    """``missing: true`` makes a second feature.

    It is 1 for null and NaN, 0 for all else.
    """
    value = "" if type_ == TEXT else 0
    fitted, feature = fit_chain(
        [{"fill": {"value": value, "missing": True}}],
        [Feature(type_)],
        [pa.array(values, type_)],
        part="_missing",
    )
    assert apply_chain(fitted, pa.array(values, type_)).to_pylist() == [0, 1, 1]
    assert (feature.type, feature.required, feature.size) == (INT, True, 2)


@pytest.mark.parametrize(
    ("chain", "feature", "expected"),
    [
        ([{"fill": 0}], Feature(FLOAT), Feature(FLOAT, required=True)),
        ([{"fill": 9}], Feature(INT, size=4), Feature(INT, required=True, size=10)),
        ([{"fill": -1}], Feature(INT, size=4), Feature(INT, required=True)),
        ([{"fill": "most_frequent"}], Feature(INT, size=4), Feature(INT, required=True, size=4)),
        ([{"fill": "median"}], Feature(INT, unit="days"), Feature(INT, required=True, unit="days")),
        (["z_score"], Feature(FLOATS, length=3), Feature(FLOATS, length=3)),
        ([{"bucketize": 2}], Feature(INT, required=True), Feature(INT, required=True, size=2)),
        ([{"boundaries": [1, 2]}], Feature(INTS), Feature(INTS, size=3)),
        ([{"boundaries": [1, 2]}, "one_hot"], Feature(INT), Feature(FLOATS, required=True, length=3)),
        ([{"date_parts": "month"}, "one_hot"], Feature(INT, unit="days"), Feature(FLOATS, required=True, length=13)),
        ([{"date_parts": "year"}], Feature(INT, unit="days"), Feature(INT)),
        ([{"cyclic": 7}], Feature(INT), Feature(FLOATS, required=True, length=2)),
        ([{"vector": ["a"]}], Feature(INT), Feature(INTS, required=True, length=1)),
        ([{"vector": ["a"]}], Feature(FLOATS, length=2), Feature(FLOATS, required=True, length=2)),
        ([{"vector": {"columns": ["a"], "as": "bytes"}}], Feature(INT), Feature(BYTES, required=True)),
        ([{"cast": "bool"}], Feature(INT), Feature(INT, size=2)),
        ([{"clip": [0, 1]}], Feature(INT, size=9, unit="days"), Feature(INT)),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_known_of_the_result(chain, feature, expected):
    """Type, nulls, vector length and number of ids are right.

    Schemas and models need them.
    """
    rows = [[1] * (feature.length or 2), [3] * (feature.length or 2)] if feature.is_list else [1, 3]
    assert fit_chain(chain, [feature], [pa.array(rows, feature.type)])[1] == expected


def calendar(part: str, moment: datetime.datetime) -> int:
    """A part of a moment as Python's datetime has it."""
    return {
        "year": moment.year, "quarter": (moment.month + 2) // 3, "month": moment.month, "week":
        moment.isocalendar()[1], "day_of_year": moment.timetuple().tm_yday, "day": moment.day,
        "weekday": moment.weekday(), "hour": moment.hour, "minute": moment.minute, "second":
        moment.second,
    }[part]  # fmt: skip


EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - as columns have it, UTC without saying so


@given(
    st.lists(
        st.datetimes()
        | st.dates().map(lambda day: datetime.datetime.combine(day, datetime.time.max)),
        max_size=9,
    )
)
def test_date_parts_are_those_of_the_calendar(moments: list[datetime.datetime]) -> None:
    """Date parts of the years 1 to 9999 equal those of datetime.

    Dates have the same parts as times.
    """
    microseconds = [(moment - EPOCH) // datetime.timedelta(microseconds=1) for moment in moments]
    days = [(moment - EPOCH).days for moment in moments]
    for part in PARTS:
        expected = [calendar(part, moment) for moment in moments]
        assert encoded({"date_parts": part}, INT, [*microseconds, None], unit="microseconds") == [
            *expected,
            None,
        ]
        if part not in ("hour", "minute", "second"):
            assert encoded({"date_parts": part}, INT, [*days, None], unit="days") == [
                *expected,
                None,
            ]


def test_a_date_has_no_hour() -> None:
    """The time of a date is refused when planned."""
    with pytest.raises(ValueError, match="found dates, which have no hour"):
        encoded({"date_parts": "hour"}, INT, [1], unit="days")


def test_several_date_parts_are_several_features() -> None:
    """One part keeps its column's name, several are named after it."""
    assert list(declared({"date_parts": "month"}).parts()) == [""]
    assert list(declared({"date_parts": ["month", "hour"]}).parts()) == ["_month", "_hour"]


@pytest.mark.parametrize("as_", ["list", "bytes"])
def test_vector_is_its_columns_side_by_side(as_: str) -> None:
    """Integers, floats, scalars and lists make one float32 vector.

    It is a list or raw bytes.
    """
    columns = [pa.array([9, 1, 2])[1:], pa.array([[9.0], [0.5, -0.5], [NAN, INF]], FLOATS)[1:]]
    step = {"vector": {"columns": ["a", "b"], "lengths": {"b": 2}, "as": as_}}
    fitted, _ = fit_chain([step], [Feature(INT), Feature(FLOATS)], columns)
    rows = apply_chain(fitted, *columns).to_pylist()
    vectors = (
        [np.frombuffer(row, "<f4") for row in rows]
        if as_ == "bytes"
        else [np.array(row) for row in rows]
    )
    np.testing.assert_array_equal(vectors, [[1, 0.5, -0.5], [2, NAN, INF]])


def test_vector_of_integers_keeps_every_bit() -> None:
    """Integers alone stay int64: no id is rounded."""
    columns = [pa.array([2**62 + 1]), pa.array([-1])]
    for as_, expected in (
        ("list", [2**62 + 1, -1]),
        ("bytes", (2**62 + 1).to_bytes(8, "little") + b"\xff" * 8),
    ):
        fitted, _ = fit_chain(
            [{"vector": {"columns": ["a", "b"], "as": as_}}], [Feature(INT)] * 2, columns
        )
        assert apply_chain(fitted, *columns).to_pylist() == [expected]


@given(
    st.integers(-(2**63), 2**63 - 1)
    | st.builds(
        lambda odd, power: odd << power, st.integers(-(2**24) - 1, 2**24 + 1), st.integers(0, 38)
    )
)
def test_integers_among_floats_are_exact_or_refused(number: int) -> None:
    """``vector`` refuses exactly the integers that no float32 equals, ``fill: mean`` float64."""
    column, floats = pa.array([5, number]), pa.array([0.5, 0.5], FLOAT)
    vector, _ = fit_chain(
        [{"vector": ["a", "b"]}], [Feature(INT), Feature(FLOAT)], [pa.array([1]), floats[:1]]
    )
    mean, _ = fit_chain([{"fill": "mean"}], [Feature(INT)], [pa.array([1])])
    significand = abs(number)
    while significand and significand % 2 == 0:
        significand //= 2
    if significand < 2**24:
        assert apply_chain(vector, column, floats).to_pylist() == [[5, 0.5], [number, 0.5]]
    else:
        with pytest.raises(
            pa.ArrowInvalid, match=r"no float32 equals an integer of 'a'.*{a: {cast: float32}}"
        ):
            apply_chain(vector, column, floats)
    if significand < 2**53:
        assert apply_chain(mean, column).to_pylist() == [5, number]
    else:
        with pytest.raises(
            pa.ArrowInvalid, match=r"no float64 equals an integer; .*cast: float32}, {fill: mean"
        ):
            apply_chain(mean, column)


def test_vector_takes_the_place_of_its_columns_unless_told() -> None:
    """``keep: true`` leaves the columns."""
    assert declared({"vector": ["a", "b"]}).consumes
    assert not declared({"vector": {"columns": ["a", "b"], "keep": True}}).consumes
    assert declared({"vector": ["a", "b"]}).inputs == ("a", "b")


@given(st.lists(st.floats(-1e3, 1e3, width=32, allow_subnormal=False), min_size=1, max_size=30))
def test_z_score_and_min_max_against_plain_python(values: list[float]) -> None:
    """Mean, population deviation and extremes are those of Python's statistics."""
    deviation = statistics.pstdev(values)
    mean, low, width = statistics.fmean(values), min(values), max(values) - min(values)
    if width > 1e-3:  # below, float32 leaves no digits to compare
        expected = [(value - mean) / deviation for value in values]
        assert encoded("z_score", FLOAT, values) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    expected = [(value - low) / width if width else 0 for value in values]
    assert encoded("min_max", FLOAT, values) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "p", [1e-7, 1e-5, 0.01, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.9249, 0.9251, 0.999, 1 - 1e-7]
)
def test_normal_quantile_is_exact_to_the_last_digits(p: float) -> None:
    """Wichura's approximation equals the standard library's, in the centre and both tails."""
    assert float(normal_quantile(np.array([p]), NUMPY)[0]) == pytest.approx(
        statistics.NormalDist().inv_cdf(p), rel=1e-14, abs=1e-15
    )


@given(
    st.lists(
        st.floats(-100, 100, width=32, allow_subnormal=False), min_size=2, max_size=60, unique=True
    )
)
def test_quantile_normal_of_distinct_values_goes_by_rank(values: list[float]) -> None:
    """Value k of n distinct ones becomes a normal quantile.

    It is the quantile of k / (n - 1), clipped to ±5.2.
    """
    got = encoded({"quantile_normal": len(values)}, FLOAT, sorted(values))
    shares = [min(max(rank / (len(values) - 1), 1e-7), 1 - 1e-7) for rank in range(len(values))]
    assert got == pytest.approx(
        [statistics.NormalDist().inv_cdf(share) for share in shares], abs=1e-5
    )


def test_quantile_normal_interpolates_and_halves_ties() -> None:
    """Shares are interpolated; a frequent value gets the middle of its shares."""
    training = [0, 0, 0, 1, 5]
    normal = statistics.NormalDist()
    assert encoded({"quantile_normal": 5}, FLOAT, [0, 0.5, 1, 3], training) == pytest.approx(
        [normal.inv_cdf(0.25), normal.inv_cdf(0.625), 0.6744898, normal.inv_cdf(0.875)], abs=1e-6
    )


@pytest.mark.parametrize("kind", ["z_score", "min_max", "log1p", "quantile_normal", "cyclic"])
def test_subnormal_numbers_count_as_zero(kind: str) -> None:
    """Numbers too small for a normal float32 equal those of TensorFlow's kernels."""
    step: Step = {"cyclic": 24} if kind == "cyclic" else kind
    assert encoded(step, FLOAT, [1e-40, -1e-45], [1, 2, 3]) == encoded(
        step, FLOAT, [0, 0], [1, 2, 3]
    )
