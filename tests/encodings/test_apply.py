"""encodings/apply.py makes features of columns, exactly or with an error."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.encodings.apply import encode_batch, to_exact_input, to_feature
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.splits import Split
from beam_pipelines.transforms.fit import fit_batch


def recipe(**changes: Any) -> Recipe:
    """Returns a recipe with these sections."""
    return Recipe("test", {}, "rows", **changes)


def cast(to: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Returns the chain of one cast."""
    return (("cast", {"value": to}),)


@pytest.mark.parametrize(
    ("column", "feature"),
    [
        (pa.array([True, False, None]), pa.array([1, 0, None])),
        (pa.array([2**63 - 1, -(2**63), None]), pa.array([2**63 - 1, -(2**63), None])),
        (pa.array([0.1, None, float("inf")]), pa.array([0.1, None, float("inf")], pa.float32())),
        (pa.array(["é", "", None]), pa.array(["é", "", None])),
        (pa.array([b"\xff", None]), pa.array([b"\xff", None])),
        (pa.array([datetime.date(1970, 1, 2), None]), pa.array([1, None])),
        (pa.array([datetime.time(0, 0, 1)], pa.time64("us")), pa.array([1_000_000])),
        (pa.array([2], pa.timestamp("s")).cast(pa.timestamp("us")), pa.array([2_000_000])),
        (pa.array([[True], [], None]), pa.array([[1], [], None])),
        (pa.array([[1.5, 2.5], None]), pa.array([[1.5, 2.5], None], pa.list_(pa.float32()))),
    ],
)
def test_feature_of_each_column_type(column: pa.Array, feature: pa.Array) -> None:
    """Each column type becomes its documented feature; nulls and empty lists stay."""
    assert to_feature(column).equals(feature)
    assert to_feature(column.slice(1)).to_pylist() == feature.slice(1).to_pylist()
    batch = pa.record_batch({"a": column[::-1], "b": column})
    for rows in (batch, batch[1:], batch[:0]):
        encoded = encode_batch(plan_encode(recipe(), batch.schema), rows, "a.csv")
        assert encoded.columns == [to_feature(array) for array in rows.columns]


def test_float_beyond_float32_is_an_error_that_shows_the_value() -> None:
    """A finite number never becomes infinite silently."""
    plan = plan_encode(recipe(), pa.schema([("w", pa.float64()), ("x", pa.float64())]))
    batch = pa.RecordBatch.from_pydict({"w": [0.0] * 4, "x": [1.0, 2.0, 1e300, 3.0]})
    with pytest.raises(DataError, match=r"a\.csv, column 'x': found 1e\+300 .*float32"):
        encode_batch(plan, batch, "a.csv")


def test_null_in_a_list_is_an_error() -> None:
    """tf.Example cannot hold a null within a feature."""
    plan = plan_encode(recipe(), pa.schema([("x", pa.list_(pa.int64()))]))
    batch = pa.RecordBatch.from_arrays([pa.array([[1], [2, None]])], ["x"])
    with pytest.raises(DataError, match=r"found \[2, None\]"):
        encode_batch(plan, batch, "a.csv")


def test_long_list_is_shown_by_its_beginning() -> None:
    """An error shows the first of an image's 10,000 numbers."""
    plan = plan_encode(recipe(), pa.schema([("x", pa.list_(pa.float64()))]))
    batch = pa.RecordBatch.from_pydict({"x": [[0.25] * 10_000 + [1e300]]})
    with pytest.raises(
        DataError, match=r"found \[0\.25, .*… of type list<float64>, which cannot be encoded"
    ) as error:
        encode_batch(plan, batch, "a.csv")
    assert len(str(error.value)) < 600


def test_failing_value_is_shown_with_its_file_and_feature() -> None:
    """The error of an encoding that refuses a value shows the value."""
    plan = plan_encode(recipe(encode={"x": cast("int64")}), pa.schema([("x", pa.string())]))
    with pytest.raises(
        DataError, match=r"a\.csv, feature 'x': found 'one' of type text, which cannot be encoded"
    ):
        encode_batch(
            plan, pa.RecordBatch.from_arrays([pa.array(["1", "one", "two"])], ["x"]), "a.csv"
        )


def test_all_mistakes_at_once() -> None:
    """Every wrong entry of 'encode' and 'label' is reported.

    The error has the nearest name.
    """
    schema = pa.schema([("distance", pa.float64()), ("tags", pa.list_(pa.string()))])
    encode = {"distanc": cast("int64"), "distance": cast("imt64"), "tags": (("z_score", {}),)}
    with pytest.raises(RecipeProblems) as raised:
        plan_encode(recipe(encode=encode, label="lable"), schema)
    messages = [problem.message for problem in raised.value.problems]
    assert len(messages) == 4
    assert "Did you mean 'distance'?" in messages[0]
    assert "Did you mean 'int64'?" in messages[1]
    assert "z_score: found list<text>, expected numbers" in messages[2]
    assert raised.value.problems[3].path == ("label",)


@pytest.mark.parametrize(
    "column",
    [pa.array([None, None], pa.float64()), pa.array([[], None, []], pa.list_(pa.float64()))],
)
def test_no_number_is_an_exact_one(column: pa.Array) -> None:
    """A column without a number is exact."""
    assert to_exact_input(column).to_pylist() == column.to_pylist()


