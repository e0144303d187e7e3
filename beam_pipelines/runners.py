"""Runs a pipeline: picks Beam's runner, mends what its local runner does wrong, and makes its failures readable."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, TypeOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from beam_pipelines.errors import DataError, PipelineError
from beam_pipelines.recipe import MIB

LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner")

# Two worker processes cost 3 seconds to start, and then halve the time: worth it from here on (benchmarks/bench_stages.py).
IN_PROCESS_BYTES = 64 * MIB

_ERROR_PREFIX = re.compile(r"beam_pipelines\.errors\.(DataError|RecipeError): ")
_ERROR_END = re.compile(r"( \[while running |\n\nDuring handling|\n\nThe above exception|\nTraceback \(most recent)")


def pipeline_options(arguments: Sequence[str], size_bytes: int) -> PipelineOptions:
    """Returns Beam's options for the user's arguments.

    Without a runner, or with ``DirectRunner``, Beam's FnApiRunner is chosen by name: DirectRunner itself would first try to
    download another runner. It runs in this process for small inputs, else in one process for each core, unless the user
    says otherwise (``--direct_num_workers``, ``--direct_running_mode``).

    Args:
      arguments: flags for Beam, as on the command line.
      size_bytes: bytes of all sources.
    """
    options = PipelineOptions(list(arguments))
    standard, direct = options.view_as(StandardOptions), options.view_as(DirectOptions)
    if standard.runner not in (None, *LOCAL_RUNNERS):
        return options
    standard.runner = "FnApiRunner"
    given = {argument.split("=")[0] for argument in arguments}
    if "--direct_num_workers" not in given and "--direct_running_mode" not in given and size_bytes < IN_PROCESS_BYTES:
        direct.direct_num_workers = 1
    elif "--direct_num_workers" not in given or direct.direct_num_workers == 0:
        direct.direct_num_workers = available_cores()
    if "--direct_running_mode" not in given:
        direct.direct_running_mode = "in_memory" if direct.direct_num_workers == 1 else "multi_processing"
    options.view_as(TypeOptions).pipeline_type_check = True
    return options


def available_cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_local(options: PipelineOptions) -> bool:
    """Whether the pipeline runs on this machine, in processes that see its files."""
    return options.view_as(StandardOptions).runner in LOCAL_RUNNERS


@contextlib.contextmanager
def size_based_flushes() -> Iterator[None]:
    """Switches off the timer with which Beam's local runner flushes its data streams.

    With the timer on, and two workers or more, the runner loses elements silently: a flush waits for a full queue while the
    sender goes on writing, and then the buffer is cleared (Beam 2.60 to 2.77, docs/decisions.md). Worker processes have
    no timer unless the user asks for one; this is about the side of the runner.
    """
    before = worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    try:
        yield
    finally:
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = before


def run(build: Callable[[beam.Pipeline], None], options: PipelineOptions) -> None:
    """Builds a pipeline, runs it and waits for its end.

    Raises:
      PipelineError: the pipeline failed with one of ours, in whichever process.
    """
    with size_based_flushes():
        pipeline = beam.Pipeline(options=options)
        build(pipeline)
        try:
            pipeline.run().wait_until_finish()
        except PipelineError as error:
            raise type(error)(_message(str(error))) from error
        except Exception as error:  # runners wrap the worker's exception in whatever they like, as text
            raise find_error(str(error)) or error from error


def find_error(text: str) -> PipelineError | None:
    """Finds the last error of ours in the text of a runner's exception, or returns None."""
    matches = list(_ERROR_PREFIX.finditer(text))
    if not matches:
        return None
    return DataError(_message(text[matches[-1].end() :]))


def _message(text: str) -> str:
    return _ERROR_END.split(text, maxsplit=1)[0].strip()


def quieten() -> None:
    """Silences the chatter of Beam and its libraries; their errors reach the user as ours."""
    for name in ("apache_beam", "root", "grpc", "google"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
