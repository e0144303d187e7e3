"""Columns of lists that together are one sparse tensor."""

from __future__ import annotations

from typing import NamedTuple


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
