"""Writes batches as a dataset, with the files that ``convert`` writes."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_pipelines.analysis import schema, statistics
from beam_pipelines.core.chunks import Chunk, ChunkCounts, MergedCounts, add_counts
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.integrations.beam import batches as batch_chunks
from beam_pipelines.pipeline import commit
from beam_pipelines.pipeline.first_pass_result import (
    FirstPassResult,
    FittedFolders,
    check_anomalies,
    make_result,
)
from beam_pipelines.pipeline.output_folder import check_output
from beam_pipelines.pipeline.passes import FittedEncoder, WriteSpilled
from beam_pipelines.pipeline.planning.plan import Plan, Validation
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.reader import bare_name
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.transforms import spill
from beam_pipelines.transforms.join.plan import JoinPlan
from beam_pipelines.transforms.row_counts import BASE
from beam_pipelines.transforms.select.select import SelectPlan
from beam_pipelines.transforms.shards import Offsets, save_shard_plan
from beam_pipelines.transforms.shuffle import shuffle_chunk
from beam_pipelines.transforms.size_sample import sample_chunk
from beam_pipelines.transforms.split.split import SplitPlan
from beam_pipelines.transforms.statistics import AccumulateStatistics, SplitTables
from beam_pipelines.transforms.write import ShardInfo

# Sampled chunks of a split, to estimate the size of a compressed row, and rows of each.
_SAMPLED_CHUNKS = 64
_SAMPLED_ROWS = 256

Address = tuple[int, int]
Rows = Mapping[str, int]  # split -> rows


class WriteShards(beam.PTransform):
    """Writes batches as a complete dataset, or fails and leaves none.

    Input: batches, or a dict split name -> batches, of columns or features. Output: one element,
    the dataset's folder.

    Rows are shuffled. The same batches give the same shards, byte for byte, in any order of
    arrival. Rows in and out are counted; if they differ, nothing is committed. While sizes and
    statistics are computed, batches are spilled to files under the output.

    Args:
      output: folder of the dataset, shared by all workers.
      name: of the dataset and of its files; by default the folder's.
      overwrite: replaces an existing dataset once the new one is complete.
      label: column or feature that is the label; a null in it fails the pipeline.
      schema: file of a schema that the data have to match; by default it is inferred.
      options: keys of the recipe's ``output``: ``shard_size``, ``num_shards``, ``compression``,
        ``shuffle_seed``, ….
    """

    def __init__(
        self,
        output: str,
        name: str | None = None,
        overwrite: bool = False,
        label: str | None = None,
        schema: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._folder, self._overwrite = output, overwrite
        own = name or bare_name(files.name_of(output.rstrip("/")))
        self._recipe = batch_chunks.read_sections(
            "WriteShards", name=own, label=label, output=options or None
        )
        if not self._recipe.output.shuffle or self._recipe.output.record is not None:
            raise RecipeError(
                "WriteShards: found 'shuffle: false' or 'record', expected neither: batches have "
                "no order, and records are tf.Examples."
            )
        self._schema = schema

    def expand(self, batches: Any) -> beam.PCollection[str]:
        check_output(self._folder, self._overwrite)
        splits, started = batch_chunks.by_split(batches), time.time()
        plan = self._plan(batch_chunks.schema_of_splits(splits, "WriteShards"), tuple(splits))
        output = self._recipe.output
        addressed = [
            batches | f"Address_{name}" >> beam.FlatMap(batch_chunks.to_chunks, name)
            for name, batches in splits.items()
        ]
        chunks = addressed | beam.Flatten() | "Shuffle" >> beam.Map(shuffle_chunk, output)
        folders = RunFolders(self._folder)
        kept = chunks | "SpillChunks" >> spill.SpillChunks(folders.scratch_of("kept"))
        result = chunks | "FirstPass" >> _SummarizeChunks(plan, folders.scratch_of())
        result = result | "CheckAnomalies" >> beam.Map(
            lambda result: check_anomalies(plan, result, self._folder, started)
        )
        shard_plan = folders.scratch_of("shard_plan")
        planned = result | "SaveShardPlan" >> beam.Map(
            lambda result: save_shard_plan(result.shards, shard_plan)
        )
        encoder = FittedEncoder("", "", ())
        shards = kept | "Write" >> WriteSpilled(plan, folders, encoder, planned)
        stored = result | "SaveResult" >> beam.Map(RunFile.keep, folders.scratch_of("result"))
        stage = functools.partial(_stage, plan, self._folder, started)
        steps = commit.CommitSteps(stage, self._folder, "", started)
        needed = [beam.pvalue.AsSingleton(stored)]
        return planned | "Commit" >> commit.CommitShards(steps, shards, needed)

    def _plan(self, columns: pa.Schema, names: tuple[str, ...]) -> Plan:
        """Returns the plan of a conversion, for its last stages."""
        recipe = dataclasses.replace(self._recipe, split=Split(dict.fromkeys(names, 1.0)))
        contract = (
            None
            if self._schema is None
            else bytes(schema.read_schema(self._schema).SerializeToString())
        )
        source = Source(recipe.base, ())
        return Plan(
            recipe,
            {recipe.base: SourcePlan(source, "batches", (), columns, columns, ())},
            JoinPlan((), columns),
            SelectPlan(None, (), columns),
            SplitPlan(names, columns),
            batch_chunks.planned("WriteShards", lambda: plan_encode(recipe, columns)),
            batch_chunks.planned(
                "WriteShards",
                lambda: statistics.plan_statistics(recipe.statistics, columns, contract),
            ),
            Validation(contract),
        )


@dataclasses.dataclass
class _SummarizeChunks(beam.PTransform):
    """Computes the result of a first pass over chunks.

    Input: ``Chunk`` elements. Output: one ``FirstPassResult``.
    """

    plan: Plan
    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[FirstPassResult]:
        plan, folder = self.plan, files.join(self.folder, "statistics")
        sent = chunks | "Statistics" >> AccumulateStatistics(
            batch_chunks.NUM_RANGES, plan.statistics, folder
        )
        counts = chunks | "CountRows" >> beam.Map(_count)
        samples = (
            chunks
            | "Sample" >> beam.Map(_sample)
            | "SpillSamples"
            >> beam.Map(
                lambda sample, folder: (sample[0], spill.spill_chunk(sample[1], folder)),
                files.join(self.folder, "samples"),
            )
            | "Choose"
            >> beam.combiners.Top.SmallestPerKey(_SAMPLED_CHUNKS, key=lambda kept: kept[:2])
            | "Chosen" >> beam.FlatMap(lambda chosen: chosen[1])
        )
        return (
            chunks.pipeline
            | "Once" >> beam.Create([None], reshuffle=False)
            | "MakeResult"
            >> beam.Map(
                lambda _, sent, *own: _make_result(
                    SplitTables(sent, plan.recipe.split.names, plan.split.schema, plan.statistics),
                    plan,
                    *own,
                ),
                beam.pvalue.AsList(sent),
                beam.pvalue.AsList(counts),
                beam.pvalue.AsList(samples),
            )
        )


def _count(chunk: Chunk) -> tuple[Address, Rows]:
    return (chunk.range_number, chunk.part), {chunk.split: chunk.batch.num_rows}


def _sample(chunk: Chunk) -> tuple[str, Chunk]:
    rows = sample_chunk(chunk, _SAMPLED_ROWS / chunk.batch.num_rows, shuffle=True)
    return chunk.split, chunk._replace(batch=rows)


def _make_result(
    computed: SplitTables,
    plan: Plan,
    counts: Sequence[tuple[Address, Rows]],
    samples: Sequence[spill.SpilledChunk],
) -> FirstPassResult:
    """Computes the first pass' result as a conversion does.

    Chunks are numbered in order of their addresses, each as a range of its own. Those of equal rows
    share an address.
    """
    rows: dict[Address, Rows] = {}
    for address, own in counts:
        rows[address] = add_counts(rows.get(address, {}), own)
    ordered = sorted(rows)
    chunk_counts = [
        ChunkCounts(number, 0, {"read": sum(rows[address].values())}, rows[address])
        for number, address in enumerate(ordered)
    ]
    ranges = tuple(ByteRange(number, 0, FileInfo("", 0), 0, 0) for number in range(len(ordered)))
    plan = dataclasses.replace(
        plan, sources={plan.recipe.base: dataclasses.replace(plan.base, ranges=ranges)}
    )
    raw = [spill.load_chunk(kept) for kept in samples]
    counted = {BASE: MergedCounts.of(chunk_counts)}
    result = make_result(plan, computed, counted, raw, FittedFolders())
    numbers, parts = np.array(ordered, np.int64).reshape(-1, 2).T.copy()
    splits = {
        name: dataclasses.replace(split, offsets=Offsets(numbers, parts, split.offsets.rows))
        for name, split in result.shards.splits.items()
    }
    return dataclasses.replace(result, shards=dataclasses.replace(result.shards, splits=splits))


def _stage(
    plan: Plan, folder: str, started: float, shards: Sequence[ShardInfo], stored: RunFile
) -> Sequence[commit.Paths]:
    result: FirstPassResult = stored.load()
    # The manifest's recipe needs the splits' shares; another stage decided them.
    total = max(1, sum(result.row_counts.rows.values()))
    shares = {name: rows / total for name, rows in result.row_counts.rows.items()}
    recipe: Recipe = dataclasses.replace(plan.recipe, split=Split(shares))
    return commit.stage(dataclasses.replace(plan, recipe=recipe), result, shards, folder, started)
