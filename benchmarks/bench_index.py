"""Measures what the index of shards is for.

It finds records of a synthetic index of a billion rows; reads single records of a real shard of
some gigabytes that is not in the page cache; and reads one shard by several threads.

  python benchmarks/bench_index.py --folder .bench/index --gigabytes 4
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

import criteo_like
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import byte_lengths, data_of
from beam_pipelines.sinks.tfrecord.sink import DeflateStream, compress_parts
from beam_pipelines.tfrecord.framing import framed_records, inflate_part
from beam_pipelines.tfrecord.part_index import (
    IndexedShard,
    PartColumns,
    PartIndex,
    make_index,
    parse_index,
    write_index,
)

PART_BYTES = 256 << 10
LOOKUPS = 200


def save(index: PartIndex, path: pathlib.Path) -> None:
    """Writes an index."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as file:
        write_index(file, index)


def read_index(path: pathlib.Path, files: list[IndexedShard] | None = None) -> PartIndex:
    """Reads an index."""
    return parse_index(pa.py_buffer(path.read_bytes()), str(path), "gzip", files)


def synthetic(folder: pathlib.Path, rows: int, rows_of_part: int = 500) -> None:
    """Opens an index of many rows, and finds parts in it."""
    parts, shards = rows // rows_of_part, 1000
    own, size = parts // shards, 100_000
    columns = PartColumns(
        np.repeat(np.arange(shards, dtype=np.int32), own),
        np.tile(10 + size * np.arange(own), shards),
        np.full(parts, size),
        np.full(parts, PART_BYTES),
        np.full(parts, rows_of_part, np.int32),
        np.zeros(parts, np.uint32),
    )
    files = [
        IndexedShard(f"{number}", own * rows_of_part, 20 + own * size, "")
        for number in range(shards)
    ]
    path = folder / "synthetic.arrow"
    save(make_index("gzip", files, columns), path)
    start = time.perf_counter()
    index = read_index(path, files)
    opened = time.perf_counter()
    for row in np.random.default_rng(1).integers(0, rows, 10_000).tolist():
        part_of(index, row)
    found = (time.perf_counter() - opened) / 10_000
    print(f"{rows:,} rows, {parts:,} parts: opened in {opened - start:.3f} s, {found * 1e6:.1f} µs")
    path.unlink()


def write_shard(folder: pathlib.Path, size: int) -> pathlib.Path:
    """Writes one shard of about ``size`` bytes, and its index."""
    (table,) = criteo_like.chunks(24_000, 1)
    records = framed_records(table.combine_chunks().to_batches()[0], None, None)
    batch = compress_parts("gzip", 1, records, PART_BYTES)
    data, stream = data_of(batch.column("data")), DeflateStream("gzip")
    times = max(1, size // data.size)
    path = folder / "large.tfrecord.gz"
    with open(path, "wb") as file:
        file.write(stream.start())
        for _ in range(times):
            stream.add(batch)
            file.write(data)
        file.write(stream.end())
    sizes = np.tile(byte_lengths(batch.column("data")), times)
    framed, rows, crc32 = (
        np.tile(batch.column(name).to_numpy(), times) for name in ("framed_bytes", "rows", "crc32")
    )
    starts = len(stream.start()) + np.cumsum(sizes) - sizes
    columns = PartColumns(np.zeros(len(sizes), np.int32), starts, sizes, framed, rows, crc32)
    shard = IndexedShard(path.name, int(rows.sum()), path.stat().st_size, "")
    save(make_index("gzip", [shard], columns), path.with_suffix(".arrow"))
    return path


def part_of(index: PartIndex, row: int) -> int:
    """Returns the part that has a row."""
    return int(np.searchsorted(index.first_row, row, side="right")) - 1


def read_part(index: PartIndex, descriptor: int, part: int) -> bytes:
    """Reads and inflates one part."""
    columns = index.columns
    data = os.pread(descriptor, int(columns.bytes[part]), int(columns.offset[part]))
    return inflate_part(index, part, data)


def size_of_part(index: PartIndex, descriptor: int, part: int) -> int:
    """Reads and inflates one part, and returns its size."""
    return len(read_part(index, descriptor, part))


def lookups(path: pathlib.Path, index: PartIndex, is_cold: bool) -> None:
    """Reads single records, each from the disk."""
    descriptor, secs, sizes = os.open(path, os.O_RDONLY), [], []
    for row in np.random.default_rng(2).integers(0, index.rows, LOOKUPS).tolist():
        if is_cold:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        part = part_of(index, row)
        data = read_part(index, descriptor, part)
        starts = _native.unframe(data)
        number = row - int(index.first_row[part])
        record = data[starts[number] + 12 : starts[number + 1] - 4]
        secs.append(time.perf_counter() - start)
        sizes.append(len(record))
    os.close(descriptor)
    tenths = statistics.quantiles(secs, n=10)
    where = "from disk" if is_cold else "cached"
    print(
        f"one record of {sum(sizes) / len(sizes):.0f} bytes, {where}: least {min(secs) * 1e3:.2f} "
        f"ms, median {tenths[4] * 1e3:.2f} ms, nine of ten below {tenths[8] * 1e3:.2f} ms"
    )


def threads(path: pathlib.Path, index: PartIndex, parts: int) -> None:
    """Reads parts of a shard by one thread and by two."""
    descriptor, best = os.open(path, os.O_RDONLY), {}
    read = functools.partial(size_of_part, index, descriptor)
    for _ in range(3):
        for count in (1, 2):
            start = time.perf_counter()
            with ThreadPoolExecutor(count) as executor:
                shares = [range(first, parts, count) for first in range(count)]
                list(executor.map(lambda share: [read(part) for part in share], shares))
            secs = time.perf_counter() - start
            best[count] = min(secs, best.get(count, secs))
    os.close(descriptor)
    size = int(index.columns.framed_bytes[:parts].sum())
    print(
        f"one thread {size / best[1] / 1e9:.2f} GB/s; two are {best[1] / best[2]:.2f} times as fast"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".bench/index"))
    parser.add_argument("--gigabytes", type=float, default=2.0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    synthetic(options.folder, 1_000_000_000)
    path = write_shard(options.folder, round(options.gigabytes * 1e9))
    index = read_index(path.with_suffix(".arrow"))
    print(f"a shard of {index.shards[0].bytes:,} bytes, {index.rows:,} rows, {len(index):,} parts")
    lookups(path, index, is_cold=True)
    lookups(path, index, is_cold=False)
    threads(path, index, min(4000, len(index)))
    path.unlink()


if __name__ == "__main__":
    main()
