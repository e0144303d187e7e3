"""The pipeline: a read, a write and a commit, wired from the stages.

    read:   read ► join ► select ► split ► keep, statistics, fitted encodings, samples, row counts ►
    learn ► check write:  load what was kept ► encode ► scatter ► exchange ► serialize, compress,
    write ► commit

Both are branches of one Beam job; the write waits for what the read has found
(``pipeline/first_pass.py``). A job on a cluster therefore needs no launcher once it is submitted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import apache_beam as beam

from beam_pipelines.core import files
from beam_pipelines.core.dataset_layout import DESCRIPTION, TEMPORARY, TRANSFORM_GRAPH
from beam_pipelines.core.errors import PipelineError, RecipeError
from beam_pipelines.core.slices import slices_to_value, value_to_slices
from beam_pipelines.dataset.generations import remove_left_behind
from beam_pipelines.dataset.manifest import Manifest, read_manifest
from beam_pipelines.encodings.preprocessing_fn import check_storage
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.commit import (
    check_unchanged,
    commit,
    is_committed,
    write_description,
)
from beam_pipelines.pipeline.first_pass import EncodeAndPreprocess, FirstPass, RunFolders
from beam_pipelines.pipeline.first_pass_result import FirstPassResult, build_graph, check_anomalies
from beam_pipelines.pipeline.output_folder import (
    check_inputs,
    check_output,
    cleaned,
    remove_orphans,
    scratch_beside,
)
from beam_pipelines.pipeline.plan import Plan, store_lists, without_encodings
from beam_pipelines.pipeline.resume import (
    check_finished,
    clear,
    find_finished,
    key_of,
    note_finished,
)
from beam_pipelines.pipeline.serving_graph import await_graph, graph_beside, request_graph
from beam_pipelines.runners import job_server
from beam_pipelines.runners import run as run_module
from beam_pipelines.runners.dataflow_options import check_dataflow
from beam_pipelines.runners.engine_options import check_engine, is_engine
from beam_pipelines.runners.engine_state import describe_state
from beam_pipelines.runners.progress import ProgressLog, show_progress
from beam_pipelines.runners.version_check import check_workers
from beam_pipelines.transforms.exchange import Exchange
from beam_pipelines.transforms.shards import ShardPlan, load_shard_plan, save_shard_plan
from beam_pipelines.transforms.shuffle import ScatterRows
from beam_pipelines.transforms.spill import LoadChunks
from beam_pipelines.transforms.write import ShardInfo, WriteShardFiles

ExchangeBy = Literal["files", "engine"]


@dataclasses.dataclass
class Conversion(beam.PTransform):
    """Converts: reads, writes shards, commits.

    Input: the pipeline's begin. Output: nothing; the dataset is complete when the pipeline is done.
    """

    plan: Plan
    folders: RunFolders
    started: float

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, recipe, folders, started = self.plan, self.plan.recipe, self.folders, self.started
        result, kept, encoder = begin | "FirstPass" >> FirstPass(plan, folders)
        result = result | "CheckAnomalies" >> beam.Map(
            lambda result: check_anomalies(plan, result, folders.output)
        )
        key = result | "KeyOfRun" >> beam.Map(lambda result: key_of(plan, result))
        # What was found has no bound, so that it crosses the runner in slices.
        slices = beam.pvalue.AsList(result | "Slice" >> beam.FlatMap(value_to_slices))
        once = begin | "Once" >> beam.Create([None], reshuffle=False)
        graph = once | "BuildGraph" >> beam.Map(
            lambda _, slices: _build_graph(slices_to_value(slices), plan, folders), slices
        )
        temporary = folders.temporary_of()
        finished: tuple[beam.PCollection[ShardInfo], ...] = ()
        if folders.resumes:
            found = (
                key
                | "FindFinished" >> beam.FlatMap(find_finished, temporary)
                | "SpreadFound" >> beam.Reshuffle()
            )
            finished = (found | "CheckFinished" >> beam.FlatMap(check_finished, temporary),)
        shard_plan = folders.scratch_of("shard_plan")
        planned = once | "SaveShardPlan" >> beam.Map(
            lambda _, slices, *finished: _save_shard_plan(
                slices_to_value(slices).shards, shard_plan, *finished
            ),
            slices,
            *map(beam.pvalue.AsList, finished),
        )

        exchange = folders.exchange_of("shards")
        by_files = exchange is not None
        written = (
            kept
            | "LoadPieces" >> LoadChunks((planned,), folders.takes)
            | "EncodePieces" >> EncodeAndPreprocess(plan, folders, encoder)
            | "ScatterRows"
            >> ScatterRows(recipe.output, shard_plan, planned, not by_files, not by_files)
            | "Exchange" >> Exchange(exchange)
            | "WriteShards"
            >> WriteShardFiles(
                plan.shard_name,
                recipe.output,
                shard_plan,
                temporary,
                plan.encode.lists,
                None if by_files else folders.scratch_of("parts"),
            )
            | "NoteFinished" >> beam.Map(note_finished, beam.pvalue.AsSingleton(key), temporary)
            | "NoteShard" >> beam.Map(_note_shard, ProgressLog(folders.progress))
        )
        shards = (written, *finished) | "AllShards" >> beam.Flatten() if finished else written
        return once | "Commit" >> beam.Map(
            lambda _, slices, shards, _graph: _commit(
                plan, slices_to_value(slices), shards, folders, started
            ),
            slices,
            beam.pvalue.AsList(shards),
            beam.pvalue.AsSingleton(graph),
        )


@dataclasses.dataclass
class Description(beam.PTransform):
    """Reads once and describes what was read.

    Input: the pipeline's begin. Output: nothing; the description is complete when the pipeline is
    done.

    Attributes:
      stops, stays: as ``write_description`` takes them.
    """

    plan: Plan
    folders: RunFolders
    started: float
    stops: bool = False
    stays: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, output, started = without_encodings(self.plan), self.folders.output, self.started
        result = (begin | "FirstPass" >> FirstPass(plan, self.folders, keep=False)).result
        stops, stays = self.stops, self.stays
        return result | "Describe" >> beam.Map(
            lambda result: write_description(plan, result, output, started, stops, stays)
        )


def _build_graph(result: FirstPassResult, plan: Plan, folders: RunFolders) -> None:
    if plan.append is not None:
        return  # the dataset has it
    if folders.graph:
        request_graph(result, folders.graph)
    else:
        build_graph(plan, result, folders.temporary_of(TRANSFORM_GRAPH))


def _save_shard_plan(shards: ShardPlan, path: str, finished: Sequence[ShardInfo] = ()) -> str:
    return save_shard_plan(
        shards.with_finished((shard.split, shard.path) for shard in finished), path
    )


def _commit(
    plan: Plan,
    result: FirstPassResult,
    shards: Sequence[ShardInfo],
    folders: RunFolders,
    started: float,
) -> None:
    if folders.graph:
        await_graph(folders.graph)
    if folders.run and run_lock.mark_of(folders.temporary_of()) != folders.run:
        if is_committed(folders.output, shards):
            return  # by an earlier attempt of this step, which has removed the mark
        raise run_lock.other_run(folders.output, folders.temporary_of())
    # With the shards that an earlier run has finished.
    result = dataclasses.replace(result, shards=load_shard_plan(folders.scratch_of("shard_plan")))
    commit(plan, result, shards, folders.output, started)


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
    resume: bool = False,
) -> Manifest:
    """Converts, and returns the manifest of the new dataset.

    Args:
      plan: from ``planning.make_plan``.
      output: folder of the dataset; made if it is not there.
      overwrite: replace a dataset that is there, once the new one is complete.
      beam_options: flags for Beam, as on the command line.
      quiet: show no progress.
      exchange: how rows travel between workers; by default through files if the output is on a
        filesystem, which all workers share, and else through the engine.
      resume: take over the shards that a run which broke off has finished, if it was of the same
        recipe, inputs and version.

    Raises:
      RecipeError: the output is there already, or is no place for a dataset.
      DataError: the data are not as the recipe says, or the run failed. There is no new dataset
        then.
    """
    check_output(output, overwrite, plan.generation)
    _run(
        "Convert",
        Conversion,
        plan,
        output,
        beam_options,
        quiet,
        exchange,
        overwrite=overwrite,
        resume=resume,
    )
    return read_manifest(output)


def submit(
    plan: Plan,
    output: str,
    overwrite: bool = False,
    beam_options: Sequence[str] = (),
    resume: bool = False,
) -> str:
    """Hands a conversion to a runner whose jobs go on without us, or makes a template of it, as
    ``beam_options`` say.

    Args:
      plan, output, overwrite, beam_options, resume: as of ``convert``.

    Returns:
      The job's id, or the path of the template.

    Raises:
      RecipeError: as of ``convert``.
    """
    check_output(output, overwrite, plan.generation)
    return _run(
        "Convert",
        Conversion,
        plan,
        output,
        beam_options,
        quiet=True,
        submits=True,
        overwrite=overwrite,
        resume=resume,
    )


def describe(
    plan: Plan, output: str, beam_options: Sequence[str] = (), quiet: bool = False
) -> Manifest:
    """Reads everything once and writes what can be found from it: schema, statistics, anomalies,
    report; no examples.

    Args:
      plan, beam_options, quiet: as of ``convert``.
      output: folder for the description, without a dataset in it.

    Returns:
      What a manifest would say, without shards; it lies in ``description.json``.
    """
    check_output(output, overwrite=False)
    _run("Describe", Description, plan, output, beam_options, quiet)
    return read_manifest(output, DESCRIPTION)


def validate(
    plan: Plan,
    output: str,
    beam_options: Sequence[str] = (),
    quiet: bool = False,
    stays: bool = True,
) -> None:
    """Reads everything once, writes what ``describe`` writes, and fails if there are anomalies that
    were not accepted.

    Args:
      plan, output, beam_options, quiet: as of ``describe``.
      stays: whether the folder stays, so that an error may name what is in it.

    Raises:
      DataError: there are such anomalies; or as of ``convert``.
    """
    check_output(output, overwrite=False)
    job = functools.partial(Description, stops=True, stays=stays)
    _run("Validate", job, plan, output, beam_options, quiet)


def _run(
    label: str,
    job: Callable[..., beam.PTransform],
    plan: Plan,
    output: str,
    beam_options: Sequence[str],
    quiet: bool,
    exchange: ExchangeBy | None = None,
    submits: bool = False,
    overwrite: bool = False,
    resume: bool = False,
) -> str:
    """Runs a job, shows its progress, and leaves no temporary file, unless the job goes on: then
    returns where to find it.

    A conversion that fails leaves the shards that are finished, for one that resumes it.
    """
    started = time.time()
    options = run_module.pipeline_options(beam_options, plan.size_bytes)
    for check in (check_dataflow, check_engine):
        check(options, _paths_of_workers(plan, output))
    run_module.check_address_space(options)
    if plan.preprocessing is not None:
        check_storage(output)
    waits = run_module.waits(options)
    if not (submits or waits):
        raise RecipeError(
            "found --no_wait_until_finish or --template_location, expected neither: only 'convert' "
            "takes them."
        )
    temporary, is_local = files.join(output, TEMPORARY), run_module.is_local(options)
    state = functools.partial(describe_state, options) if is_engine(options) and waits else None
    with job_server.started(options), run_lock.locked(output, temporary):
        with show_progress(ProgressLog(""), 0, quiet, state=state):
            check_workers(options)
        check_output(
            output, overwrite, plan.generation
        )  # once more: another run may have ended meanwhile
        if plan.append is None:
            check_inputs(output, _read_paths(plan))
            remove_orphans(output)
        else:
            remove_left_behind(output)
        resumes = clear(temporary, keeps=resume) > 0
        with (
            cleaned(output, temporary, waits, resume) as run,
            scratch_beside(output, is_local) as scratch,
        ):
            plan = store_lists(plan, temporary)
            # A template becomes any number of jobs, which do not share what its maker is known by.
            folders = _folders(
                output, scratch, exchange, "" if run_module.makes_template(options) else run
            )
            once = run_module.runs_once(options)
            # A job that may begin anew elsewhere looks for what it has finished itself, too.
            folders = dataclasses.replace(folders, takes=once, resumes=resumes or not once)
            log = ProgressLog(folders.progress)
            beside: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if (
                is_local
                and job is Conversion
                and plan.encode.changes
                and not (plan.transform_graph or plan.append)
            ):
                folders = dataclasses.replace(folders, graph=folders.scratch_of("graph"))
                beside = graph_beside(plan, folders.graph, folders.temporary_of(TRANSFORM_GRAPH))
            progress = show_progress(log, plan.base.size_bytes, quiet, state=state)
            with beside, progress, _changed_input_named(plan):
                return run_module.run(
                    lambda pipeline: pipeline | label >> job(plan, folders, started), options
                )


@contextlib.contextmanager
def _changed_input_named(plan: Plan) -> Iterator[None]:
    """Says of a run that fails that an input changed during it, if one did: what else there is to
    say came of that.
    """
    try:
        yield
    except PipelineError:
        check_unchanged(plan)
        raise


def _read_paths(plan: Plan) -> Iterator[str]:
    """Yields the paths of all files that a run reads rows from; of an archive its own."""
    for source in plan.sources.values():
        yield from dict.fromkeys(file.archive or file.path for file in source.files)
        yield from source.source.idx.labels or ()


def _paths_of_workers(plan: Plan, output: str) -> dict[str, str]:
    """Returns what workers read and write: what it is -> path. Schemas and a ``preprocessing_fn``
    travel with the job.
    """
    paths = {
        "--output": output,
        "--baseline": plan.policy.baseline_path or "",
        "DATASET": plan.transform_graph or "",
    }
    for name, source in plan.sources.items():
        patterns = [files.resolve(path, plan.recipe.directory) for path in source.source.path]
        paths[f"sources.{name}.path"] = next(
            (path for path in patterns if files.is_local(path)), patterns[0]
        )
        paths[f"sources.{name}.schema"] = source.source.schema or ""
        labels = source.source.idx.labels or ()
        paths[f"sources.{name}.idx.labels"] = next(
            (path for path in labels if files.is_local(path)), ""
        )
    return {what: path for what, path in paths.items() if path}


def _folders(output: str, scratch: str, exchange: ExchangeBy | None, run: str) -> RunFolders:
    folders = RunFolders(output, None, "", scratch=scratch, run=run)
    by_files = exchange == "files" or (exchange is None and files.is_local(folders.scratch_of()))
    return dataclasses.replace(
        folders,
        exchange=folders.scratch_of("exchange") if by_files else None,
        progress=folders.scratch_of("progress") if files.is_local(folders.scratch_of()) else "",
    )
