"""Ids in place of texts: those of the encodings ``vocabulary`` and ``hash_bucket``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.reader.arrays import with_values

_EXPECTED = (
    "a number of buckets, or bp.Lookup(texts, num_oov) of one or more texts, each once. Of a "
    "feature with a domain in the schema the texts may be 'schema'."
)
_MOST_IDS = 1 << 62


class Lookup(NamedTuple):
    """Texts whose ids are their places.

    A missing value stays missing.

    Attributes:
      texts: text or bytes of each id, also as an Arrow array; ``schema``: those of the feature's
        domain in the dataset's schema.
      num_oov: number of ids, behind those of the texts, for all other values, by FarmHash's
        fingerprint; 0: their id is -1.
    """

    texts: Sequence[str | bytes] | pa.Array | Literal["schema"]
    num_oov: int = 0


class TextIds(NamedTuple):
    """How texts become ids; the place in ``known``, else a hash.

    Attributes:
      known: texts of the first ids.
      index: of them.
      num_oov: number of ids for others.
    """

    known: pa.Array
    index: pa.Array
    num_oov: int

    def __repr__(self) -> str:  # a difference is shown by ``mix``
        return f"TextIds({len(self.known):,} texts, num_oov={self.num_oov})"

    def ids_of(self, values: pa.Array) -> pa.Array:
        """Returns int64 in place of texts, also in lists."""
        if not pa.types.is_nested(values.type):
            return _native.look_up(values, *self)
        return with_values(values, self.ids_of(values.values))


def make_lookup(name: str, given: Any, domain: Sequence[str]) -> TextIds:
    """Returns how a feature's texts become ids.

    Args:
      name: of the feature, for the message.
      given: number of buckets, or a ``Lookup``.
      domain: the texts that the schema knows.

    Raises:
      ValueError: it is neither, or not of distinct texts.
    """
    is_vocabulary = isinstance(given, Lookup)
    texts, num_oov = given if is_vocabulary else ((), given)
    known = _known(domain if isinstance(texts, str) and texts == "schema" else texts)
    is_number = isinstance(num_oov, int) and not isinstance(num_oov, bool)
    is_right = known is not None and bool(len(known)) == is_vocabulary
    if not is_right or not is_number or not 1 - is_vocabulary <= num_oov <= _MOST_IDS:
        raise ValueError(f"lookup: found {given!r:.80} for feature '{name}', expected {_EXPECTED}")
    return TextIds(known, _native.index_texts(known), num_oov)


def _known(texts: Any) -> pa.Array | None:
    """Returns distinct texts as an array, or ``None``."""
    if isinstance(texts, str | bytes):
        return None
    try:
        known = pa.array(texts).cast(pa.large_binary())
    except (pa.ArrowException, TypeError, ValueError):
        return None
    is_distinct = not known.null_count and len(known.unique()) == len(known)
    return known if is_distinct else None
