"""What decides a row's split, where its later columns do not.

Without ``by``, shares follow from the hash of the row as it was read and joined, before ``derive``,
``drop`` and ``keep``; so these do not move rows between splits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.chunks import SPLIT_KEY
from beam_pipelines.recipe.splits import Split

# Another seed than that of joins, or a join's partition would have rows of one split only.
SPLIT_SEED = 0x73706C6974  # "split"
KEY_FIELD = pa.field(SPLIT_KEY, pa.uint64())


def key_columns(
    split: Split, rows: pa.Schema, is_grouped: bool, changes: bool, derived: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns the columns whose hash is a row's key, or none.

    Args:
      split: of the recipe.
      rows: the columns of joined rows, renamed.
      is_grouped: whether rows become sequences.
      changes: whether columns are derived or left out before the split.
      derived: columns that sources derive, which do not move rows, either.
    """
    changes = changes or bool(split.stratify or derived)
    if len(split.fractions) < 2 or split.by or is_grouped or not changes:
        return ()
    return tuple(name for name in rows.names if name not in derived)


def key_of(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    """Returns uint64[rows]: the key of each row, a hash of its values."""
    return pa.array(_native.hash_rows([batch.column(name) for name in columns], SPLIT_SEED))
