"""Runs a pipeline: picks Beam's runner, mends what its local runner does wrong, and makes its
failures readable.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
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
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.environments import SubprocessSDKEnvironment

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

from beam_pipelines.core import memory
from beam_pipelines.core.errors import DataError, PipelineError, RecipeError, out_of_memory
from beam_pipelines.core.limits import MIB
from beam_pipelines.runners import fork_server
from beam_pipelines.runners.beam_patches import bundles_forgotten, options_parsed_once
from beam_pipelines.transforms.preprocess import explain_failure

# One thread is quickest up to here. Then threads: they cost nothing to start, and Arrow, isal and
# most of numpy release the interpreter's lock. Worker processes do not share one: worth it beyond
# the second bound where they are forks, and where they are interpreters of their own, which take 2
# to 3 seconds to start, beyond the third. Measured on 2 cores: docs/decisions.md.
ONE_THREAD_BYTES = 16 * MIB
THREADS_BYTES_BEFORE_FORKS = 32 * MIB
THREADS_BYTES = 512 * MIB

# How long an engine keeps worker processes that no stage uses. Without it Spark starts new ones for
# each stage, 3 s each: 300,000 rows took 88 s on a standalone cluster, and take 49 s.
_WORKER_CACHE_MILLIS = 60_000

_ERROR_PREFIX = re.compile(r"beam_pipelines\.core\.errors\.(DataError|RecipeError): ")
_ERROR_END = re.compile(
    r"( \[while running |\n\nDuring handling|\n\nThe above exception|\nTraceback \(most recent)"
)

# Runs with several workers began at 2.75 GB; at 2.6 GB they hung.
_LEAST_ADDRESS_SPACE = 2_800_000_000

# How long workers may take to hang up once there is nothing more for them to do.
_GRACE_SECS = 1

# As the text of an error of a worker's own, which ``find_error`` finds.
_GONE = (
    "beam_pipelines.core.errors.DataError: a worker process is gone before its work was done; "
    "nothing was committed. Systems end processes "
    "when memory runs out: run again, and if it happens again, with fewer workers "
    "(--direct_num_workers)."
)


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
        bound = THREADS_BYTES_BEFORE_FORKS if fork_server.command() else THREADS_BYTES
        many = "multi_threading" if size_bytes < bound else "multi_processing"
        direct.direct_running_mode = "in_memory" if direct.direct_num_workers == 1 else many
    # The stages' own annotations are checked by mypy; Beam's inference costs a third of a second a
    # pipeline.
    options.view_as(TypeOptions).pipeline_type_check = False
    return options


def available_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_local(options: PipelineOptions) -> bool:
    """Whether the pipeline runs on this machine, in processes that see its files."""
    return bool(options.view_as(StandardOptions).runner == "FnApiRunner")


def runs_once(options: PipelineOptions) -> bool:
    """Whether every bundle runs once, or the run fails: what it has used up is not needed again."""
    return is_local(options) and not options.view_as(DirectOptions).direct_runner_bundle_repeat


def check_address_space(options: PipelineOptions) -> None:
    """Checks that a limit on the address space of a process, if there is one, lets several workers
    of this machine start.

    Raises:
      DataError: it does not. gRPC's threads would wait for others that could not be started, for
        ever and deaf to signals.
    """
    if (
        resource is None
        or not is_local(options)
        or options.view_as(DirectOptions).direct_num_workers == 1
    ):
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        raise DataError(
            f"found a limit of {limit / 1e9:.1f} GB on the address space of a process (ulimit -v), "
            f"expected {_LEAST_ADDRESS_SPACE / 1e9:.1f} GB or "
            "more: libraries reserve more than they use. Raise it, run with "
            "--direct_num_workers=1, or limit memory itself (a container)."
        )


@contextlib.contextmanager
def size_based_flushes() -> Iterator[None]:
    """Switches off the timer with which Beam's local runner flushes its data streams.

    With the timer on, and two workers or more, the runner loses elements silently: a flush waits
    for a full queue while the sender goes on writing, and then the buffer is cleared (Beam 2.60 to
    2.77, docs/decisions.md). Worker processes have no timer unless the user asks for one; this is
    about the side of the runner.
    """
    before = worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    try:
        yield
    finally:
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = before


@contextlib.contextmanager
def late_workers_end() -> Iterator[None]:
    """Ends workers that connect to Beam's local runner after it has closed their connections, and
    does not wait for them.

    A run that fails or is interrupted at its start would wait for worker processes for ever, as
    they would for work (Beam 2.77): a connection that is closed before it is used tells the worker
    nothing. For those that are threads it would wait 5 seconds, in one of seven early moments.
    """
    close = worker_handlers.ControlConnection.close

    def close_and_tell(connection: worker_handlers.ControlConnection) -> None:
        is_unused = connection._input is None  # noqa: SLF001
        close(connection)
        if is_unused:
            connection.push(worker_handlers.BeamFnControlServicer._DONE_MARKER)  # noqa: SLF001

    grace_secs = worker_handlers.GrpcServer._DEFAULT_SHUTDOWN_TIMEOUT_SECS  # noqa: SLF001
    worker_handlers.ControlConnection.close = close_and_tell
    worker_handlers.GrpcServer._DEFAULT_SHUTDOWN_TIMEOUT_SECS = min(grace_secs, _GRACE_SECS)  # noqa: SLF001
    try:
        yield
    finally:
        worker_handlers.ControlConnection.close = close
        worker_handlers.GrpcServer._DEFAULT_SHUTDOWN_TIMEOUT_SECS = grace_secs  # noqa: SLF001


@contextlib.contextmanager
def dead_workers_fail() -> Iterator[None]:
    """Lets a run fail at once when one of its worker processes is gone: Beam's local runner would
    wait for its answers for ever (2.77).
    """
    start, push = (
        worker_handlers.SubprocessSdkWorkerHandler.start_worker,
        worker_handlers.ControlConnection.push,
    )
    dead: set[int] = set()  # connections, by identity

    def start_and_watch(handler: worker_handlers.SubprocessSdkWorkerHandler) -> None:
        start(handler)
        threading.Thread(target=watch, args=(handler,), daemon=True).start()

    def watch(handler: worker_handlers.SubprocessSdkWorkerHandler) -> None:
        handler.worker_thread.join()
        dead.add(id(handler.control_conn))
        if _answer_all(handler.control_conn):
            fork_server.end_workers()  # whose work is for nothing

    def push_and_check(connection: worker_handlers.ControlConnection, request: Any) -> Any:
        future = push(connection, request)
        if id(connection) in dead:
            _answer_all(connection)
        return future

    worker_handlers.SubprocessSdkWorkerHandler.start_worker = start_and_watch
    worker_handlers.ControlConnection.push = push_and_check
    try:
        yield
    finally:
        worker_handlers.SubprocessSdkWorkerHandler.start_worker = start
        worker_handlers.ControlConnection.push = push


def _answer_all(connection: worker_handlers.ControlConnection) -> bool:
    """Answers with an error whatever a worker that is gone was asked. Returns whether there was
    anything.
    """
    futures = connection._futures_by_id  # noqa: SLF001
    asked = list(futures)
    for request in asked:
        future = futures.get(
            request
        )  # which stays there: its answer may be on the way, and Beam looks it up
        if future is not None:
            future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=request, error=_GONE))
    return bool(asked)


def waits(options: PipelineOptions) -> bool:
    """Whether the end of the job is waited for: not with ``--no_wait_until_finish``, nor where a
    template is made of the pipeline.

    Raises:
      RecipeError: a job on this machine ends with the process that started it.
    """
    if not options.view_as(StandardOptions).no_wait_until_finish:
        return not makes_template(options)
    if is_local(options):
        raise RecipeError(
            "found --no_wait_until_finish without a --runner whose jobs go on by themselves."
        )
    return False


def makes_template(options: PipelineOptions) -> bool:
    """Whether a template is made of the pipeline, and no job."""
    return bool(options.view_as(GoogleCloudOptions).template_location)


def run(build: Callable[[beam.Pipeline], None], options: PipelineOptions) -> str:
    """Builds a pipeline, runs it and waits for its end, if it is to be waited for.

    Args:
      build: adds the pipeline's steps.
      options: for Beam.

    Returns:
      Where to find the job that goes on without us: its id, or the path of the template; an empty
        text once it is done.

    Raises:
      PipelineError: the pipeline failed with one of ours, in whichever process.
    """
    if (
        is_local(options)
        and options.view_as(DirectOptions).direct_running_mode != "multi_processing"
    ):
        memory.keep_freed_memory()  # workers are threads of this process
    with (
        size_based_flushes(),
        late_workers_end(),
        dead_workers_fail(),
        _silent_workers(),
        _storage_options_for_processes(options),
        _quick_run() if is_local(options) else contextlib.nullcontext(),
    ):
        pipeline = beam.Pipeline(_local_processes(options), options=options)
        try:
            build(pipeline)
            return _run(pipeline, options)
        finally:
            shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)  # Beam leaves it (2.77)


def _run(pipeline: beam.Pipeline, options: PipelineOptions) -> str:
    try:
        result = pipeline.run()
        if not waits(options):
            return str(options.view_as(GoogleCloudOptions).template_location or _job_id(result))
        _wait(result)
        return ""
    except PipelineError as error:
        raise type(error)(_message(str(error))) from error
    except Exception as error:  # runners wrap the worker's exception in whatever they like, as text
        raise find_error(f"{type(error).__name__}: {error}") or error from error


@contextlib.contextmanager
def _quick_run() -> Iterator[None]:
    """Spares a run on this machine what it has no use for."""
    with options_parsed_once(), bundles_forgotten():
        yield


def _wait(result: Any) -> None:
    """Waits for a job's end; one that goes on elsewhere is cancelled when we are interrupted, as
    its temporary files go then.
    """
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):
            result.cancel()
        raise


def _job_id(result: Any) -> str:
    """Returns the id of a job: a method of Dataflow's results, an attribute of those of other
    runners.
    """
    return str(result.job_id() if hasattr(result, "job_id") else result._job_id)  # noqa: SLF001


def find_error(text: str) -> PipelineError | None:
    """Finds the last error of ours in the text of a runner's exception, or that of a recipe's own
    function, or returns None.
    """
    matches = list(_ERROR_PREFIX.finditer(text))
    if not matches:
        return explain_failure(text) or out_of_memory(text)
    return DataError(_message(text[matches[-1].end() :]))


def _message(text: str) -> str:
    return _ERROR_END.split(text, maxsplit=1)[0].strip()


def _local_processes(options: PipelineOptions) -> FnApiRunner | None:
    """Returns the local runner with our command for its worker processes, or ``None`` where Beam's
    own choice stands.

    Beam's command breaks where Python lies under a path with a space, and its workers print
    tracebacks.
    """
    direct = options.view_as(DirectOptions)
    if not is_local(options) or direct.direct_running_mode != "multi_processing":
        return None
    direct.direct_running_mode = "in_memory"  # or else Beam puts its own command in place of ours
    silent = "" if shows_engine_logs() else " 2>/dev/null"
    command = fork_server.command() or (
        f"{memory.ENVIRONMENT} {shlex.quote(sys.executable)} -m "
        "apache_beam.runners.worker.sdk_worker_main"
    )
    return FnApiRunner(
        default_environment=SubprocessSDKEnvironment.from_command_string(command + silent)
    )


@contextlib.contextmanager
def _storage_options_for_processes(options: PipelineOptions) -> Iterator[None]:
    """Lets worker processes of this machine open files as we do: Beam's local runner gives them
    none of the job's options.

    They go through a file that only we can read, as keys may be among them.
    """
    given = {
        name: value
        for name, value in options.get_all_options(drop_default=True).items()
        if name.startswith("s3_")
    }
    if not given or not is_local(options):
        yield
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"options": given}, file)
        file.flush()
        os.environ["PIPELINE_OPTIONS_FILE"] = file.name
        try:
            yield
        finally:
            del os.environ["PIPELINE_OPTIONS_FILE"]


@contextlib.contextmanager
def _silent_workers() -> Iterator[None]:
    """Keeps workers that are threads of this process from printing the tracebacks of errors that
    reach the user anyway.

    For good if the body fails or is interrupted: threads of it go on for some moments, and fail
    when temporary files are gone.
    """
    if shows_engine_logs():
        yield
        return
    sdk_worker.print = lambda *_, **__: None  # the name that the module's own calls find first
    yield
    del sdk_worker.print


def shows_engine_logs() -> bool:
    """Whether the log is shown, of Beam and of engines: with ``--verbose``."""
    return logging.getLogger().isEnabledFor(logging.ERROR)
