"""Runs a pipeline and makes its failures readable.

Chooses Beam's runner and its workers.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
    TypeOptions,
)
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo

from beam_pipelines.core import errors
from beam_pipelines.core.arrow import memory
from beam_pipelines.core.limits import MIB
from beam_pipelines.runners import beam_patches, fork_server
from beam_pipelines.runners.local_workers import local_environment
from beam_pipelines.transforms.preprocessing.steps import explain_failure

# One thread is fastest below the first bound, then threads: they start at once, and Arrow, isal and
# most of numpy release the interpreter's lock. Processes do not share a lock. They are fastest from
# the second bound if they are forks; as interpreters, which start in 2 to 3 s, from the third.
# Measured on 2 cores: docs/decisions.md.
ONE_THREAD_BYTES = 16 * MIB
THREADS_BYTES_BEFORE_FORKS = 32 * MIB
THREADS_BYTES = 512 * MIB

# How long an engine keeps idle worker processes. By default Spark starts new ones for each stage,
# 3 s each: 300,000 rows took 88 s on a standalone cluster, and take 49 s.
_WORKER_CACHE_MILLIS = 60_000

# An error keeps its class if it is one of these, else it becomes a DataError.
_KINDS = {kind.__name__: kind for kind in (errors.RowError, errors.FindingsError)}
_ERROR_PREFIX = re.compile(
    rf"beam_pipelines\.core\.errors\.(DataError|RecipeError|{'|'.join(_KINDS)}): "
)
_ERROR_END = re.compile(
    r"( \[while running |\n\nDuring handling|\n\nThe above exception|\nTraceback \(most recent)"
)

# Limit -> what it is on, its option of ulimit, and the least bytes. Runs with several workers began
# at 2.75 GB of addresses, and hung at 2.6 GB; they began at 460 MB of data, and hung at 340 MB.
_LEAST = {
    "RLIMIT_AS": ("address space", "-v", 2_800_000_000),
    "RLIMIT_DATA": ("data", "-d", 600_000_000),
}


def pipeline_options(arguments: Sequence[str], size_bytes: int) -> PipelineOptions:
    """Returns Beam's options for the user's arguments.

    Without a runner, or with ``DirectRunner``, Beam's FnApiRunner is chosen by name: DirectRunner
    itself would first try to download another runner. It runs in one thread for small inputs, else
    in a thread for each core, and in a process for each core for large inputs, unless the user says
    otherwise (``--direct_num_workers``, ``--direct_running_mode``).

    Args:
      arguments: flags for Beam, as on the command line.
      size_bytes: bytes of all sources.
    """
    options = PipelineOptions(list(arguments))
    standard, direct = options.view_as(StandardOptions), options.view_as(DirectOptions)
    if standard.runner is not None and standard.runner.lower().removesuffix("runner") not in (
        "direct",
        "fnapi",
    ):
        portable = options.view_as(PortableOptions)
        portable.environment_cache_millis = (
            portable.environment_cache_millis or _WORKER_CACHE_MILLIS
        )
        return options
    standard.runner = "FnApiRunner"
    given = {argument.split("=")[0] for argument in arguments}
    if (
        "--direct_num_workers" not in given
        and "--direct_running_mode" not in given
        and size_bytes < ONE_THREAD_BYTES
    ):
        direct.direct_num_workers = 1
    elif "--direct_num_workers" not in given or direct.direct_num_workers == 0:
        direct.direct_num_workers = available_cores()
    if "--direct_running_mode" not in given:
        bound = THREADS_BYTES_BEFORE_FORKS if fork_server.is_running() else THREADS_BYTES
        many = "multi_threading" if size_bytes < bound else "multi_processing"
        direct.direct_running_mode = "in_memory" if direct.direct_num_workers == 1 else many
    # mypy checks the annotations of the stages; Beam's check costs 0.3 s a pipeline.
    options.view_as(TypeOptions).pipeline_type_check = False
    return options


def available_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def is_local(options: PipelineOptions) -> bool:
    """Whether the pipeline runs on this machine.

    Its processes see this machine's files.
    """
    return bool(options.view_as(StandardOptions).runner == "FnApiRunner")


def runs_once(options: PipelineOptions) -> bool:
    """Whether every bundle runs once, or the run fails."""
    return is_local(options) and not options.view_as(DirectOptions).direct_runner_bundle_repeat


def check_memory_limits(options: PipelineOptions) -> None:
    """Checks that the limits of this process let several workers start.

    Raises:
      DataError: they do not. gRPC's threads would wait forever for threads that could not start,
        without reacting to signals.
    """
    if not is_local(options) or options.view_as(DirectOptions).direct_num_workers == 1:
        return
    for name, (what, option, least) in _LEAST.items():
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY and limit < least:
            raise errors.DataError(
                f"found a limit of {limit / 1e9:.1f} GB on the {what} of a process (ulimit "
                f"{option}), expected {least / 1e9:.1f} GB or more: libraries reserve more than "
                "they use. Raise it, run with --direct_num_workers=1, or limit memory itself (a "
                "container)."
            )


def waits_for_end(options: PipelineOptions) -> bool:
    """Whether the command waits for the end of the job.

    It does not with ``--no_wait_until_finish``, nor if the pipeline becomes a template.

    Raises:
      RecipeError: ``--no_wait_until_finish`` on this machine, where a job ends with its command.
    """
    if not options.view_as(StandardOptions).no_wait_until_finish:
        return not makes_template(options)
    if is_local(options):
        raise errors.RecipeError(
            "found --no_wait_until_finish without a --runner whose jobs go on by themselves."
        )
    return False


def makes_template(options: PipelineOptions) -> bool:
    """Whether the pipeline becomes a Dataflow template instead of a job."""
    return bool(options.view_as(GoogleCloudOptions).template_location)


def run(
    build: Callable[[beam.Pipeline], None],
    options: PipelineOptions,
    ended: Callable[[Any], None] = lambda _: None,
) -> str:
    """Builds and runs a pipeline.

    Waits for its end if ``waits_for_end`` says so.

    Args:
      build: adds the pipeline's steps.
      options: for Beam.
      ended: is called with Beam's result once the job is done.

    Returns:
      An empty text if the job is done; else the job's id, or the path of the template.

    Raises:
      PipelineError: one of ours was raised, in any process.
    """
    if not is_local(options):
        from beam_pipelines.runners import loopback  # a local run does not need Beam's pool

        loopback.use_own_pool()
    mode = options.view_as(DirectOptions).direct_running_mode
    are_threads = is_local(options) and mode != "multi_processing"
    if are_threads:
        memory.keep_freed_memory()
    has_own_workers = are_threads or (is_local(options) and fork_server.is_running())
    patches = [beam_patches.plain_labels]
    if is_local(options):
        patches += [
            beam_patches.cache_option_views,
            beam_patches.drop_idle_bundle_processors,
            beam_patches.trust_steps,
        ]
    if has_own_workers:
        patches.append(beam_patches.plain_pickles)
    with beam_patches.applied(*patches):
        pipeline = beam.Pipeline(_local_runner(options), options=options)
        try:
            build(pipeline)
            return _run(pipeline, options, ended)
        finally:
            shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)  # Beam leaves it (2.77)


def _run(pipeline: beam.Pipeline, options: PipelineOptions, ended: Callable[[Any], None]) -> str:
    try:
        result = pipeline.run()
        if not waits_for_end(options):
            return str(options.view_as(GoogleCloudOptions).template_location or _job_id(result))
        _wait(result)
        ended(result)
        return ""
    except errors.PipelineError as error:
        raise type(error)(_message(str(error))) from error
    except Exception as error:  # runners wrap the worker's exception in their own, as text
        raise find_error(f"{type(error).__name__}: {error}") or error from error


def _wait(result: Any) -> None:
    """Waits for a job's end.

    An interruption cancels the job. Its temporary files are removed afterwards.
    """
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):
            result.cancel()
        raise


def _job_id(result: Any) -> str:
    """Returns the id of a job.

    It is a method of Dataflow's results, and an attribute of others.
    """
    return str(result.job_id() if hasattr(result, "job_id") else result._job_id)  # noqa: SLF001


def find_error(text: str) -> errors.PipelineError | None:
    """Finds the error to show in the text of a runner's exception.

    Returns:
      The last error of ours; else that of a user function or of memory; else ``None``.
    """
    matches = list(_ERROR_PREFIX.finditer(text))
    if not matches:
        return explain_failure(text) or errors.out_of_memory(text)
    kind = _KINDS.get(matches[-1][1], errors.DataError)
    return kind(_message(text[matches[-1].end() :]))


def _message(text: str) -> str:
    return _ERROR_END.split(text, maxsplit=1)[0].strip()


def _local_runner(options: PipelineOptions) -> FnApiRunner | None:
    """Returns the local runner with our workers, or ``None``.

    ``None`` leaves the choice to Beam. Worker processes get the S3 options, which Beam's local
    runner does not give them.
    """
    direct = options.view_as(DirectOptions)
    if not is_local(options):
        return None
    environment = local_environment(direct.direct_running_mode)
    if environment is None:
        return None
    direct.direct_running_mode = None  # Beam would replace the environment, or warn
    info = beam_provision_api_pb2.ProvisionInfo()
    for name, value in options.get_all_options(drop_default=True).items():
        if name.startswith("s3_"):
            info.pipeline_options[name] = value
    return FnApiRunner(default_environment=environment, provision_info=ExtendedProvisionInfo(info))
