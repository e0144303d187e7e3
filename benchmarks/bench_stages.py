"""Measures every stage alone, in one thread of one process.

A whole conversion and a tutorial's loop are measured next to the stages. Each stage works on all
rows of the table of ``criteo_like.py``, cut into chunks like those of a conversion. Its input is
made before the clock starts. The table gives the repeat of least wall time. If its CPU time is
another, the machine was busy with something else, or the stage waited. Commands that need a fresh
process (imports, start-up, the whole, the loop) are measured like those of ``bench_convert.py``.

  python benchmarks/bench_stages.py --rows 200000
  python benchmarks/bench_stages.py --only serialize frame compress
  python benchmarks/bench_stages.py --only convert --repeats 1   # minutes
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder

import criteo_like
import processes
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.analysis.statistics.column import is_text
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import byte_lengths, data_of
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.core.limits import MIB
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.joins.index import JoinIndex, build_index, join_batch
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.output import Output
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sinks.tfrecord.sink import DeflateStream, compress_parts
from beam_pipelines.sources.plan import SourcePlan, cut_ranges
from beam_pipelines.tfrecord.framing import read_record_blocks
from beam_pipelines.transforms import read, size_sample
from beam_pipelines.transforms.select import select
from beam_pipelines.transforms.split import split
from clicks import OUTPUT, Clicks, quote_states
from measuring import HEADER, Stages, Work, line, print_line

COLUMN_OF_JOIN = "C26"
JOIN = Join("right", ((COLUMN_OF_JOIN, COLUMN_OF_JOIN),))
RECIPE = Recipe(
    "clicks",
    {},
    "clicks",
    filter="C1 IS NOT NULL",
    derive={"I0": "coalesce(I1, 0) + coalesce(I2, 0)"},
    split=Split({"train": 0.9, "eval": 0.1}),
)

stages = Stages()


# Reading


@stages.add(
    ("scan for quotes, none there", "plan"), ("scan for quotes, every text quoted", "quoted_plan")
)
def scan(clicks: Clicks, which: str) -> Work:
    """Finds each range's effect on the quote automaton."""
    plan: SourcePlan = getattr(clicks, which)
    return Work(
        lambda: [read.scan_range(plan, byte_range) for byte_range in plan.ranges],
        clicks.rows,
        plan.size_bytes,
    )


@stages.add(("read", "plan"), ("read, every text quoted", "quoted_plan"))
def read_chunks(clicks: Clicks, which: str) -> Work:
    """Typed CSV into chunks; CRC and cut included."""
    plan: SourcePlan = getattr(clicks, which)
    states = quote_states(plan)

    def run() -> list[Chunk]:
        return [
            chunk
            for byte_range in plan.ranges
            for chunk in read.read_range(plan, byte_range, states, reject=False)
        ]

    return Work(
        run,
        clicks.rows,
        plan.size_bytes,
        lambda chunks: f"{len(plan.ranges)} ranges, {len(chunks)} chunks",
    )


@stages.add(
    ("read by bare pyarrow, types given, blocks of 16 MiB", True, 16),
    ("read by bare pyarrow, types given, blocks of 1 MiB", True, 1),
    ("read by bare pyarrow, types inferred, blocks of 1 MiB", False, 1),
)
def read_bare(clicks: Clicks, types_given: bool, mebibytes: int) -> Work:
    """Reads with ``pyarrow.csv`` alone."""
    types = {field.name: field.type for field in clicks.plan.read_schema} if types_given else None
    read_options = pa_csv.ReadOptions(use_threads=False, block_size=mebibytes * MIB)
    convert_options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    path = clicks.plan.files[0].path
    return Work(
        lambda: pa_csv.read_csv(path, read_options=read_options, convert_options=convert_options),
        clicks.rows,
        clicks.plan.size_bytes,
    )


