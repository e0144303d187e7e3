"""The first read, and what both reads share: from a source's ranges to pieces of splits, and from pieces to what is learned of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from beam_pipelines import files
from beam_pipelines.commit import ENCODINGS, TEMPORARY
from beam_pipelines.encode import EncodeFeatures
from beam_pipelines.fit import FitEncodings
from beam_pipelines.group_rows import GroupRows
from beam_pipelines.join import CountRightSources, JoinBatches
from beam_pipelines.learn import Fitting, Learned, learn
from beam_pipelines.pieces import Piece, Receipt
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
    """

    output: str
    exchange: str | None
    progress: str
    graph: str = ""

    def temporary_of(self, *names: str) -> str:
        """Returns a path in the temporary folder of the run."""
        return files.join(self.output, TEMPORARY, *names)

    @property
    def encodings(self) -> str:
        """Where fitted encodings are written, and stay."""
        return self.temporary_of(*ENCODINGS.split("/"))

    @property
    def preprocessing(self) -> str:
        """Where tensorflow-transform puts what it needs during the run."""
        return self.temporary_of("preprocessing")

    def exchange_of(self, step: str) -> str | None:
        """Returns the exchange folder of one step, or ``None``."""
        return None if self.exchange is None else files.join(self.exchange, step)

    def under(self, step: str) -> Folders:
        """Returns the same folders, with those of all exchanges under that of one step."""
        return dataclasses.replace(self, exchange=self.exchange_of(step))


@dataclasses.dataclass
class ReadSplits(beam.PTransform):
    """Reads, joins, selects, groups and splits.

    Input: the pipeline's begin. Output: ``pieces`` and ``receipts``, as of ``split.AssignSplit``; and ``keys``, on which to wait
    until the base source's declared key was found unique: empty if there is none, or ``check_key`` is false.
    """

    plan: Plan
    folders: Folders
    states: beam.PCollection[Any]  # of ScanQuotes: both reads share one scan
    check_key: bool

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection[Any]]:
        plan, log = self.plan, ProgressLog(self.folders.progress)
        sizes = [piece.end - piece.start for piece in plan.base.ranges]
        pieces = (
            begin
            | "Read" >> ReadBatches(plan.base, plan.recipe.on_error.reject > 0, self.states)
            | "NoteRead" >> beam.Map(_note_read, log, sizes)
        )
        keys = begin | "NoKeys" >> beam.Create([])
        if self.check_key and plan.base.source.key:
            keys = pieces | "CheckKey" >> CheckUniqueKey(plan.base, self.folders.exchange_of("base-key"))
        if plan.joins.steps:
            pieces = pieces | "Join" >> JoinBatches(
                plan.joins, self.folders.exchange_of("join"), plan.recipe.on_error.reject > 0
            )
        pieces = pieces | "Select" >> SelectBatches(plan.select)
        if plan.groups is not None:
            pieces = pieces | "Group" >> GroupRows(
                plan.groups, plan.select.schema, len(plan.base.ranges), self.folders.exchange_of("group")
            )
        splits = pieces | "Split" >> AssignSplit(plan.split)
        return {"pieces": splits.pieces, "receipts": splits[RECEIPTS], "keys": keys}


def count_reads(plan: Plan) -> int:
    """Returns how often the base source is read before it is converted."""
    if plan.transform_graph:
        return 1
    return max(1, plan.encode.reads) + (plan.preprocessing is not None)


def _note_read(piece: Piece, log: ProgressLog, sizes: Sequence[int]) -> Piece:
    log.add(piece.batch.num_rows, sizes[piece.range_number] if piece.part == 0 else 0, "read")
    return piece