def encoded(
    column: pa.Array, chain: tuple[tuple[str, Any], ...], name: str = "x", **more: Any
) -> Any:
    """The values of a column after its encodings, fitted to itself."""
    batch = pa.RecordBatch.from_arrays([column], [name])
    plan = plan_encode(recipe(encode={name: chain} if chain else {}, **more), batch.schema)
    return encode_batch(fit_batch(plan, batch, "a.csv"), batch, "a.csv").column(0)


def test_ids_in_float64_are_cast_exactly() -> None:
    """Ids beyond 2**24, which float32 would merge, stay apart."""
    ids = [100000000.0 + number % 20 for number in range(200) if number % 10] + [None]
    whole = encoded(pa.array(ids), cast("int64"))
    assert whole.to_pylist() == [None if value is None else int(value) for value in ids]
    chain = (*cast("int64"), ("vocabulary", {}))
    assert len(encoded(pa.array(ids), chain).drop_null().unique()) == 18
    with pytest.raises(DataError, match=r"found 100000001\.5 .*not a whole number"):
        encoded(pa.array([100000001.5]), cast("int64"))


@pytest.mark.parametrize(
    ("name", "column", "chain", "remedy"),
    [
        ("user_id", pa.array([16777217.0]), (), "types: {user_id: int64}"),
        ("userId", pa.array([100000001.0, None]), (("fill", {"value": 0}),), "types: {userId"),
        ("zip", pa.array([[1.0, 16777217.0]]), (), "CAST(zip AS BIGINT)"),
        ("key", pa.array([2**24 + 1]), cast("float32"), "Leave 'cast: float32' out"),
        ("tract", pa.array([17031000001.0]), (), "types: {tract: int64}"),
    ],
)
def test_ids_are_not_rounded(name: str, column: pa.Array, chain: Any, remedy: str) -> None:
    """Columns named like ids, and keys, are never written as another number."""
    with pytest.raises(DataError, match="ids must not be rounded") as raised:
        encoded(column, chain, name, split=Split(by=("tract",)))
    assert remedy in str(raised.value)
    for fine in (pc.subtract(column, 1) if not pa.types.is_list(column.type) else column[:0],):
        encoded(fine, chain, name)


def test_other_numbers_may_be_rounded() -> None:
    """Fractions, and numbers that are no ids, are rounded to float32."""
    assert encoded(pa.array([0.1]), (), "user_id").to_pylist() == [np.float32(0.1)]
    assert encoded(pa.array([16777217.0]), (), "amount").to_pylist() == [16777216.0]
    assert encoded(pa.array([16777217.0, 5.0]), (("z_score", {}),), "id").to_pylist() == [1, -1]


WIDE = st.one_of(
    st.floats(1e9, 1e9 + 9),
    # Squares of smaller differences are no float64.
    st.integers(-(10**9), 10**9).map(lambda number: number / 1e9),
    st.integers(17031 * 10**6, 17031 * 10**6 + 5),
)


@given(st.lists(st.none() | WIDE, min_size=1, max_size=30).filter(any))
def test_encodings_compute_from_what_was_read(values: list[Any]) -> None:
    """Results are those of float64 and decimals, rounded to float32 once."""
    column = pa.array([None if value is None else float(value) for value in values])
    known = [decimal.Decimal(value) for value in column.drop_null().to_pylist()]
    for chain in ("z_score", "min_max", "bucketize"):
        parameters = {"value": 3} if chain == "bucketize" else {}
        found = encoded(column, ((chain, parameters),)).drop_null().to_pylist()
        if chain == "z_score":
            mean = sum(known) / len(known)
            squares = sum((value - mean) ** 2 for value in known) / len(known)
            deviation = squares.sqrt() if len(set(known)) > 1 else decimal.Decimal(1)
            expected = [float((value - mean) / deviation) for value in known]
            # The mean is a float64: its last bit counts where values are far from zero.
            last_bit = np.spacing(float(abs(mean))) / float(deviation)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 + last_bit)
        elif chain == "min_max":
            width = max(known) - min(known) or decimal.Decimal(1)
            expected = [float((value - min(known)) / width) for value in known]
            np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-9)
        else:  # as the order of the values
            order = np.argsort(np.array(known, object), kind="stable")
            assert (np.diff(np.array(found)[order]) >= 0).all()
            assert len(set(found)) == min(len(set(known)), len(set(found)))
            assert max(found) == len(set(found)) - 1


def test_neighbours_stay_apart() -> None:
    """Times and ids with equal float32 are in different buckets."""
    for column in (
        pa.array([1700000000.25, 1700000000.5, 1700000000.75]),
        pa.array([17031000001, 17031000002, 17031000003]),
        pa.array([17031000001.0, 17031000002.0, 17031000003.0]),
    ):
        assert encoded(column, (("bucketize", {"value": 3}),)).to_pylist() == [0, 1, 2]
        assert encoded(column, (("min_max", {}),)).to_pylist() == [0, 0.5, 1]
        assert encoded(column, (("fill", {"value": "mean"}), ("min_max", {}))).to_pylist() == [
            0,
            0.5,
            1,
        ]
        middle = column[1].as_py()
        assert encoded(column, (("boundaries", {"value": [middle]}),)).to_pylist() == [0, 1, 1]
        assert encoded(
            column, (("clip", {"value": [middle, None]}), ("min_max", {}))
        ).to_pylist() == [0, 0, 1]
