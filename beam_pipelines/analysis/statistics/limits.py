"""Sizes of accumulators: where they turn into sketches, and their bytes."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.arrow.weighted_values import Numbers

# Limit of all columns of a split; all slices by one column have the same limit.
TABLE_BYTES = 1 << 27
# Distinct values of a column, if the table has few enough columns.
MAX_NUMBERS = 1 << 14
MAX_TEXTS = 1 << 18
MAX_TEXT_BYTES = 1 << 24
MAX_BINARY_BYTES = 1 << 20
# Bytes of a number, and of a text besides its own bytes: value or offset, and count.
_BYTES_PER_NUMBER = 16
BYTES_PER_TEXT = 12


class ColumnLimits(NamedTuple):
    """The bounds of one column, from the number of columns.

    Any two parts of a table have the same bounds.

    Attributes:
      numbers: distinct numbers, all counted.
      points: of the distribution of more numbers than that.
      texts: distinct texts or bytes, all counted.
      text_bytes: size of these texts, with ``BYTES_PER_TEXT`` each; ``binary_bytes`` of type bytes.
      kept_texts, kept_bytes: of the most frequent texts beyond that. Of type bytes none is kept:
        they are never shown.
      hashes: of the sketch that then estimates the number of distinct values, with a relative error
        of about 1 / sqrt(hashes).
    """

    numbers: int = MAX_NUMBERS
    points: int = 1 << 11
    texts: int = MAX_TEXTS
    text_bytes: int = MAX_TEXT_BYTES
    binary_bytes: int = MAX_BINARY_BYTES
    kept_texts: int = 1 << 12
    kept_bytes: int = 1 << 20
    hashes: int = 1 << 12

    @classmethod
    def of_columns(cls, columns: int) -> ColumnLimits:
        """Returns bounds that keep all columns below ``TABLE_BYTES``.

        A column has at least 24 KiB, even if all columns then exceed ``TABLE_BYTES``.
        """
        share = max(TABLE_BYTES // max(columns, 1), 24 << 10)
        numbers = min(MAX_NUMBERS, share // _BYTES_PER_NUMBER)
        return cls(
            numbers=numbers,
            points=min(1 << 11, numbers // 2),
            text_bytes=min(MAX_TEXT_BYTES, share),
            binary_bytes=min(MAX_BINARY_BYTES, share),
            kept_bytes=min(1 << 20, share // 2),
            hashes=min(1 << 12, share // 24),
        )


def pack(values: pa.Array, counts: Numbers) -> bytes:
    """Returns values and counts as an lz4-compressed Arrow IPC stream.

    Most counts are small.
    """
    return batches_to_bytes(
        [pa.record_batch([values, pa.array(counts)], ["values", "counts"])], "lz4"
    )


def unpack(stream: bytes) -> tuple[pa.Array, Numbers]:
    """Returns the arguments of ``pack``."""
    batch = bytes_to_batches(stream)[0]
    batch.validate(full=True)  # offsets that point elsewhere would be followed
    return batch.column(0), batch.column(1).to_numpy()
