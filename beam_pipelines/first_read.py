"""The first read: from a source's ranges to pieces of splits, and from pieces to what is learned of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from beam_pipelines import files
from beam_pipelines.commit import TEMPORARY
from beam_pipelines.dataset_files import ENCODINGS
from beam_pipelines.encode import EncodeFeatures, Folder
from beam_pipelines.fit import FitEncodings
from beam_pipelines.group_rows import GroupRows
from beam_pipelines.join import CountRightSources, JoinBatches
from beam_pipelines.keep import KeepPieces, KeptPiece, LoadPieces
from beam_pipelines.learn import Fitting, Learned, learn
from beam_pipelines.pieces import Piece
from beam_pipelines.planning import Plan
from beam_pipelines.preprocessing import (
    ANALYZED,
    AnalyzePreprocessing,
    ReadPreprocessing,
    TransformFn,
    TransformPreprocessing,
)
from beam_pipelines.progress import ProgressLog
from beam_pipelines.read import ReadBatches
from beam_pipelines.reject import SelectOrReject
from beam_pipelines.report import has_images
from beam_pipelines.sample import SampleRows, sample_share
from beam_pipelines.select import SelectBatches
from beam_pipelines.split import RECEIPTS, AssignSplit
from beam_pipelines.statistics import ComputeStatistics
from beam_pipelines.unique_key import CheckUniqueKey


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
    """What encodes pieces, as soon as it is fitted.

    Attributes:
      fitted: folder of the fitted encodings.
      own: the recipe's own function, analysed, or ``None``.
      analyzed: folder of what its analysis has written; empty where there is none.
    """

    fitted: Folder
    own: TransformFn | None
    analyzed: Folder


@dataclasses.dataclass
class EncodePieces(beam.PTransform):
    """Applies the encodings, and then the recipe's own function, if it has one.

    Input and output: ``Piece`` elements; behind a function only those with rows.
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

    Attributes:
      keep: whether there is anything to come.
    """

    plan: Plan
    folders: Folders
    keep: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> FirstResult:
        plan = self.plan
        splits = begin | "ReadSplits" >> ReadSplits(plan, self.folders)
        names = plan.recipe.split.names
        share = sample_share(plan.base.size_bytes, plan.num_ranges)
        statistics = splits["pieces"] | "Statistics" >> ComputeStatistics(
            plan.num_ranges, names, plan.split.schema, plan.statistics, self.folders.exchange_of("statistics")
        )
        samples = splits["pieces"] | "SampleRows" >> SampleRows(share, plan.recipe.output.shuffle)
        kept = None
        if self.keep:
            kept = splits["pieces"] | "KeepPieces" >> KeepPieces(self.folders.scratch_of("kept"))
        fitted = self._fit(splits["pieces"], kept)
        encoder = self._analyze(begin, fitted, kept)
        encoded = samples | "EncodeSamples" >> EncodePieces(plan, self.folders, encoder)
        rights: Any = ()
        if plan.joins.steps:
            rights = beam.pvalue.AsList(begin | "RightSources" >> self._count_right_sources())
        learned = statistics | "Learn" >> beam.Map(
            lambda statistics, receipts, pictures, encoded, rights, _, fitted, analyzed: learn(
                plan, statistics, receipts, pictures, encoded, dict(rights), Fitting(fitted, analyzed)
            ),
            beam.pvalue.AsList(splits["receipts"]),
            beam.pvalue.AsList(samples) if has_images(plan.split.schema) else (),
            beam.pvalue.AsList(encoded),
            rights,
            beam.pvalue.AsList(splits["keys"]) if "keys" in splits else (),
            fitted,
            encoder.analyzed,
        )
        return FirstResult(learned, kept, encoder)

    def _count_right_sources(self) -> CountRightSources:
        folders, rejects = self.folders, self.plan.recipe.on_error.reject > 0
        return CountRightSources(self.plan.joins, folders.exchange_of("keys"), rejects, folders.rejected_of("right"))

    def _fit(self, pieces: beam.PCollection[Piece], kept: beam.PCollection[KeptPiece] | None) -> Folder:
        """Fits the encodings: on what is read, and on what was kept those that are fitted on what a fitted one gives. Returns their folder."""
        plan, folders = self.plan, self.folders
        has_fitted = plan.transform_graph and plan.encode.reads
        fitted: Folder = files.join(plan.transform_graph, files.name_of(ENCODINGS)) if has_fitted else ""
        for read in range(0 if has_fitted else plan.encode.reads):
            if read:
                pieces = kept | f"LoadToFit{read}" >> LoadPieces()
            done = pieces | f"FitEncodings{read}" >> FitEncodings(
                plan.encode,
                read,
                fitted,
                plan.num_ranges,
                plan.base.size_bytes,
                # The last ones stay.
                folders.encodings if read + 1 == plan.encode.reads else folders.scratch_of(f"encodings{read}"),
                folders.exchange_of(f"tallies{read}"),
            )
            fitted = beam.pvalue.AsSingleton(done)
        return fitted

    def _analyze(self, begin: beam.pvalue.PBegin, fitted: Folder, kept: beam.PCollection[KeptPiece] | None) -> Encoder:
        """Analyses the recipe's own function, if it has one, on what was kept."""
        plan, function = self.plan, self.plan.preprocessing
        if function is None:
            return Encoder(fitted, None, "")
        if plan.transform_graph:
            analyzed = files.join(plan.transform_graph, files.name_of(ENCODINGS), ANALYZED)
            own = begin | "AnalyzedBefore" >> ReadPreprocessing(analyzed)
            return Encoder(fitted, own, analyzed)
        pieces = kept | "LoadToAnalyze" >> LoadPieces()
        encoded = pieces | "EncodeToAnalyze" >> EncodeFeatures(plan.encode, fitted)
        own, done = encoded | "Analyze" >> AnalyzePreprocessing(
            function, plan.encode.fit.splits, self.folders.preprocessing, files.join(self.folders.encodings, ANALYZED)
        )
        return Encoder(fitted, own, beam.pvalue.AsSingleton(done))
