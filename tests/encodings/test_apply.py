"""encodings/apply.py makes features of columns, exactly or with an error."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.encodings.apply import encode_batch, to_exact_feature, to_feature
from beam_pipelines.encodings.plan import plan_encode
from beam_pipelines.recipe.model import Recipe
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


def test_float_beyond_float32_is_an_error_that_shows_the_value() -> None:
    """A finite number never becomes infinite silently."""
    plan = plan_encode(recipe(), pa.schema([("x", pa.float64())]))
    batch = pa.RecordBatch.from_pydict({"x": [1.0, 2.0, 1e300, 3.0]})
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
    assert to_exact_feature(column).to_pylist() == column.to_pylist()


def test_a_rounded_float_is_cast_to_no_integer() -> None:
    """Different ids beyond 2**24 would become one.

    The error names the type that reads them.
    """
    for chain in (cast("int64"), (*cast("int64"), ("vocabulary", {}))):
        plan = plan_encode(recipe(encode={"user": chain}), pa.schema([("user", pa.float64())]))
        batch = pa.RecordBatch.from_pydict({"user": [16777216.0, 100000001.0, None]})
        with pytest.raises(DataError, match=r"found 100000001\.0 .*'types: \{user: int64\}'"):
            encode_batch(fit_batch(plan, batch, "a.csv"), batch, "a.csv")
        good = batch.take(pa.array([0, 2]))
        fitted = fit_batch(plan, good, "a.csv")
        assert encode_batch(fitted, good, "a.csv").column(0).null_count == 1
