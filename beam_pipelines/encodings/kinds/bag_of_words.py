"""``bag_of_words``: counts of the frequent tokens of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.ragged import from_matrix
from beam_pipelines.encodings.terms import count_terms, read_limits, tensor_counts, vector, vectors
from beam_pipelines.encodings.tokens import NO_TOKENS, TokenCounts

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class BagOfWords(Encoding):
    """Counts the tokens of a row.

    A row is a list, as ``tokenize`` gives, or one token.

    Attributes:
      top_k: number of tokens to count, the most frequent ones.
      min_count: rarer tokens (by weight, where rows have weights) are not counted.
    """

    top_k: int
    min_count: float = 0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> BagOfWords:
        """Takes ``top_k``, which is also the short form, and ``min_count``."""
        return cls(*read_limits(parameters, "bag_of_words"))

    @property
    def analyzer(self) -> TokenCounts:  # type: ignore[override]
        """Counts tokens."""
        return TokenCounts(self.top_k, self.min_count)

    def output(self, *features: Feature) -> Feature:
        """A vector of float32 in every row."""
        return vector(features[0])

    def fit(self, analysis: pa.RecordBatch) -> FittedBagOfWords:
        """Orders the selected tokens as ``vocabulary`` does."""
        tokens = self.analyzer.ordered(analysis)["key"]
        if not len(tokens):
            raise ValueError(NO_TOKENS)
        return FittedBagOfWords(tokens)


@dataclasses.dataclass(frozen=True)
class FittedBagOfWords(Fitted):
    """Counts each of ``tokens`` in a row and ignores other tokens.

    Null is a row without tokens.

    Attributes:
      tokens: binary, distinct, in the order of the vector.
    """

    tokens: pa.Array

    def output(self, *features: Feature) -> Feature:
        """A vector as long as the vocabulary."""
        return vector(features[0], len(self.tokens))

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Counts tokens."""
        counted = count_terms(self.tokens, arrays[0])
        return vectors(counted, counted.counts.astype(np.float64), len(self.tokens))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Counts tokens."""
        import tensorflow as tf

        return from_matrix(tf.cast(tensor_counts(self.tokens, features[0]), tf.float32))
