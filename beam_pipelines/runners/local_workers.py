"""Workers and coder that this package registers with Beam's local runner.

Beam's own workers make a run wait forever in two cases (2.77): when a worker process dies, and when
a worker connects after the runner has closed its connection. Its processes also start through a
shell, with all imports; ours are forks of one that has imported everything (``fork_server.py``), or
else interpreters. Handlers and environments are registered by URN. Beam's servers
listen on all interfaces; ours are Unix sockets in a folder of this user.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import traceback
import urllib.parse
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    BeamFnControlServicer,
    EmbeddedGrpcWorkerHandler,
    GrpcServer,
    GrpcWorkerHandler,
    WorkerHandler,
)
from apache_beam.runners.worker import data_plane, sdk_worker, statesampler
from apache_beam.transforms.environments import Environment, python_sdk_capabilities
from apache_beam.typehints import typehints
from apache_beam.utils import thread_pool_executor
from google.protobuf import json_format, text_format

from beam_pipelines.core.arrow import memory
from beam_pipelines.core.process import python_process
from beam_pipelines.runners import fork_server

_THREADS_URN = "beam_pipelines:env:threads:v1"
_PROCESSES_URN = "beam_pipelines:env:processes:v1"
_URNS = (_THREADS_URN, _PROCESSES_URN)

# As Beam's servers have them: messages of any size, and clients that ping.
GRPC_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 20_000),
)

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

    urn = ""

    def to_runner_api_parameter(self, _: Any) -> tuple[str, bytes]:
        return self.urn, b""


def local_environment(running_mode: str) -> LocalEnvironment | None:
    """Returns the environment of a ``--direct_running_mode``; ``None`` for ``in_memory``."""
    urns = {"multi_threading": _THREADS_URN, "multi_processing": _PROCESSES_URN}
    if running_mode not in urns:
        return None
    return _environment(urns[running_mode], python_sdk_capabilities())


def _environment(urn: str, *fields: Any) -> LocalEnvironment:
    made = LocalEnvironment(*fields)
    made.urn = urn
    return made


def _from_runner_api(urn: str, _: bytes, *fields: Any) -> LocalEnvironment:
    return _environment(urn, *fields[:-1])  # without the context


for _urn in _URNS:
    Environment.register_urn(_urn, bytes, functools.partial(_from_runner_api, _urn))


class LocalServer(GrpcServer):
    """The servers of a run's workers.

    On Unix sockets in a folder of this user alone.

    No flush timer empties their data streams: with it and two workers or more, Beam loses elements
    silently. A flush waits for a full queue while the sender goes on writing, and then the buffer
    is cleared. In 26 of 29 runs 780,000 to 999,687 of 1,000,000 elements arrived; without the timer
    all arrived, in 6 of 6. Upstream: apache/beam#10246 introduced the timer; no issue found.
    """

    def __init__(self, state: Any, _: Any, manager: Any) -> None:
        self._folder = tempfile.mkdtemp(prefix="beam-pipelines-", dir=fork_server.socket_folder())
        self.control_handler = BeamFnControlServicer(manager)
        self.data_plane_handler = data_plane.BeamFnDataServicer(0)
        self._servers: list[grpc.Server] = []
        self.control_port, self.data_port, self.state_port, self.logging_port = (
            self._serve(name.lower(), servicer, f"add_BeamFn{name}Servicer_to_server")
            for name, servicer in (
                ("Control", self.control_handler),
                ("Data", self.data_plane_handler),
                ("State", worker_handlers.GrpcStateServicer(state)),
                ("Logging", worker_handlers.BasicLoggingService()),
            )
        )
        self.control_address = self.control_port

    def _serve(self, name: str, servicer: Any, add: str) -> str:
        """Starts a server, and returns its address."""
        server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=GRPC_OPTIONS)
        getattr(beam_fn_api_pb2_grpc, add)(servicer, server)
        address = f"unix:{urllib.parse.quote(os.path.join(self._folder, name))}"
        server.add_insecure_port(address)
        server.start()
        self._servers.append(server)
        return address

    def close(self) -> None:
        """Ends the servers, and removes their folder."""
        self.control_handler.done()
        for ending in [server.stop(_SHUTDOWN_SECS) for server in self._servers]:
            ending.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _server(state: Any, provision_info: Any, manager: Any) -> GrpcServer:
    """Returns the server of a run: ours for our workers.

    Else Beam's.
    """
    is_ours = any(each.urn in _URNS for each in manager._environments.values())  # noqa: SLF001
    return (LocalServer if is_ours else GrpcServer)(state, provision_info, manager)


worker_handlers.GrpcServer = _server  # the runner has no parameter for it


class _QuietHarness(sdk_worker.SdkHarness):
    """A worker that prints no tracebacks.

    The errors reach the user anyway, as those of the run; and threads that outlive an interrupted
    run fail when temporary files are removed. Upstream: it prints whatever the log level is.
    """

    def _execute(self, task: Callable[[], Any], request: Any) -> None:
        with statesampler.instruction_id(request.instruction_id):
            try:
                response = task()
            except BaseException:  # noqa: BLE001 - as Beam's
                response = beam_fn_api_pb2.InstructionResponse(
                    instruction_id=request.instruction_id, error=traceback.format_exc()
                )
            self._responses.put(response)


def run_in_thread(
    control_address: str, worker_id: str, **options: Any
) -> tuple[sdk_worker.SdkHarness, threading.Thread]:
    """Starts a worker that is a thread of this process."""
    kind = sdk_worker.SdkHarness if shows_engine_logs() else _QuietHarness
    worker = kind(control_address, worker_id=worker_id, **options)
    thread = threading.Thread(name="run_worker", target=worker.run, daemon=True)
    thread.start()
    return worker, thread


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
    """Gives a new handler our ``ControlConnection``."""
    handler.control_conn = ControlConnection()
    connections = server.control_handler._connections_by_worker_id  # noqa: SLF001
    connections[handler.worker_id] = handler.control_conn


@WorkerHandler.register_environment(_THREADS_URN, bytes)
class ThreadWorkerHandler(EmbeddedGrpcWorkerHandler):
    """A worker that is a thread of this process."""

    def __init__(self, _: bytes, state: Any, provision_info: Any, server: GrpcServer) -> None:
        super().__init__(b"{}", state, provision_info, server)
        _use_own_connection(self, server)

    def port_from_worker(self, port: str) -> str:
        """Returns the address, which ``LocalServer`` has in place of a port."""
        return port

    def start_worker(self) -> None:
        """Starts the thread."""
        self.worker, self.worker_thread = run_in_thread(
            self.control_address,
            self.worker_id,
            state_cache_size=self._state_cache_size,
            runner_capabilities=worker_handlers.FNAPI_RUNNER_CAPABILITIES,
        )


@WorkerHandler.register_environment(_PROCESSES_URN, bytes)
class ProcessWorkerHandler(GrpcWorkerHandler):
    """A worker that is a process.

    It is a fork if there is a fork server, and else a new interpreter.
    """

    def __init__(self, _: bytes, state: Any, provision_info: Any, server: GrpcServer) -> None:
        super().__init__(state, provision_info, server)
        _use_own_connection(self, server)
        self._thread = threading.Thread(name="run_worker", target=self._run, daemon=True)

    def port_from_worker(self, port: str) -> str:
        """Returns the address, which ``LocalServer`` has in place of a port."""
        return port

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
            # Secrets may be among them; only this user reads the variables of a process.
            "PIPELINE_OPTIONS": json_format.MessageToJson(
                self.provision_info.provision_info.pipeline_options
            ),
            "WORKER_ID": self.worker_id,
        }
        is_quiet = not shows_engine_logs()
        if fork_server.is_running():
            fork_server.run_worker(environment, is_quiet)
            return
        stderr = subprocess.DEVNULL if is_quiet else None
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
