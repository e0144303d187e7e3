"""The hashes by which rows meet.

A hash is two 64-bit hashes with seeds of their own (``core/hashing.py``). Two of a billion rows
with different values have one hash with a probability of 10^-21.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.checks.meet import Meet
from beam_pipelines.core import _native
from beam_pipelines.core.limits import Limits
from beam_pipelines.sql.expressions import evaluate

_SEEDS = (0x657175616C30, 0x657175616C31)  # "equal0", "equal1"
# Bytes of a hash in a column.
_WIDTH = 16
HASH = "\0equal"


def hash_name(meet: str) -> str:
    """Returns the column of a meet's hashes.

    No column of a source can have this name.
    """
    return f"{HASH} {meet}"


def meet_hashes(
    meets: Iterable[Meet], rows: pa.RecordBatch, limits: Limits
) -> Iterator[tuple[str, pa.Array]]:
    """Yields the columns that chunks carry, with their names.

    Raises:
      ExpressionError: one has no value.
    """
    for meet in meets:
        if meet.way is not None:
            yield hash_name(meet.name), meet.way.carried(rows, limits)
            continue
        arrays = [
            rows.column(value) if isinstance(value, str) else evaluate(rows, value)
            for value in meet.values
        ]
        yield hash_name(meet.name), hash_values(arrays, meet.skips_null)


def hash_values(arrays: Sequence[pa.Array], skips_null: bool) -> pa.Array:
    """Returns the hash of each row's values, binary of 16 bytes.

    Numbers are equal as in SQL: NaN equals NaN, and -0.0 equals 0.0.

    Args:
      arrays: one or more, of n values of column types.
      skips_null: whether a row with a null has no hash, which is null; else a null is a value.
    """
    pairs = np.empty((len(arrays[0]), 2), "<u8")
    for number, seed in enumerate(_SEEDS):
        pairs[:, number] = _native.hash_rows(arrays, seed)
    validity = None
    if skips_null and any(array.null_count for array in arrays):
        is_valid = np.logical_and.reduce(
            [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
        )
        validity = pa.array(is_valid).buffers()[1]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_WIDTH), len(pairs), [validity, pa.py_buffer(pairs)]
    )
