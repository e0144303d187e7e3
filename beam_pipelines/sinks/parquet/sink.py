"""Writes Parquet files: a row group for each part."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.binary_arrays import is_valid, offsets_of
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.schema_features import (
    feature_lists_of,
    features_of,
    has_one_value,
    has_one_value_a_step,
)
from beam_pipelines.core.layout.shard_formats import PARQUET_COMPRESSION
from beam_pipelines.core.limits import MIB
from beam_pipelines.sinks import Settings, Written
from beam_pipelines.tfrecord.part_index import PartColumns

_TYPES = {schema_pb2.INT: pa.int64(), schema_pb2.FLOAT: pa.float32(), schema_pb2.BYTES: pa.binary()}


def columns_of(
    schema: schema_pb2.Schema, texts: Collection[str], lists_of_lists: Collection[str]
) -> pa.Schema:
    """Returns the columns of Parquet files.

    A feature with at most one value is a plain column, one of a fixed shape that no row lacks a
    fixed-size list, any other a list. A feature list is a list of its steps, which are lists where
    they may have several values.

    Args:
      schema: of the features.
      texts: names of features of bytes that are UTF-8.
      lists_of_lists: names of feature lists whose steps have any number of values.
    """
    lists = {feature.name for feature in feature_lists_of(schema)}
    fields = []
    for feature in features_of(schema):
        type_ = pa.string() if feature.name in texts else _TYPES[feature.type]
        if feature.name in lists:
            is_plain = has_one_value_a_step(feature) or feature.name not in lists_of_lists
            type_ = pa.list_(type_ if is_plain else pa.list_(type_))
        else:
            type_ = _with_shape(feature, type_)
        fields.append(pa.field(feature.name, type_))
    return pa.schema(fields)


def _with_shape(feature: schema_pb2.Feature, type_: pa.DataType) -> pa.DataType:
    sizes = [dim.size for dim in feature.shape.dim]
    if has_one_value(feature):
        return type_
    if feature.HasField("shape") and feature.presence.min_fraction == 1 and 0 not in sizes:
        for size in reversed(sizes):
            type_ = pa.list_(type_, size)
        return type_
    return pa.list_(type_)


def listed_type(type_: pa.DataType) -> pa.DataType:
    """Returns a type with a list in place of fixed-size lists."""
    if pa.types.is_fixed_size_list(type_):
        while pa.types.is_fixed_size_list(type_):
            type_ = type_.value_type
        return pa.list_(type_)
    return type_


def ordered_rows(
    batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, columns: pa.Schema
) -> pa.RecordBatch:
    """Returns rows in their order as columns.

    Args:
      batch: the features; without columns: there are no rows.
      order: int64[n], of the rows; ``None``: they have it.
      columns: from ``columns_of``.

    Raises:
      DataError: a row has another number of values than its feature's shape.
    """
    if not batch.num_columns:
        return pa.RecordBatch.from_pylist([], schema=columns)
    rows = batch if order is None else take_rows(batch, order)
    arrays = [
        _fixed(_as_type(rows.column(field.name), listed_type(field.type)), field)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _as_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns a feature's values as another type of values or lists."""
    if column.type == type_:
        return column
    if pa.types.is_list(type_) and not _is_list(column.type):
        valid = is_valid(column)
        ends = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
        values = column.drop_null().cast(type_.value_type)
        return _lists(ends, values, valid)
    if _is_list(column.type) and not pa.types.is_list(type_):
        starts, valid = offsets_of(column), is_valid(column)
        # At most one value a row: none is a null.
        has_one = valid & (np.diff(starts) > 0)
        places = pa.array(starts[:-1], mask=~has_one)
        return column.values.take(places).cast(type_)
    return column.cast(type_)


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _lists(
    offsets: npt.NDArray[np.int32], values: pa.Array, valid: npt.NDArray[np.bool_]
) -> pa.ListArray:
    mask = None if valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


