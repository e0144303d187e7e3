"""Covariance and correlation of two number columns, without rounding while merging.

Definitions are those of TFDV's ``CrossFeatureStatsGenerator``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import path_pb2, statistics_pb2

from beam_pipelines.analysis.statistics.column import as_numbers
from beam_pipelines.analysis.statistics.moments import SCALE, ExactMoments, fixed, shifted

# Two columns, in order of their names.
Pair: TypeAlias = tuple[str, str]
Numbers = npt.NDArray[Any]
# Beyond 2**±200 products of deviations may leave the range of float64; values are scaled first.
_SAFE_EXPONENT = 200


class CrossMoments(NamedTuple):
    """Moments of the rows with one number in each of two columns.

    Attributes:
      pair: the columns.
      x, y: moments of the finite pairs of numbers.
      products: the sum of their products, in units of 2**-2148.
      infinite: number of pairs with an infinity.
    """

    pair: Pair
    x: ExactMoments
    y: ExactMoments
    products: int = 0
    infinite: int = 0

    @property
    def covariance(self) -> float:
        """Population covariance; NaN with infinities, 0 without rows."""
        if self.infinite:
            return math.nan
        return _quotient(self._covariance, self.x.count)

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation; ``None`` if a column does not vary or has infinities."""
        if self.infinite or min(self._variances) <= 0:
            return None
        # Only the ratio counts, and a ratio of roots has half the digits.
        deviations = math.isqrt(math.prod(self._variances))
        return max(-1.0, min(1.0, self._covariance / deviations)) if deviations else None

    @property
    def _covariance(self) -> int:
        """Covariance times count², in units of 2**-2148."""
        # Products are rounded; without this, a column that does not vary would have a covariance.
        if min(self._variances) <= 0:
            return 0
        return self.products * self.x.count - self.x.total * self.y.total

    @property
    def _variances(self) -> tuple[int, int]:
        """Variances times count²."""
        x, y = (
            moments.squares * moments.count - moments.total * moments.total
            for moments in (self.x, self.y)
        )
        return x, y


def cross_moments(batch: pa.RecordBatch, pair: Pair) -> CrossMoments:
    """Returns the moments of a batch's rows.

    Rows without a value, with several values or with NaN in a column are left out.

    Args:
      batch: rows of all columns.
      pair: number columns, or lists of numbers; bool, date, time and timestamp are the integers
        that represent them.
    """
    (x, has_x), (y, has_y) = (_numbers(batch.column(name)) for name in pair)
    chosen = has_x & has_y
    x, y = x[chosen], y[chosen]
    finite = np.isfinite(x) & np.isfinite(y)
    infinite = int(len(x) - finite.sum())
    x, y = x[finite], y[finite]
    ones = np.ones(len(x), np.int64)
    of_x, of_y = ExactMoments.of(x, ones), ExactMoments.of(y, ones)
    if not len(x):
        return CrossMoments(pair, of_x, of_y, 0, infinite)
    (near_x, middle_x, shift_x), (near_y, middle_y, shift_y) = _deviations(x), _deviations(y)
    rest = shifted(fixed(float((near_x * near_y).sum()), 2 * SCALE), shift_x + shift_y)
    # The sum of (middle + deviation) · (middle + deviation), multiplied out.
    products = middle_x * of_y.total + middle_y * of_x.total - len(x) * middle_x * middle_y + rest
    return CrossMoments(pair, of_x, of_y, products, infinite)


def merged_crosses(parts: Sequence[CrossMoments]) -> CrossMoments:
    """Returns the moments of all parts' rows; their order does not matter."""
    return CrossMoments(
        parts[0].pair,
        ExactMoments.merged(part.x for part in parts),
        ExactMoments.merged(part.y for part in parts),
        sum(part.products for part in parts),
        sum(part.infinite for part in parts),
    )


def cross_to_proto(cross: CrossMoments) -> statistics_pb2.CrossFeatureStatistics:
    """Returns the statistics of a pair as TFDV writes them."""
    x, y = (path_pb2.Path(step=[name]) for name in cross.pair)
    count = cross.x.count + cross.infinite
    proto = statistics_pb2.CrossFeatureStatistics(path_x=x, path_y=y, count=count)
    if count:
        proto.num_cross_stats.covariance = cross.covariance
        if cross.correlation is not None:
            proto.num_cross_stats.correlation = cross.correlation
    return proto


def _numbers(array: pa.Array) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Returns each row's number, and whether it has exactly one.

    NaN is no number.
    """
    if pa.types.is_list(array.type):
        lengths = array.value_lengths().fill_null(0).to_numpy()
        places = np.where(lengths == 1, np.cumsum(lengths) - lengths, -1)
        array = array.flatten().take(pa.array(places, mask=places < 0))
    has_one: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = as_numbers(array)
    if pa.types.is_floating(numbers.type):
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        return values, has_one & ~np.isnan(values)
    return numbers.fill_null(0).to_numpy(zero_copy_only=False), has_one


def _deviations(values: Numbers) -> tuple[npt.NDArray[np.float64], int, int]:
    """Returns values less a number near their mean.

    The number and a scale follow.


    Returns:
      float64[n], in units of two to the scale; the number, in units of 2**-1074; the scale.
    """
    if values.dtype == np.int64:
        middle = sum(divmod(int(values.min()) + int(values.max()), 2))
        wide = int(values.max()) - int(values.min()) >= 1 << 62
        near = values.astype(np.float64) - middle if wide else (values - middle).astype(np.float64)
        return near, middle << SCALE, 0
    exponent = int(np.frexp(np.abs(values).max())[1])
    shift = exponent if abs(exponent) > _SAFE_EXPONENT else 0
    scaled = np.ldexp(values, -shift) if shift else values
    center = float(scaled.mean())
    return scaled - center, shifted(fixed(center, SCALE), shift), shift


def _quotient(numerator: int, count: int) -> float:
    """Returns a sum over the squared count, rounded once.

    The sum is in units of 2**-2148.
    """
    if not count:
        return 0.0
    try:
        return numerator / (count * count << 2 * SCALE)
    except OverflowError:
        return math.copysign(math.inf, numerator)
