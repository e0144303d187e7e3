"""``clip``: numbers limited to bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.values import (
    check_parameters,
    map_exact,
    need_number,
    need_numbers,
)

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "a lower and an upper bound; one of them may be null, as in {clip: [0, 100]}"


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
        check_parameters(parameters, {"value": _EXPECTED})
        value = parameters.get("value")
        if not isinstance(value, list | tuple) or len(value) != 2 or list(value) == [None, None]:
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        low, high = (item if item is None else need_number(item, _EXPECTED) for item in value)
        if low is not None and high is not None and low > high:
            raise ValueError(f"found {value!r}, expected {_EXPECTED}; the lower one first.")
        return cls(low, high)

    def output(self, *features: Feature) -> Feature:
        """The same type; integers need whole bounds."""
        feature = need_numbers(features[0])
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
        return map_exact(arrays[0], lambda x: self._clipped(x, np.where, x.dtype.type))

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
