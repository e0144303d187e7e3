"""The pipeline: two reads and a commit, wired from the stages.

    first read:   read ► join ► select ► split ► statistics, samples, receipts ► learn ► check
    second read:  read ► join ► select ► split ► encode ► scatter ► exchange ► write ► commit

Both are branches of one Beam job; the second one waits for what the first has learned. A job on a cluster therefore needs no
launcher once it is submitted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import apache_beam as beam

from beam_pipelines import files, runners
from beam_pipelines.commit import DESCRIPTION, PARTS, TEMPORARY, commit, write_description
from beam_pipelines.encode import EncodeFeatures
from beam_pipelines.errors import RecipeError
from beam_pipelines.exchange import Exchange
from beam_pipelines.join import CountRightSources, JoinBatches
from beam_pipelines.learn import Learned, check_anomalies, learn
from beam_pipelines.manifest import FILE_NAME, Manifest, read_manifest
from beam_pipelines.pieces import Piece, Receipt
from beam_pipelines.planning import Plan
from beam_pipelines.progress import ProgressLog, show_progress
from beam_pipelines.read import ReadBatches, ScanQuotes
from beam_pipelines.sample import SampleRows, sample_share
from beam_pipelines.select import SelectBatches
from beam_pipelines.shuffle import ScatterRecords
from beam_pipelines.split import RECEIPTS, AssignSplit
from beam_pipelines.statistics import ComputeStatistics
from beam_pipelines.unique_key import CheckUniqueKey
from beam_pipelines.write import ShardInfo, WriteShards

ExchangeBy = Literal["files", "engine"]


@dataclasses.dataclass(frozen=True)
class Folders:
    """Where a run writes.

    Attributes:
      output: the dataset.
      exchange: where payloads wait on their way between stages, or ``None`` to send them through the engine.
      progress: where local workers note their progress, or an empty text.
    """

    output: str
    exchange: str | None
    progress: str

    def exchange_of(self, step: str) -> str | None:
        """Returns the exchange folder of one step, or ``None``."""
        return None if self.exchange is None else files.join(self.exchange, step)

    def under(self, step: str) -> Folders:
        """Returns the same folders, with those of all exchanges under that of one step."""
        return dataclasses.replace(self, exchange=self.exchange_of(step))


@dataclasses.dataclass
class ReadSplits(beam.PTransform):
    """Reads, joins, selects and splits.

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
        splits = pieces | "Select" >> SelectBatches(plan.select) | "Split" >> AssignSplit(plan.split)
        return {"pieces": splits.pieces, "receipts": splits[RECEIPTS], "keys": keys}


def _note_read(piece: Piece, log: ProgressLog, sizes: Sequence[int]) -> Piece:
    log.add(piece.batch.num_rows, sizes[piece.range_number] if piece.part == 0 else 0, "read")
    return piece


@dataclasses.dataclass
class FirstRead(beam.PTransform):
    """Reads everything once, to learn from it.

    Input: the pipeline's begin. Output: one ``Learned``, and one ``Receipt`` for each piece.
    """

    plan: Plan
    folders: Folders
    states: beam.PCollection[Any]

    def expand(self, begin: beam.pvalue.PBegin) -> tuple[beam.PCollection[Learned], beam.PCollection[Receipt]]:
        plan = self.plan
        splits = begin | "ReadSplits" >> ReadSplits(plan, self.folders, self.states, check_key=True)
        names = plan.recipe.split.names
        share = sample_share(plan.base.size_bytes)
        statistics = splits["pieces"] | "Statistics" >> ComputeStatistics(
            len(plan.base.ranges), names, plan.split.schema
        )
        samples = splits["pieces"] | "SampleRows" >> SampleRows(share, plan.recipe.output.shuffle)
        rights = begin | "RightSources" >> CountRightSources(
            plan.joins, self.folders.exchange_of("keys"), plan.recipe.on_error.reject > 0
        )
        learned = statistics | "Learn" >> beam.Map(
            lambda statistics, receipts, samples, rights, _: learn(plan, statistics, receipts, samples, dict(rights)),
            beam.pvalue.AsList(splits["receipts"]),
            beam.pvalue.AsList(samples),
            beam.pvalue.AsList(rights),
            beam.pvalue.AsList(splits["keys"]),
        )
        return learned, splits["receipts"]


@dataclasses.dataclass
class Conversion(beam.PTransform):
    """Converts: reads twice, writes shards, commits.

    Input: the pipeline's begin. Output: nothing; the dataset is complete when the pipeline is done.
    """

    plan: Plan
    folders: Folders
    started: float

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, recipe, folders, started = self.plan, self.plan.recipe, self.folders, self.started
        states = begin | "ScanQuotes" >> ScanQuotes(plan.base)
        learned, first = begin | "FirstRead" >> FirstRead(plan, folders.under("first"), states)
        learned = learned | "CheckAnomalies" >> beam.Map(lambda learned: check_anomalies(plan, learned))
        encode = learned | "TakeEncodings" >> beam.Map(lambda learned: learned.encode)
        shard_plan = learned | "TakeShards" >> beam.Map(lambda learned: learned.shards)

        second = begin | "SecondRead" >> ReadSplits(plan, folders.under("second"), states, check_key=False)
        shards = (
            second["pieces"]
            | "EncodeFeatures" >> EncodeFeatures(encode)
            | "ScatterRecords" >> ScatterRecords(recipe.output, shard_plan)
            | "Exchange" >> Exchange(folders.exchange_of("shards"))
            | "WriteShards"
            >> WriteShards(recipe.name, recipe.output, shard_plan, files.join(folders.output, TEMPORARY))
            | "NoteShard" >> beam.Map(_note_shard, ProgressLog(folders.progress))
        )
        return learned | "Commit" >> beam.Map(
            lambda learned, first, second, shards: commit(
                plan, learned, first, second, shards, folders.output, started
            ),
            beam.pvalue.AsList(first),
            beam.pvalue.AsList(second["receipts"]),
            beam.pvalue.AsList(shards),
        )


