"""Small Arrow files of a dataset that would become large ones."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.analysis.statistics import storage
from beam_pipelines.core import limits
from beam_pipelines.core.errors import DataError
from beam_pipelines.tfrecord import part_index

READERS: dict[str, Callable[[bytes], object]] = {
    "index": lambda data: part_index.parse_index(pa.py_buffer(data), "x.arrow", "gzip"),
    "accumulators": lambda data: storage.from_bytes(data, "x.arrow"),
}


@pytest.mark.parametrize("reader", READERS)
def test_files_of_a_dataset_do_not_explode(reader: str) -> None:
    """Each file that a dataset may have compressed is bounded."""
    sink = io.BytesIO()
    table = pa.table({"column": np.zeros(limits.FREE_BYTES // 8 + 1)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    before = pa.total_allocated_bytes()
    with pytest.raises(DataError, match=r"x\.arrow: .* decompressed from .*'decompression_ratio'"):
        READERS[reader](sink.getvalue())
    assert pa.total_allocated_bytes() < before + (1 << 20)
