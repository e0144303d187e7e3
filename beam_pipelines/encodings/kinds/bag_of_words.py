"""``bag_of_words`` and ``tf_idf``: the frequent tokens of a row as a vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import concat_batches
from beam_pipelines.encodings import tokens
from beam_pipelines.encodings.analyzers import Weights
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import from_matrix
from beam_pipelines.encodings.values import as_lists, check_parameters, need_whole, short_form
from beam_pipelines.encodings.vocabulary_asset import token_table

if TYPE_CHECKING:
    import tensorflow as tf


# A vector of that many float32 takes 64 KiB a row.
_MAX_TERMS = 1 << 14


class TermCounts(NamedTuple):
    """The nonzero counts of a batch, by row and term.

    Attributes:
      rows, terms: int64[m], row number and place in the vocabulary.
      counts: int64[m], above 0.
      totals: int64[n], number of tokens of each row, also of tokens in no vocabulary.
    """

    rows: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]


def vector(feature: Feature, length: int | None = None) -> Feature:
    """Returns the feature of float32 vectors, one per row of tokens."""
    tokens.need_tokens(feature)
    return Feature(pa.list_(pa.float32()), required=True, length=length)


def count_terms(vocabulary: pa.Array, array: pa.Array) -> TermCounts:
    """Counts the tokens of n rows.

    Rows are lists, or scalars as lists of one.
    """
    rows, terms = (
        tokens.row_numbers(array),
        tokens.find_tokens(vocabulary, tokens.flat_values(array)),
    )
    totals = np.bincount(rows, minlength=len(array))
    seen = terms >= 0
    cells, counts = np.unique(rows[seen] * len(vocabulary) + terms[seen], return_counts=True)
    return TermCounts(*np.divmod(cells, len(vocabulary)), counts, totals)


def vectors(counted: TermCounts, values: npt.NDArray[np.float64], length: int) -> pa.Array:
    """Returns n vectors with ``values`` at their terms and 0 elsewhere.

    ``values`` are float64[m], and are rounded to float32.
    """
    cells = np.zeros((len(counted.totals), length), np.float32)
    cells[counted.rows, counted.terms] = values
    return as_lists(pa.array(cells.ravel()), np.full(len(cells), length))


def tensor_counts(vocabulary: pa.Array, x: tf.RaggedTensor) -> tf.Tensor:
    """Returns the counts as float64[batch, terms]."""
    import tensorflow as tf

    terms = token_table(vocabulary).lookup(tokens.tensor_tokens(x.flat_values))
    length = len(vocabulary)
    cells = tf.where(terms < 0, tf.cast(-1, tf.int64), x.value_rowids() * length + terms)
    # A segment sum ignores places below 0.
    counts = tf.math.unsorted_segment_sum(
        tf.ones_like(cells, tf.float64), cells, x.nrows() * length
    )
    return tf.reshape(counts, [-1, length])


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
    kind = "bag_of_words"

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> BagOfWords:
        """Takes ``top_k``, which is also the short form, and ``min_count``."""
        parameters = short_form(parameters, "top_k")
        expected = {
            "top_k": f"the length of the vector, at most {_MAX_TERMS}, as in {{{cls.kind}: 1000}}",
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
        return vector(features[0])

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
        return vector(features[0], len(self.tokens))

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Counts tokens."""
        counted = count_terms(self.tokens, arrays[0])
        return vectors(counted, counted.counts.astype(np.float64), len(self.tokens))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Counts tokens."""
        import tensorflow as tf

        return from_matrix(tf.cast(tensor_counts(self.tokens, features[0]), tf.float32))


# No token is empty: this key has the number of all rows.
_ALL_ROWS = b""


@dataclasses.dataclass(frozen=True)
class DocumentCounts(tokens.TokenCounts):
    """Counts tokens and the rows that have them, by weight.

    Column ``documents`` has the counts of rows.
    """

    def count(self, array: pa.Array, weights: Weights | None) -> pa.RecordBatch:
        """Counts a batch's tokens, and its rows under the empty key."""
        values, rows = tokens.flat_values(array), tokens.row_numbers(array)
        filled = pc.not_equal(tokens.as_tokens(values), _ALL_ROWS)
        encoded = values.filter(filled).dictionary_encode()
        rows = rows[filled.to_numpy(zero_copy_only=False)]
        keys, codes = encoded.dictionary, encoded.indices.to_numpy()
        # One cell for each pair of row and token.
        documents = np.unique(rows * max(len(keys), 1) + codes)
        owners, having = np.divmod(documents, max(len(keys), 1))
        all_rows = tokens.sums_of(np.zeros(len(array), np.int64), np.arange(len(array)), 1, weights)
        count = tokens.sums_of(codes, rows, len(keys), weights)
        return pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays([tokens.as_tokens(keys), pa.array([_ALL_ROWS], pa.binary())]),
                pa.array(np.append(count, np.zeros_like(all_rows))),
                pa.array(np.append(tokens.sums_of(having, owners, len(keys), weights), all_rows)),
            ],
            ["key", "count", "documents"],
        )

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the tokens that the vocabulary may have, with the row count.

        The row count is missing if it is not in ``sums``.
        """
        all_rows = sums.filter(pc.equal(sums["key"], _ALL_ROWS))
        return concat_batches([super().select(sums), all_rows])


@dataclasses.dataclass(frozen=True)
class TfIdf(BagOfWords):
    """Weighs the tokens of a row.

    A row is a list, as ``tokenize`` gives, or one token. A token's value in a row is its term
    frequency times its inverse document frequency. The first is its count in the row divided by the
    number of tokens of the row, as in ``tft.tfidf``. The second is ``log((1 + n) / (1 + d)) + 1``
    for n rows, d of them with the token, as in ``tft.tfidf(smooth=True)`` and scikit-learn's
    ``TfidfTransformer(smooth_idf=True)``. Vectors are not normalized.
    """

    kind = "tf_idf"

    @property
    def analyzer(self) -> DocumentCounts:  # type: ignore[override]
        """Counts tokens, rows that have them, and rows."""
        return DocumentCounts(self.top_k, self.min_count)

    def fit(self, analysis: pa.RecordBatch) -> FittedTfIdf:
        """Orders the selected tokens and computes their inverse document frequencies."""
        is_all = pc.equal(analysis["key"], _ALL_ROWS)
        rows = pc.sum(analysis["documents"].filter(is_all)).as_py()
        chosen = self.analyzer.ordered(analysis.filter(pc.invert(is_all)))
        if not len(chosen):
            raise ValueError(tokens.NO_TOKENS)
        documents = chosen["documents"].to_numpy().astype(np.float64)
        return FittedTfIdf(chosen["key"], pa.array(np.log((1 + rows) / (1 + documents)) + 1))


@dataclasses.dataclass(frozen=True)
class FittedTfIdf(FittedBagOfWords):
    """``count / tokens of the row * frequency``.

    All tokens of the row count, also those without a frequency.

    Attributes:
      frequencies: float64, the inverse document frequency of each token.
    """

    frequencies: pa.Array

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Weighs tokens."""
        counted = count_terms(self.tokens, arrays[0])
        values = (
            counted.counts
            / counted.totals[counted.rows]
            * self.frequencies.to_numpy()[counted.terms]
        )
        return vectors(counted, values, len(self.tokens))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Weighs tokens."""
        import tensorflow as tf

        (x,) = features
        totals = tf.cast(tf.maximum(x.row_lengths(), 1), tf.float64)[:, tf.newaxis]
        values = tensor_counts(self.tokens, x) / totals * self.frequencies.to_numpy()
        return from_matrix(tf.cast(values, tf.float32))
