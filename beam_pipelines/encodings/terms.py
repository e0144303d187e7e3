"""Term counts as vectors, shared by ``bag_of_words`` and ``tf_idf``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings import tokens
from beam_pipelines.encodings.feature import Feature
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


def read_limits(parameters: Mapping[str, Any], kind: str) -> tuple[int, float]:
    """Returns ``top_k``, required and also the short form, and ``min_count``."""
    parameters = short_form(parameters, "top_k")
    expected = {
        "top_k": f"the length of the vector, at most {_MAX_TERMS}, as in {{{kind}: 1000}}",
        "min_count": "a least count, 0 or more",
    }
    check_parameters(parameters, expected)
    top_k = need_whole(parameters.get("top_k"), 1, expected["top_k"])
    if top_k > _MAX_TERMS:
        raise ValueError(
            f"found {top_k}, expected {expected['top_k']}. Take 'vocabulary' for a list of ids."
        )
    return top_k, tokens.need_amount(parameters.get("min_count", 0), expected["min_count"])


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
