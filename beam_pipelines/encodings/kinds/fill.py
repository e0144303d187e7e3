"""``fill``: a value for nulls."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings.analyzers import Analysis, Analyzer, Moments, Quantiles
from beam_pipelines.encodings.array_values import LARGEST, check_parameters, need_flag, need_numbers
from beam_pipelines.encodings.encoding import Encoding, Fitted, Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import (
    exact_floats,
    exact_floats_tensor,
    from_matrix,
    to_matrix,
)

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "a number, a text, mean, median or most_frequent, as in {fill: 0}"


def _need_scalars(feature: Feature) -> Feature:
    if feature.is_list:
        raise ValueError(
            f"found {type_name(feature.type)}, expected a number or text a row: a list has no "
            "place to fill."
        )
    return feature


def _is_unknown(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns True where an array of scalars is null or NaN."""
    if not pa.types.is_floating(array.type):
        return ~is_valid(array)
    is_nan: npt.NDArray[np.bool_] = np.isnan(array.to_numpy(zero_copy_only=False))  # null too
    return is_nan


@dataclasses.dataclass(frozen=True)
class Missing(Fixed):
    """``<name>_missing``: 1 where a value is null or NaN, else 0."""

    def output(self, *features: Feature) -> Feature:
        """Becomes 0 or 1, never null."""
        _need_scalars(features[0])
        return Feature(pa.int64(), required=True, size=2)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Finds nulls."""
        return pa.array(_is_unknown(arrays[0]).astype(np.int64))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Finds empty rows."""
        import tensorflow as tf

        (x,) = features
        is_float = x.dtype.is_floating
        unknown = (
            tf.math.is_nan(to_matrix(x, math.nan, 1))
            if is_float
            else (x.row_lengths() == 0)[:, tf.newaxis]
        )
        return from_matrix(tf.cast(unknown, tf.int64))


@dataclasses.dataclass(frozen=True)
class FillValue(Fixed):
    """Replaces null and NaN by a given value.

    Attributes:
      value: of the feature's type; of a binary feature, its UTF-8 bytes, or an array of the one
        value.
      missing: whether a second feature marks missing values.
      to_float: whether integers become float64 first, for a mean.
    """

    value: int | float | str | pa.Array
    missing: bool = False
    to_float: bool = False

    fills = True

    def parts(self) -> Mapping[str, Encoding]:
        """Makes itself and, on demand, what was missing."""
        return {"": self, "_missing": Missing()} if self.missing else {"": self}

    def output(self, *features: Feature) -> Feature:
        """The same type, with ``to_float`` float64; never null."""
        feature = _need_scalars(features[0])
        if self.to_float and pa.types.is_integer(need_numbers(feature).type):
            feature = feature.with_values(pa.float64())
        if isinstance(self.value, str) and feature.is_number:
            raise ValueError(
                f"found text {self.value!r} for {type_name(feature.type)}, expected a number."
            )
        if isinstance(self.value, int | float):
            if feature.is_text:
                raise ValueError(
                    f"found number {self.value} for {type_name(feature.type)}, expected a text. "
                    "Set 'types: {column: float64}' of its source if it has numbers, but none in "
                    "the sample."
                )
            if pa.types.is_integer(feature.type) and not (
                isinstance(self.value, int) and -(2**63) <= self.value < 2**63
            ):
                raise ValueError(
                    f"found {self.value} for int64, expected a whole number. Cast to float32 first."
                )
        size = None
        if feature.size is not None and isinstance(self.value, int) and self.value >= 0:
            size = max(feature.size, self.value + 1)
        return dataclasses.replace(feature, required=True, size=size)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Fills an array of scalars."""
        (array,) = arrays
        if self.to_float:
            array = exact_floats(array, pa.float64())
        is_unknown = _is_unknown(array)
        if not is_unknown.any():
            return array
        if isinstance(self.value, pa.Array):
            value = self.value[0]
        else:  # Arrow takes no integer above 2**24 for a float32
            value = pa.scalar(
                float(self.value) if pa.types.is_floating(array.type) else self.value, array.type
            )
        return pc.if_else(pa.array(is_unknown), value, array)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Fills empty rows."""
        import tensorflow as tf

        (x,) = features
        if self.to_float:
            x = x.with_flat_values(exact_floats_tensor(x.flat_values, tf.float64))
        value = tf.constant(
            self.value[0].as_py() if isinstance(self.value, pa.Array) else self.value, x.dtype
        )
        dense = to_matrix(x, value, 1)
        if x.dtype.is_floating:
            dense = tf.where(tf.math.is_nan(dense), value, dense)
        return from_matrix(dense)


