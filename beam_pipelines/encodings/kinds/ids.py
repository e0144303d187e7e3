"""``vocabulary``, ``hash_bucket`` and ``cross``: ids of texts and whole numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings import array_values
from beam_pipelines.encodings import tokens as text_tokens
from beam_pipelines.encodings.encoding import Encoding, Fitted, Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import from_matrix, to_matrix
from beam_pipelines.encodings.vocabulary_asset import token_table

if TYPE_CHECKING:
    import tensorflow as tf

_VOCABULARY = {
    "top_k": "how many values at most, as in {vocabulary: 10000}",
    "min_count": "a least count, 0 or more",
    "reserved": "a list of distinct texts that come first, not empty and of one line",
    "num_oov": "a number of ids for values that are not in it, 0 or more",
}


@dataclasses.dataclass(frozen=True)
class Vocabulary(Encoding):
    """Numbers values by frequency, from 0 for the most frequent.

    Of equally frequent values the larger by its bytes is first. The empty text and texts with a
    line break are in no vocabulary. Integers count as decimal texts.

    Attributes:
      top_k: number of values to keep, without reserved ones; ``None`` for all.
      min_count: rarer values are left out.
      reserved: tokens with the first ids, whether they occur or not.
      num_oov: number of ids, after those of the vocabulary, for other values; 0: their id is -1.
    """

    top_k: int | None = None
    min_count: float = 0
    reserved: tuple[str, ...] = ()
    num_oov: int = 0

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Vocabulary:
        """Takes ``top_k``, also the short form, ``min_count``, ``reserved``, ``num_oov``."""
        parameters = array_values.short_form(parameters, "top_k")
        array_values.check_parameters(parameters, _VOCABULARY)
        return cls(
            array_values.need_whole(parameters["top_k"], 1, _VOCABULARY["top_k"])
            if "top_k" in parameters
            else None,
            text_tokens.need_amount(parameters.get("min_count", 0), _VOCABULARY["min_count"]),
            _reserved(parameters.get("reserved", ())),
            array_values.need_whole(
                parameters.get("num_oov", 0), 0, _VOCABULARY["num_oov"], array_values.MOST_IDS // 2
            ),
        )

    @property
    def analyzer(self) -> text_tokens.TokenCounts:  # type: ignore[override]
        """Counts tokens."""
        return text_tokens.TokenCounts(self.top_k, self.min_count, self.reserved)

    def output(self, *features: Feature) -> Feature:
        """Ids, int64; lists stay lists."""
        return text_tokens.need_tokens(features[0]).with_values(pa.int64())

    def fit(self, analysis: pa.RecordBatch) -> FittedVocabulary:
        """Orders the selected tokens."""
        reserved = pa.array([token.encode() for token in self.reserved], pa.binary())
        tokens = pa.concat_arrays([reserved, self.analyzer.ordered(analysis)["key"]])
        if not len(tokens):
            raise ValueError(text_tokens.NO_TOKENS)
        return FittedVocabulary(tokens, self.num_oov)


@dataclasses.dataclass(frozen=True)
class FittedVocabulary(Fitted):
    """The place of a value in ``tokens``; null stays null.

    Another value has id -1, or with ``num_oov`` ``len(tokens)`` + its fingerprint modulo
    ``num_oov``, as in ``tf.lookup.StaticVocabularyTable``.

    Attributes:
      tokens: binary, distinct, in the order of their ids.
      num_oov: number of ids for other values.
    """

    tokens: pa.Array
    num_oov: int

    def output(self, *features: Feature) -> Feature:
        """Ids below ``size``, and -1 without ``num_oov``; lists stay lists."""
        size, lowest = len(self.tokens) + self.num_oov, 0 if self.num_oov else -1
        return text_tokens.need_tokens(features[0]).with_values(pa.int64(), size, lowest)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Looks values up."""
        return array_values.map_values(
            arrays[0], lambda x: text_tokens.token_ids(self.tokens, x, self.num_oov)
        )

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Looks the flat values up in a table.

        The table's file becomes an asset. See ``encodings/vocabulary_asset.py``.
        """
        (x,) = features
        return x.with_flat_values(
            token_table(self.tokens, self.num_oov).lookup(text_tokens.tensor_tokens(x.flat_values))
        )


def _reserved(tokens: Any) -> tuple[str, ...]:
    is_list = isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens)
    if (
        not is_list
        or len(set(tokens)) < len(tokens)
        or any(not token or set(token) & {"\n", "\r"} for token in tokens)
    ):
        raise ValueError(f"found reserved {tokens!r}, expected {_VOCABULARY['reserved']}.")
    return tuple(tokens)


_HASH_BUCKETS = "a number of buckets, at least 1, as in {hash_bucket: 1000}"


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
        value = array_values.only_value(parameters, _HASH_BUCKETS)
        return cls(array_values.need_whole(value, 1, _HASH_BUCKETS))

    def output(self, *features: Feature) -> Feature:
        """Ids, int64; lists stay lists."""
        return text_tokens.need_tokens(features[0]).with_values(pa.int64(), size=self.buckets)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Hashes distinct values only."""
        return array_values.map_values(
            arrays[0], lambda x: text_tokens.token_ids(text_tokens.NOTHING, x, self.buckets)
        )

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Hashes the flat values."""
        import tensorflow as tf

        (x,) = features
        return x.with_flat_values(
            tf.strings.to_hash_bucket_fast(text_tokens.tensor_tokens(x.flat_values), self.buckets)
        )


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
        array_values.check_parameters(parameters, {"columns": _COLUMNS, "buckets": _BUCKETS})
        columns = parameters.get("columns")
        if (
            not isinstance(columns, list | tuple)
            or len(columns) < 2
            or not all(isinstance(name, str) for name in columns)
        ):
            raise ValueError(f"found columns {columns!r}, expected {_COLUMNS}.")
        return cls(array_values.need_whole(parameters.get("buckets"), 1, _BUCKETS), tuple(columns))

    def output(self, *features: Feature) -> Feature:
        """An id, int64, in every row."""
        for name, feature in zip(self.inputs, features, strict=True):
            if text_tokens.need_tokens(feature).is_list:
                raise ValueError(
                    f"found {type_name(feature.type)} in '{name}', expected one value a row."
                )
        return Feature(pa.int64(), required=True, size=self.buckets)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Hashes distinct joined texts only."""
        parts = [text_tokens.as_tokens(array) for array in arrays]
        joined = pc.binary_join_element_wise(
            *parts, SEPARATOR.encode(), null_handling="replace", null_replacement=b""
        )
        return text_tokens.token_ids(text_tokens.NOTHING, joined, self.buckets)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Joins and hashes; a row without a value joins as empty text."""
        import tensorflow as tf

        parts = [
            to_matrix(x.with_flat_values(text_tokens.tensor_tokens(x.flat_values)), "", 1)
            for x in features
        ]
        joined = tf.strings.join(parts, SEPARATOR)
        return from_matrix(tf.strings.to_hash_bucket_fast(joined, self.buckets))
