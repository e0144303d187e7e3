"""Single rows are encoded as arrays are, bit for bit.

The examples are those of test_equal_serving.py, of every kind.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.apply import to_exact_input, to_input
from beam_pipelines.encodings.plan import Chain, EncodePlan, Step
from beam_pipelines.encodings.single_rows import _chain_function, row_encoder
from beam_pipelines.encodings.values import narrowed
from tests.encodings.test_equal_serving import EXAMPLES, batches, training_arrays
from tests.support.encoding_chains import apply_chain, fit_chain

# Kinds that are left to Arrow, also for scalars.
BY_ARROW = {"tokenize", "tf_idf"}


def cell(array: pa.Array, row: int) -> Any:
    """A feature's value as a single row has it."""
    value = array[row].as_py()
    is_numbers = pa.types.is_list(array.type) and not Feature(array.type).is_text
    return np.array(value, array.type.value_type.to_pandas_dtype()) if is_numbers else value


def bits(value: Any) -> Any:
    """A value that equals another only with the same bits."""
    if isinstance(value, np.ndarray):
        return value.dtype, [bits(item) for item in value.tolist()]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("index", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES])
def test_a_row_and_an_array_give_the_same(index: int) -> None:
    """A row has the value of the array, or both refuse it."""
    example = EXAMPLES[index]
    features = [Feature(type_, unit=example.unit) for type_ in example.types]
    fitted, _ = fit_chain(
        example.chain, features, training_arrays(example), part=example.part, target=example.target
    )
    steps = tuple(Step(type(encoding).__name__, encoding, 0) for encoding in fitted)
    inputs = tuple(map(str, range(len(features))))
    function, feature = _chain_function(Chain("x", inputs, steps), tuple(features))

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches(example))
    def check(arrays: list[pa.Array]) -> None:
        for row in range(len(arrays[0])):
            values = [cell(array, row) if array[row].is_valid else None for array in arrays]
            try:
                expected = apply_chain(fitted, *(array.slice(row, 1) for array in arrays))
            except pa.ArrowInvalid:
                with pytest.raises(Exception), np.errstate(all="ignore"):  # noqa: B017
                    function(*values)
                continue
            with np.errstate(all="ignore"):
                got = function(*values)
            assert expected.type == feature.type
            assert bits(got) == bits(cell(expected, 0) if expected[0].is_valid else None)

    check()


def test_scalars_need_no_arrow() -> None:
    """Each kind for scalars has a function of its own."""
    slow = set()
    for example in EXAMPLES:
        features = [Feature(type_, unit=example.unit) for type_ in example.types]
        fitted, _ = fit_chain(
            example.chain,
            features,
            training_arrays(example),
            part=example.part,
            target=example.target,
        )
        known = tuple(features)
        for step, encoding in zip(example.chain, fitted, strict=False):
            kind = step if isinstance(step, str) else next(iter(step))
            if not any(item.is_list for item in known) and encoding.row_function(*known) is None:
                slow.add((kind, str(known[0].type)))
            known = (encoding.output(*known),)
    assert {kind for kind, _ in slow} == BY_ARROW | {"cast"}
    assert {type_ for kind, type_ in slow if kind == "cast"} == {"string"}


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.floats(width=32),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.list_(pa.float64()): st.lists(st.floats(width=32), max_size=3),
    pa.list_(pa.string()): st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=3),
}


@pytest.mark.parametrize("floats", ["round", "exact"])
@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_columns_become_the_same_features(type_: pa.DataType, floats: Any) -> None:
    """A value becomes the feature that an array becomes, or none."""
    plan = EncodePlan(pa.schema([("x", type_)]), (), ("x",), floats=floats)
    encode = row_encoder(plan, {"x": Feature.of(type_)})
    convert = to_exact_input if floats == "exact" else to_input

    @settings(max_examples=30, deadline=None)
    @given(st.none() | VALUES[type_])
    def check(value: Any) -> None:
        try:
            expected = narrowed(convert(pa.array([value], type_)))
        except pa.ArrowInvalid:
            with pytest.raises(ValueError):
                encode({"x": value})
            return
        with np.errstate(all="ignore"):
            got = encode({"x": value})["x"]
        assert bits(got) == bits(cell(expected, 0) if expected[0].is_valid else None)

    check()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), True),
        (pa.int64(), 2**63),
        (pa.int64(), 1.0),
        (pa.bool_(), 1),
        (pa.float64(), 1),
        (pa.float64(), 1e300),
        (pa.string(), b"a"),
        (pa.binary(), "a"),
        (pa.date32(), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)),
        (pa.timestamp("us"), datetime.date(2020, 1, 1)),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)),
        (pa.string(), None),
    ],
)
def test_other_values_are_left_to_arrays(type_: pa.DataType, value: Any) -> None:
    """Values of other types, and forbidden nulls, are refused."""
    plan = EncodePlan(pa.schema([("x", type_)]), (), ("x",))
    encode = row_encoder(plan, {"x": Feature.of(type_, required=True)})
    with pytest.raises(ValueError):
        encode({"x": value})
