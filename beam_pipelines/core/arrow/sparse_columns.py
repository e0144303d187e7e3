"""Columns of lists that together are one sparse tensor."""

from __future__ import annotations

from typing import NamedTuple

# The size of a dimension, the largest index plus 1, is an int64 in TensorFlow and in schemas.
MOST_INDEX = (1 << 63) - 2


class SparseColumns(NamedTuple):
    """Columns of lists that together are one sparse tensor.

    Attributes:
      name: of the tensor.
      indices: columns with the indices of values, one for each dimension after the rows; from 0,
        ascending.
      value: the column of the values.
      sizes: of the dimensions; ``None``: found in the data.
    """

    name: str
    indices: tuple[str, ...]
    value: str
    sizes: tuple[int | None, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that belong to it."""
        return (*self.indices, self.value)
