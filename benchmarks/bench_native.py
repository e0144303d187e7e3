"""Measures the native kernels next to the Arrow and numpy kernels that they stand in for, and next to tfx-bsl: one thread, one run.

Rows are those of ``criteo_like.py``. tfx-bsl's encoder wants lists, so that its row counts the conversion, and Python frames its records as
``tf.io.TFRecordWriter`` would. Each way is measured several times in turn, and the least CPU time counts, because other programs only add to it.

  python benchmarks/bench_native.py --rows 60000
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

import criteo_like
from beam_pipelines import _native, hashing, serialize, tfrecord
from beam_pipelines.binary_arrays import data_of
from measuring import print_line

Way = Callable[[], Any]


def by_tfx_bsl(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Converts to lists, encodes and frames."""
    columns = []
    for column in batch.columns:
        offsets = pa.array(
            np.concatenate([[0], np.cumsum(column.is_valid().to_numpy(zero_copy_only=False))]), pa.int64()
        )
        values = column.drop_null()
        if pa.types.is_string(values.type):
            values = values.cast(pa.large_binary())
        columns.append(pa.LargeListArray.from_arrays(offsets, values, mask=column.is_null()))
    lists = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    return tfrecord.frame(pa.array(RecordBatchToExamplesEncoder().encode(lists), pa.binary()))


def ways(batch: pa.RecordBatch) -> dict[str, list[tuple[str, Way]]]:
    """Returns what is compared; the first way of each is the native one."""
    shuffled = np.random.default_rng(1).permutation(len(batch))
    framed = _native.serialize(batch)
    data = data_of(framed)
    fallback = serialize.serialize_batch(batch)
    arrays = batch.columns
    return {
        "rows to framed tf.Examples": [
            ("native", lambda: _native.serialize(batch)),
            ("Arrow kernels", lambda: tfrecord.frame(serialize.serialize_batch(batch))),
            ("tfx-bsl, framed by Arrow", lambda: by_tfx_bsl(batch)),
        ],
        "rows in random order to framed tf.Examples": [
            ("native", lambda: _native.serialize(batch, shuffled)),
            ("Arrow kernels", lambda: tfrecord.frame(serialize.serialize_batch(batch)).take(pa.array(shuffled))),
        ],
        "frames of records": [
            ("native", lambda: _native.frame(fallback)),
            ("Arrow kernels and google-crc32c", lambda: tfrecord.frame(fallback)),
        ],
        "framed bytes to checked records": [
            ("native", lambda: _native.unframe(data)),
            ("Python and google-crc32c", lambda: _checked(data)),
        ],
        "hashes of rows, all columns": [
            ("native", lambda: _native.hash_rows(arrays)),
            ("numpy", lambda: _by_numpy(arrays)),
        ],
    }


def _checked(data: pa.Buffer) -> list[bytes]:
    text = data.to_pybytes()
    starts = tfrecord._record_starts(text, "", 0, 0)  # noqa: SLF001 (the loop that is compared)
    return tfrecord._checked_records(text, starts, "", 0, 0)  # noqa: SLF001


def _by_numpy(arrays: list[pa.Array]) -> np.ndarray:
    """Hashes as ``hashing.py`` does without the kernels."""
    available, _native.KERNELS_AVAILABLE = _native.KERNELS_AVAILABLE, False
    try:
        return hashing.hash_rows(arrays)
    finally:
        _native.KERNELS_AVAILABLE = available


def least_cpu_seconds(compared: list[tuple[str, Way]], repeats: int) -> list[float]:
    """Returns the least CPU time of each way; they take turns."""
    least = [float("inf")] * len(compared)
    for _ in range(repeats):
        for place, (_, way) in enumerate(compared):
            start = time.thread_time()
            result = way()
            least[place] = min(least[place], time.thread_time() - start)
            del result
    return least


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    if not _native.KERNELS_AVAILABLE:
        parser.error(
            "the kernels are not built: there was no C++ compiler when beam-pipelines was installed (docs/native.md)"
        )
    pa.set_cpu_count(1)
    (batch,) = pa.concat_tables(criteo_like.chunks(arguments.rows, seed=7)).combine_chunks().to_batches()
    print(
        f"{len(batch):,} rows, {batch.num_columns} columns, {batch.nbytes / len(batch):,.0f} bytes a row; load {os.getloadavg()[0]:.1f}\n"
    )
    print_line(["one thread", "way", "CPU ns/row", "rows/s of CPU", "× native"])
    print_line(["---", "---", "---:", "---:", "---:"])
    for title, compared in ways(batch).items():
        least = least_cpu_seconds(compared, arguments.repeats)
        for (name, _), seconds in zip(compared, least, strict=True):
            cells = [f"{seconds / len(batch) * 1e9:,.0f}", f"{len(batch) / seconds:,.0f}", f"{seconds / least[0]:.1f}"]
            print_line([title, name, *cells])


if __name__ == "__main__":
    main()
