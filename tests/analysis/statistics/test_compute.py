"""The pipeline step gives one result for any order of chunks.

The number of ranges does not matter either.
"""

from __future__ import annotations

import random
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.transforms.statistics import AccumulateStatistics, SplitTables

SCHEMA = pa.schema([("x", pa.float64()), ("t", pa.string())])


def chunks(num_ranges: int) -> list[Chunk]:
    generator = np.random.default_rng(num_ranges)
    found = []
    for number in range(num_ranges):
        for part in range(2):
            values = generator.normal(size=9) * 10.0 ** generator.integers(-9, 9)
            batch = pa.record_batch(
                [pa.array(values), pa.array(generator.integers(0, 4, 9).astype(str))], schema=SCHEMA
            )
            found += [
                Chunk(number, part, batch.slice(0, 6), {}, split="train"),
                Chunk(number, part, batch.slice(6), {}, split="eval"),
            ]
    return found


def computed(pipeline, given, num_ranges: int, splits: tuple[str, ...], folder: Path):
    """The statistics of all splits, as one element."""
    plan = StatisticsPlan()
    sent = pipeline | beam.Create(given) | AccumulateStatistics(num_ranges, plan, str(folder))
    return (
        pipeline
        | "Once" >> beam.Create([None])
        | beam.Map(
            lambda _, sent: dict(SplitTables(sent, splits, SCHEMA, plan)), beam.pvalue.AsList(sent)
        )
    )


def summary(statistics: dict[str, TableStatistics]) -> dict[str, object]:
    """The statistics, to the last bit."""
    return {
        split: (table.rows, table.columns["x"].values.moments, table.columns["t"].values.top(9))
        for split, table in statistics.items()
    }


@pytest.mark.parametrize("num_ranges", [1, 17, 60])
def test_equals_a_plain_merge(num_ranges: int, tmp_path: Path) -> None:
    """Any number of tree levels equals one merge over all chunks."""
    given = chunks(num_ranges)
    expected = {
        split: TableStatistics.merged(
            [TableStatistics.of(chunk.batch) for chunk in given if chunk.split == split]
        )
        for split in ("train", "eval")
    }
    expected["test"] = TableStatistics.empty(SCHEMA)
    random.Random(1).shuffle(given)

    def check(results: list[dict[str, TableStatistics]]) -> None:
        assert len(results) == 1
        assert list(results[0]) == ["train", "eval", "test"]
        assert summary(results[0]) == summary(expected)

    with TestPipeline("FnApiRunner") as pipeline:
        found = computed(pipeline, given, num_ranges, ("train", "eval", "test"), tmp_path)
        assert_that(found, check)


def test_no_chunks_give_empty_splits(tmp_path: Path) -> None:
    """No chunks give one result, with every split empty."""

    def check(results: list[dict[str, TableStatistics]]) -> None:
        assert [table.rows for table in results[0].values()] == [0, 0]

    with TestPipeline("FnApiRunner") as pipeline:
        assert_that(computed(pipeline, [], 1, ("train", "eval"), tmp_path), check)
