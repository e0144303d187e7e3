"""``bucketize``: the number of a value's quantile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.encodings.analyzers import Quantiles
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import Library
from beam_pipelines.encodings.kinds.boundaries import Boundaries
from beam_pipelines.encodings.values import (
    MOST_PLACES,
    check_parameters,
    need_numbers,
    need_whole,
)

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
    in_float64 = True

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
    """Boundaries of ``tft.bucketize``, which compares all numbers as float32."""

    def formula(self, x: Any, library: Library) -> Any:
        """Counts the boundaries."""
        return library.place(self._array, library.narrow(x))
