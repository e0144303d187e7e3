"""Values at the ends of a type's range are exact or errors."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beam_pipelines.core.arrow.columns import normalise
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.csv.parser import CsvParser
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.text.quotes import Dialect
from tests.sources.support import problems_of, read_rows, write
from tests.support.runs import plan_in
from tests.support.tables import write_table

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("values", "type_", "declared", "wanted"),
    [
        ([1, 0, None], pa.int8(), "bool", [True, False, None]),
        ([1.0, -0.0], pa.float64(), "bool", [True, False]),
        ([[1, 0], [], None], pa.list_(pa.int64()), "list<bool>", [[True, False], [], None]),
        ([3 * DAY, -DAY], pa.timestamp("us"), "date", [datetime.date(1970, 1, 4), datetime.date(1969, 12, 31)]),
        ([0.1, float("inf"), None], pa.float64(), "float32", [0.10000000149011612, float("inf"), None]),
        (["-inf", "1e-400", None], pa.string(), "float64", [float("-inf"), 0.0, None]),
        ([decimal.Decimal("0.1")], pa.decimal128(38, 20), "float32", [0.10000000149011612]),
        ([decimal.Decimal("0.5")], pa.decimal128(38, 20), "float64", [0.5]),
        ([decimal.Decimal("0.10")], pa.decimal128(38, 2), "text", ["0.10"]),
        ([2**64 - 1], pa.uint64(), "text", ["18446744073709551615"]),
        ([2_932_897, None], pa.date32(), "text", ["10000-01-01", None]),
        ([2**53], pa.int64(), "float64", [2.0**53]),
        ([2**53 + 2, -(2**63)], pa.int64(), "float64", [2.0**53 + 2, -(2.0**63)]),
        ([2**63, None], pa.uint64(), "float32", [2.0**63, None]),
        ([16777218], pa.int64(), "float32", [16777218.0]),
        ([[16777218], []], pa.list_(pa.uint32()), "list<float32>", [[16777218.0], []]),
        ([2050, None, -65504], pa.int64(), "float16", [2050.0, None, -65504.0]),
    ],
)  # fmt: skip
def test_declared_types_are_cast(tmp_path, values, type_, declared, wanted):
    """Values become their equal in the declared type; floats the nearest."""
    path = write_table(tmp_path / "d.arrow", pa.table({"x": pa.array(values, type_)}))
    assert [row["x"] for row in read_rows(path, types={"x": declared})] == wanted


@pytest.mark.parametrize(
    ("value", "type_", "declared", "shown"),
    [
        (2, pa.int8(), "bool", "found 2, expected true or false"),
        (0.5, pa.float64(), "bool", "found 0.5, expected true or false"),
        (float("nan"), pa.float64(), "bool", "found nan, expected true or false"),
        ([1, 7], pa.list_(pa.int64()), "list<bool>", "found [1, 7], expected a list, each item true or false"),
        (1, pa.timestamp("us"), "date", "found datetime.datetime(1970, 1, 1, 0, 0, 0, 1), expected a date"),
        (3600, pa.timestamp("s", "UTC"), "date", "expected a date"),
        (1e300, pa.float64(), "float32", "found 1e+300, expected a number within ±3.4e38"),
        ("1e400", pa.string(), "float64", "found '1e400', expected a number within ±1.8e308"),
        (["inf", "-1e39"], pa.list_(pa.string()), "list<float32>", "expected a list, each item a number within ±3.4e38"),
        (70_000.0, pa.float64(), "float16", "found 70000.0, expected a number within ±65,504"),
        (2**53 + 1, pa.int64(), "float64", "found 9007199254740993, expected an integer that a float64 equals"),
        (2**24 + 1, pa.int32(), "float32", "found 16777217, expected an integer that a float32 equals"),
        ([2**24 + 1], pa.list_(pa.uint32()), "list<float32>",
         "found [16777217], expected a list, each item an integer that a float32 equals"),
        (2**63 - 1, pa.int64(), "float32", "expected an integer that a float32 equals"),
        (2**64 - 1, pa.uint64(), "float64", "expected an integer that a float64 equals"),
        (65_520, pa.int64(), "float16", "found 65520, expected an integer that a float16 equals"),
        (2049, pa.int16(), "float16", "found 2049, expected an integer that a float16 equals"),
        (2**40, pa.int64(), "float16", "found 1099511627776, expected an integer that a float16 equals"),
        (2**62, pa.timestamp("s"), None, "found '<value out of range: 4611686018427387904>', expected a timestamp"),
        (2**31 - 1, pa.date32(), "text", "found '<value out of range: 2147483647>', expected text"),
        (decimal.Decimal("0.5"), pa.decimal128(5, 1), "int64", "found Decimal('0.5'), expected an integer"),
    ],
)  # fmt: skip
def test_declared_types_lose_nothing(tmp_path, value, type_, declared, shown):
    """A value that the declared type cannot hold is a bad row."""
    path = write_table(tmp_path / "d.arrow", pa.table({"x": pa.array([None, value], type_)}))
    with pytest.raises(DataError, match="row 2, column 'x': found") as caught:
        read_rows(path, types={} if declared is None else {"x": declared})
    assert shown in str(caught.value)


OF_INT64 = "an array of int64 with 2 dimensions, as in the sample"
ABSENT = "found a null inside a list, expected values only"


@pytest.mark.parametrize(
    ("line", "types", "message"),
    [
        ('{"x": "259"}', {}, "column 'x': found the text '259', expected an integer from"),
        ('{"l": ["259"]}', {}, "column 'l': found the text '259', expected a list, each item"),
        ('{"b": "true"}', {}, "column 'b': found the text 'true', expected true or false"),
        ('{"t": [1, 2]}', {"t": "tensor"}, f"column 't': found [1, 2], expected {OF_INT64}"),
        ('{"t": 3}', {"t": "tensor"}, f"column 't': found 3, expected {OF_INT64}"),
        ('{"t": [[[1]]]}', {"t": "tensor"}, f"column 't': found [[[1]]], expected {OF_INT64}"),
        ('{"t": [1]}', {"t": "list<int64>"}, f"column 't': found [1], expected {OF_INT64}"),
        ('{"t": [1]}', {}, "column 't': found [1], expected 1 × 2 values as in the sample. Mend"),
        ('{"t": [[1]]}', {}, "Mend it, or declare 'types: {t: tensor}' to keep each row's"),
        ('{"a": [{"b": 1}, {"c": 2}]}', {}, f"{ABSENT}. Declare 'types: {{a: text}}' to keep its"),
        ('{"a": [{"b": 1, "c": null}]}', {}, "column 'a.c': found a null inside a list"),
    ],
)
def test_json_values_of_another_kind(tmp_path, monkeypatch, line, types, message):
    """A JSON value of another kind is an error.

    The error shows the value as written, and the kind in the sample.
    """
    good = '{"x": 1, "l": [1], "b": true, "t": [[1, 2]], "a": [{"b": 1, "c": 2}]}\n'
    path = write(tmp_path / "d.jsonl", f"{good}{good}{line}\n")
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 2 * len(good))
    with pytest.raises(DataError, match=rf"line 3, .*{re.escape(message)}"):
        read_rows(path, types=types)


@pytest.mark.parametrize("declared", [None, "tensor", "list<int64>"])
def test_permuted_tensors_are_refused(tmp_path: Path, declared: str | None) -> None:
    """The error advises nothing that is refused, too."""
    type_ = pa.fixed_shape_tensor(pa.int64(), [2, 3], permutation=[1, 0])
    storage = pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int64(), 6))
    path = write_table(
        tmp_path / "d.arrow", pa.table({"x": pa.ExtensionArray.from_storage(type_, storage)})
    )
    message = "row 1, column 'x': found a tensor with permuted dimensions, expected one whose"
    with pytest.raises(DataError, match=message) as caught:
        read_rows(path, types={} if declared is None else {"x": declared})
    assert "types:" not in str(caught.value)


def test_a_timestamp_is_no_time(tmp_path: Path) -> None:
    """A timestamp is refused as a time.

    The date would be lost.
    """
    pq.write_table(pa.table({"x": pa.array([1], pa.timestamp("us"))}), tmp_path / "d.parquet")
    assert (
        "cannot become time"
        in problems_of(tmp_path / "d.parquet", types={"x": "time"})["sources", "s", "types"]
    )


NUMBERS = st.floats() | st.integers(-3, 3).map(float) | st.floats(-1e39, 1e39)


@given(
    st.lists(st.none() | NUMBERS, max_size=6),
    st.sampled_from([pa.bool_(), pa.int64(), pa.float32(), pa.float16()]),
)
def test_casts_of_numbers(values: list[float | None], type_: pa.DataType) -> None:
    """A cast succeeds exactly if Python finds equals for all values.

    For floats, a value within the type's range is enough.
    """

    def fits(value: float) -> bool:
        if pa.types.is_floating(type_):
            return not abs(value) < float("inf") or abs(
                pa.scalar(value).cast(type_, safe=False).as_py()
            ) < float("inf")
        return (
            value in (0.0, 1.0)
            if pa.types.is_boolean(type_)
            else value.is_integer() and -(2**63) <= value < 2**63
        )

    array = pa.array(values, pa.float64())
    if all(value is None or fits(value) for value in values):
        found = exact_cast(array, type_).to_pylist()
        if not pa.types.is_floating(type_):
            assert found == values
    else:
        with pytest.raises(pa.ArrowInvalid):
            exact_cast(array, type_)


@pytest.mark.parametrize(
    ("cell", "declared", "wanted"),
    [
        ("9223372036854775807", None, 2**63 - 1),
        ("0.1234567890123456789012345", None, 0.1234567890123456789),
        ("1.7976931348623157e308", None, 1.7976931348623157e308),
        ("1e-400", None, 0.0),
        ("inf", "float64", float("inf")),
        ("-Infinity", "float32", -float("inf")),
        ("3.4028235e38", "float32", 3.4028234663852886e38),
        ("16777217", "float32", 16777216.0),
    ],
)
def test_csv_numbers(tmp_path: Path, cell: str, declared: str | None, wanted: float) -> None:
    """Digits become the nearest number of the type; written infinity is infinite."""
    path = write(tmp_path / "d.csv", f"x\n{cell}\n")
    assert read_rows(path, types={} if declared is None else {"x": declared}) == [{"x": wanted}]


@pytest.mark.parametrize(
    ("cell", "declared"),
    [("1e400", "float64"), ("-1e400", None), ("1e39", "float32"), ("1e300", "float32")],
)
def test_csv_numbers_do_not_become_infinite(tmp_path, cell, declared):
    """A finite number beyond its column's type is a bad row."""
    path = write(tmp_path / "d.csv", f"x,y\ninf,1\n,2\n{cell},3\n1.5,4\n")
    with pytest.raises(
        DataError, match=rf"line 4, column 'x': found '{cell}', expected a number within ±"
    ):
        read_rows(path, types={} if declared is None else {"x": declared})
    path = write(tmp_path / "d.csv", "x,y\ninf,1\n,2\n1.5,4\n")
    assert [row["x"] for row in read_rows(path)] == [float("inf"), None, 1.5]


