"""Reads the records of shards, whatever their format.

Rows of Parquet shards are serialized as the records that TFRecord shards have.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.binary_arrays import data_of, offsets_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.schema_features import feature_lists_of
from beam_pipelines.core.layout.shard_formats import PARQUET_COMPRESSION
from beam_pipelines.files.beam import files
from beam_pipelines.reader.row_groups import batch_of
from beam_pipelines.tfrecord.framing import RecordBlock, framed_records, read_record_blocks

_PARQUET_MAGIC = b"PAR1"
_GZIP_MAGIC = b"\x1f\x8b"
# RFC 1950: deflate with a window of 32 KiB, at each of the four levels that the header tells apart.
_ZLIB_MAGIC = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def feature_list_names(schema: schema_pb2.Schema) -> frozenset[str]:
    """Returns the names of the feature lists of a schema."""
    return frozenset(feature.name for feature in feature_lists_of(schema))


def read_blocks(path: str, compression: str, lists: Collection[str] = ()) -> Iterator[RecordBlock]:
    """Yields the records of a shard, in blocks.

    Args:
      path: of the shard.
      compression: of its parts, as the manifest has it.
      lists: names of feature lists.

    Raises:
      DataError: the shard is damaged.
    """
    if compression == PARQUET_COMPRESSION:
        yield from (block_of(rows, path, lists) for rows in read_row_groups(path))
        return
    with files.open_read(path) as file:
        yield from read_record_blocks(file, path, compression)


def read_row_groups(path: str) -> Iterator[pa.Table]:
    """Yields the row groups of a Parquet shard, in order.

    Raises:
      DataError: the shard is damaged.
    """
    with files.open_read(path) as file:
        try:
            with pq.ParquetFile(file) as parquet:
                for number in range(parquet.num_row_groups):
                    yield parquet.read_row_group(number, use_threads=False)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise DataError(
                f"{path}: found damaged Parquet data ({error}). Convert again with --overwrite."
            ) from error


def block_of(rows: pa.Table, path: str, lists: Collection[str]) -> RecordBlock:
    """Returns rows as records.

    Raises:
      DataError: a column has a type that no feature has.
    """
    try:
        frames = framed_records(batch_of(rows), None, None, lists)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{path}: found columns that are no features ({error}), expected int64, float, string, "
            "binary or lists of them. Convert again with --overwrite."
        ) from error
    starts = offsets_of(frames)
    return RecordBlock(data_of(frames).to_pybytes(), starts - starts[0])


def read_examples(path: str, number: int, schema: schema_pb2.Schema | None = None) -> list[bytes]:
    """Returns the first serialized examples of a file, at most ``number``.

    Does not read on after them.

    Args:
      path: of the file; a Parquet shard's rows are serialized.
      number: of examples.
      schema: of the dataset; ``None``: the file is of no dataset.

    Raises:
      DataError: the file is damaged, or a Parquet file of no dataset.
    """
    with files.open_read(path) as file:
        compression = compression_of(file.read(4))
    if compression == PARQUET_COMPRESSION and schema is None:
        raise DataError(
            f"{path}: found a Parquet file, expected TFRecords or the folder of a dataset. DuckDB "
            "and pandas show such files."
        )
    lists = () if schema is None else feature_list_names(schema)
    blocks = read_blocks(path, compression, lists)
    return list(itertools.islice(itertools.chain.from_iterable(blocks), number))


def compression_of(start: bytes) -> str:
    """Returns the compression of a shard's parts, by its first four bytes.

    A plain TFRecord file begins with the length of a record as a little-endian uint64; one that
    looks like gzip or zlib would begin with a record of at least 2 GB, or one whose third and
    fourth byte are zero. One that looks like Parquet would begin with a record of 826 MB.
    """
    if start == _PARQUET_MAGIC:
        return PARQUET_COMPRESSION
    if start[:2] == _GZIP_MAGIC and start[2:3] == b"\x08":
        return "gzip"
    if start[:2] in _ZLIB_MAGIC and start[2:4] != b"\0\0":
        return "zlib"
    return "none"
