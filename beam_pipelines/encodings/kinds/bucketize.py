"""``bucketize``: the number of a value's quantile."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings.analyzers import Quantiles
from beam_pipelines.encodings.encoding import Encoding, RowFunction
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import tensor_to_float64
from beam_pipelines.encodings.kinds.boundaries import Boundaries
from beam_pipelines.encodings.values import (
    MOST_PLACES,
    check_parameters,
    elementwise,
    map_numbers,
    narrow,
    need_numbers,
    need_whole,
    widened,
)

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "a number of buckets of at least 2, as in {bucketize: 10}"
_LIKE = "'tft', as in {bucketize: {buckets: 10, like: tft}}"


@dataclasses.dataclass(frozen=True)
class Bucketize(Encoding):
    """Gives the number of a value's bucket, counted from 0.

    Buckets have about equal weight. Boundaries are distinct values of the column, without its
    smallest: there may be fewer buckets than asked for, and none is empty. As in ``boundaries``, a
    value equal to a boundary is in the bucket above it, NaN is in the last bucket, and null stays
    null.

    Attributes:
      buckets: largest number of buckets.
      is_tft: whether boundaries are those of ``tft.bucketize``. Equal ones give empty buckets.
    """

    buckets: int
    is_tft: bool = False

    analyzer = Quantiles
    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Bucketize:
        """Takes ``{bucketize: 10}`` or ``{bucketize: {buckets: 10, like: tft}}``."""
        check_parameters(parameters, {"value": _EXPECTED, "buckets": _EXPECTED, "like": _LIKE})
        buckets = need_whole(
            parameters.get("buckets", parameters.get("value")), 2, _EXPECTED, MOST_PLACES
        )
        like = parameters.get("like")
        if "like" in parameters and like != "tft":
            raise ValueError(f"found {like!r}, expected {_LIKE}.")
        return cls(buckets, like == "tft")

    def output(self, *features: Feature) -> Feature:
        """Numbers become int64; their size is known after fitting."""
        return need_numbers(features[0]).with_values(pa.int64())

    def fit(self, analysis: Quantiles) -> Boundaries:  # type: ignore[override]
        """Takes the boundaries; without values there are none, or those of tft."""
        if self.is_tft:
            return TftBoundaries(tuple(analysis.boundaries_of_tft(self.buckets).tolist()))
        return Boundaries(tuple(analysis.boundaries(self.buckets).tolist()))


@dataclasses.dataclass(frozen=True)
class TftBoundaries(Boundaries):
    """Boundaries of ``tft.bucketize``, which compares integers as float32, too."""

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Finds the buckets of numbers, or of the items of lists."""
        boundaries = np.array(self.boundaries, np.float32)
        return map_numbers(
            arrays[0],
            lambda x: np.searchsorted(boundaries, x.astype(np.float32), side="right"),
            np.int64,
        )

    def row_function(self, *features: Feature) -> RowFunction | None:
        """Finds the bucket of one number."""
        wide = widened(features[0])
        boundaries = np.array(self.boundaries, np.float32).tolist()
        return elementwise(lambda x: bisect.bisect_right(boundaries, narrow(wide(x))))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Finds the buckets of the flat values."""
        import tensorflow as tf

        (x,) = features
        numbers = tf.cast(tensor_to_float64(x.flat_values), tf.float32)
        boundaries = np.array(self.boundaries, np.float32)
        places = tf.searchsorted(boundaries, numbers, side="right", out_type=tf.int64)
        return x.with_flat_values(places)
