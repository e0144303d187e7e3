"""Timestamps of 96 bits (INT96), as Spark, Hive and Impala write them.

They are read as microseconds, which hold any year. Arrow reads them as nanoseconds, whose int64
holds the years 1677 to 2262, and wraps others, such as 9999-12-31. The part below a microsecond
would be lost; reading the column as nanoseconds too shows it: however values wrap, the difference
is that part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.nesting import nested


def int96_columns(metadata: Any, names: Collection[str]) -> list[str]:
    """Returns which of a file's columns have such timestamps, nested or not."""
    leaves = (metadata.schema.column(place) for place in range(metadata.num_columns))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return [
        name for name in names if any(path == name or path.startswith(f"{name}.") for path in paths)
    ]


def check_microseconds(
    path: str, first_row: int, batch: pa.RecordBatch, nanoseconds: pa.RecordBatch
) -> None:
    """Checks that no timestamp has a part of a microsecond.

    Args:
      path: of the file.
      first_row: number of the first row, from 1.
      batch: the rows, with these columns in microseconds.
      nanoseconds: the columns alone, in nanoseconds, which may have wrapped.

    Raises:
      DataError: one has.
    """
    for name in nanoseconds.schema.names:
        leaves = (
            dict(nested.flatten_array(name, rows.column(name))) for rows in (batch, nanoseconds)
        )
        for column, micros, nanos in _pairs(*leaves):
            rest = _int64(nanos) - _int64(micros) * 1000  # both wrap alike
            for place in np.flatnonzero(rest)[:1]:
                row = f", row {first_row + place}" if len(rest) == batch.num_rows else ""
                raise DataError(
                    f"{path}{row}, column '{column}': found a timestamp with {rest[place]} ns "
                    "below its microseconds, expected whole ones. "
                    "Write the file with timestamps of 64 bits, or leave the column out with "
                    "'columns'."
                )


def _pairs(
    first: dict[str, pa.Array], second: dict[str, pa.Array]
) -> Iterable[tuple[str, pa.TimestampArray, pa.TimestampArray]]:
    for name, found in first.items():
        micros, nanos = found, second[name]
        while is_list(micros.type):
            micros, nanos = pc.list_flatten(micros), pc.list_flatten(nanos)
        if pa.types.is_timestamp(micros.type) and nanos.type != micros.type:
            yield name, micros, nanos


def _int64(array: pa.TimestampArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the counts of units; 0 for null."""
    return np.asarray(pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False))
