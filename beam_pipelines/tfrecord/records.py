"""Turns rows into framed records.

A record is a tf.Example, a tf.SequenceExample, or the value of a column.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.errors import DataError


def framed_records(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64] | None,
    record: str | None,
    lists: Collection[str] = (),
) -> pa.LargeBinaryArray:
    """Returns one TFRecord record for each row.

    Args:
      batch: features as columns.
      rows: rows in the order of the records; ``None``: all.
      record: the column whose values are the records, or ``None``.
      lists: names of feature lists; with any, records are tf.SequenceExamples, else tf.Examples.

    Raises:
      DataError: a null in the column ``record``.
    """
    if record is None:
        return _native.serialize(batch, rows, lists)
    values = (batch if rows is None else take_rows(batch, rows)).column(record)
    if values.null_count:
        raise DataError(missing_records(record, values.null_count))
    return _native.frame(values.cast(pa.binary()))


def missing_records(record: str, nulls: int) -> str:
    """Returns the message for rows with a null as their record."""
    return (
        f"output.record '{record}': found {nulls:,} rows without a value, expected none; nothing "
        "was written. Leave them out "
        f"with 'filter: {record} IS NOT NULL'."
    )
