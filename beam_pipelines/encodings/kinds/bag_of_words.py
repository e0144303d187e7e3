"""``bag_of_words``: counts of the frequent tokens of a row as a vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings import tokens
from beam_pipelines.encodings.array_values import as_lists, check_parameters, need_whole, short_form
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import from_matrix
from beam_pipelines.encodings.vocabulary_asset import token_table

if TYPE_CHECKING:
    import tensorflow as tf


# A vector of that many float32 takes 64 KiB a row.
_MAX_TERMS = 1 << 14


def _vector(feature: Feature, length: int | None = None) -> Feature:
    """Returns the feature of float32 vectors, one per row of tokens."""
    tokens.need_tokens(feature)
    return Feature(pa.list_(pa.float32()), required=True, length=length)


@dataclasses.dataclass(frozen=True)
class BagOfWords(Encoding):
    """Counts the tokens of a row.

    A row is a list, as ``tokenize`` gives, or one token.

    Attributes:
      top_k: number of tokens to count, the most frequent ones.
      min_count: rarer tokens are not counted.
    """

    top_k: int
    min_count: float = 0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> BagOfWords:
        """Takes ``top_k``, which is also the short form, and ``min_count``."""
        parameters = short_form(parameters, "top_k")
        expected = {
            "top_k": f"a vector's length, at most {_MAX_TERMS}, as in {{bag_of_words: 1000}}",
            "min_count": "a least count, 0 or more",
        }
        check_parameters(parameters, expected)
        top_k = need_whole(parameters.get("top_k"), 1, expected["top_k"])
        if top_k > _MAX_TERMS:
            raise ValueError(
                f"found {top_k}, expected {expected['top_k']}. Take 'vocabulary' for a list of ids."
            )
        return cls(top_k, tokens.need_amount(parameters.get("min_count", 0), expected["min_count"]))

    @property
    def analyzer(self) -> tokens.TokenCounts:  # type: ignore[override]
        """Counts tokens."""
        return tokens.TokenCounts(self.top_k, self.min_count)

    def output(self, *features: Feature) -> Feature:
        """A vector of float32 in every row."""
        return _vector(features[0])

    def fit(self, analysis: pa.RecordBatch) -> FittedBagOfWords:
        """Orders the selected tokens as ``vocabulary`` does."""
        chosen = self.analyzer.ordered(analysis)["key"]
        if not len(chosen):
            raise ValueError(tokens.NO_TOKENS)
        return FittedBagOfWords(chosen)


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
        return _vector(features[0], len(self.tokens))

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Counts tokens."""
        (array,), length = arrays, len(self.tokens)
        rows = tokens.row_numbers(array)
        terms = tokens.find_tokens(self.tokens, tokens.flat_values(array))
        seen = terms >= 0
        cells, counts = np.unique(rows[seen] * length + terms[seen], return_counts=True)
        values = np.zeros(len(array) * length, np.float32)
        values[cells] = counts
        return as_lists(pa.array(values), np.full(len(array), length))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Counts tokens."""
        import tensorflow as tf

        (x,), length = features, len(self.tokens)
        terms = token_table(self.tokens).lookup(tokens.tensor_tokens(x.flat_values))
        cells = tf.where(terms < 0, tf.cast(-1, tf.int64), x.value_rowids() * length + terms)
        # A segment sum ignores places below 0.
        counts = tf.math.unsorted_segment_sum(
            tf.ones_like(cells, tf.float32), cells, x.nrows() * length
        )
        return from_matrix(tf.reshape(counts, [-1, length]))
