"""Tokens of vocabularies: their bytes, counts, and places in a vocabulary.

A token is the bytes of a text, or the decimal text of an integer, as ``tf.strings.as_string``
writes it. A vocabulary is an array of distinct tokens. The serving graph stores it as a text file:
it has no token that is empty or holds a line break.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.encodings.array_values import need_number
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf

Ids = npt.NDArray[np.int64]
UNSEEN = -1
NO_TOKENS = (
    "found no value to make a vocabulary of, or none with a count of 'min_count'. Leave "
    "the column out with 'drop', or lower 'min_count'."
)

# With this vocabulary, an id is the fingerprint modulo the number of ids.
NOTHING = pa.array([], pa.binary())

# Indexes of vocabularies, by id of the array; removed with the array.
_indexes: dict[int, pa.Array] = {}
_lock = Lock()


def need_tokens(feature: Feature) -> Feature:
    """Returns the feature if it holds text, bytes or integers.

    They may be in lists.

    Raises:
      ValueError: it is of another type.
    """
    if pa.types.is_floating(feature.value_type):
        raise ValueError(
            f"found {type_name(feature.type)}, expected text, bytes or whole numbers. Declare "
            "whole numbers with 'types' of the source, as in 'types: {user: int64}', or take "
            "'bucketize' first."
        )
    return feature


def need_amount(value: Any, expected: str) -> float:
    """Returns a parameter that must be a number of 0 or more.

    Raises:
      ValueError: it is not.
    """
    if need_number(value, expected) < 0:
        raise ValueError(f"found {value!r}, expected {expected}.")
    return float(value)


def as_tokens(values: pa.Array) -> pa.Array:
    """Returns scalars as a binary array; nulls stay null.

    Integers become texts, which is slow: pass distinct ones.
    """
    if pa.types.is_integer(values.type):
        values = pc.cast(values, pa.string())
    return values.view(pa.binary())


def tensor_tokens(values: tf.Tensor) -> tf.Tensor:
    """Returns a tensor of int64 or text as tokens."""
    import tensorflow as tf

    return tf.strings.as_string(values) if values.dtype.is_integer else values


def fit_for_file(tokens: pa.Array) -> pa.Array:
    """Returns which tokens a vocabulary's file can hold.

    They are not empty and have no line breaks.
    """
    breaks = pc.or_(pc.match_substring(tokens, "\n"), pc.match_substring(tokens, "\r"))
    return pc.and_not(pc.greater(pc.binary_length(tokens), 0), breaks)


def row_numbers(array: pa.Array) -> Ids:
    """Returns the row of each value as int64[m].

    Values are items of lists, or scalars that are not null.
    """
    if pa.types.is_list(array.type):
        rows: Ids = pc.list_parent_indices(array).to_numpy().astype(np.int64, copy=False)
        return rows
    return np.flatnonzero(is_valid(array))


def flat_values(array: pa.Array) -> pa.Array:
    """Returns the items of lists, or the scalars that are not null."""
    return array.flatten() if pa.types.is_list(array.type) else array.drop_null()


@dataclasses.dataclass(frozen=True)
class TokenCounts:
    """Counts tokens and selects those of a vocabulary; ``analyzers.KeyedSums``.

    Its tables have the columns ``key`` (binary) and ``count``, the number of occurrences.

    Attributes:
      top_k: number of tokens to select; ``None`` for all.
      min_count: lowest count to select.
      reserved: tokens not to select.
    """

    top_k: int | None = None
    min_count: float = 0
    reserved: tuple[str, ...] = ()

    def count(self, array: pa.Array) -> pa.RecordBatch:
        """Counts the tokens of a batch of scalars or lists."""
        encoded = flat_values(array).dictionary_encode()
        counts = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
        return pa.RecordBatch.from_arrays(
            [as_tokens(encoded.dictionary), pa.array(counts)], ["key", "count"]
        )

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the ``top_k`` tokens that a vocabulary may have."""
        keys, counts = sums["key"], sums["count"]
        reserved = pa.array([token.encode() for token in self.reserved], pa.binary())
        chosen = pc.and_not(fit_for_file(keys), pc.is_in(keys, reserved))
        frequent = pc.and_(pc.greater(counts, 0), pc.greater_equal(counts, self.min_count))
        return self._first(sums.filter(pc.and_(chosen, frequent)))

    def ordered(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the selected tokens in vocabulary order: by count, then bytes, descending."""
        first = self._first(sums)
        return first.take(pc.sort_indices(first, [("count", "descending"), ("key", "descending")]))

    def _first(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        if self.top_k is None or len(sums) <= self.top_k:
            return sums
        order = [("count", "descending"), ("key", "descending")]
        return sums.take(pc.select_k_unstable(sums, self.top_k, order))


def find_tokens(vocabulary: pa.Array, values: pa.Array, num_oov: int = 0) -> Ids:
    """Returns the place of each value in a vocabulary.

    Args:
      vocabulary: binary, distinct. Its index is built once and kept as long as this array.
      values: n scalars: text, bytes or int64.
      num_oov: number of ids for other values, as ``_native.look_up`` has them.

    Returns:
      int64[n], the place of each value; ``UNSEEN`` of nulls, and of values that are not in it if
      ``num_oov`` is 0.
    """
    if pa.types.is_integer(values.type):  # whose texts are slow to make
        encoded = values.dictionary_encode()
        places = np.append(find_tokens(vocabulary, as_tokens(encoded.dictionary), num_oov), UNSEEN)
        found: Ids = places[encoded.indices.fill_null(len(places) - 1).to_numpy()]
        return found
    index = _index_of(vocabulary)
    ids: Ids = _native.look_up(as_tokens(values), vocabulary, index, num_oov).to_numpy()
    return ids


def token_ids(vocabulary: pa.Array, values: pa.Array, num_oov: int) -> pa.Array:
    """Returns ``find_tokens`` as int64; nulls stay null."""
    ids = find_tokens(vocabulary, values, num_oov)
    return pa.array(ids, mask=~is_valid(values) if values.null_count else None)


def _index_of(vocabulary: pa.Array) -> pa.Array:
    """Returns the index of a vocabulary; it is made once."""
    key = id(vocabulary)
    with _lock:
        if key not in _indexes:
            _indexes[key] = _native.index_texts(vocabulary)
            weakref.finalize(vocabulary, _indexes.pop, key, None).atexit = False
        return _indexes[key]
