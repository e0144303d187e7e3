"""Workers and coder that this package registers with Beam's local runner.

Beam's own workers make a run wait forever in two cases (2.77): when a worker process dies, and when
a worker connects after the runner has closed its connection. Its processes also start through a
shell, with all imports; ours are forks of one that has imported everything (``fork_server.py``), or
else interpreters. Handlers and environments are registered by URN; nothing of Beam is patched.
"""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    BeamFnControlServicer,
    EmbeddedGrpcWorkerHandler,
    GrpcServer,
    GrpcWorkerHandler,
    WorkerHandler,
)
from apache_beam.transforms.environments import Environment, python_sdk_capabilities
from apache_beam.typehints import typehints
from google.protobuf import text_format

from beam_pipelines.core import memory, python_process
from beam_pipelines.runners import fork_server

_THREADS_URN = "beam_pipelines:env:threads:v1"
_PROCESSES_URN = "beam_pipelines:env:processes:v1"

_WORKER = "from apache_beam.runners.worker import sdk_worker_main as each; each.main(sys.argv)"

# How long workers may take to hang up when a run ends; Beam allows 5 s.
_SHUTDOWN_SECS = 1

# Worded as an error that a worker raised, so that ``run.find_error`` finds it.
_DIED = (
    "beam_pipelines.core.errors.DataError: a worker process is gone before its work was done; "
    "nothing was committed. Systems end processes "
    "when memory runs out: run again, and if it happens again, with fewer workers "
    "(--direct_num_workers)."
)


def shows_engine_logs() -> bool:
    """Whether the logs of Beam and of engines are shown: with ``--verbose``."""
    return logging.getLogger().isEnabledFor(logging.ERROR)


class LocalEnvironment(Environment):
    """Workers on this machine: threads of this process, or processes."""

    def __init__(
        self,
        urn: str,
        capabilities: Iterable[str] = (),
        artifacts: Iterable[Any] = (),
        resource_hints: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(capabilities, artifacts, resource_hints)
        self.urn = urn

    def to_runner_api_parameter(self, _: Any) -> tuple[str, bytes]:
        return self.urn, b"{}"


def local_environment(running_mode: str) -> LocalEnvironment | None:
    """Returns the environment of a ``--direct_running_mode``; ``None`` for ``in_memory``."""
    urns = {"multi_threading": _THREADS_URN, "multi_processing": _PROCESSES_URN}
    if running_mode not in urns:
        return None
    return LocalEnvironment(urns[running_mode], python_sdk_capabilities())


def _from_runner_api(
    urn: str,
    _payload: bytes,
    capabilities: Iterable[str],
    artifacts: Iterable[Any],
    resource_hints: Mapping[str, bytes],
    _context: Any,
) -> LocalEnvironment:
    return LocalEnvironment(urn, capabilities, artifacts, resource_hints)


for _urn in (_THREADS_URN, _PROCESSES_URN):
    Environment.register_urn(_urn, bytes, functools.partial(_from_runner_api, _urn))


class ControlConnection(worker_handlers.ControlConnection):
    """A connection to a worker that may connect late, or die."""

    def __init__(self) -> None:
        super().__init__()
        self._is_dead = False

    def close(self) -> None:
        """Closes the connection; a worker that connects later is told to end."""
        is_unused = self._input is None
        super().close()
        if is_unused:
            self.push(BeamFnControlServicer._DONE_MARKER)  # noqa: SLF001

    def push(self, request: Any) -> Any:
        future = super().push(request)
        if self._is_dead:
            self._fail_requests()
        return future

    def worker_died(self) -> bool:
        """Answers all requests with an error, from now on.

        Returns whether any request was pending.
        """
        self._is_dead = True
        return self._fail_requests()

    def _fail_requests(self) -> bool:
        pending = list(self._futures_by_id)
        for request in pending:
            # Futures stay: Beam looks up each, as its answer may be on the way.
            if (future := self._futures_by_id.get(request)) is not None:
                future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=request, error=_DIED))
        return bool(pending)