@stages.add(
    *((f"read, statistics, serialize: ranges of {size} MiB", size) for size in (1, 4, 16, 64))
)
def ranges(clicks: Clicks, mebibytes: int) -> Work:
    """A worker's way through ranges of another size (plan.RANGE_BYTES)."""
    ranges = cut_ranges(clicks.plan.files, lambda _: True, mebibytes * MIB)
    plan = dataclasses.replace(clicks.plan, ranges=ranges)
    states = quote_states(plan)

    def run() -> TableStatistics:
        parts = []
        for byte_range in plan.ranges:
            for chunk in read.read_range(plan, byte_range, states, reject=False):
                parts.append(TableStatistics.of(chunk.batch))
                _native.frame(
                    _native.serialize(
                        encode_batch(clicks.encode, chunk.batch, chunk.path), framed=False
                    )
                )
        return TableStatistics.merged(parts)

    return Work(run, clicks.rows, plan.size_bytes, lambda _: f"{len(plan.ranges)} ranges")


# From rows to features


def each_chunk(
    clicks: Clicks, run: Callable[[Chunk], Any], note: Callable[[Any], str] = lambda _: ""
) -> Work:
    """A stage that takes chunk after chunk."""
    return Work(
        lambda: [run(chunk) for chunk in clicks.chunks], clicks.rows, clicks.chunk_bytes, note
    )


@stages.add(("index the right side of a join, 100,000 keys",))
def index(_: Clicks) -> Work:
    """Builds the index, which each worker process does once."""
    right = right_side()
    return Work(lambda: index_right(right), right.num_rows, right.nbytes)


@stages.add(("join, broadcast",))
def join(clicks: Clicks) -> Work:
    """Probes the index with one text column and adds a number."""
    found = index_right(right_side())

    def matched(results: list[tuple[pa.RecordBatch, dict[str, int]]]) -> str:
        return (
            f"{sum(counts['matched/0'] for _, counts in results) / clicks.rows:.0%} of the "
            "rows match"
        )

    return each_chunk(
        clicks,
        lambda chunk: join_batch(chunk.batch, found, JOIN),
        matched,
    )


def right_side() -> pa.Table:
    """Returns a table of one column's values, with a number for each."""
    values = criteo_like.make_vocabulary(
        criteo_like.CATEGORICALS - 1, criteo_like.LARGEST_VOCABULARY
    ).values
    return pa.table({COLUMN_OF_JOIN: values, "weight": np.arange(len(values))})


def index_right(right: pa.Table) -> JoinIndex:
    """Indexes the right side."""
    return build_index(right, JOIN, [("weight", "weight")])


@stages.add(("select: a filter and a derived column",))
def select_rows(clicks: Clicks) -> Work:
    """DuckDB, and a copy of what the filter leaves."""
    plan = select.plan_select(RECIPE, clicks.plan.schema)
    return each_chunk(clicks, lambda chunk: select.select_chunk(chunk, plan))


@stages.add(("hash of the whole row", None), ("hash of one text column", COLUMN_OF_JOIN))
def hash_rows(clicks: Clicks, column: str | None) -> Work:
    """Computes the hashes that decide the split."""
    names = [column] if column else clicks.plan.schema.names
    arrays = [[chunk.batch.column(name) for name in names] for chunk in clicks.chunks]
    size = sum(array.nbytes for columns in arrays for array in columns)
    return Work(lambda: [_native.hash_rows(columns) for columns in arrays], clicks.rows, size)


@stages.add(("split, by the whole row", ()), ("split, by one text column", (COLUMN_OF_JOIN,)))
def split_rows(clicks: Clicks, by: tuple[str, ...]) -> Work:
    """The hash, and a copy of each split's rows."""
    recipe = dataclasses.replace(RECIPE, split=dataclasses.replace(RECIPE.split, by=by))
    plan = split.plan_split(recipe, clicks.plan.schema)
    return each_chunk(clicks, lambda chunk: list(split.split_chunk(plan, chunk)))


@stages.add(("statistics",))
def statistics(clicks: Clicks) -> Work:
    """Computes the statistics of each chunk."""
    return each_chunk(clicks, lambda chunk: TableStatistics.of(chunk.batch))


