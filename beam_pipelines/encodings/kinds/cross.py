"""``cross``: one id for the combined values of several columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.ragged import from_matrix, to_matrix
from beam_pipelines.encodings.tokens import (
    as_tokens,
    buckets_of,
    need_tokens,
    tensor_tokens,
)
from beam_pipelines.encodings.values import check_parameters, need_whole

if TYPE_CHECKING:
    import tensorflow as tf


SEPARATOR = "_X_"
_COLUMNS = "two columns or more, as in {cross: {columns: [origin, dest], buckets: 1000}}"
_BUCKETS = (
    "a number of buckets, at least 1, as in {cross: {columns: [origin, dest], buckets: 1000}}"
)


@dataclasses.dataclass(frozen=True)
class Cross(Fixed):
    """Joins texts of several columns by ``_X_`` and hashes them.

    The hash is that of ``hash_bucket``. Integers join as decimal text, and null as the empty text:
    every row has an id. The columns are still written.

    Attributes:
      buckets: number of ids.
      inputs: the columns, or features of entries above; scalars.
    """

    buckets: int
    inputs: tuple[str, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Cross:
        """Takes ``columns`` and ``buckets``."""
        check_parameters(parameters, {"columns": _COLUMNS, "buckets": _BUCKETS})
        columns = parameters.get("columns")
        if (
            not isinstance(columns, list | tuple)
            or len(columns) < 2
            or not all(isinstance(name, str) for name in columns)
        ):
            raise ValueError(f"found columns {columns!r}, expected {_COLUMNS}.")
        return cls(need_whole(parameters.get("buckets"), 1, _BUCKETS), tuple(columns))

    def output(self, *features: Feature) -> Feature:
        """An id, int64, in every row."""
        for name, feature in zip(self.inputs, features, strict=True):
            if need_tokens(feature).is_list:
                raise ValueError(
                    f"found {type_name(feature.type)} in '{name}', expected one value a row."
                )
        return Feature(pa.int64(), required=True, size=self.buckets)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Hashes distinct joined texts only."""
        parts = [as_tokens(array) for array in arrays]
        joined = pc.binary_join_element_wise(
            *parts, SEPARATOR.encode(), null_handling="replace", null_replacement=b""
        )
        return pa.array(buckets_of(joined, self.buckets))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Joins and hashes; a row without a value joins as empty text."""
        import tensorflow as tf

        parts = [
            to_matrix(x.with_flat_values(tensor_tokens(x.flat_values)), "", 1) for x in features
        ]
        joined = tf.strings.join(parts, SEPARATOR)
        return from_matrix(tf.strings.to_hash_bucket_fast(joined, self.buckets))
