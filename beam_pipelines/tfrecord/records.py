"""Turns rows into framed records.

A record is a tf.Example, a tf.SequenceExample, or the value of a column.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.columns import take_rows
from beam_pipelines.core.errors import DataError
from beam_pipelines.tfrecord.example import serialize_batch, serialize_sequences
from beam_pipelines.tfrecord.framing import frame


def framed_records(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64] | None,
    record: str | None,
    lists: Collection[str] = (),
) -> pa.LargeBinaryArray:
    """Returns one TFRecord record for each row.

    Args:
      batch, record, lists: as for ``records_of``.
      rows: rows in the order of the records; ``None``: all.
    """
    if record is None and _native.KERNELS_AVAILABLE:
        return _native.serialize(batch, rows, lists)
    return frame(records_of(batch if rows is None else take_rows(batch, rows), record, lists))


def records_of(
    batch: pa.RecordBatch, record: str | None, lists: Collection[str] = ()
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Returns one serialized record for each row, without nulls.

    Args:
      batch: features as columns.
      record: the column whose values are the records, or ``None``.
      lists: names of feature lists; with any, records are tf.SequenceExamples, else tf.Examples.

    Raises:
      DataError: a null in the column ``record``.
    """
    if record is None:
        return serialize_sequences(batch, lists) if lists else serialize_batch(batch)
    values = batch.column(record)
    if values.null_count:
        raise DataError(missing_records(record, values.null_count))
    return values.cast(pa.binary())


def missing_records(record: str, nulls: int) -> str:
    """Returns the message for rows with a null as their record."""
    return (
        f"output.record '{record}': found {nulls:,} rows without a value, expected none; nothing "
        "was written. Leave them out "
        f"with 'filter: {record} IS NOT NULL'."
    )
