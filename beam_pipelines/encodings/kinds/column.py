"""``column`` and ``drop``: for columns that are encoded twice, or not written.

``column`` begins a chain with another column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.encodings.array_values import need_text, only_value
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


class _Unchanged(Fixed):
    """Gives its input."""

    def output(self, *features: Feature) -> Feature:
        """The same."""
        return features[0]

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Returns the array."""
        return arrays[0]

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the tensor."""
        return features[0]


@dataclasses.dataclass(frozen=True)
class Column(_Unchanged):
    """Takes a column unchanged.

    Attributes:
      inputs: its name, or that of a feature of an entry above.
    """

    inputs: tuple[str, ...] = ()

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Column:
        """Takes the column's name: ``{column: dest}``."""
        expected = "a column's name, as in {column: dest}"
        return cls((need_text(only_value(parameters, expected), expected),))


@dataclasses.dataclass(frozen=True)
class Drop(_Unchanged):
    """Leaves a feature out of the examples; only the plan uses it."""
