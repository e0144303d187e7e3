"""``bucketize``: the number of a value's quantile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.encodings.analyzers import Quantiles
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.kinds.boundaries import Boundaries
from beam_pipelines.encodings.values import MOST_PLACES, check_parameters, need_numbers, need_whole

_EXPECTED = "a number of buckets of at least 2, as in {bucketize: 10}"


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
        check_parameters(parameters, {"value": _EXPECTED})
        return cls(need_whole(parameters.get("value"), 2, _EXPECTED, MOST_PLACES))

    def output(self, *features: Feature) -> Feature:
        """Numbers become int64; their size is known after fitting."""
        return need_numbers(features[0]).with_values(pa.int64())

    def fit(self, analysis: Quantiles) -> Boundaries:  # type: ignore[override]
        """Takes the boundaries; without values there are none, and a single bucket."""
        return Boundaries(tuple(analysis.boundaries(self.buckets).tolist()))
