"""The two passes over the rows of a conversion.

The first one reads all rows, spills them to files, and computes everything that the write needs:
statistics, encodings, row counts, shard plan. The second one encodes and writes what was spilled.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import apache_beam as beam

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.layout.dataset_layout import ENCODINGS
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.first_pass_result import (
    FirstPassResult,
    FittedFolders,
    check_counted_joins,
    make_result,
)
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.read_splits import ReadSplits
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.transforms import spill, write
from beam_pipelines.transforms.deal import DealChunks
from beam_pipelines.transforms.encode import LoadedEncoder, encode_chunk
from beam_pipelines.transforms.fit import FitEncodings
from beam_pipelines.transforms.join.join import CountRightSources
from beam_pipelines.transforms.preprocessing import steps
from beam_pipelines.transforms.row_counts import BASE, MergeCounts, merge_blocks
from beam_pipelines.transforms.size_sample import sample_rows, sample_share
from beam_pipelines.transforms.spill import SpilledChunk
from beam_pipelines.transforms.statistics import AccumulateStatistics, SplitTables


class FittedEncoder(NamedTuple):
    """The fitted encodings and the analyzed user function.

    Attributes:
      fitted: folder of the fitted encodings; empty: nothing is fitted.
      analyzed: folder that tensorflow-transform's analysis wrote; empty: there is no function.
      done: one element each, once both folders are complete.
    """

    fitted: str
    analyzed: str
    done: tuple[beam.PCollection[str], ...]


class FirstPassOutputs(NamedTuple):
    """The outputs of the first pass.

    Attributes:
      result: one element.
      spilled: the chunks of all splits; ``None`` if the pass does not spill.
      encoder: for the write.
    """

    result: beam.PCollection[FirstPassResult]
    spilled: beam.PCollection[spill.SpilledChunk] | None
    encoder: FittedEncoder


@dataclasses.dataclass
class FirstPass(beam.PTransform):
    """Reads everything once, computes a ``FirstPassResult``, and spills the chunks.

    Input: the pipeline's begin. Output: ``FirstPassOutputs``.

    Chunks, statistics and samples have no size limit, and Beam elements have one. So they cross the
    runner as files.

    Attributes:
      plan, folders: of the run.
      spills: whether a later step loads the chunks; then the joins are checked.
    """

    plan: Plan
    folders: RunFolders
    spills: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> FirstPassOutputs:
        plan, folders = self.plan, self.folders
        splits = begin | "ReadSplits" >> ReadSplits(plan, folders)
        share = sample_share(plan.base.size_bytes, plan.num_ranges)
        statistics = splits["chunks"] | "Statistics" >> AccumulateStatistics(
            plan.num_ranges, plan.statistics, folders.scratch_of("statistics")
        )
        samples = (
            splits["chunks"]
            | "SampleRows" >> beam.FlatMap(sample_rows, share, plan.recipe.output.shuffle)
            | "SpillSamples" >> beam.Map(spill.spill_chunk, folders.scratch_of("samples"))
        )
        spilled = None
        if self.spills:
            spilled = splits["chunks"] | "SpillChunks" >> spill.SpillChunks(
                folders.scratch_of("kept")
            )
        checked: tuple[beam.PCollection[None], ...] = ()
        counted = [
            splits["chunk_counts"]
            | "OfBase" >> beam.Map(lambda counted: (BASE, counted))
            | "MergeCounts" >> MergeCounts(folders.scratch_of("row_counts", "base"))
        ]
        if plan.joins.steps and self.spills:
            check = beam.Map(
                lambda _, blocks: check_counted_joins(plan, merge_blocks(blocks)),
                beam.pvalue.AsList(counted[0]),
            )
            once = begin | "OnceCounted" >> beam.Create([None], reshuffle=False)
            checked = (once | "CheckJoins" >> check,)
        fitted, done = self._fit(splits["chunks"], spilled, checked)
        encoder = self._analyze(fitted, done, spilled)
        found = beam.pvalue.AsList(splits["found"]) if "found" in splits else ()
        shares = beam.pvalue.AsList(splits["shares"]) if "shares" in splits else ()
        waits = [beam.pvalue.AsList(each) for each in checked]
        waits += [beam.pvalue.AsList(splits["keys"])] if "keys" in splits else []
        if plan.joins.steps:
            rights = begin | "RightSources" >> CountRightSources(
                plan.joins,
                folders.exchange_of("keys"),
                plan.recipe.rejects,
                folders.rejected_of("right"),
            )
            merge = MergeCounts(folders.scratch_of("row_counts", "right"))
            counted.append(rights.chunk_counts | "MergeRightCounts" >> merge)
            waits.append(beam.pvalue.AsList(rights.keys))
        counts = counted | "AllCounts" >> beam.Flatten()
        result = (
            begin
            | "Once" >> beam.Create([None], reshuffle=False)
            | "MakeResult"
            >> beam.Map(
                lambda _, statistics, counts, samples, found, *paths: make_result(
                    plan,
                    SplitTables(
                        statistics, plan.recipe.split.names, plan.split.schema, plan.statistics
                    ),
                    merge_blocks(counts),
                    [spill.load_chunk(chunk) for chunk in samples],
                    FittedFolders(encoder.fitted, encoder.analyzed, next(iter(paths[0]), "")),
                    found,
                ),
                beam.pvalue.AsList(statistics),
                beam.pvalue.AsList(counts),
                beam.pvalue.AsList(samples),
                found,
                shares,
                *waits,
                *(beam.pvalue.AsSingleton(each) for each in encoder.done),
            )
        )
        return FirstPassOutputs(result, spilled, encoder)

    def _fit(
        self,
        chunks: beam.PCollection[Chunk],
        spilled: beam.PCollection[spill.SpilledChunk] | None,
        checked: tuple[beam.PCollection[None], ...],
    ) -> tuple[str, tuple[beam.PCollection[str], ...]]:
        """Fits the encodings.

        Read 0 fits on the chunks as they pass. Encodings of fitted encodings need more
        reads, which load the spilled chunks. The ``checked`` joins come first.

        Returns:
          The folder of the fitted encodings, and one element once it is complete.
        """
        plan, folders = self.plan, self.folders
        if plan.transform_graph and plan.encode.reads:
            return files.join(plan.transform_graph, files.name_of(ENCODINGS)), ()
        fitted = ""
        done: tuple[beam.PCollection[str], ...] = ()
        for read in range(plan.encode.reads):
            if read:
                chunks = spilled | f"LoadToFit{read}" >> spill.LoadChunks(done)
            # The dataset keeps the encodings of the last read.
            folder = (
                folders.encodings
                if read + 1 == plan.encode.reads
                else folders.scratch_of(f"encodings{read}")
            )
            fit = FitEncodings(
                plan.encode,
                read,
                fitted,
                plan.num_ranges,
                plan.base.size_bytes,
                folder,
                folders.scratch_of(f"fit{read}"),
                folders.exchange_of(f"value counts{read}"),
                checked,
            )
            fitted, done = folder, (chunks | f"FitEncodings{read}" >> fit,)
        return fitted, done

    def _analyze(
        self,
        fitted: str,
        done: tuple[beam.PCollection[str], ...],
        spilled: beam.PCollection[spill.SpilledChunk] | None,
    ) -> FittedEncoder:
        """Analyzes the recipe's ``preprocessing_fn``, if there is one, on the spilled chunks."""
        plan, function = self.plan, self.plan.preprocessing
        if function is None:
            return FittedEncoder(fitted, "", done)
        chunks = spilled | "LoadToAnalyze" >> spill.LoadChunks(done)
        encoded = chunks | "EncodeToAnalyze" >> beam.Map(
            encode_chunk, LoadedEncoder(plan.encode, fitted)
        )
        analyzed = files.join(self.folders.encodings, steps.ANALYZED)
        written = encoded | "Analyze" >> steps.AnalyzePreprocessing(
            function, plan.encode.fit.splits, self.folders.preprocessing, analyzed
        )
        return FittedEncoder(fitted, analyzed, (*done, written))