@dataclasses.dataclass(frozen=True)
class Fill(Encoding):
    """Replaces null and NaN by a statistic of the other values.

    Attributes:
      statistic: ``mean`` (makes integers float64), ``median`` (the lower of two, so that integers
        stay integers) or ``most_frequent`` (the first one in vocabulary order).
      analyzer: of the statistic.
      missing: whether a second feature, ``<name>_missing``, marks missing values.
    """

    statistic: str
    analyzer: Analyzer | None
    missing: bool = False

    fills = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Encoding:
        """Takes a value or the name of a statistic.

        ``{fill: 0}``, ``{fill: median}``, ``{fill: {value: mean, missing: true}}``.
        """
        check_parameters(parameters, {"value": _EXPECTED, "missing": "true or false"})
        value, missing = parameters.get("value"), need_flag(parameters, "missing")
        if isinstance(value, str) and value in _ANALYZERS:
            return cls(value, _ANALYZERS[value], missing)
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, str) and not (
            isinstance(value, int | float) and abs(value) <= LARGEST
        ):
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        return FillValue(value, missing)

    def parts(self) -> Mapping[str, Encoding]:
        """Makes itself and, on demand, what was missing."""
        return {"": self, "_missing": Missing()} if self.missing else {"": self}

    def output(self, *features: Feature) -> Feature:
        """The same type, of the mean float64; never null."""
        feature = _need_scalars(features[0])
        if self.statistic != "most_frequent":
            need_numbers(feature)
        if self.statistic == "mean" and pa.types.is_integer(feature.type):
            feature = feature.with_values(pa.float64())
        return dataclasses.replace(feature, required=True)

    def fit(self, analysis: Analysis | None) -> Fitted:
        """Takes the statistic.

        Raises:
          ValueError: there are no values.
        """
        if isinstance(analysis, Moments) and analysis.weight:
            return FillValue(analysis.mean, to_float=True)
        if isinstance(analysis, Quantiles) and len(analysis.values):
            median = float(analysis.quantiles(2)[1])
            # The largest int64 are rounded to 2**63 in float64.
            return FillValue(min(int(median), 2**63 - 1) if median.is_integer() else median)
        if isinstance(analysis, pa.RecordBatch) and analysis.num_rows:
            first = commonest(analysis).column("key")
            return FillValue(first if pa.types.is_binary(first.type) else first[0].as_py())
        raise ValueError(
            f"found no values to take '{self.statistic}' of in the splits to fit on. Give a value, "
            f"as in {{fill: 0}}."
        )


@dataclasses.dataclass(frozen=True)
class Occurrences:
    """Counts each value except null and NaN; ``analyzers.KeyedSums``."""

    def count(self, array: pa.Array) -> pa.RecordBatch:
        """Counts the rows with each value."""
        keys = array.filter(pa.array(~_is_unknown(array)))
        if pa.types.is_floating(keys.type):
            keys = pc.add(keys, pa.scalar(0, keys.type))  # -0.0 becomes 0.0
        found = keys.dictionary_encode()
        counts = np.bincount(found.indices.to_numpy(), minlength=len(found.dictionary))
        return pa.RecordBatch.from_arrays([found.dictionary, pa.array(counts)], ["key", "count"])

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the most frequent value."""
        return commonest(sums)


def commonest(sums: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the key with the largest positive count, or no row.

    Of equal counts, the largest key is taken.
    """
    order = [("count", "descending"), ("key", "descending")]
    found = sums.filter(pc.greater(sums.column("count"), 0))
    # Of no rows pyarrow 18 selects none, with an error.
    return found.take(pc.select_k_unstable(found, 1, order)) if found.num_rows else found


_ANALYZERS: dict[str, Analyzer] = {
    "mean": Moments,
    "median": Quantiles,
    "most_frequent": Occurrences(),
}
