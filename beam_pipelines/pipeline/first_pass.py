"""The first read: from a source's ranges to pieces of splits, and from pieces to what is learned of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from beam_pipelines.analysis.report import has_images
from beam_pipelines.core import files
from beam_pipelines.core.chunks import Piece
from beam_pipelines.dataset.layout import ENCODINGS
from beam_pipelines.pipeline.commit import TEMPORARY
from beam_pipelines.pipeline.first_pass_result import Fitting, Learned, learn
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.transforms.encode import EncodeFeatures
from beam_pipelines.transforms.fit import FitEncodings
from beam_pipelines.transforms.group import GroupRows
from beam_pipelines.transforms.join.join import CountRightSources, JoinBatches, receipts_by_source
from beam_pipelines.transforms.join.unique_key import CheckUniqueKey
from beam_pipelines.transforms.preprocess import (
    ANALYZED,
    AnalyzePreprocessing,
    ReadPreprocessing,
    TransformFn,
    TransformPreprocessing,
)
from beam_pipelines.transforms.read import ReadBatches
from beam_pipelines.transforms.reject import SelectOrReject
from beam_pipelines.transforms.sample import SampleRows, sample_share
from beam_pipelines.transforms.select import SelectBatches
from beam_pipelines.transforms.spill import KeepPieces, KeptPiece, LoadPieces, keep_piece, load_piece
from beam_pipelines.transforms.split import RECEIPTS, AssignSplit
from beam_pipelines.transforms.statistics import AccumulateStatistics, merge_splits


@dataclasses.dataclass(frozen=True)
class Folders:
    """Where a run writes.

    Attributes:
      output: the dataset.
      exchange: where payloads wait on their way between stages, or ``None`` to send them through the engine.
      progress: where local workers note their progress, or an empty text.
      graph: where the serving graph is requested from the launcher, or an empty text if it is built where it is due.
      scratch: where else temporary files may lie that never become part of the dataset: on this machine, when a local run writes to a
        storage elsewhere. An empty text: with the others.
      run: what the run is known by, while others must not write to the same output; empty: nobody asks.
      takes: whether kept pieces are removed as soon as they are dealt out to shards.
      resumes: whether to look for shards that a run which broke off has finished.
    """

    output: str
    exchange: str | None
    progress: str
    graph: str = ""
    scratch: str = ""
    run: str = ""
    takes: bool = False
    resumes: bool = True

    def temporary_of(self, *names: str) -> str:
        """Returns a path in the temporary folder of the run."""
        return files.join(self.output, TEMPORARY, *names)

    def scratch_of(self, *names: str) -> str:
        """Returns the path of a temporary file that never becomes part of the dataset."""
        return files.join(self.scratch, *names) if self.scratch else self.temporary_of(*names)

    @property
    def encodings(self) -> str:
        """Where fitted encodings are written, and stay."""
        return self.temporary_of(*ENCODINGS.split("/"))

    @property
    def preprocessing(self) -> str:
        """Where tensorflow-transform puts what it needs during the run."""
        return self.scratch_of("preprocessing")

    def rejected_of(self, side: str) -> str:
        """Where rejected rows of the base source, or of the right ones, wait for the commit."""
        return self.scratch_of("rejected", side)

    def exchange_of(self, step: str) -> str | None:
        """Returns the exchange folder of one step, or ``None``."""
        return None if self.exchange is None else files.join(self.exchange, step)


@dataclasses.dataclass
class ReadSplits(beam.PTransform):
    """Reads, joins, selects, groups and splits.

    Input: the pipeline's begin. Output: ``pieces`` and ``receipts``, as of ``split.AssignSplit``; and ``keys``, empty, on which to wait
    until the base source's declared key was found unique, if it declares one.
    """

    plan: Plan
    folders: Folders

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection[Any]]:
        plan, log = self.plan, ProgressLog(self.folders.progress)
        reject = plan.recipe.on_error.reject > 0
        sizes = [piece.end - piece.start for piece in plan.base.ranges]
        pieces = (
            begin
            | "Read" >> ReadBatches(plan.base, reject, numbered=reject)
            | "NoteRead" >> beam.Map(_note_read, log, sizes)
        )
        keys = {}
        if plan.base.source.key:
            keys["keys"] = pieces | "CheckKey" >> CheckUniqueKey(plan.base, self.folders.exchange_of("base-key"))
        if plan.joins.steps:
            pieces = pieces | "Join" >> JoinBatches(plan.joins, self.folders.exchange_of("join"), reject)
        select = SelectOrReject(plan.checks, plan.base) if reject else SelectBatches(plan.select)
        pieces = pieces | "Select" >> select
        if plan.groups is not None:
            pieces = pieces | "Group" >> GroupRows(
                plan.groups, plan.select.schema, len(plan.base.ranges), self.folders.exchange_of("group")
            )
        splits = pieces | "Split" >> AssignSplit(plan.split, self.folders.rejected_of("base"), plan.recipe.output)
        return {"pieces": splits.pieces, "receipts": splits[RECEIPTS], **keys}


def _note_read(piece: Piece, log: ProgressLog, sizes: Sequence[int]) -> Piece:
    log.add(piece.batch.num_rows, sizes[piece.range_number] if piece.part == 0 else 0, "read")
    return piece


class Encoder(NamedTuple):
    """The encodings and the recipe's own function, fitted.

    Attributes:
      fitted: folder of the fitted encodings; empty where there are none.
      own: the recipe's own function, analysed, or ``None``.
      analyzed: folder of what its analysis has written; empty where there is none.
      done: one element each, which are there when both folders are complete.
    """

    fitted: str
    own: TransformFn | None
    analyzed: str
    done: tuple[beam.PCollection[str], ...]


@dataclasses.dataclass
class EncodePieces(beam.PTransform):
    """Applies the encodings, and then the recipe's own function, if it has one.

    Input and output: ``Piece`` elements; behind a function only those with rows. The encoder has to be ``done`` before the first piece comes.
    """

    plan: Plan
    folders: Folders
    encoder: Encoder

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[Piece]:
        pieces = pieces | "EncodeFeatures" >> EncodeFeatures(self.plan.encode, self.encoder.fitted)
        if self.plan.preprocessing is None:
            return pieces
        transform = TransformPreprocessing(self.plan.preprocessing, self.encoder.own, self.folders.preprocessing)
        return pieces | "Preprocess" >> transform


class FirstResult(NamedTuple):
    """What the first read gives.

    Attributes:
      learned: one element.
      kept: the pieces of all splits; ``None`` if they are not to be kept.
      encoder: for writing.
    """

    learned: beam.PCollection[Learned]
    kept: beam.PCollection[KeptPiece] | None
    encoder: Encoder


@dataclasses.dataclass
class FirstRead(beam.PTransform):
    """Reads everything once, to learn from it, and keeps it for what comes later.

    Input: the pipeline's begin. Output: a ``FirstResult``.

    Pieces, statistics and samples cross the runner in files only: they have no bound, and elements have.

    Attributes:
      keep: whether there is anything to come.
    """

    plan: Plan
    folders: Folders
    keep: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> FirstResult:
        plan, folders = self.plan, self.folders
        splits = begin | "ReadSplits" >> ReadSplits(plan, folders)
        share = sample_share(plan.base.size_bytes, plan.num_ranges)
        statistics_folder = folders.scratch_of("statistics")
        statistics = splits["pieces"] | "Statistics" >> AccumulateStatistics(
            plan.num_ranges, plan.statistics, statistics_folder
        )
        samples = (
            splits["pieces"]
            | "SampleRows" >> SampleRows(share, plan.recipe.output.shuffle)
            | "KeepSamples" >> beam.Map(keep_piece, folders.scratch_of("samples"))
        )
        kept = None
        if self.keep:
            kept = splits["pieces"] | "KeepPieces" >> KeepPieces(folders.scratch_of("kept"))
        fitted, done = self._fit(splits["pieces"], kept)
        encoder = self._analyze(begin, fitted, done, kept)
        encoded = (
            samples
            | "LoadSamples" >> LoadPieces(encoder.done)
            | "EncodeSamples" >> EncodePieces(plan, folders, encoder)
            | "KeepEncoded" >> beam.Map(keep_piece, folders.scratch_of("encoded_samples"))
        )
        rights: Any = ()
        waits = [beam.pvalue.AsList(splits["keys"])] if "keys" in splits else []
        if plan.joins.steps:
            counted = begin | "RightSources" >> self._count_right_sources()
            rights = beam.pvalue.AsList(counted.receipts)
            waits.append(beam.pvalue.AsList(counted.keys))
        learned = (
            begin
            | "Once" >> beam.Create([None], reshuffle=False)
            | "Learn"
            >> beam.Map(
                lambda _, statistics, receipts, pictures, encoded, rights, *_waits: learn(
                    plan,
                    merge_splits(
                        statistics, plan.recipe.split.names, plan.split.schema, plan.statistics, statistics_folder
                    ),
                    receipts,
                    [load_piece(piece) for piece in pictures],
                    [load_piece(piece) for piece in encoded],
                    receipts_by_source(rights),
                    Fitting(encoder.fitted, encoder.analyzed),
                ),
                beam.pvalue.AsList(statistics),
                beam.pvalue.AsList(splits["receipts"]),
                beam.pvalue.AsList(samples) if has_images(plan.split.schema) else (),
                beam.pvalue.AsList(encoded),
                rights,
                *waits,
                *(beam.pvalue.AsSingleton(each) for each in encoder.done),
            )
        )
        return FirstResult(learned, kept, encoder)

    def _count_right_sources(self) -> CountRightSources:
        folders, rejects = self.folders, self.plan.recipe.on_error.reject > 0
        return CountRightSources(self.plan.joins, folders.exchange_of("keys"), rejects, folders.rejected_of("right"))

    def _fit(
        self, pieces: beam.PCollection[Piece], kept: beam.PCollection[KeptPiece] | None
    ) -> tuple[str, tuple[beam.PCollection[str], ...]]:
        """Fits the encodings: on what is read, and on what was kept those that are fitted on what a fitted one gives.

        Returns:
          Their folder, and what is there when it is complete.
        """
        plan, folders = self.plan, self.folders
        if plan.transform_graph and plan.encode.reads:
            return files.join(plan.transform_graph, files.name_of(ENCODINGS)), ()
        fitted = ""
        done: tuple[beam.PCollection[str], ...] = ()
        for read in range(plan.encode.reads):
            if read:
                pieces = kept | f"LoadToFit{read}" >> LoadPieces(done)
            # The last ones stay.
            folder = folders.encodings if read + 1 == plan.encode.reads else folders.scratch_of(f"encodings{read}")
            fit = FitEncodings(
                plan.encode,
                read,
                fitted,
                plan.num_ranges,
                plan.base.size_bytes,
                folder,
                folders.scratch_of(f"fit{read}"),
                folders.exchange_of(f"tallies{read}"),
            )
            fitted, done = folder, (pieces | f"FitEncodings{read}" >> fit,)
        return fitted, done

    def _analyze(
        self,
        begin: beam.pvalue.PBegin,
        fitted: str,
        done: tuple[beam.PCollection[str], ...],
        kept: beam.PCollection[KeptPiece] | None,
    ) -> Encoder:
        """Analyses the recipe's own function, if it has one, on what was kept."""
        plan, function = self.plan, self.plan.preprocessing
        if function is None:
            return Encoder(fitted, None, "", done)
        if plan.transform_graph:
            analyzed = files.join(plan.transform_graph, files.name_of(ENCODINGS), ANALYZED)
            own = begin | "AnalyzedBefore" >> ReadPreprocessing(analyzed)
            return Encoder(fitted, own, analyzed, done)
        pieces = kept | "LoadToAnalyze" >> LoadPieces(done)
        encoded = pieces | "EncodeToAnalyze" >> EncodeFeatures(plan.encode, fitted)
        analyzed = files.join(self.folders.encodings, ANALYZED)
        own, written = encoded | "Analyze" >> AnalyzePreprocessing(
            function, plan.encode.fit.splits, self.folders.preprocessing, analyzed
        )
        return Encoder(fitted, own, analyzed, (*done, written))
