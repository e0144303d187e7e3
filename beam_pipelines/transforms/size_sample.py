"""Samples rows to estimate the size of compressed shards.

This happens in the first pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.arrow.columns import concat_batches, size_of, take_rows
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks.tfrecord.sink import compress_parts
from beam_pipelines.tfrecord.framing import framed_records
from beam_pipelines.transforms.shuffle import permutation

# Bytes on disk that are sampled of the base source. The compression ratio of 4 MiB of shuffled rows
# is within a few per cent of the whole's: see benchmarks/bench_stages.py.
SAMPLE_BYTES = 4 * MIB
# Neighbours in source order compress better, so that runs of rows are sampled.
_RUN_ROWS = 1000
# Bytes of all samples in memory. Parquet takes six times its size on disk, and a dictionary makes
# gigabytes of some kilobytes; one worker holds all samples.
MOST_SAMPLED_BYTES = 2 * SAMPLE_BYTES
# Of one range at least: all rows may be in one.
_LEAST_BYTES = MIB // 16
# Count of a sample that was cut to most_bytes: its weight, in thousandths.
_STANDS_FOR = "stands_for"


class Share(NamedTuple):
    """The share of a range to sample.

    Attributes:
      rows: share of its rows.
      most_bytes: limit of the sample of the range's first part in memory; later parts get less.
        Larger rows make the sample smaller.
    """

    rows: float
    most_bytes: int


def sample_share(size_bytes: int, num_ranges: int) -> Share:
    """Returns the share of each range to sample.

    Args:
      size_bytes: of the source on disk.
      num_ranges: of the source.
    """
    return Share(
        min(1.0, SAMPLE_BYTES / max(size_bytes, 1)),
        max(_LEAST_BYTES, MOST_SAMPLED_BYTES // num_ranges),
    )


def sample_chunk(chunk: Chunk, share: float, shuffle: bool) -> pa.RecordBatch:
    """Returns about that share of a chunk's rows, picked by hash.

    It picks single rows, or runs of 1,000 rows if rows are not shuffled.
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
    """Returns the bytes of a row: compressed, and framed before compression.

    Args:
      samples: of encoded rows, in any order; (0, 0) without samples.
      output: the recipe's.
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
        batch = batch.select([output.record]).drop_null()  # the run fails on nulls
    if not batch.num_rows:
        return 0.0, 0.0
    rows = permutation((output.shuffle_seed,), batch.num_rows) if output.shuffle else None
    records = framed_records(batch, rows, output.record, lists)
    parts = compress_parts(output.compression, output.level, records, output.part_size)
    compressed, size = data_of(parts.column("data")).size, data_of(records).size
    if (weights == weights[0]).all():
        return compressed / len(records), size / len(records)
    weights = weights if rows is None else weights[rows]
    framed = float(np.average(pc.binary_length(records).to_numpy(), weights=weights))
    return framed * compressed / size, framed


def joined_samples(samples: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields the samples of a split of a file as one chunk.

    To encode thousands of columns takes about the same time for a few rows and for many.
    """
    ordered = sorted(samples, key=lambda one: (one.split, one.range_number, one.part, one.start))
    for _, group in itertools.groupby(ordered, lambda one: (one.split, one.path, one.counts)):
        own = [*group]
        yield own[0]._replace(batch=concat_batches([one.batch for one in own]))


def sample_rows(chunk: Chunk, share: Share, shuffle: bool) -> Iterator[Chunk]:
    """Yields the sampled rows of a chunk, if there are some.

    Args:
      chunk: of any rows.
      share: from ``sample_share``.
      shuffle: whether rows will be shuffled.
    """
    most = share.most_bytes / ((chunk.part + 1) * max(1, size_of(chunk.batch)))
    batch = sample_chunk(chunk, min(share.rows, most), shuffle)
    if batch.num_rows:
        yield chunk._replace(
            batch=batch,
            counts={_STANDS_FOR: round(1000 * share.rows / most)} if share.rows > most else {},
        )
