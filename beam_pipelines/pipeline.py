"""The pipeline: two reads and a commit, wired from the stages.

    first read:   read ► join ► select ► split ► statistics, fitted encodings, samples, receipts ► learn ► check
    second read:  read ► join ► select ► split ► encode ► scatter ► exchange ► write ► commit

Both are branches of one Beam job; the second one waits for what the first has learned (``first_read.py``). A job on a cluster
therefore needs no launcher once it is submitted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import apache_beam as beam

from beam_pipelines import files, runners
from beam_pipelines.commit import DESCRIPTION, PARTS, TEMPORARY, TRANSFORM_GRAPH, commit, write_description
from beam_pipelines.errors import RecipeError
from beam_pipelines.exchange import Exchange
from beam_pipelines.first_read import EncodePieces, FirstRead, Folders, ReadSplits, count_reads
from beam_pipelines.graph_beside import await_graph, graph_beside, request_graph
from beam_pipelines.learn import Learned, build_graph, check_anomalies
from beam_pipelines.manifest import FILE_NAME, Manifest, read_manifest
from beam_pipelines.pieces import Receipt
from beam_pipelines.planning import Plan, store_lists, without_encodings
from beam_pipelines.progress import ProgressLog, show_progress
from beam_pipelines.read import ScanQuotes
from beam_pipelines.shuffle import ScatterRecords
from beam_pipelines.write import ShardInfo, WriteShards

ExchangeBy = Literal["files", "engine"]


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
        learned, first, encoder = begin | "FirstRead" >> FirstRead(plan, folders.under("first"), states)
        learned = learned | "CheckAnomalies" >> beam.Map(lambda learned: check_anomalies(plan, learned, folders.output))
        graph = learned | "BuildGraph" >> beam.Map(_build_graph, plan, folders)
        encoder = encoder._replace(fitted=learned | "TakeEncodings" >> beam.Map(lambda learned: learned.fitted))
        shard_plan = learned | "TakeShards" >> beam.Map(lambda learned: learned.shards)

        second = begin | "SecondRead" >> ReadSplits(plan, folders.under("second"), states, check_key=False)
        shards = (
            second["pieces"]
            | "EncodePieces" >> EncodePieces(plan, folders, encoder)
            | "ScatterRecords" >> ScatterRecords(recipe.output, shard_plan, plan.encode.lists)
            | "Exchange" >> Exchange(folders.exchange_of("shards"))
            | "WriteShards" >> WriteShards(recipe.name, recipe.output, shard_plan, folders.temporary_of())
            | "NoteShard" >> beam.Map(_note_shard, ProgressLog(folders.progress))
        )
        return learned | "Commit" >> beam.Map(
            lambda learned, first, second, shards, _: _commit(plan, learned, first, second, shards, folders, started),
            beam.pvalue.AsList(first),
            beam.pvalue.AsList(second["receipts"]),
            beam.pvalue.AsList(shards),
            beam.pvalue.AsSingleton(graph),
        )


@dataclasses.dataclass
class Description(beam.PTransform):
    """Reads once and describes what was read.

    Input: the pipeline's begin. Output: nothing; the description is complete when the pipeline is done.

    Attributes:
      stops, stays: as ``write_description`` takes them.
    """

    plan: Plan
    folders: Folders
    started: float
    stops: bool = False
    stays: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, output, started = without_encodings(self.plan), self.folders.output, self.started
        states = begin | "ScanQuotes" >> ScanQuotes(plan.base)
        learned = (begin | "FirstRead" >> FirstRead(plan, self.folders, states)).learned
        stops, stays = self.stops, self.stays
        return learned | "Describe" >> beam.Map(
            lambda learned: write_description(plan, learned, output, started, stops, stays)
        )


def _build_graph(learned: Learned, plan: Plan, folders: Folders) -> None:
    if folders.graph:
        request_graph(learned, folders.graph)
    else:
        build_graph(plan, learned, folders.temporary_of(TRANSFORM_GRAPH))


def _commit(
    plan: Plan,
    learned: Learned,
    first: Sequence[Receipt],
    second: Sequence[Receipt],
    shards: Sequence[ShardInfo],
    folders: Folders,
    started: float,
) -> None:
    if folders.graph:
        await_graph(folders.graph)
    commit(plan, learned, first, second, shards, folders.output, started)


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
    _run("Convert", Conversion, plan, output, beam_options, quiet, 1 + count_reads(plan), exchange)
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


def validate(
    plan: Plan, output: str, beam_options: Sequence[str] = (), quiet: bool = False, stays: bool = True
) -> None:
    """Reads everything once, writes what ``describe`` writes, and fails if there are anomalies that were not accepted.

    Args:
      plan, output, beam_options, quiet: as of ``describe``.
      stays: whether the folder stays, so that an error may name what is in it.

    Raises:
      DataError: there are such anomalies; or as of ``convert``.
    """
    check_output(output, overwrite=False)
    job = functools.partial(Description, stops=True, stays=stays)
    _run("Validate", job, plan, output, beam_options, quiet, reads=1)


def _run(
    label: str,
    job: Callable[..., beam.PTransform],
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
    plan = store_lists(plan, temporary)
    is_local = runners.is_local(options)
    folders = _folders(output, is_local, exchange)
    log = ProgressLog(folders.progress)
    beside: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if is_local and reads > 1 and plan.encode.changes and not plan.transform_graph:
        folders = dataclasses.replace(folders, graph=folders.temporary_of("graph"))
        beside = graph_beside(plan, folders.graph, folders.temporary_of(TRANSFORM_GRAPH))
    shown = show_progress(log, reads * plan.base.size_bytes, quiet or not folders.progress)
    with _cleaned(temporary), beside, shown:
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
