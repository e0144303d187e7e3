"""``bucketize`` and ``boundaries``: the number of a value's interval."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings.analyzers import Quantiles
from beam_pipelines.encodings.encoding import Encoding, Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import Formula, Library
from beam_pipelines.encodings.values import (
    MOST_PLACES,
    check_parameters,
    narrow,
    need_number,
    need_numbers,
    need_whole,
)

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
        check_parameters(parameters, {"value": _ASCENDING})
        value = parameters.get("value")
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"found {value!r}, expected {_ASCENDING}.")
        numbers = [float(need_number(item, _ASCENDING)) for item in value]
        if not all(low < high for low, high in itertools.pairwise(numbers)):
            raise ValueError(
                f"found {value!r}, expected {_ASCENDING}; each more than the one before."
            )
        return cls(tuple(numbers))

    def output(self, *features: Feature) -> Feature:
        """Numbers become int64; the size is the number of boundaries + 1."""
        return need_numbers(features[0]).with_values(pa.int64(), len(self.boundaries) + 1)

    def for_float32(self) -> Formula:
        """Rounds the boundaries."""
        return dataclasses.replace(self, boundaries=tuple(map(narrow, self.boundaries)))

    def formula(self, x: Any, library: Library) -> Any:
        """Counts the boundaries."""
        return library.place(self._array, x)

    @functools.cached_property
    def _array(self) -> npt.NDArray[np.float64]:
        return np.array(self.boundaries, np.float64)


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
