"""Finds the row groups of a Parquet shard, for its index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.shard_records import read_row_groups
from beam_pipelines.reader.row_groups import batch_of
from beam_pipelines.sinks.parquet.rows import value_bytes
from beam_pipelines.storage import files
from beam_pipelines.tfrecord.part_index import PartColumns
from beam_pipelines_plugins.foreign_index.scan import Scanned


def scan_parquet(path: str) -> Scanned:
    """Returns the row groups of a shard as parts.

    Raises:
      DataError: the file is damaged, or its columns are not neighbours.
    """
    sizes = [sum(map(value_bytes, batch_of(rows).columns)) for rows in read_row_groups(path)]
    with files.open_read(path) as file:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: found a damaged footer ({error}).") from error
        places = [_place(footer.row_group(number)) for number in range(footer.num_row_groups)]
        crcs = []
        for offset, size in places:
            file.seek(offset)
            crcs.append(isal_zlib.crc32(file.read(size)))
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    table = np.array(places, np.int64).reshape(-1, 2)
    columns = PartColumns(
        shard=np.zeros(len(rows), np.int32),
        offset=table[:, 0].copy(),
        bytes=table[:, 1].copy(),
        framed_bytes=np.array(sizes, np.int64),
        rows=np.array(rows, np.int32),
        crc32=np.array(crcs, np.uint32),
    )
    return Scanned(columns, None, None)


def _place(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Returns offset and bytes of a row group."""
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [
        min(filter(None, (one.dictionary_page_offset, one.data_page_offset))) for one in columns
    ]
    return min(starts), sum(one.total_compressed_size for one in columns)
