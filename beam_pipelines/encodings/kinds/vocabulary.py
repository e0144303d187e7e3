"""``vocabulary``: ids by frequency, as ``tft.compute_and_apply_vocabulary``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.encodings import values
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.tokens import (
    NO_TOKENS,
    TokenCounts,
    find_tokens,
    need_amount,
    need_tokens,
    tensor_tokens,
)
from beam_pipelines.encodings.vocabulary_asset import token_table

if TYPE_CHECKING:
    import tensorflow as tf


_EXPECTED = {
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
      min_count: rarer values (by weight, where rows have weights) are left out.
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
        parameters = values.short_form(parameters, "top_k")
        values.check_parameters(parameters, _EXPECTED)
        return cls(
            values.need_whole(parameters["top_k"], 1, _EXPECTED["top_k"])
            if "top_k" in parameters
            else None,
            need_amount(parameters.get("min_count", 0), _EXPECTED["min_count"]),
            _reserved(parameters.get("reserved", ())),
            values.need_whole(
                parameters.get("num_oov", 0), 0, _EXPECTED["num_oov"], values.MOST_IDS // 2
            ),
        )

    @property
    def analyzer(self) -> TokenCounts:  # type: ignore[override]
        """Counts tokens."""
        return TokenCounts(self.top_k, self.min_count, self.reserved)

    def output(self, *features: Feature) -> Feature:
        """Ids, int64; lists stay lists."""
        return need_tokens(features[0]).with_values(pa.int64())

    def fit(self, analysis: pa.RecordBatch) -> FittedVocabulary:
        """Orders the selected tokens."""
        reserved = pa.array([token.encode() for token in self.reserved], pa.binary())
        tokens = pa.concat_arrays([reserved, self.analyzer.ordered(analysis)["key"]])
        if not len(tokens):
            raise ValueError(NO_TOKENS)
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
        return need_tokens(features[0]).with_values(pa.int64(), size, lowest)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Looks values up."""
        return values.map_values(arrays[0], self._look_up)

    def _look_up(self, values: pa.Array) -> pa.Array:
        ids = find_tokens(self.tokens, values, self.num_oov)
        return pa.array(ids, mask=~is_valid(values) if values.null_count else None)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Looks the flat values up in a table.

        The table's file becomes an asset. See ``encodings/vocabulary_asset.py``.
        """
        (x,) = features
        return x.with_flat_values(
            token_table(self.tokens, self.num_oov).lookup(tensor_tokens(x.flat_values))
        )


def _reserved(tokens: Any) -> tuple[str, ...]:
    is_list = isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens)
    if (
        not is_list
        or len(set(tokens)) < len(tokens)
        or any(not token or set(token) & {"\n", "\r"} for token in tokens)
    ):
        raise ValueError(f"found reserved {tokens!r}, expected {_EXPECTED['reserved']}.")
    return tuple(tokens)