@pytest.mark.parametrize(
    ("value", "declared"), [("1e300", "float32"), ("[0.5, 1e39]", "list<float32>")]
)
def test_json_numbers_do_not_become_infinite(tmp_path: Path, value: str, declared: str) -> None:
    """A finite number beyond the declared type is a bad row.

    That holds in lists, too.
    """
    path = write(tmp_path / "d.jsonl", f'{{"x": null}}\n{{"x": {value}}}\n')
    with pytest.raises(DataError, match=r"line 2, column 'x': found 1e.*a number within ±3\.4e38"):
        read_rows(path, types={"x": declared})


# A row of each text format with one number in column x, or in its first list or label.
FLOAT16_TEXTS = {
    "csv": ("csv", "x\n{}\n", "x", "float16"),
    "json": ("json_lines", '{{"x": {}}}\n', "x", "float16"),
    "json list": ("json_lines", '{{"x": [{}]}}\n', "x", "list<float16>"),
    "json array": ("json_lines", '{{"x": [[{}]]}}\n', "x", "list<float16>"),
    "json structs": ("json_lines", '{{"x": [{{"y": {}}}]}}\n', "x.y", "list<float16>"),
    "libsvm": ("libsvm", "{} 1:1\n", "label", "float16"),
}


@pytest.mark.parametrize("kind", FLOAT16_TEXTS)
@pytest.mark.parametrize("number", ["2049", "4097", "-2049", "70000", "70000.5", "0.1", "16777217"])
def test_float16_of_text_is_read_as_float32(tmp_path: Path, kind: str, number: str) -> None:
    """Every text format reads the nearest float32, also 2049 and 70000."""
    format_, row, name, type_ = FLOAT16_TEXTS[kind]
    options: dict[str, Any] = {"format": format_, "types": {name: type_}}
    path = write(tmp_path / "d", row.format(number))
    (found,) = np.ravel(read_rows(path, **options)[0][name])
    assert found == np.float32(number)
    path = write(tmp_path / "e", row.format("1e39"))
    with pytest.raises(DataError, match=f"column '{name}': found .*number( within ±3.4e38)?"):
        read_rows(path, **options)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [2**64]])
