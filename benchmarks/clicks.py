"""The table of ``criteo_like.py`` at every point of a conversion."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

import criteo_like
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import concat_batches
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.output import Output
from beam_pipelines.sources import planner
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.text.quotes import fold
from beam_pipelines.tfrecord.framing import framed_records
from beam_pipelines.transforms import read, shuffle
from beam_pipelines.transforms.shards import Offsets, ShardPlan, SplitShards

SHARDS = 8
OUTPUT = Output(num_shards=SHARDS, shuffle_seed=7)


class Clicks:
    """The table; each point is made on its first use, and kept.

    Attributes:
      folder: for files.
      rows: of the table.
    """

    def __init__(self, folder: pathlib.Path, rows: int) -> None:
        self.folder = folder
        self.rows = rows

    def file(self, rows: int) -> pathlib.Path:
        """Returns the CSV file with that many rows."""
        path = self.folder / f"clicks-{rows}.csv"
        if not path.exists():
            criteo_like.write(path, rows, seed=7)
        return path

    @functools.cached_property
    def plan(self) -> SourcePlan:
        """The table as it is generated: without quotes."""
        return plan_source(self.file(self.rows))

    @functools.cached_property
    def quoted_plan(self) -> SourcePlan:
        """The same with quotes around every text."""
        path = self.folder / f"clicks-{self.rows}-quoted.csv"
        options = pa_csv.WriteOptions(quoting_style="needed")
        pa_csv.write_csv(pa_csv.read_csv(self.file(self.rows)), path, options)
        return plan_source(path)

    @functools.cached_property
    def chunks(self) -> list[Chunk]:
        """The reader's chunks."""
        return read_chunks(self.plan)

    @functools.cached_property
    def chunk_bytes(self) -> int:
        """Bytes of all chunks, as Arrow data."""
        return sum(chunk.batch.nbytes for chunk in self.chunks)

    @functools.cached_property
    def encode(self) -> EncodePlan:
        """Values kept as they are."""
        return plan_encode(Recipe("clicks", {}, "clicks"), self.plan.schema)

    @functools.cached_property
    def features(self) -> list[pa.RecordBatch]:
        """The chunks' columns as features."""
        return [encode_batch(self.encode, chunk.batch, chunk.path) for chunk in self.chunks]

    @functools.cached_property
    def examples(self) -> list[pa.Array]:
        """Serialized tf.Examples of each chunk."""
        return [_native.serialize(batch, framed=False) for batch in self.features]

    @functools.cached_property
    def framed(self) -> list[pa.LargeBinaryArray]:
        """The same with TFRecord's framing."""
        return [_native.frame(examples) for examples in self.examples]

    @functools.cached_property
    def shards(self) -> ShardPlan:
        """A plan of one split."""
        rows = np.array([chunk.batch.num_rows for chunk in self.chunks])
        addresses = np.array([chunk[:2] for chunk in self.chunks]).T.copy()
        offsets = Offsets(*addresses, np.cumsum(rows) - rows)
        return ShardPlan({"train": SplitShards("train", self.rows, SHARDS, 1, 0, 1 << 18, offsets)})

    @functools.cached_property
    def dealt(self) -> list[list[pa.RecordBatch]]:
        """The rows that each shard gets, as one batch a chunk."""
        split = self.shards.splits["train"]
        shards: list[list[pa.RecordBatch]] = [[] for _ in range(SHARDS)]
        for chunk, batch in zip(self.chunks, self.features, strict=True):
            dealt = shuffle.deal(split, OUTPUT, split.offsets[chunk[:2]], batch.num_rows)
            for shard, start, rows in zip(*(each.tolist() for each in dealt), strict=True):
                shards[shard].append(batch.slice(start, rows))
        return shards

    @functools.cached_property
    def records(self) -> list[pa.LargeBinaryArray]:
        """The framed records of each shard, shuffled and not compressed."""
        return self.write()

    @functools.cached_property
    def schema(self) -> bytes:
        """The TFMD schema of the rows, serialized."""
        statistics = TableStatistics.merged(
            [TableStatistics.of(chunk.batch) for chunk in self.chunks]
        )
        return bytes(infer_schema({"train": statistics}).SerializeToString())

    def write(self) -> list[pa.LargeBinaryArray]:
        """Orders each shard's rows, then serializes and frames them."""
        batches = [concat_batches(own) for own in self.dealt]
        return [
            framed_records(batch, shuffle.written_order(OUTPUT, shard, 0, batch.num_rows), None)
            for shard, batch in enumerate(batches)
        ]


def plan_source(path: pathlib.Path) -> SourcePlan:
    """Plans to read one file."""
    return planner.plan_source(Source("clicks", (str(path),)), "")


def quote_states(plan: SourcePlan) -> dict[str, bytes]:
    """Returns what the scan for quotes finds, if the plan needs one."""
    scans = list(read.ranges_to_scan(plan))
    return (
        {scans[0].file.path: fold(read.scan_range(plan, byte_range) for byte_range in scans)}
        if scans
        else {}
    )


def read_chunks(plan: SourcePlan) -> list[Chunk]:
    """Reads all ranges of a source of one file."""
    states = quote_states(plan)
    return [
        chunk
        for byte_range in plan.ranges
        for chunk in read.read_range(plan, byte_range, states, reject=False)
    ]