def _fixed(array: pa.Array, field: pa.Field) -> pa.Array:
    type_ = field.type
    if not pa.types.is_fixed_size_list(type_):
        return array
    sizes = []
    while pa.types.is_fixed_size_list(type_):
        sizes.append(type_.list_size)
        type_ = type_.value_type
    values = array.flatten()
    size = math.prod(sizes)
    if array.null_count or (np.diff(offsets_of(array)) != size).any():
        raise DataError(
            f"feature '{field.name}': found a row without {size:,} values, expected them in each "
            "as the schema says. Report it, with the recipe."
        )
    for size in reversed(sizes):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def value_bytes(column: pa.Array) -> int:
    """Returns the bytes of a column's values, whatever buffers hold them.

    Nulls of numbers count as values; each list and text counts 4 bytes for its place, a list of a
    shape once.
    """
    type_ = column.type
    if _is_list(type_):
        return 4 * len(column) + value_bytes(column.flatten())
    if pa.types.is_fixed_size_list(type_):
        values = column
        while pa.types.is_fixed_size_list(values.type):
            values = values.flatten()
        return 4 * len(column) + value_bytes(values)
    if pa.types.is_binary(type_) or pa.types.is_string(type_):
        starts = offsets_of(column)
        return 4 * len(column) + int(starts[-1] - starts[0])
    return int(len(column) * type_.bit_width // 8)


# Bytes of values in a row group: as many rows as a few parts of TFRecords. A footer has some
# hundred bytes for each column of each group.
GROUP_BYTES = 2 * MIB


class _Tracked(io.RawIOBase):
    """A file that is written once, with its position.

    Its owner closes it.

    Attributes:
      crc32: of the bytes since it was set to 0.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.position, self.crc32 = file, 0, 0

    def write(self, data: Any) -> int:
        """Writes bytes behind the others."""
        self._file.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        self.position += len(data)
        return len(data)

    def tell(self) -> int:
        """Returns the number of bytes so far."""
        return self.position

    def writable(self) -> bool:
        """Whether it is written."""
        return True


def _leaf(column: pa.Field) -> tuple[str, pa.DataType]:
    """Returns the path and the type of the values of a column."""
    path, type_ = column.name, column.type
    while pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        path, type_ = f"{path}.list.element", type_.value_type
    return path, type_


class ParquetFile:
    """A file of row groups.

    Integers are written as differences of few bits, in which a compressor finds nothing. Other
    values are compressed by zstd and have no dictionaries: they take less time and fewer bytes.
    Only files in the order of the source have the extremes of columns: with shuffled rows, no query
    could leave out a row group by them.
    """

    def __init__(self, file: BinaryIO, settings: Settings) -> None:
        self._columns = settings.columns or pa.schema([])
        self._tracked = _Tracked(file)
        self._buffered = pa.BufferedOutputStream(pa.PythonFile(self._tracked, mode="w"), MIB)
        leaves = dict(map(_leaf, self._columns))
        integers = {path for path, type_ in leaves.items() if pa.types.is_integer(type_)}
        self._writer = pq.ParquetWriter(
            self._buffered,
            self._columns,
            compression={
                path: "none" if path in integers else PARQUET_COMPRESSION for path in leaves
            },
            compression_level=dict.fromkeys(leaves.keys() - integers, 1),
            use_dictionary=False,
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            write_statistics=not settings.output.shuffle,
        )
        self._buffered.flush()  # the magic number is not of the first row group
        self._rows = 0
        # Offset, bytes, bytes of values, rows and CRC-32 of each row group.
        self._parts: list[tuple[int, int, int, int, int]] = []

    def add(self, prepared: pa.RecordBatch) -> int:
        """Writes rows of ``ordered_rows`` as row groups, and returns their number."""
        rows: int = prepared.num_rows
        if not rows:
            return 0
        size = sum(map(value_bytes, prepared.columns))
        edges = np.linspace(0, rows, min(rows, max(1, round(size / GROUP_BYTES))) + 1).astype(int)
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            own = prepared.slice(start, end - start)
            self._write_group(own, sum(map(value_bytes, own.columns)))
        self._rows += rows
        return rows

    def _write_group(self, rows: pa.RecordBatch, size: int) -> None:
        tracked = self._tracked
        begin, tracked.crc32 = tracked.position, 0
        self._writer.write_table(pa.Table.from_batches([rows]), row_group_size=rows.num_rows)
        self._buffered.flush()
        length = tracked.position - begin
        self._parts.append((begin, length, size, rows.num_rows, tracked.crc32))

    def close(self) -> Written:
        """Writes the footer."""
        self._writer.close()
        self._buffered.flush()
        table = np.array(self._parts, np.int64).reshape(-1, 5)
        parts = PartColumns(
            shard=np.zeros(len(table), np.int32),
            offset=table[:, 0].copy(),
            bytes=table[:, 1].copy(),
            framed_bytes=table[:, 2].copy(),
            rows=table[:, 3].astype(np.int32),
            crc32=table[:, 4].astype(np.uint32),
        )
        return Written(self._rows, int(parts.framed_bytes.sum()), parts)


class ParquetSink:
    """Writes rows as columns."""

    def prepare(
        self, batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, settings: Settings
    ) -> pa.RecordBatch:
        """Returns rows in their order, with the dataset's types.

        Raises:
          DataError: a row has another number of values than its feature's shape.
        """
        return ordered_rows(batch, order, settings.columns)

    def open(self, file: BinaryIO, settings: Settings) -> ParquetFile:
        """Begins a file."""
        return ParquetFile(file, settings)


SINK = ParquetSink()
