"""``clip``, ``log1p``, ``min_max``, ``z_score`` and ``cyclic``: numbers in other scales."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings import array_values, formula
from beam_pipelines.encodings.analyzers import Moments
from beam_pipelines.encodings.encoding import Encoding, Fixed
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf

_BOUNDS = "a lower and an upper bound; one of them may be null, as in {clip: [0, 100]}"


@dataclasses.dataclass(frozen=True)
class Clip(Fixed):
    """Replaces values outside the bounds by the nearest bound.

    Integers stay integers, infinities are clipped, null stays null, NaN stays NaN.

    Attributes:
      low, high: the bounds, ``None`` for none.
    """

    low: int | float | None
    high: int | float | None

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Clip:
        """Takes the bounds: ``{clip: [0, null]}``."""
        value = array_values.only_value(parameters, _BOUNDS)
        if not isinstance(value, list | tuple) or len(value) != 2 or list(value) == [None, None]:
            raise ValueError(f"found {value!r}, expected {_BOUNDS}.")
        low, high = (
            item if item is None else array_values.need_number(item, _BOUNDS) for item in value
        )
        if low is not None and high is not None and low > high:
            raise ValueError(f"found {value!r}, expected {_BOUNDS}; the lower one first.")
        return cls(low, high)

    def output(self, *features: Feature) -> Feature:
        """The same type; integers need whole bounds."""
        feature = array_values.need_numbers(features[0])
        if pa.types.is_integer(feature.value_type):
            for bound in (self.low, self.high):
                if bound is not None and not (
                    float(bound).is_integer() and -(2**63) <= bound < 2**63
                ):
                    raise ValueError(
                        f"found bound {bound} for int64, expected a whole number. Cast to float32 "
                        "first."
                    )
        return feature.with_values(feature.value_type)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Clips numbers, or the items of lists."""
        return array_values.map_exact(arrays[0], lambda x: self._clipped(x, np.where, x.dtype.type))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Clips the flat values."""
        import tensorflow as tf

        (x,) = features
        return x.with_flat_values(self._clipped(x.flat_values, tf.where, x.dtype.as_numpy_dtype))

    def _clipped(self, x: Any, where: Any, kind: Any) -> Any:
        """Compares: the minimum of numpy and TensorFlow differ for NaN and -0.0.

        ``kind`` makes a bound a number of the feature's type.
        """
        if self.low is not None:
            low = kind(self.low)
            x = where(x < low, low, x)
        if self.high is not None:
            high = kind(self.high)
            x = where(x > high, high, x)
        return x


@dataclasses.dataclass(frozen=True)
class Log1p(formula.Formula, Fixed):
    """Natural logarithm of 1 + x; null stays null.

    -1 becomes -inf, and smaller values NaN, as in numpy and TensorFlow.
    """

    elementwise = True

    def formula(self, x: Any, library: formula.Library) -> Any:
        """Takes the logarithm."""
        return library.math.log1p(x)


_RANGE = "two numbers, the first one less, as in {min_max: [0, 1]}"


@dataclasses.dataclass(frozen=True)
class MinMax(formula.ToFloat, Encoding):
    """Maps the smallest value to ``low`` and the largest to ``high``, linearly.

    As ``tft.scale_by_min_max``. Values beyond the fitted range go beyond ``low`` and ``high``;
    ``clip`` limits them. Null stays null, NaN stays NaN, infinities stay infinite; fitting ignores
    them. If all values are equal, they become ``low``.

    Attributes:
      low, high: the range to scale to.
    """

    low: float = 0.0
    high: float = 1.0

    analyzer = Moments
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> MinMax:
        """Takes the range: ``{min_max: [-1, 1]}``; 0 to 1 by default."""
        value = array_values.only_value(parameters, _RANGE, [0, 1])
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"found {value!r}, expected {_RANGE}.")
        low, high = (float(array_values.need_number(item, _RANGE)) for item in value)
        if not low < high:
            raise ValueError(f"found {value!r}, expected {_RANGE}.")
        return cls(low, high)

    def fit(self, analysis: Moments) -> FittedMinMax:  # type: ignore[override]
        """Takes the extremes; without values, those of the range itself."""
        if not analysis.weight:
            return FittedMinMax(self.low, 1.0, self.low)
        width = analysis.maximum - analysis.minimum
        return FittedMinMax(
            analysis.minimum, (self.high - self.low) / width if width else 1.0, self.low
        )


@dataclasses.dataclass(frozen=True)
class FittedMinMax(formula.Formula):
    """``(x - minimum) · scale + low``.

    Attributes:
      minimum: of the values it was fitted on.
      scale: width of the range to scale to, divided by that of the values.
      low: result for the minimum.
    """

    minimum: float
    scale: float
    low: float

    def formula(self, x: Any, library: formula.Library) -> Any:
        """Scales."""
        return (x - self.minimum) * self.scale + self.low


@dataclasses.dataclass(frozen=True)
class ZScore(formula.ToFloat, Encoding):
    """Subtracts the mean and divides by the population standard deviation.

    As ``tft.scale_to_z_score``. Null stays null, NaN stays NaN, infinities stay infinite; fitting
    ignores them. If all values are equal, they become 0.
    """

    analyzer = Moments
    elementwise = True

    def fit(self, analysis: Moments) -> FittedZScore:  # type: ignore[override]
        """Takes mean and deviation; without values, 0 and 1."""
        return FittedZScore(analysis.mean, analysis.deviation or 1.0)


@dataclasses.dataclass(frozen=True)
class FittedZScore(formula.Formula):
    """``(x - mean) / deviation``.

    Attributes:
      mean, deviation: of the values it was fitted on; the deviation is not 0.
    """

    mean: float
    deviation: float

    def formula(self, x: Any, library: formula.Library) -> Any:
        """Standardizes."""
        return (x - self.mean) / self.deviation


_PERIOD = "a period above 0, as in {cyclic: 24}"


def sine_and_cosine(turns: Any, library: formula.Library) -> tuple[Any, Any]:
    """Returns float64 sine and cosine of an angle in turns.

    They are exact at quarters. The angle is reduced to an eighth of a turn around a quarter, where
    libraries lose no digits.
    """
    turns = turns - library.math.floor(turns)
    quarter = library.math.floor(4.0 * turns + 0.5)
    angle = (turns - quarter / 4.0) * (2.0 * math.pi)
    sine, cosine = library.math.sin(angle), library.math.cos(angle)
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
        offset = "where the period begins, as in {cyclic: {period: 12, offset: 1}}"
        parameters = array_values.short_form(parameters, "period")
        array_values.check_parameters(parameters, {"period": _PERIOD, "offset": offset})
        period = array_values.need_number(parameters.get("period"), _PERIOD)
        if period <= 0:
            raise ValueError(f"found {period}, expected {_PERIOD}.")
        return cls(
            float(period), float(array_values.need_number(parameters.get("offset", 0), offset))
        )

    def output(self, *features: Feature) -> Feature:
        """Numbers become a vector of two float32."""
        if array_values.need_numbers(features[0]).is_list:
            raise ValueError(f"found {type_name(features[0].type)}, expected one number a row.")
        return Feature(pa.list_(pa.float32()), required=True, length=2)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Computes sines and cosines."""
        (array,) = arrays
        with np.errstate(all="ignore"):
            pairs = np.stack(
                self._point(array_values.to_float64(array), formula.NUMPY), axis=1
            ).astype(np.float32)
        if array.null_count:
            pairs[~is_valid(array)] = 0
        return array_values.as_lists(pa.array(pairs.ravel()), np.full(len(array), 2))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Computes sines and cosines, and puts zeros where a row is empty."""
        import tensorflow as tf

        (x,) = features
        parts = self._point(formula.tensor_to_float64(x.flat_values), formula.tensorflow_library())
        columns = [
            formula.to_matrix(x.with_flat_values(tf.cast(part, tf.float32)), 0.0, 1)
            for part in parts
        ]
        return formula.from_matrix(tf.concat(columns, axis=1))

    def _point(self, x: Any, library: formula.Library) -> tuple[Any, Any]:
        return sine_and_cosine(
            library.remainder(x - self.offset, self.period) / self.period, library
        )
