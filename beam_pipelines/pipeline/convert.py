"""Wires first pass, write and commit into one Beam job; runs it.

    first pass:  read ► join ► select ► group ► split ► spill, statistics, encodings, samples,
                 row counts ► result ► check
    write:       deal spilled chunks ► read their rows ► encode ► serialize, compress, write
                 ► commit

The write waits for the result of the first pass (``pipeline/passes.py``) inside the job. So a
job on a cluster needs no launcher after it is submitted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.core.errors import PipelineError, RecipeError, RowError
from beam_pipelines.core.layout.dataset_layout import DESCRIPTION, TRANSFORM_GRAPH
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.pipeline import (
    commit,
    first_pass_result,
    output_folder,
    resume,
    run_lock,
    serving_graph,
)
from beam_pipelines.pipeline.observed import observed
from beam_pipelines.pipeline.offending_rows import find_bad_row
from beam_pipelines.pipeline.passes import FirstPass, WriteSpilled
from beam_pipelines.pipeline.planning.plan import Plan, store_lists, without_encodings
from beam_pipelines.pipeline.planning.private import values_hidden
from beam_pipelines.pipeline.prepared_sources import has_tables, keep_plan
from beam_pipelines.pipeline.run_options import RunFolders, RunOptions
from beam_pipelines.runners import job_server
from beam_pipelines.runners import run as run_module
from beam_pipelines.runners.options import check_options
from beam_pipelines.runners.progress import ProgressLog, show_progress
from beam_pipelines.runners.version_check import check_cluster, check_workers
from beam_pipelines.sources import format_of
from beam_pipelines.transforms import metrics
from beam_pipelines.transforms.preprocessing.function import check_storage
from beam_pipelines.transforms.shards import load_shard_plan, save_shard_plan
from beam_pipelines.transforms.write import ShardInfo


@dataclasses.dataclass
class Conversion(beam.PTransform):
    """Converts: runs the first pass, writes shards, commits.

    Input: the pipeline's begin. Output: one element, the dataset's folder, after the commit.

    Attributes:
      plan, folders: of the run.
      started: start of the run, in seconds since 1970.
    """

    plan: Plan
    folders: RunFolders
    started: float

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        plan, folders, started = self.plan, self.folders, self.started
        result, spilled, encoder = begin | "FirstPass" >> FirstPass(plan, folders)
        result = result | "CheckAnomalies" >> beam.Map(
            lambda result: first_pass_result.check_anomalies(plan, result, folders.output, started)
        )
        key = result | "KeyOfRun" >> beam.Map(lambda result: resume.run_key(plan, result))
        stored = beam.pvalue.AsSingleton(
            result | "SaveResult" >> beam.Map(RunFile.keep, folders.scratch_of("result"))
        )
        once = begin | "Once" >> beam.Create([None], reshuffle=False)
        graph = once | "BuildGraph" >> beam.Map(
            lambda _, stored: serving_graph.build_graph(
                plan, stored.load(), folders.temporary_of(TRANSFORM_GRAPH)
            ),
            stored,
        )
        temporary = folders.temporary_of()
        finished: tuple[beam.PCollection[ShardInfo], ...] = ()
        if folders.finds_finished:
            found = (
                key
                | "FindFinished" >> beam.FlatMap(resume.find_finished, temporary)
                | "SpreadFound" >> beam.Reshuffle()
            )
            finished = (found | "CheckFinished" >> beam.FlatMap(resume.check_finished, temporary),)
        shard_plan = folders.scratch_of("shard_plan")
        planned = once | "SaveShardPlan" >> beam.Map(
            lambda _, stored, *finished: save_shard_plan(
                stored.load().shards.with_finished(
                    (shard.split, shard.path) for found in finished for shard in found
                ),
                shard_plan,
            ),
            stored,
            *map(beam.pvalue.AsList, finished),
        )
        log = ProgressLog(folders.progress)
        written = (
            spilled
            | "WriteShards"
            >> WriteSpilled(
                plan, folders, encoder, planned, lambda rows: log.add(rows, 0, "packed")
            )
            | "NoteFinished"
            >> beam.Map(resume.note_finished, beam.pvalue.AsSingleton(key), temporary)
            | "NoteShard" >> beam.Map(_note_shard, log)
        )
        shards = (written, *finished) | "AllShards" >> beam.Flatten() if finished else written
        stage = functools.partial(_stage, plan, folders, started)
        steps = commit.CommitSteps(stage, folders.output, folders.mark, started)
        needed = [stored, beam.pvalue.AsSingleton(graph)]
        return once | "Commit" >> commit.CommitShards(steps, shards, needed)


@dataclasses.dataclass
class Describe(beam.PTransform):
    """Runs the first pass and describes the data.

    Input: the pipeline's begin. Output: one ``None`` after the description is written.

    Attributes:
      plan, folders, started: as in ``Conversion``.
      stops, stays: as in ``write_description``.
    """

    plan: Plan
    folders: RunFolders
    started: float
    stops: bool = False
    stays: bool = True

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[None]:
        plan, output, started = without_encodings(self.plan), self.folders.output, self.started
        result = (begin | "FirstPass" >> FirstPass(plan, self.folders, spills=False)).result
        stops, stays = self.stops, self.stays
        return result | "Describe" >> beam.Map(
            lambda result: commit.write_description(plan, result, output, started, stops, stays)
        )


def _stage(
    plan: Plan,
    folders: RunFolders,
    started: float,
    shards: Sequence[ShardInfo],
    stored: RunFile,
    _graph: object,
) -> Sequence[commit.Paths]:
    # This shard plan knows the finished shards of an interrupted run.
    shard_plan = load_shard_plan(folders.scratch_of("shard_plan"))
    result = dataclasses.replace(stored.load(), shards=shard_plan)
    return commit.stage(plan, result, shards, folders.output, started)


def _note_shard(shard: ShardInfo, log: ProgressLog) -> ShardInfo:
    log.add(shard.rows, shard.bytes, "written")
    metrics.count_shard(shard.rows, shard.bytes)
    return shard


def convert(plan: Plan, output: str, **options: Any) -> Manifest:
    """Converts, and returns the manifest of the new dataset.

    Args:
      plan: from ``plan.make_plan``.
      output: folder of the dataset.
      options: others of ``RunOptions``.

    Raises:
      RecipeError: the output exists already, or is not a place for a dataset.
      DataError: the data do not match the recipe, or the run failed. No new dataset exists then.
    """
    _run("Convert", Conversion, plan, RunOptions(output, **options))
    return read_manifest(output)


def submit(plan: Plan, options: RunOptions) -> str:
    """Submits a conversion without waiting, or makes a template of it.

    Args:
      plan: from ``plan.make_plan``.
      options: with ``--no_wait_until_finish`` or ``--template_location`` among ``beam_options``.

    Returns:
      The job's id, or the path of the template.

    Raises:
      RecipeError: as ``convert`` raises it.
    """
    return _run("Convert", Conversion, plan, dataclasses.replace(options, quiet=True), submits=True)


def describe(plan: Plan, options: RunOptions) -> Manifest:
    """Runs the first pass and writes its result, but no examples.

    The files are schema, statistics, anomalies, report and ``description.json``.

    Args:
      plan: from ``plan.make_plan``.
      options: ``output`` is the folder of the description; it holds no dataset.

    Returns:
      The content of ``description.json``: a manifest without shards.
    """
    _run("Describe", Describe, plan, options)
    return read_manifest(options.output, DESCRIPTION)


def validate(plan: Plan, options: RunOptions, stays: bool = True) -> None:
    """Describes like ``describe``; fails if an anomaly is not accepted.

    Args:
      plan, options: as in ``describe``.
      stays: whether the folder stays, so that an error may name files in it.

    Raises:
      DataError: an anomaly is not accepted; or as ``convert`` raises it.
    """
    _run("Validate", functools.partial(Describe, stops=True, stays=stays), plan, options)


def _run(
    label: str,
    job: Callable[..., beam.PTransform],
    plan: Plan,
    options: RunOptions,
    submits: bool = False,
) -> str:
    """Runs a job and removes its temporary files.

    A conversion that fails keeps its finished shards, so that another run can resume it.

    Returns:
      The job's id, or a template's path, if the run ``submits``.
    """
    started = time.time()
    output_folder.check_output(options.output, options.overwrite)
    beam_options = run_module.pipeline_options(options.beam_options, plan.size_bytes)
    _check_options(plan, options, beam_options, submits)
    waits, is_local = run_module.waits_for_end(beam_options), run_module.is_local(beam_options)
    check_cluster(beam_options)
    with (
        job_server.started(beam_options),
        run_lock.locked(options.output, options.temporary),
        observed(plan, options.output, beam_options, waits, started)
        if job is Conversion
        else contextlib.nullcontext(lambda _: None) as ended,
    ):
        check_workers(beam_options)
        # Again: another run may have ended before this one had the lock.
        output_folder.check_output(options.output, options.overwrite)
        output_folder.check_inputs(options.output, _read_paths(plan))
        output_folder.remove_orphans(options.output)
        has_finished = resume.clear_temporary(options.temporary, keeps=options.resume) > 0
        with (
            output_folder.clean_up_after(
                options.output, options.temporary, waits, options.resume
            ) as mark,
            output_folder.scratch_folder(options.output, is_local) as scratch,
        ):
            plan = keep_plan(plan, options.temporary, options.quiet)
            if not run_module.makes_template(beam_options):  # whose jobs remove what is stored
                plan = store_lists(plan, options.temporary)
            folders = RunFolders(
                options.output,
                scratch,
                # The jobs of one template do not share a mark.
                mark="" if run_module.makes_template(beam_options) else mark,
                # A restarted job takes over its own finished shards.
                finds_finished=has_finished or not run_module.runs_once(beam_options),
            )
            log = ProgressLog(folders.progress)
            with (
                show_progress(log, plan.base.size_bytes, options.quiet),
                values_hidden(plan.recipe),
                _cause_named(plan),
            ):
                return run_module.run(
                    lambda pipeline: pipeline | label >> job(plan, folders, started),
                    beam_options,
                    ended,
                )


def _check_options(
    plan: Plan, options: RunOptions, beam_options: PipelineOptions, submits: bool
) -> None:
    """Raises ``RecipeError`` if a run cannot work with its Beam options."""
    check_options(beam_options, _paths_of_workers(plan, options.output))
    run_module.check_memory_limits(beam_options)
    if plan.preprocessing is not None:
        check_storage(options.output)
    if has_tables(plan) and run_module.makes_template(beam_options):
        raise RecipeError(
            "found --template_location with a database, expected files: a template would have the "
            "rows of today for ever. Start the job itself each time."
        )
    if not (submits or run_module.waits_for_end(beam_options)):
        raise RecipeError(
            "found --no_wait_until_finish or --template_location, expected neither: only 'convert' "
            "takes them."
        )


@contextlib.contextmanager
def _cause_named(plan: Plan) -> Iterator[None]:
    """Names a changed input or a bad row as cause, and findings."""
    try:
        yield
    except PipelineError as error:
        commit.check_unchanged(plan)
        bad = find_bad_row(plan, str(error)) if isinstance(error, RowError) else ""
        failure = RowError(bad) if bad else error
        failure.hint = "\n".join(
            f"found    {name}: {decision}"
            for name, source in plan.sources.items()
            for decision in source.decisions
        )
        raise failure from (error if bad else error.__cause__)


def _read_paths(plan: Plan) -> Iterator[str]:
    """Yields the paths of all files that a run reads.

    A file in an archive counts as its archive.
    """
    for source in plan.sources.values():
        yield from dict.fromkeys(file.archive or file.path for file in source.files)
        yield from format_of(source).companions(source)


def _paths_of_workers(plan: Plan, output: str) -> dict[str, str]:
    """Returns option or recipe key -> a path that workers use.

    Schemas and a ``preprocessing_fn`` are part of the job.
    """
    paths = {
        "--output": output,
        "--baseline": plan.policy.baseline,
        "DATASET": plan.transform_graph or "",
    }
    for name, source in plan.sources.items():
        format_ = format_of(source)
        patterns = [files.resolve(path, plan.recipe.directory) for path in source.source.path]
        if not patterns and format_.has_files:
            patterns = [file.path for file in source.files[:1]]
        for key, given in {"path": patterns, **format_.paths_of(source.source)}.items():
            local = next(filter(files.is_local, given), "")
            paths[f"sources.{name}.{key}"] = local or next(iter(given), "")
    return {what: path for what, path in paths.items() if path}
