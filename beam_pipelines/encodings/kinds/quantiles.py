"""``bucketize``, ``boundaries`` and ``quantile_normal``: numbers by rank."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings import array_values
from beam_pipelines.encodings.analyzers import Quantiles
from beam_pipelines.encodings.encoding import Encoding, Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import Formula, Library, ToFloat

_ASCENDING = "ascending numbers, as in {boundaries: [0, 10, 100]}"


@dataclasses.dataclass(frozen=True)
class Boundaries(Formula, Fixed):
    """Counts the boundaries at or below a value, as ``tft.apply_buckets`` does.

    The bucket is 0 below the first boundary, 1 from the first up to the second, and so on. NaN is
    in the last bucket; null stays null.

    Attributes:
      boundaries: ascending. For float32 each is rounded to float32, so that 0.7 is the same
        number on both sides.
    """

    boundaries: tuple[float, ...]

    elementwise = True
    dtype = np.int64

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Boundaries:
        """Takes the boundaries: ``{boundaries: [18, 30, 65]}``."""
        value = array_values.only_value(parameters, _ASCENDING)
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"found {value!r}, expected {_ASCENDING}.")
        numbers = [float(array_values.need_number(item, _ASCENDING)) for item in value]
        if not all(low < high for low, high in itertools.pairwise(numbers)):
            raise ValueError(
                f"found {value!r}, expected {_ASCENDING}; each more than the one before."
            )
        return cls(tuple(numbers))

    def output(self, *features: Feature) -> Feature:
        """Numbers become int64; the size is the number of boundaries + 1."""
        return array_values.need_numbers(features[0]).with_values(
            pa.int64(), len(self.boundaries) + 1
        )

    def for_float32(self) -> Formula:
        """Rounds the boundaries."""
        return dataclasses.replace(
            self, boundaries=tuple(map(array_values.narrow, self.boundaries))
        )

    def formula(self, x: Any, library: Library) -> Any:
        """Counts the boundaries."""
        return library.place(self._array, x)

    @functools.cached_property
    def _array(self) -> npt.NDArray[np.float64]:
        return np.array(self.boundaries, np.float64)


_BUCKETS = "a number of buckets of at least 2, as in {bucketize: 10}"


@dataclasses.dataclass(frozen=True)
class Bucketize(Encoding):
    """Gives the number of a value's bucket, counted from 0.

    Buckets have about equal weight. Boundaries are distinct values of the column, without its
    smallest: there may be fewer buckets than asked for, and none is empty. As in ``boundaries``, a
    value equal to a boundary is in the bucket above it, NaN is in the last bucket, and null stays
    null.

    Attributes:
      buckets: largest number of buckets.
    """

    buckets: int

    analyzer = Quantiles
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Bucketize:
        """Takes the number of buckets: ``{bucketize: 10}``."""
        parameters = array_values.short_form(parameters, "buckets")
        array_values.check_parameters(parameters, {"buckets": _BUCKETS})
        return cls(
            array_values.need_whole(
                parameters.get("buckets"), 2, _BUCKETS, array_values.MOST_PLACES
            )
        )

    def output(self, *features: Feature) -> Feature:
        """Numbers become int64; their size is known after fitting."""
        return array_values.need_numbers(features[0]).with_values(pa.int64())

    def fit(self, analysis: Quantiles) -> Boundaries:  # type: ignore[override]
        """Takes the boundaries; without values there are none."""
        return Boundaries(tuple(analysis.boundaries(self.buckets).tolist()))


_QUANTILES = "a number of quantiles of at least 2, as in {quantile_normal: 1000}"
# Distance from 0 and 1, as in sklearn's QuantileTransformer: results are within ±5.2.
_MARGIN = 1e-7 - float(np.spacing(1.0))

# Wichura (1988), Algorithm AS 241, PPND16, Applied Statistics 37(3): relative accuracy about 1e-16.
# Coefficients of the numerator and the denominator, highest power first: near the median, and in
# the tails. The far tails, which have their own, are clipped.
_CENTRE = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
_TAIL = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)


def normal_quantile(p: Any, library: Library) -> Any:
    """Returns the standard normal quantile of p in float64.

    The formula holds for p from 1.4e-11 to 1 - 1.4e-11.
    """
    q = p - 0.5
    r = 0.180625 - q * q
    centre = q * _polynomial(_CENTRE[0], r) / _polynomial(_CENTRE[1], r)
    tail_weight = library.where(q < 0, p, 1.0 - p)
    r = library.math.sqrt(-library.math.log(tail_weight)) - 1.6
    tail = _polynomial(_TAIL[0], r) / _polynomial(_TAIL[1], r)
    return library.where(q * q <= 0.180625, centre, library.where(q < 0, -tail, tail))


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


@dataclasses.dataclass(frozen=True)
class QuantileNormal(ToFloat, Encoding):
    """Maps a value's share of smaller values to the standard normal quantile.

    As sklearn's QuantileTransformer. Shares are interpolated between the quantiles of the fitted
    values. A frequent value gets the middle of its shares, also if it is the smallest or the
    largest (sklearn: -5.2 and 5.2). Values beyond the extremes, infinities too, become ±5.1993.
    Null stays null, NaN stays NaN.

    Attributes:
      quantiles: number of quantiles; they cut the weight into one part less.
    """

    quantiles: int = 1000

    analyzer = Quantiles
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> QuantileNormal:
        """Takes the number of quantiles; 1000 by default."""
        value = array_values.only_value(parameters, _QUANTILES, 1000)
        return cls(array_values.need_whole(value, 2, _QUANTILES, array_values.MOST_PLACES))

    def fit(self, analysis: Quantiles) -> FittedQuantileNormal:  # type: ignore[override]
        """Takes the quantiles; without values, a single one at 0."""
        points = analysis.quantiles(self.quantiles - 1)
        values, starts = np.unique(points if len(points) else np.zeros(2), return_index=True)
        ends = np.append(starts[1:], max(len(points), 2)) - 1
        width = max(len(points), 2) - 1
        return FittedQuantileNormal(
            pa.array(values), pa.array(starts / width), pa.array(ends / width)
        )


@dataclasses.dataclass(frozen=True)
class FittedQuantileNormal(Formula):
    """The normal quantile of an interpolated share.

    Attributes:
      values: float64, ascending: distinct quantiles.
      lower, upper: float64, the shares of smaller values, and of values that are not greater.
    """

    values: pa.Array
    lower: pa.Array
    upper: pa.Array

    def for_float32(self) -> FittedQuantileNormal:
        """Rounds the quantiles, so that the values that they were equal them."""
        rounded = self.values.to_numpy().astype(np.float32).astype(np.float64)
        values, first = np.unique(rounded, return_index=True)
        last = np.append(first[1:], len(rounded)) - 1
        lower, upper = self.lower.take(pa.array(first)), self.upper.take(pa.array(last))
        return FittedQuantileNormal(pa.array(values), lower, upper)

    def formula(self, x: Any, library: Library) -> Any:
        """Interpolates the share and takes its quantile."""
        values, start, width, share, rise, own = self._intervals
        place = library.place(values, x)
        left = library.take(start, place)
        between = library.take(share, place) + (x - left) * (
            library.take(rise, place) / library.take(width, place)
        )
        p = library.where(x == left, library.take(own, place), between)
        # Infinities times a rise of 0 are NaN.
        p = library.where(
            x < values[0], np.float64(0.0), library.where(x > values[-1], np.float64(1.0), p)
        )
        p = library.where(
            p < _MARGIN,
            np.float64(_MARGIN),
            library.where(p > 1 - _MARGIN, np.float64(1 - _MARGIN), p),
        )
        return normal_quantile(p, library)

    @functools.cached_property
    def _intervals(self) -> tuple[npt.NDArray[np.float64], ...]:
        """The values, and five numbers of each interval between them.

        These are start, width, share, rise, and the share of the start's own value. Interval k
        starts at value k - 1; the outermost two have one end, and width 1.
        """
        values, lower, upper = (
            column.to_numpy() for column in (self.values, self.lower, self.upper)
        )
        return (
            values,
            np.concatenate([[values[0] - 1], values]),
            np.concatenate([[1.0], np.diff(values), [1.0]]),
            np.concatenate([[0.0], upper]),
            np.concatenate([[0.0], lower[1:] - upper[:-1], [0.0]]),
            np.concatenate([[0.0], (lower + upper) / 2]),
        )
