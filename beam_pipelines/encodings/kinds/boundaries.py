"""``boundaries``: the number of a value's interval between given boundaries."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import Formula, Library
from beam_pipelines.encodings.values import check_parameters, narrow, need_number, need_numbers

_EXPECTED = "ascending numbers, as in {boundaries: [0, 10, 100]}"


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
        check_parameters(parameters, {"value": _EXPECTED})
        value = parameters.get("value")
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        numbers = [float(need_number(item, _EXPECTED)) for item in value]
        if not all(low < high for low, high in itertools.pairwise(numbers)):
            raise ValueError(
                f"found {value!r}, expected {_EXPECTED}; each more than the one before."
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