def _use_own_connection(handler: GrpcWorkerHandler, server: GrpcServer) -> None:
    """Gives a new handler our ``ControlConnection``, and its server a short shutdown."""
    handler.control_conn = ControlConnection()
    connections = server.control_handler._connections_by_worker_id  # noqa: SLF001
    connections[handler.worker_id] = handler.control_conn
    server._DEFAULT_SHUTDOWN_TIMEOUT_SECS = _SHUTDOWN_SECS  # noqa: SLF001


@WorkerHandler.register_environment(_THREADS_URN, bytes)
class ThreadWorkerHandler(EmbeddedGrpcWorkerHandler):
    """A worker that is a thread of this process."""

    def __init__(self, payload: bytes, state: Any, provision_info: Any, server: GrpcServer) -> None:
        super().__init__(payload, state, provision_info, server)
        _use_own_connection(self, server)


@WorkerHandler.register_environment(_PROCESSES_URN, bytes)
class ProcessWorkerHandler(GrpcWorkerHandler):
    """A worker that is a process.

    It is a fork if there is a fork server, and else a new interpreter.
    """

    def __init__(self, _: bytes, state: Any, provision_info: Any, server: GrpcServer) -> None:
        super().__init__(state, provision_info, server)
        _use_own_connection(self, server)
        self._thread = threading.Thread(name="run_worker", target=self._run, daemon=True)

    def start_worker(self) -> None:
        """Starts the process, in a thread that waits for its end."""
        self._thread.start()

    def stop_worker(self) -> None:
        """Waits for the end of the process.

        The closed connection makes it end.
        """
        self._thread.join()

    def _run(self) -> None:
        try:
            self._run_process()
        finally:
            if self.control_conn.worker_died():
                fork_server.end_workers()  # their work would be for nothing

    def _run_process(self) -> None:
        environment = {
            **os.environ,
            "CONTROL_API_SERVICE_DESCRIPTOR": _as_text(self.control_api_service_descriptor()),
            "LOGGING_API_SERVICE_DESCRIPTOR": _as_text(self.logging_api_service_descriptor()),
            "PIPELINE_OPTIONS": "{}",
            "WORKER_ID": self.worker_id,
        }
        stderr = None if shows_engine_logs() else subprocess.DEVNULL
        if fork_server.is_running():
            fork_server.run_worker(environment, stderr)
            return
        python_process.start(
            _WORKER, environment={**environment, **memory.ENVIRONMENT}, stderr=stderr
        ).wait()


def _as_text(descriptor: endpoints_pb2.ApiServiceDescriptor) -> str:
    return str(text_format.MessageToString(descriptor))


class UnmeasuredCoder(coders.FastPrimitivesCoder):
    """Beam's coder for all objects, which reports one byte for each.

    Of what each step yields, Beam pickles the first ten elements, and later ones now and then, only
    for metrics of their size: of a million rows each chunk after each step, 0.6 of 11 CPU seconds
    (docs/decisions.md). Upstream: the coder cannot be told; no upstream issue found.
    """

    def _create_impl(self) -> coder_impl.CoderImpl:
        return _UnmeasuredCoderImpl(self._fallback_coder.get_impl())


class _UnmeasuredCoderImpl(coder_impl.FastPrimitivesCoderImpl):
    def get_estimated_size_and_observables(
        self,
        value: Any,  # noqa: ARG002
        nested: bool = False,  # noqa: ARG002
    ) -> tuple[int, list[Any]]:
        return 1, []


def register_unmeasured_coder() -> None:
    """Makes ``UnmeasuredCoder`` the coder of types without another, in this process."""
    beam.coders.registry.register_coder(typehints.AnyTypeConstraint, UnmeasuredCoder)
    beam.coders.registry.register_fallback_coder(UnmeasuredCoder)