@stages.add(("statistics, merged",))
def merge_statistics(clicks: Clicks) -> Work:
    """Merges the statistics of all chunks."""
    parts = [TableStatistics.of(chunk.batch) for chunk in clicks.chunks]
    return Work(
        lambda: TableStatistics.merged(parts), clicks.rows, 0, lambda _: f"{len(parts)} chunks"
    )


@stages.add(("encode, values kept",))
def encode(clicks: Clicks) -> Work:
    """Columns become features; here there is nothing to convert."""
    return each_chunk(clicks, lambda chunk: encode_batch(clicks.encode, chunk.batch, chunk.path))


# From features to shards


@stages.add(("serialize",))
def serialize(clicks: Clicks) -> Work:
    """Our serializer."""
    size = sum(batch.nbytes for batch in clicks.features)

    def size_of(made: list[pa.Array]) -> str:
        return f"{sum(array.nbytes for array in made) / clicks.rows:.0f} bytes a row come out"

    return Work(
        lambda: [_native.serialize(batch, framed=False) for batch in clicks.features],
        clicks.rows,
        size,
        size_of,
    )


@stages.add(
    ("serialize by tfx-bsl: conversion", True, False),
    ("serialize by tfx-bsl: encoder", False, True),
)
def serialize_by_tfx_bsl(clicks: Clicks, converts: bool, encodes: bool) -> Work:
    """tfx-bsl's encoder, and the conversion to the ``large_list`` columns that it wants."""
    batches = [batch if converts else in_large_lists(batch) for batch in clicks.features]
    step = RecordBatchToExamplesEncoder().encode if encodes else in_large_lists
    return Work(
        lambda: [step(batch) for batch in batches],
        clicks.rows,
        sum(batch.nbytes for batch in batches),
    )