def test_json_integers_beyond_int64(tmp_path: Path, value: Any) -> None:
    """An integer that the reader would round to float is an error."""
    path = write(tmp_path / "d.jsonl", json.dumps({"x": value}))
    for types in ({}, {"x": "tensor"}):
        with pytest.raises(
            DataError, match=r"found the integer -?[0-9]+, expected none beyond int64"
        ):
            read_rows(path, types=types)


ROUNDED = 2**53 + 1
# Text before and behind an integer, in a column of floats: format, first row, row of a number, end.
TEXTS = {
    "csv": ("x\n0.5\n", "{}\n"),
    "json_lines": ('{{"x": 0.5}}\n', '{{"x": {}}}\n'),
    "lists": ('{{"x": [0.5, 1e300]}}\n', '{{"x": [1, {}]}}\n'),
    "nested": ('{{"x": [{{"y": 0.5}}]}}\n', '{{"x": [{{"y": {}}}]}}\n'),
    "libsvm": ("0.5 1:1\n", "{} 1:1\n"),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("number", [ROUNDED, -ROUNDED, 2**63, 2**53 + 2, 2**53, 12])
@pytest.mark.parametrize("is_late", [False, True])
def test_integers_in_a_column_of_floats(tmp_path, monkeypatch, kind, number, is_late):
    """A column of floats refuses integers that float64 rounds.

    It refuses integers beyond int64, too. Both hold in the sample and after it. A declared type
    accepts them.
    """
    first, row = TEXTS[kind]
    name = {"libsvm": "label", "nested": "x.y"}.get(kind, "x")
    options: dict[str, Any] = {"format": {"csv": "csv", "libsvm": "libsvm"}.get(kind, "json_lines")}
    start = first.format() * 2 if kind != "csv" else first + "0.5\n"
    path = write(tmp_path / "d", start + row.format(number))
    if is_late:
        monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", len(start))
    if number in (ROUNDED, -ROUNDED, 2**63):
        why = "none beyond int64" if number == 2**63 else "none that float64.*rounds"
        with pytest.raises(DataError, match=rf"column '{name}': found .*{number}.*expected {why}"):
            read_rows(path, **options)
    else:
        (value,) = (str(row[name]) for row in read_rows(path, **options)[-1:])
        assert value.strip("[]").endswith(str(float(number)))
    is_list = kind in ("lists", "nested")
    declared = {name: "list<float64>" if is_list else "float64"}
    rounded = str(read_rows(path, types=declared, **options)[-1][name])
    assert rounded.strip("[]").endswith(str(float(number)))


DIGITS = st.from_regex(r"-?[0-9]{1,12}\.[0-9]{1,24}(e-?[1-9])?", fullmatch=True)


@given(DIGITS | st.floats(allow_nan=False, allow_infinity=False).map(repr))
@settings(max_examples=150)
def test_fractions_are_the_nearest_float64(text: str) -> None:
    """However many digits a number has, for the kernel and Python alike."""
    assume(not re.match(r"-?0[0-9]", text))
    schema = pa.schema([("x", pa.float64())])
    parser = CsvParser(("x",), schema, schema, Dialect(ord(","), None), (), frozenset("x"))
    data = f"0.5\n{text}\n".encode()
    assume(abs(float(text)) < 2**53)
    (batch,) = parser.sift(data, parser.toggles(data))
    (same,) = parser.by_python(data, [0, 4], [4, len(data)])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column(0).to_pylist() == [0.5, float(text)] == same.column(0).to_pylist()


@given(st.from_regex(r"[+-]?[1-9][0-9]{11,20}(\.[0-9]{1,3})?(e[1-3])?", fullmatch=True))
def test_whole_numbers_that_float64_rounds_are_refused(text: str) -> None:
    """The kernel declines them, and Python has their error; others are equal."""
    schema = pa.schema([("x", pa.float64())])
    parser = CsvParser(("x",), schema, schema, Dialect(ord(","), None), (), frozenset("x"))
    data = f"{text}\n".encode()
    found, *_ = expected = list(parser.by_python(data, [0], [len(data)]))
    assert list(parser.sift(data, parser.toggles(data))) == expected
    whole = "e" not in text and abs(float(text)) >= 2**53
    is_refused = whole and (Decimal(text) != Decimal(float(text)) or abs(Decimal(text)) >= 2**63)
    assert isinstance(found, tuple) == is_refused
    assert whole == (parser.parse_natively(data) is None)


def test_exact_floats_and_digits_of_sparse_text(tmp_path: Path) -> None:
    """``floats: exact`` refuses values of libsvm text without a type.

    Values that are declared as float32 are accepted.
    """
    write(tmp_path / "d.libsvm", "1 1:0.5\n")
    recipe = "name: d\nsources: {{d: {{path: d.libsvm{}}}}}\noutput: {{floats: exact}}\n"

    def plan(options: str) -> Any:
        return plan_in(tmp_path, recipe.format(options))

    with pytest.raises(RecipeProblems, match="digits of a text that are read as the nearest"):
        plan("")
    assert plan(", types: {features_value: list<float32>}")


def test_exact_floats_and_decimals(tmp_path: Path) -> None:
    """With ``floats: exact``, decimals that would be rounded are refused.

    They are not if their type is declared, or they are left out.
    """
    table = pa.table({"x": pa.array([decimal.Decimal("0.5")], pa.decimal128(30, 20)), "n": [1]})
    pq.write_table(table, tmp_path / "d.parquet")

    def plan(source: str, more: str = "") -> Any:
        recipe = (
            f"name: d\nsources: {{d: {{path: d.parquet{source}}}}}\noutput: {{floats: "
            f"exact}}\n{more}"
        )
        return plan_in(tmp_path, recipe)

    with pytest.raises(RecipeProblems) as caught:
        plan("")
    (problem,) = caught.value.problems
    assert problem.path == ("output", "floats")
    assert (
        "column 'x' of source 'd', decimals that are read as the nearest float64" in problem.message
    )
    for source, more in (
        (", types: {x: text}", ""),
        (", types: {x: float64}", ""),
        ("", "drop: [x]\n"),
    ):
        assert plan(source, more)


@pytest.mark.parametrize(
    ("values", "type_", "cures"),
    [
        ([1, 2**63 + 5], pa.uint64(), ["text"]),
        ([[1], [2**63 + 5]], pa.list_(pa.uint64()), ["list<text>"]),
        ([0, 1_700_000_000_123_456_789], pa.timestamp("ns"), ["text", "int64"]),
        ([0, 123_456_789], pa.time64("ns"), ["text", "int64"]),
        ([decimal.Decimal(1), decimal.Decimal(2**70)], pa.decimal128(38, 0), ["text", "float64"]),
        ([1_000, 123_456_789], pa.duration("ns"), []),
    ],
)
def test_the_types_that_an_error_names_work(tmp_path, values, type_, cures):
    """A value beyond its column type is an error; each remedy works."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a b": pa.array(values, type_), "x": [1, 2]}), path)
    with pytest.raises(DataError, match="row 2, column 'a b'") as caught:
        read_rows(path)
    named = re.findall(r"'types: \{\"a b\": ([a-z0-9<>]+)\}'", str(caught.value))
    assert named == cures
    assert str(caught.value).endswith("eave the column out with 'columns'.")
    for cure in cures:
        assert len(read_rows(path, types={"a b": cure})) == 2
    assert read_rows(path, columns=("x",)) == [{"x": 1}, {"x": 2}]


def test_a_type_that_a_column_cannot_become(tmp_path: Path) -> None:
    """The error names types that it can become."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": pa.array([1_000_000], pa.timestamp("us"))}), path)
    text = problems_of(path, types={"a": "time"})["sources", "s", "types"]
    named = re.findall(r"'types: \{a: ([a-z0-9]+)\}'", text)
    assert named == ["timestamp", "text", "int64"]
    for cure in named:
        assert read_rows(path, types={"a": cure})


def test_a_slice_of_lists_is_not_refused_for_its_neighbours() -> None:
    """Only the lists with a value beyond the type are refused."""
    lists = pa.array([[1], [2**63 + 5], [2]], pa.list_(pa.uint64()))
    assert normalise(lists.slice(0, 1)).to_pylist() == [[1]]
    assert normalise(lists.slice(2)).to_pylist() == [[2]]
    with pytest.raises(pa.ArrowInvalid):
        normalise(lists.slice(1, 1))


def test_texts_are_times_of_a_day() -> None:
    """Texts of times become times, in lists too; other texts do not."""
    texts = pa.array([["05:15", "23:59:59.000001"], None, ["00:00:00"]])
    found = exact_cast(texts, pa.list_(pa.time64("us"))).to_pylist()
    assert found == [[datetime.time(5, 15), datetime.time(23, 59, 59, 1)], None, [datetime.time(0)]]
    for text in ("5", "05", "24:00", "05:15Z", "2020-01-01 05:15", ""):
        with pytest.raises(pa.ArrowInvalid):
            exact_cast(pa.array([text]), pa.time64("us"))
