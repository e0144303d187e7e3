"""``drop``: a column that other encodings use and that is not written."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Drop(Fixed):
    """Leaves a feature out of the examples; only the plan uses it."""

    def output(self, *features: Feature) -> Feature:
        """The same."""
        return features[0]

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Returns the array."""
        return arrays[0]

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the tensor."""
        return features[0]
