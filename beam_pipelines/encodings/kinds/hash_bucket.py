"""``hash_bucket``: ids by hash, without a vocabulary.

It suits values that are too many or too new for a vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.tokens import (
    buckets_of,
    need_tokens,
    tensor_tokens,
)
from beam_pipelines.encodings.values import check_parameters, map_values, need_whole

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = "a number of buckets, at least 1, as in {hash_bucket: 1000}"


@dataclasses.dataclass(frozen=True)
class HashBucket(Fixed):
    """FarmHash's 64-bit fingerprint modulo ``buckets``.

    That is ``tf.strings.to_hash_bucket_fast``. Integers are hashed as decimal text. Null stays
    null; the empty text is hashed as any other.

    Attributes:
      buckets: number of ids.
    """

    buckets: int

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> HashBucket:
        """Takes the number of buckets: ``{hash_bucket: 1000}``."""
        check_parameters(parameters, {"value": _EXPECTED})
        return cls(need_whole(parameters.get("value"), 1, _EXPECTED))

    def output(self, *features: Feature) -> Feature:
        """Ids, int64; lists stay lists."""
        return need_tokens(features[0]).with_values(pa.int64(), size=self.buckets)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Hashes distinct values only."""
        return map_values(arrays[0], self._hash)

    def _hash(self, values: pa.Array) -> pa.Array:
        return pa.array(
            buckets_of(values, self.buckets), mask=~is_valid(values) if values.null_count else None
        )

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Hashes the flat values."""
        import tensorflow as tf

        (x,) = features
        return x.with_flat_values(
            tf.strings.to_hash_bucket_fast(tensor_tokens(x.flat_values), self.buckets)
        )