def in_large_lists(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turns each value into a list of one value.

    A null stays a null. Texts become bytes with 64-bit offsets.
    """
    arrays = []
    for array in batch.columns:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)])
        mask = np.append(~valid, False)  # the last offset ends the last list
        values = pc.drop_null(array)
        values = values.cast(pa.large_binary()) if is_text(array.type) else values
        arrays.append(pa.LargeListArray.from_arrays(pa.array(offsets, mask=mask), values))
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def framed_bytes(clicks: Clicks) -> int:
    """Returns the bytes of all framed examples."""
    return sum(data_of(records).size for records in clicks.framed)


@stages.add(("frame",))
def frame_examples(clicks: Clicks) -> Work:
    """TFRecord's lengths and CRCs."""
    size = sum(int(byte_lengths(examples).sum()) for examples in clicks.examples)
    return Work(
        lambda: [_native.frame(examples) for examples in clicks.examples], clicks.rows, size
    )


def stream_of(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions | None = None) -> pa.Buffer:
    """Returns rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def ratio_to(size: int) -> Callable[[Any], str]:
    """Returns a note on how much smaller the output is."""
    return lambda made: f"ratio {size / sum(len(part) for part in made):.2f}"


@stages.add(("keep", None), ("keep, with lz4", "lz4"))
def keep(clicks: Clicks, codec: str | None) -> Work:
    """Writes rows as Arrow streams, their form on a storage.

    A local disk gets them uncompressed, another storage compressed.
    """
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    batches = [chunk.batch for chunk in clicks.chunks]
    return Work(
        lambda: [stream_of(batch, options) for batch in batches], clicks.rows, clicks.chunk_bytes
    )


@stages.add(("unpack, permute, serialize, frame",))
def write(clicks: Clicks) -> Work:
    """Does a shard writer's work before the compression."""
    return Work(
        clicks.write, clicks.rows, sum(batch.nbytes for shard in clicks.dealt for batch in shard)
    )


CODECS: tuple[tuple[str, Compression, int], ...] = (
    ("none", "none", 0),
    ("level 1", "gzip", 1),
    ("zlib-ng 4", "gzip", 4),
    ("zlib-ng 6", "gzip", 6),
)


@stages.add(*((f"compress: {name}", compression, level) for name, compression, level in CODECS))
def compress(clicks: Clicks, compression: Compression, level: int) -> Work:
    """Shards as files."""
    size = sum(data_of(records).size for records in clicks.records)
    return Work(
        lambda: compressed(clicks.records, compression, level), clicks.rows, size, ratio_to(size)
    )


def compressed(
    shards: Sequence[pa.LargeBinaryArray], compression: Compression, level: int
) -> list[bytes]:
    """Compresses the records of each shard as one stream."""
    files = []
    for records in shards:
        stream = DeflateStream(compression)
        parts = compress_parts(compression, level, records, Output().part_size)
        stream.add(parts)
        data = data_of(parts.column("data")).to_pybytes()
        files.append(stream.start() + data + stream.end())
    return files


@stages.add(("verify: decompress, check CRCs",))
def read_back(clicks: Clicks) -> Work:
    """All records of gzip shards."""
    shards = compressed(clicks.records, "gzip", 1)

    def run() -> list[list[bytes]]:
        return [
            block
            for shard in shards
            for block in read_record_blocks(io.BytesIO(shard), "shard", "gzip")
        ]

    return Work(run, clicks.rows, sum(len(shard) for shard in shards))


@stages.add(("verify: parse by the schema",))
def parse(clicks: Clicks) -> Work:
    """tfx-bsl's decoder, as ``verify`` uses it."""
    decoder = ExamplesToRecordBatchDecoder(clicks.schema)
    blocks = [examples.to_pylist() for examples in clicks.examples]
    return Work(
        lambda: [decoder.DecodeBatch(block) for block in blocks], clicks.rows, framed_bytes(clicks)
    )


@stages.add(
    ("estimate the shard size, shuffled", True, 1.0),
    ("estimate the shard size, source order", False, 1.0),
    ("estimate the shard size, a tenth of the rows", True, 0.1),
)
def estimate(clicks: Clicks, shuffled: bool, part: float) -> Work:
    """Compresses a sample of ``size_sample.SAMPLE_BYTES``, and all of these rows."""
    chunks = [
        chunk._replace(batch=chunk.batch.slice(0, int(chunk.batch.num_rows * part)))
        for chunk in clicks.chunks
    ]
    output = dataclasses.replace(OUTPUT, shuffle=shuffled)
    share = size_sample.sample_share(clicks.plan.size_bytes, 1).rows

    def estimated(rate: float) -> tuple[float, float]:
        batches = [(chunk, size_sample.sample_chunk(chunk, rate, shuffled)) for chunk in chunks]
        samples = [
            chunk._replace(split="train", batch=encode_batch(clicks.encode, batch, chunk.path))
            for chunk, batch in batches
        ]
        return size_sample.estimate_row_bytes(samples, output)

    def note(found: tuple[float, float]) -> str:
        truth = estimated(1.0)
        return (
            f"sampled {share:.1%}; off by {found[0] / truth[0] - 1:+.2%} compressed, "
            f"{found[1] / truth[1] - 1:+.2%} framed"
        )

    return Work(lambda: estimated(share), sum(chunk.batch.num_rows for chunk in chunks), 0, note)


def main() -> None:
    """Measures the chosen stages and prints a Markdown table, line by line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="STAGE", help="beginnings of names in the table"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    clicks = Clicks(arguments.folder.resolve(), arguments.rows)
    chosen = Stages([*stages, *processes.stages]).chosen(arguments.only)
    size = f"{arguments.rows:,} rows, {clicks.plan.size_bytes / 1e6:,.0f} MB of CSV"
    print(
        f"{size}, best of {arguments.repeats}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f} before\n"
    )
    print_line(HEADER)
    print("|---" + "|---:" * (len(HEADER) - 2) + "|---|")
    for stage in chosen:
        print_line(line(stage, clicks, arguments.repeats))


if __name__ == "__main__":
    main()