@dataclasses.dataclass
class Description(beam.PTransform):
    """Reads once and describes what was read.

    Input: the pipeline's begin. Output: nothing; the description is complete when the pipeline is done.
    """

    plan: Plan
    folders: Folders
    started: float

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, output, started = self.plan, self.folders.output, self.started
        states = begin | "ScanQuotes" >> ScanQuotes(plan.base)
        learned, _ = begin | "FirstRead" >> FirstRead(plan, self.folders, states)
        return learned | "Describe" >> beam.Map(lambda learned: write_description(plan, learned, output, started))


def _note_shard(shard: ShardInfo, log: ProgressLog) -> ShardInfo:
    log.add(shard.rows, shard.bytes, "written")
    return shard


def convert(
    plan: Plan,
    output: str,
    overwrite: bool = False,
    beam_options: Sequence[str] = (),
    quiet: bool = False,
    exchange: ExchangeBy | None = None,
) -> Manifest:
    """Converts, and returns the manifest of the new dataset.

    Args:
      plan: from ``planning.make_plan``.
      output: folder of the dataset; made if it is not there.
      overwrite: replace a dataset that is there, once the new one is complete.
      beam_options: flags for Beam, as on the command line.
      quiet: show no progress.
      exchange: how records travel to their shards; by default through files on one machine, else through the engine.

    Raises:
      RecipeError: the output is there already, or is no place for a dataset.
      DataError: the data are not as the recipe says, or the run failed. There is no new dataset then.
    """
    check_output(output, overwrite)
    _run("Convert", Conversion, plan, output, beam_options, quiet, reads=2, exchange=exchange)
    return read_manifest(output)


def describe(plan: Plan, output: str, beam_options: Sequence[str] = (), quiet: bool = False) -> Manifest:
    """Reads everything once and writes what can be learned from it: schema, statistics, anomalies, report; no examples.

    Args:
      plan, beam_options, quiet: as of ``convert``.
      output: folder for the description, without a dataset in it.

    Returns:
      What a manifest would say, without shards; it lies in ``description.json``.
    """
    check_output(output, overwrite=False)
    _run("Describe", Description, plan, output, beam_options, quiet, reads=1)
    return read_manifest(output, DESCRIPTION)


def _run(
    label: str,
    job: type[Conversion | Description],
    plan: Plan,
    output: str,
    beam_options: Sequence[str],
    quiet: bool,
    reads: int,
    exchange: ExchangeBy | None = None,
) -> None:
    """Runs a job that reads the base source ``reads`` times, shows its progress, and leaves no temporary file."""
    started = time.time()
    options = runners.pipeline_options(beam_options, plan.size_bytes)
    temporary = files.join(output, TEMPORARY)
    files.delete(temporary)
    folders = _folders(output, runners.is_local(options), exchange)
    log = ProgressLog(folders.progress)
    with _cleaned(temporary), show_progress(log, reads * plan.base.size_bytes, quiet or not folders.progress):
        runners.run(lambda pipeline: pipeline | label >> job(plan, folders, started), options)


def check_output(output: str, overwrite: bool) -> None:
    """Checks that a dataset may be written to a folder.

    Raises:
      RecipeError: there is one already, or something else.
    """
    if files.exists(files.join(output, FILE_NAME)):
        if not overwrite:
            raise RecipeError(
                f"{output}: there is a dataset already. Add --overwrite to replace it, or choose another --output."
            )
        return
    found = [listed.path for listed in files.list_files(files.join(output, "*"))]
    strange = [path for path in found if files.name_of(path) not in (*PARTS, TEMPORARY, DESCRIPTION)]
    if strange or (files.is_local(output) and files.is_file(output)):
        raise RecipeError(
            f"{output}: expected an empty or new folder, found {strange[0] if strange else 'a file'}. Choose another --output."
        )


def _folders(output: str, local: bool, exchange: ExchangeBy | None) -> Folders:
    temporary = files.join(output, TEMPORARY)
    by_files = exchange == "files" or (exchange is None and local)
    return Folders(
        output,
        files.join(temporary, "exchange") if by_files else None,
        files.join(temporary, "progress") if local else "",
    )


@contextlib.contextmanager
def _cleaned(temporary: str) -> Iterator[None]:
    """Removes the temporary folder, also when the run fails; one that cannot be removed does not hide why it failed."""
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            files.delete(temporary)
