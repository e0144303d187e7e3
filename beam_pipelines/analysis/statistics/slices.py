"""Slices: rows of a batch that have one value in a column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError

# Each slice has statistics of its own.
MAX_SLICES = 100


class DataSlice(NamedTuple):
    """The rows that have a value in a column.

    Attributes:
      column: its name.
      value: the value as text; dates and times as the integers that represent them.
    """

    column: str
    value: str

    @property
    def name(self) -> str:
        """The name of the slice's dataset, as TFDV names it: ``column_value``."""
        return f"{self.column}_{self.value}"


def slice_rows(
    column: str, values: pa.Array, rows: npt.NDArray[np.int64]
) -> dict[DataSlice, npt.NDArray[np.int64]]:
    """Returns the rows of each slice, ascending; nulls are in no slice.

    Args:
      column: name.
      values: texts or int64.
      rows: the row of each value, ascending.

    Raises:
      DataError: there are more than ``MAX_SLICES`` values.
    """
    if values.null_count:
        rows = rows[values.is_valid().to_numpy(zero_copy_only=False)]
    encoded = values.drop_null().dictionary_encode()
    check_number(column, len(encoded.dictionary))
    names, places = encoded.dictionary.cast(pa.string()).to_pylist(), encoded.indices.to_numpy()
    return {
        DataSlice(column, name): np.unique(rows[places == place])
        for place, name in enumerate(names)
    }


def check_number(column: str, number: int) -> None:
    """Checks that a column has few enough slices.

    Raises:
      DataError: it has too many.
    """
    if number > MAX_SLICES:
        raise DataError(
            f"statistics.slice_by, column '{column}': found more than {MAX_SLICES} values, "
            "expected at most so many, because each "
            "has statistics of its own. Leave the column out, or derive one of fewer values."
        )