class Encoder(NamedTuple):
    """What encodes pieces, as soon as it is fitted.

    Attributes:
      fitted: folder of the fitted encodings, one element.
      own: the recipe's own function, analysed, or ``None``.
      analyzed: folder of what its analysis has written, one element; empty where there is none.
    """

    fitted: beam.PCollection[str]
    own: TransformFn | None
    analyzed: beam.PCollection[str]


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
      receipts: one for each piece.
      encoder: for the second read.
    """

    learned: beam.PCollection[Learned]
    receipts: beam.PCollection[Receipt]
    encoder: Encoder


@dataclasses.dataclass
class FirstRead(beam.PTransform):
    """Reads everything once, to learn from it, and again where encodings are fitted on what fitted ones give.

    Input: the pipeline's begin. Output: a ``FirstResult``.
    """

    plan: Plan
    folders: Folders
    states: beam.PCollection[Any]

    def expand(self, begin: beam.pvalue.PBegin) -> FirstResult:
        plan = self.plan
        splits = begin | "ReadSplits" >> ReadSplits(plan, self.folders, self.states, check_key=True)
        names = plan.recipe.split.names
        share = sample_share(plan.base.size_bytes)
        statistics = splits["pieces"] | "Statistics" >> ComputeStatistics(
            plan.num_ranges, names, plan.split.schema, plan.statistics
        )
        samples = splits["pieces"] | "SampleRows" >> SampleRows(share, plan.recipe.output.shuffle)
        fitted, refits = self._fit(begin, splits["pieces"])
        encoder, analysis = self._analyze(begin, fitted)
        encoded = samples | "EncodeSamples" >> EncodePieces(plan, self.folders, encoder)
        rights = begin | "RightSources" >> CountRightSources(
            plan.joins, self.folders.exchange_of("keys"), plan.recipe.on_error.reject > 0
        )
        learned = statistics | "Learn" >> beam.Map(
            lambda statistics, receipts, samples, encoded, rights, _, fitted, analyzed, again: learn(
                plan, statistics, receipts, samples, encoded, dict(rights), Fitting(fitted, analyzed, again)
            ),
            beam.pvalue.AsList(splits["receipts"]),
            beam.pvalue.AsList(samples),
            beam.pvalue.AsList(encoded),
            beam.pvalue.AsList(rights),
            beam.pvalue.AsList(splits["keys"]),
            beam.pvalue.AsSingleton(fitted),
            beam.pvalue.AsSingleton(encoder.analyzed),
            beam.pvalue.AsList([*refits, *analysis] | beam.Flatten(pipeline=begin.pipeline)),
        )
        return FirstResult(learned, splits["receipts"], encoder)

    def _fit(
        self, begin: beam.pvalue.PBegin, pieces: beam.PCollection[Piece]
    ) -> tuple[beam.PCollection[str], list[beam.PCollection[tuple[int, Receipt]]]]:
        """Fits the encodings, in the read there is, and in one more for each that is fitted on what a fitted one gives.

        Output: the folder of the fitted encodings, one element; and (number, receipt) of every piece of those further reads.
        """
        plan, folders = self.plan, self.folders
        before = files.join(plan.transform_graph, files.name_of(ENCODINGS)) if plan.transform_graph else ""
        fitted = begin | "FittedBefore" >> beam.Create([before])
        receipts = []
        for read in range(0 if before else plan.encode.reads):
            if read:
                pieces, seen = self._read_again(begin, read)
                receipts.append(seen)
            fitted = pieces | f"FitEncodings{read}" >> FitEncodings(
                plan.encode,
                read,
                fitted,
                plan.num_ranges,
                plan.base.size_bytes,
                # The last ones stay.
                folders.encodings if read + 1 == plan.encode.reads else folders.temporary_of(f"encodings{read}"),
                folders.exchange_of(f"tallies{read}"),
            )
        return fitted, receipts

    def _read_again(
        self, begin: beam.pvalue.PBegin, number: int
    ) -> tuple[beam.PCollection[Piece], beam.PCollection[tuple[int, Receipt]]]:
        """Reads once more, and returns the pieces and (number, receipt) of each."""
        again = ReadSplits(self.plan, self.folders.under(f"read{number}"), self.states, check_key=False)
        splits = begin | f"ReadAgain{number}" >> again
        receipts = splits["receipts"] | f"Number{number}" >> beam.Map(lambda receipt, read: (read, receipt), number)
        return splits["pieces"], receipts

    def _analyze(
        self, begin: beam.pvalue.PBegin, fitted: beam.PCollection[str]
    ) -> tuple[Encoder, list[beam.PCollection[tuple[int, Receipt]]]]:
        """Analyses the recipe's own function, if it has one, in a read of its own."""
        plan, function = self.plan, self.plan.preprocessing
        if function is None:
            return Encoder(fitted, None, begin | "NothingAnalyzed" >> beam.Create([""])), []
        if plan.transform_graph:
            analyzed = files.join(plan.transform_graph, files.name_of(ENCODINGS), ANALYZED)
            own = begin | "AnalyzedBefore" >> ReadPreprocessing(analyzed)
            return Encoder(fitted, own, begin | "WhereAnalyzed" >> beam.Create([analyzed])), []
        pieces, receipts = self._read_again(begin, plan.encode.reads + 1)
        encoded = pieces | "EncodeToAnalyze" >> EncodeFeatures(plan.encode, fitted)
        own, done = encoded | "Analyze" >> AnalyzePreprocessing(
            function, plan.encode.fit.splits, self.folders.preprocessing, files.join(self.folders.encodings, ANALYZED)
        )
        return Encoder(fitted, own, done), [receipts]
