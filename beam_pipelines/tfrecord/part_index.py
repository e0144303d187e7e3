"""Writes, reads and checks the index of a split's parts.

A *part* is a stretch of a shard that can be read alone: whole records, compressed apart from the
others (``compression.py``) or not at all. The index has one row for each part, in an Arrow IPC
file. So record k is found by a binary search. An *extent* is neighbouring parts of a shard, which
one request to an object store reads. It has up to four *runs*, which different ranks may read.

An index is believed only if its checksum, its columns and its shards are right.

Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core._native.shared import FOOTER_BYTES, HEADER_BYTES
from beam_pipelines.core.arrow import arrow_sizes
from beam_pipelines.core.arrow.binary_arrays import fixed_width
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import index_path
from beam_pipelines.core.layout.manifest import ManifestShard
from beam_pipelines.core.layout.shard_formats import PARQUET_COMPRESSION, PartCompression

VERSION = 1
# Bytes of framed records in an extent, and in a run of one. A request takes the CPU time of
# inflating a tenth of an extent.
EXTENT_BYTES, RUN_BYTES = 4 << 20, 1 << 20
# Deflate makes at most 258 bytes of two bits.
MAX_RATIO = 1032
_DESCRIPTION, _CHECKSUM = b"part_index", b"crc32"
_COLUMNS: Mapping[str, pa.DataType] = {
    "shard": pa.int32(),
    "offset": pa.int64(),
    "bytes": pa.int64(),
    "framed_bytes": pa.int64(),
    "rows": pa.int32(),
    "first_row": pa.int64(),
    "crc32": pa.uint32(),
}
DTYPES = {name: np.dtype(str(type_)) for name, type_ in _COLUMNS.items()}
_NOT_AN_INDEX = (
    pa.ArrowException,
    ValueError,
    LookupError,
    TypeError,
    OSError,
    OverflowError,
    RecursionError,
)
_CURE = "Copy the dataset again, or convert again with --overwrite"

Int64s = npt.NDArray[np.int64]


class IndexedShard(NamedTuple):
    """The file that an index is of.

    Attributes:
      name: path from the dataset's folder, or from that of the files.
      rows: records in it.
      bytes: its size.
      crc32c: of the file, as eight hexadecimal digits.
    """

    name: str
    rows: int
    bytes: int
    crc32c: str


def shards_by_index(
    split: str, shards: Iterable[ManifestShard]
) -> dict[str, tuple[IndexedShard, ...]]:
    """Returns path of an index in a dataset -> its shards.

    A split has one index; and one for each generation of a dataset that older versions appended to.

    Args:
      split: its name.
      shards: their entries in the manifest.
    """
    found: dict[int, list[IndexedShard]] = {}
    for one in shards:
        indexed = IndexedShard(one.path, one.rows, one.bytes, one.crc32c)
        found.setdefault(one.generation, []).append(indexed)
    return {index_path(split, number): tuple(own) for number, own in sorted(found.items())}


class PartColumns(NamedTuple):
    """The columns that a writer gives, one value for each part.

    Attributes:
      shard: int32[n], the number of the shard among those of the index.
      offset: int64[n], the first byte of the part in the file.
      bytes: int64[n], size in the file.
      framed_bytes: int64[n], size of the framed records, uncompressed; of a row group of Parquet,
        that of its values.
      rows: int32[n], records; at least one.
      crc32: uint32[n], CRC-32 of the framed records, as gzip has it; of a row group of Parquet,
        that of its bytes in the file.
    """

    shard: npt.NDArray[np.int32]
    offset: Int64s
    bytes: Int64s
    framed_bytes: Int64s
    rows: npt.NDArray[np.int32]
    crc32: npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True, eq=False)
class PartIndex:
    """The parts of a split's shards, in order.

    Attributes:
      path: of the index, for messages.
      compression: of the shards.
      shards: all of the index.
      columns: one value for each part.
      first_row: int64[n], the number of the part's first row among all rows of the index.
    """

    path: str
    compression: PartCompression
    shards: tuple[IndexedShard, ...]
    columns: PartColumns
    first_row: Int64s

    def __len__(self) -> int:
        return len(self.first_row)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.first_row[-1] + self.columns.rows[-1]) if len(self) else 0

    def parts_of_shard(self, shard: int) -> range:
        """Returns the numbers of a shard's parts."""
        start, end = np.searchsorted(self.columns.shard, [shard, shard + 1])
        return range(int(start), int(end))

    @functools.cached_property
    def extents(self) -> Int64s:
        """int64[extents + 1], their first parts, and the number of parts."""
        return self._blocks(EXTENT_BYTES)

    @functools.cached_property
    def runs(self) -> Int64s:
        """int64[runs + 1], their first parts, and the number of parts."""
        return self._blocks(RUN_BYTES)

    def _blocks(self, size: int) -> Int64s:
        """Returns the first part of each block, and the number of parts.

        A block has the parts of a shard that begin in the same ``size`` bytes of its records.
        """
        if not len(self):
            return np.zeros(1, np.int64)
        # Whatever sizes an index claims for row groups, there are at most four blocks a part.
        ends = np.cumsum(np.clip(self.columns.framed_bytes, 1, EXTENT_BYTES))
        shards = np.searchsorted(self.columns.shard, np.arange(len(self.shards) + 1))
        edges = np.where(shards > 0, ends[shards - 1], 0)
        counts = -(-np.diff(edges) // size)
        before = np.cumsum(counts) - counts
        blocks = np.repeat(edges[:-1] - size * before, counts)
        blocks += size * np.arange(len(blocks))
        # The first part that does not begin before a block: the one before it ends at its start.
        firsts = np.append(np.searchsorted(ends, blocks) + (blocks > 0), len(self))
        return firsts[np.diff(firsts, prepend=-1) > 0]

    def extent_of(self, part: int) -> range:
        """Returns the numbers of the parts in a part's extent."""
        extent = int(np.searchsorted(self.extents, part, side="right"))
        return range(int(self.extents[extent - 1]), int(self.extents[extent]))

    def bytes_of(self, parts: range) -> range:
        """Returns the bytes of neighbouring parts in their shard."""
        offsets = self.columns.offset[parts.start : parts.stop]
        return range(int(offsets[0]), int(offsets[-1] + self.columns.bytes[parts[-1]]))


def make_index(
    compression: PartCompression,
    shards: Sequence[IndexedShard],
    columns: PartColumns,
) -> PartIndex:
    """Returns the index of parts in the order of shards and records."""
    ends = np.cumsum(columns.rows, dtype=np.int64)
    return PartIndex("", compression, tuple(shards), columns, ends - columns.rows)


def write_index(file: BinaryIO, index: PartIndex) -> None:
    """Writes an index into a file that is open for writing."""
    found = {**index.columns._asdict(), "first_row": index.first_row}
    arrays = {name: pa.array(found[name], type_) for name, type_ in _COLUMNS.items()}
    description = json.dumps(
        {"version": VERSION, "compression": index.compression, "shards": index.shards}
    ).encode()
    schema = pa.schema(
        [pa.field(name, array.type, nullable=False) for name, array in arrays.items()],
        {_DESCRIPTION: description, _CHECKSUM: b"%08x" % _checksum(description, arrays)},
    )
    batch = pa.record_batch(list(arrays.values()), schema=schema)
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(batch)


def _checksum(description: bytes, arrays: Mapping[str, pa.Array]) -> int:
    """Returns the CRC-32 of the description and the columns."""
    checksum: int = isal_zlib.crc32(description)
    for array in arrays.values():
        # An empty array may have no buffer.
        buffers = [buffer for buffer in array.buffers()[:2] if buffer is not None]
        for buffer in buffers if len(array) else ():
            checksum = isal_zlib.crc32(buffer, checksum)
    return checksum


def parse_index(
    data: pa.Buffer,
    path: str,
    compression: PartCompression,
    shards: Sequence[IndexedShard] | None = None,
) -> PartIndex:
    """Checks the bytes of an index; its columns share their memory.

    Args:
      data: of the index.
      path: of it, for errors.
      compression: of the shards.
      shards: that the index must be of; ``None``: any.

    Raises:
      DataError: it is damaged, or of other shards.
    """
    try:
        index = _parse(data, path)
        _check_columns(index)
    except _NOT_AN_INDEX as error:
        raise DataError(
            f"{path}: is damaged or no index of parts: {str(error) or repr(error)}. {_CURE}."
        ) from error
    if index.compression != compression:
        raise DataError(
            f"{path}: found an index of {index.compression} shards, expected {compression}. "
            f"{_CURE}."
        )
    if shards is not None:
        _check_shards(index, shards)
    return index


def _parse(data: pa.Buffer, path: str) -> PartIndex:
    arrow_sizes.check_growth(data)
    with pa.ipc.open_file(data) as reader:
        metadata = reader.schema.metadata or {}
        description = json.loads(metadata[_DESCRIPTION])
        version = description["version"]
        if version != VERSION:
            raise ValueError(f"found version {version!r}, expected {VERSION}")
        batch = _one_batch(reader)
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    found, expected = _checksum(metadata[_DESCRIPTION], arrays), metadata[_CHECKSUM].decode()
    if f"{found:08x}" != expected:
        raise ValueError(f"found CRC-32 {found:08x}, expected {expected}")
    compression = description["compression"]
    if compression not in get_args(PartCompression):
        raise ValueError(f"found compression {compression!r}")
    columns = {name: fixed_width(array, str(array.type)) for name, array in arrays.items()}
    return PartIndex(
        path,
        compression,
        tuple(_shard(entry) for entry in description["shards"]),
        PartColumns(*(columns[name] for name in PartColumns._fields)),
        columns["first_row"],
    )


def _one_batch(reader: pa.RecordBatchFileReader) -> pa.RecordBatch:
    """Returns the only batch of a file, with all columns."""
    found = {field.name: field.type for field in reader.schema}
    if found != dict(_COLUMNS):
        raise ValueError(f"found columns {found}, expected {dict(_COLUMNS)}")
    if reader.num_record_batches != 1:
        raise ValueError(f"found {reader.num_record_batches} batches, expected one")
    batch = reader.get_batch(0)
    batch.validate()
    nulls = [name for name in found if batch.column(name).null_count]
    if nulls:
        raise ValueError(f"found nulls in {nulls}")
    return batch


def _shard(entry: Sequence[Any]) -> IndexedShard:
    shard = IndexedShard(*entry)
    texts, sizes = (shard.name, shard.crc32c), (shard.rows, shard.bytes)
    if [type(value) for value in (*texts, *sizes)] != [str, str, int, int] or min(sizes) < 0:
        raise TypeError(f"found the shard {entry!r}")
    return shard


def _check_columns(index: PartIndex) -> None:
    """Raises ``ValueError`` if a part cannot be right.

    The sizes bound what a reader allocates.
    """
    own, shards = index.columns, index.shards
    if not len(index):
        if any(shard.rows for shard in shards):
            raise ValueError("found no parts, expected those of all rows")
        return
    if index.first_row[0]:
        raise ValueError(f"found first row {index.first_row[0]:,}, expected 0")
    _refuse(index, "shard", (own.shard < 0) | (own.shard >= len(shards)))
    _refuse(index, "shard", np.diff(own.shard, prepend=0) < 0)
    _refuse(index, "rows", own.rows <= 0)
    # Compared without sums, which may overflow.
    size_of_file = np.array([shard.bytes for shard in shards], np.int64)[own.shard]
    _refuse(index, "offset", (own.offset < 0) | (own.offset > size_of_file))
    _refuse(index, "bytes", (own.bytes <= 0) | (own.bytes > size_of_file - own.offset))
    overlap = np.zeros(len(index), bool)
    is_same = own.shard[1:] == own.shard[:-1]
    overlap[1:] = is_same & (own.offset[1:] < (own.offset + own.bytes)[:-1])
    _refuse(index, "offset", overlap)
    least = own.rows * np.int64(HEADER_BYTES + FOOTER_BYTES)
    wrong = own.framed_bytes // MAX_RATIO > own.bytes
    if index.compression == "none":
        wrong = own.framed_bytes != own.bytes
    elif index.compression == PARQUET_COMPRESSION:
        # A column of equal values takes some bytes; nothing is allocated by this size.
        least, wrong = 0 * least, least < 0
    _refuse(index, "framed_bytes", wrong | (own.framed_bytes < least))
    firsts = np.append(index.first_row, index.first_row[-1:] + own.rows[-1:])
    _refuse(index, "first_row", np.diff(firsts) != own.rows)
    edges = np.searchsorted(own.shard, np.arange(len(shards) + 1))
    for shard, rows in zip(shards, np.diff(firsts[edges]).tolist(), strict=True):
        if rows != shard.rows:
            raise ValueError(f"{shard.name}: found {rows:,} rows, expected {shard.rows:,}")


def _refuse(index: PartIndex, column: str, is_wrong: npt.NDArray[np.bool_]) -> None:
    if is_wrong.any():
        part = int(is_wrong.argmax())
        raise ValueError(f"column '{column}' is wrong in part {part:,} of {len(index):,}")


def _check_shards(index: PartIndex, shards: Sequence[IndexedShard]) -> None:
    """Raises ``DataError`` if the index is of other shards."""
    shown = [(f"{len(index.shards):,} shards", f"{len(shards):,}")]
    if len(index.shards) == len(shards):
        pairs = zip(index.shards, shards, strict=True)
        shown = [(_shown(one), _shown(other)) for one, other in pairs if one != other]
    for found, expected in shown:
        raise DataError(
            f"{index.path}: found an index of {found}, expected {expected}. It is of another "
            f"dataset, or older than the shards. {_CURE}."
        )


def _shown(shard: IndexedShard) -> str:
    return (
        f"'{shard.name}' with {shard.rows:,} rows, {shard.bytes:,} bytes and CRC-32C {shard.crc32c}"
    )
