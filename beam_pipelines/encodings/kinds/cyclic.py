"""``cyclic``: a number as a point on a circle.

So 23 o'clock is next to 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings import formula, values
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.ragged import from_matrix, to_matrix

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "a period above 0, as in {cyclic: 24}"


def sine_and_cosine(turns: Any, library: formula.Library) -> tuple[Any, Any]:
    """Returns float64 sine and cosine of an angle in turns.

    They are exact at quarters. The angle is reduced to an eighth of a turn around a quarter, where
    libraries lose no digits.
    """
    turns = turns - library.floor(turns)
    quarter = library.floor(4.0 * turns + 0.5)
    angle = (turns - quarter / 4.0) * (2.0 * math.pi)
    sine, cosine = library.sin(angle), library.cos(angle)
    one, two, three = (quarter == number for number in (1.0, 2.0, 3.0))
    minus_sine, minus_cosine = 0.0 - sine, 0.0 - cosine  # 0 stays 0, not -0
    return (
        library.where(
            one, cosine, library.where(two, minus_sine, library.where(three, minus_cosine, sine))
        ),
        library.where(
            one, minus_sine, library.where(two, minus_cosine, library.where(three, sine, cosine))
        ),
    )


@dataclasses.dataclass(frozen=True)
class Cyclic(Fixed):
    """``[sin, cos]`` of ``2π (x - offset) / period``.

    Null becomes ``[0, 0]``, the centre of the circle; NaN and infinities become NaN.

    Attributes:
      period: length of a cycle.
      offset: start of a cycle: 1 for months.
    """

    period: float
    offset: float = 0.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Cyclic:
        """Takes the period, or period and offset: ``{cyclic: {period: 12, offset: 1}}``."""
        expected_offset = "where the period begins, as in {cyclic: {period: 12, offset: 1}}"
        values.check_parameters(
            parameters, {"value": _EXPECTED, "period": _EXPECTED, "offset": expected_offset}
        )
        if "value" in parameters and "period" in parameters:
            raise ValueError(f"found both 'value' and 'period', expected {_EXPECTED}.")
        period = values.need_number(parameters.get("value", parameters.get("period")), _EXPECTED)
        if period <= 0:
            raise ValueError(f"found {period}, expected {_EXPECTED}.")
        return cls(
            float(period), float(values.need_number(parameters.get("offset", 0), expected_offset))
        )

    def output(self, *features: Feature) -> Feature:
        """Numbers become a vector of two float32."""
        if values.need_numbers(features[0]).is_list:
            raise ValueError(f"found {type_name(features[0].type)}, expected one number a row.")
        return Feature(pa.list_(pa.float32()), required=True, length=2)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Computes sines and cosines."""
        (array,) = arrays
        with np.errstate(all="ignore"):
            pairs = np.stack(self._point(values.to_float64(array), formula.NUMPY), axis=1).astype(
                np.float32
            )
        if array.null_count:
            pairs[~is_valid(array)] = 0
        return values.as_lists(pa.array(pairs.ravel()), np.full(len(array), 2))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Computes sines and cosines, and puts zeros where a row is empty."""
        import tensorflow as tf

        (x,) = features
        parts = self._point(formula.tensor_to_float64(x.flat_values), formula.tensorflow_library())
        columns = [
            to_matrix(x.with_flat_values(tf.cast(part, tf.float32)), 0.0, 1) for part in parts
        ]
        return from_matrix(tf.concat(columns, axis=1))

    def _point(self, x: Any, library: formula.Library) -> tuple[Any, Any]:
        return sine_and_cosine(
            library.remainder(x - self.offset, self.period) / self.period, library
        )
