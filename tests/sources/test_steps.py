"""Lists of lists are converted exactly, with their null and empty steps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow.columns import column_type, has_lists_as_steps, value_type
from beam_pipelines.encodings.apply import to_exact_input, to_feature, to_input, to_steps
from beam_pipelines.encodings.feature import feature_type
from beam_pipelines.sources.exact_cast import convert_array

ROWS = st.lists(
    st.none() | st.lists(st.none() | st.lists(st.integers(0, 9), max_size=3), max_size=3),
    max_size=6,
)


@pytest.mark.parametrize("value", [pa.int8(), pa.float64(), pa.bool_()])
@given(rows=ROWS, start=st.integers(0, 3))
def test_steps_stay_what_they_are(value: pa.DataType, rows: list[Any], start: int) -> None:
    """A cast and the conversion to a feature change values alone."""
    numbers = [row and [step and [number % 2 for number in step] for step in row] for row in rows]
    array = pa.array(numbers, pa.list_(pa.list_(pa.int16()))).slice(start)
    made = convert_array(array, pa.list_(pa.list_(value)))
    made.validate(full=True)
    assert made.to_pylist() == numbers[start:]
    assert made.type == column_type(pa.list_(pa.list_(value)))
    for convert in (to_input, to_exact_input):
        steps = to_steps(convert, made)
        assert steps.to_pylist() == numbers[start:]
        assert steps.type == feature_type(made.type)


def test_a_null_inside_a_step_is_refused() -> None:
    """A null is a step, and no value of a step.

    A row's neighbours do not matter.
    """
    array = pa.array([[None, [1]], [[1, None]]])
    kind = pa.list_(pa.list_(pa.int64()))
    assert convert_array(array.slice(0, 1), kind).to_pylist() == [[None, [1]]]
    assert to_steps(to_feature, array.slice(0, 1)).to_pylist() == [[None, [1]]]
    with pytest.raises(pa.ArrowInvalid, match="a null inside a list"):
        convert_array(array, kind)
    with pytest.raises(pa.ArrowInvalid, match="a list that holds a null"):
        to_steps(to_feature, array)


def test_no_rounding_inside_steps() -> None:
    """With 'floats: exact' a value of a step is not rounded either."""
    assert to_steps(to_exact_input, pa.array([[[0.5], None]])).to_pylist() == [[[0.5], None]]
    with pytest.raises(pa.ArrowInvalid, match="no float32 equals it"):
        to_steps(to_exact_input, pa.array([[[0.1], None]]))


def test_two_levels_of_lists_are_columns() -> None:
    """A third level is none."""
    two = pa.list_(pa.list_(pa.float64()))
    assert column_type(two) == two
    assert column_type(pa.list_(two)) is None
    assert (has_lists_as_steps(two), value_type(two)) == (True, pa.float64())
    assert not has_lists_as_steps(pa.list_(pa.float64()))
