"""A sample of the rows of the first read, from which the size of a compressed shard is
estimated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import data_of
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.columns import concat_batches, take_rows
from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.model import Output
from beam_pipelines.tfrecord.compression import compress_part
from beam_pipelines.tfrecord.records import framed_records
from beam_pipelines.transforms.shuffle import permutation

# Bytes of the base source that are sampled, as they lie on disk. A ratio of compressed sizes
# measured on 4 MiB of shuffled rows is within a few per cent of the whole's: see
# benchmarks/bench_stages.py.
SAMPLE_BYTES = 4 * MIB
# In source order neighbours resemble each other and compress better, so that runs of rows have to
# be sampled.
_RUN_ROWS = 1000
# Bytes that sampled rows may have in memory, before fewer are sampled. Rows of Parquet have six
# times as many as on disk, and texts that a dictionary makes of some kilobytes would be gigabytes;
# samples wait in the launcher, and in the worker that learns.
MOST_SAMPLED_BYTES = 2 * SAMPLE_BYTES
# Of one range in any case, as all may begin in one.
_LEAST_BYTES = MIB // 16
# In the counts of a sample of fewer: how many thousandths it stands for.
_STANDS_FOR = "stands_for"


class Share(NamedTuple):
    """How much is sampled of a range.

    Attributes:
      rows: share of its rows.
      most_bytes: of its first part in memory; fewer rows are sampled if they had more, and of each
        part behind it less.
    """

    rows: float
    most_bytes: int


def sample_share(size_bytes: int, num_ranges: int) -> Share:
    """Returns what to sample of each range of a source of that size, in bytes on disk."""
    return Share(
        min(1.0, SAMPLE_BYTES / max(size_bytes, 1)),
        max(_LEAST_BYTES, MOST_SAMPLED_BYTES // num_ranges),
    )


def sample_chunk(chunk: Chunk, share: float, shuffle: bool) -> pa.RecordBatch:
    """Returns about that share of a chunk's rows: single rows, or without a shuffle runs of a
    thousand, picked by hash.
    """
    if share >= 1:
        return chunk.batch
    run = 1 if shuffle else _RUN_ROWS
    seed = mix_int(chunk.range_number * GOLDEN + chunk.part)
    runs = -(-chunk.batch.num_rows // run)
    picked = mix(
        np.arange(runs, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed)
    ) < np.uint64(share * 2**64)
    rows = np.flatnonzero(np.repeat(picked, run)[: chunk.batch.num_rows])
    return take_rows(chunk.batch, rows)


def estimate_row_bytes(
    samples: Sequence[Chunk], output: Output, lists: tuple[str, ...] = ()
) -> tuple[float, float]:
    """Returns the bytes that a row takes: compressed in a shard, and framed before compression. (0,
    0) without samples.

    Args:
      samples: of encoded rows, in any order.
      output: of the recipe.
      lists: names of the features that are feature lists; empty: records are tf.Examples.
    """
    ordered = sorted(
        (chunk for chunk in samples if chunk.batch.num_rows),
        key=lambda chunk: (chunk.range_number, chunk.part, chunk.start),
    )
    if not ordered:
        return 0.0, 0.0
    batch = concat_batches([chunk.batch for chunk in ordered])
    weights = np.repeat(
        [chunk.counts.get(_STANDS_FOR, 1000) for chunk in ordered],
        [chunk.batch.num_rows for chunk in ordered],
    )
    if output.record is not None:
        weights = weights[batch.column(output.record).is_valid().to_numpy(zero_copy_only=False)]
        batch = batch.select(
            [output.record]
        ).drop_null()  # with nulls there will be nothing to write
    if not batch.num_rows:
        return 0.0, 0.0
    rows = permutation((output.shuffle_seed,), batch.num_rows) if output.shuffle else None
    records = framed_records(batch, rows, output.record, lists)
    data = data_of(records)
    compressed = len(compress_part(output.compression, output.level, data).data)
    if (weights == weights[0]).all():
        return compressed / len(records), data.size / len(records)
    weights = weights if rows is None else weights[rows]
    framed = float(np.average(pc.binary_length(records).to_numpy(), weights=weights))
    return framed * compressed / data.size, framed


@dataclasses.dataclass
class SampleRows(beam.PTransform):
    """Samples the rows of chunks.

    Input: ``Chunk`` elements with a split. Output: chunks of the rows that were picked, where there
    are any.

    Attributes:
      share: from ``sample_share``.
      shuffle: whether rows will be shuffled.
    """

    share: Share
    shuffle: bool

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | "Sample" >> beam.FlatMap(_sample, self.share, self.shuffle)


def _sample(chunk: Chunk, share: Share, shuffle: bool) -> Iterator[Chunk]:
    most = share.most_bytes / ((chunk.part + 1) * max(1, chunk.batch.nbytes))
    batch = sample_chunk(chunk, min(share.rows, most), shuffle)
    if batch.num_rows:
        yield chunk._replace(
            batch=batch,
            counts={_STANDS_FOR: round(1000 * share.rows / most)} if share.rows > most else {},
        )
