"""Columns of lists that are one sparse tensor together."""

from __future__ import annotations

from typing import NamedTuple


class SparseColumns(NamedTuple):
    """Columns of lists that are one sparse tensor together: every value has its place.

    Attributes:
      name: of the tensor.
      indices: columns that say where a value is, one for each dimension behind the rows; they count
        from 0, in ascending order.
      value: the column of the values.
      sizes: of the dimensions; ``None``: learned from the data.
    """

    name: str
    indices: tuple[str, ...]
    value: str
    sizes: tuple[int | None, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that belong to it."""
        return (*self.indices, self.value)
