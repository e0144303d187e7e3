"""A row alone is encoded as among others, bit for bit.

The examples are those of test_equal_serving.py, of every kind.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from beam_pipelines.encodings import Feature
from tests.encodings.test_equal_serving import EXAMPLES, batches, training_arrays
from tests.support.encoding_chains import apply_chain, fit_chain


def bits(value: Any) -> Any:
    """A value that equals another only with the same bits."""
    if isinstance(value, list):
        return [bits(item) for item in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


@pytest.mark.parametrize("index", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES])
def test_a_row_and_a_batch_give_the_same(index: int) -> None:
    """Rows have the values of the batch, or it is refused too."""
    example = EXAMPLES[index]
    features = [Feature(type_, unit=example.unit) for type_ in example.types]
    fitted, feature = fit_chain(
        example.chain, features, training_arrays(example), part=example.part
    )

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(batches(example))
    def check(arrays: list[pa.Array]) -> None:
        def encode_alone() -> list[pa.Array]:
            rows = range(len(arrays[0]))
            return [apply_chain(fitted, *(array.slice(row, 1) for array in arrays)) for row in rows]

        try:
            expected = apply_chain(fitted, *arrays)
        except pa.ArrowInvalid:
            with pytest.raises(pa.ArrowInvalid):
                encode_alone()
            return
        alone = encode_alone()
        assert {array.type for array in [expected, *alone]} == {feature.type}
        assert bits([array[0].as_py() for array in alone]) == bits(expected.to_pylist())

    check()
