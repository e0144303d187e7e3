"""How much an accumulator may hold before it goes over to sketches."""

from __future__ import annotations

from typing import NamedTuple

# All columns of one split may hold so much together; and all slices by a column as much again.
TABLE_BYTES = 1 << 27
# Distinct values of a column, as long as the table has few enough columns.
MAX_NUMBERS = 1 << 14
MAX_TEXTS = 1 << 18
MAX_TEXT_BYTES = 1 << 24
MAX_BINARY_BYTES = 1 << 20
# What a number, and a text beside its own bytes, takes: value or offset, and count.
_BYTES_PER_NUMBER = 16
BYTES_PER_TEXT = 12


class Limits(NamedTuple):
    """The bounds of one column. They follow from the number of columns, so that any two parts of a
    table agree on them.

    Attributes:
      numbers: distinct numbers, all counted.
      points: of the distribution of more numbers than that.
      texts: distinct texts or bytes, all counted.
      text_bytes: what they may take, ``BYTES_PER_TEXT`` each included; ``binary_bytes`` where they
        are of type bytes.
      kept_texts, kept_bytes: of the most frequent texts beyond that. Of type bytes none is kept:
        they are never shown.
      hashes: of the sketch that then estimates how many distinct ones there are; off by about 1 /
        sqrt(hashes).
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
    def of_columns(cls, columns: int) -> Limits:
        """Returns the bounds at which so many columns stay below ``TABLE_BYTES``, if not below 24
        KiB each.
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