@dataclasses.dataclass
class WriteSpilled(beam.PTransform):
    """Encodes the rows of spilled chunks, and writes them to shards.

    In an object store, rows are merged on their way (``transforms/merged_files.py``).

    Input: ``SpilledChunk`` elements of the folder ``kept``. Output: one ``ShardInfo`` for each
    unfinished shard.

    Attributes:
      plan, folders: of the run.
      encoder: of the first pass.
      planned: path of the shard plan's file, as one element once it is complete.
      note: is called with the rows of each partition that is in its shard; ``None``: nothing is.
    """

    plan: Plan
    folders: RunFolders
    encoder: FittedEncoder
    planned: beam.PCollection[str]
    note: write.Note | None = None

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[write.ShardInfo]:
        plan, folders = self.plan, self.folders
        folder = folders.scratch_of("kept")
        shard_plan = folders.scratch_of("shard_plan")
        merged = folders.exchange_of("shards") if files.is_object(folder) else ""
        deal = DealChunks(plan.recipe.output, shard_plan, self.planned, folder, merged)
        return (
            spilled
            | "DealChunks" >> deal
            | "Write"
            >> write.WriteDealtShards(
                write.Target(
                    plan.shard_name,
                    plan.recipe.output,
                    folders.temporary_of(),
                    plan.encode.lists,
                    self.note,
                ),
                shard_plan,
                write.Spilled(folder, merged),
                LoadedEncoder(
                    plan.encode, self.encoder.fitted, plan.preprocessing, self.encoder.analyzed
                ),
            )
        )
