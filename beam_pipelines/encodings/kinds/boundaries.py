"""``boundaries``: the number of a value's interval between given boundaries."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings.encoding import Fixed, RowFunction
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import tensor_to_float64
from beam_pipelines.encodings.values import (
    check_parameters,
    elementwise,
    map_numbers,
    need_number,
    need_numbers,
    widened,
)

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "ascending numbers, as in {boundaries: [0, 10, 100]}"


@dataclasses.dataclass(frozen=True)
class Boundaries(Fixed):
    """Counts the boundaries at or below a value, as ``tft.apply_buckets`` does.

    The bucket is 0 below the first boundary, 1 from the first up to the second, and so on. NaN is
    in the last bucket; null stays null.

    Attributes:
      boundaries: ascending. For float32 features each is rounded to float32, so that 0.7 is the
        same number on both sides.
    """

    boundaries: tuple[float, ...]

    elementwise = True

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

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Finds the buckets of numbers, or of the items of lists."""
        type_ = arrays[0].type
        boundaries = self._for(
            pa.types.is_integer(type_.value_type if pa.types.is_list(type_) else type_)
        )
        return map_numbers(
            arrays[0], lambda x: np.searchsorted(boundaries, x, side="right"), np.int64
        )

    def row_function(self, *features: Feature) -> RowFunction | None:
        """Finds the bucket of one number."""
        wide = widened(features[0])
        boundaries = self._for(pa.types.is_integer(features[0].type)).tolist()
        return elementwise(lambda x: bisect.bisect_right(boundaries, wide(x)))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Finds the buckets of the flat values."""
        import tensorflow as tf

        (x,) = features
        boundaries = self._for(x.dtype.is_integer)
        places = tf.searchsorted(
            boundaries, tensor_to_float64(x.flat_values), side="right", out_type=tf.int64
        )
        return x.with_flat_values(places)

    def _for(self, is_integer: bool) -> npt.NDArray[np.float64]:
        boundaries = np.array(self.boundaries, np.float64)
        return boundaries if is_integer else boundaries.astype(np.float32).astype(np.float64)
