"""Workers of engines that are threads of this process (``LOOPBACK``).

Beam's pool listens on all interfaces; ours listens to this machine only. A module of its own, so
that local runs do not import Beam's pool.
"""

from __future__ import annotations

from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker import worker_pool_main
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

from beam_pipelines.runners.local_workers import GRPC_OPTIONS, run_in_thread


class LoopbackPool(BeamFnExternalWorkerPoolServicer):
    """Starts workers of an engine as threads of this process."""

    @classmethod
    def start(
        cls,
        use_process: bool = False,
        port: int = 0,
        state_cache_size: int = 0,
        data_buffer_time_limit_ms: int = -1,
        container_executable: str | None = None,
    ) -> tuple[str, grpc.Server]:
        """Starts a pool; returns its address and server."""
        pool = cls(use_process, container_executable, state_cache_size, data_buffer_time_limit_ms)
        server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=GRPC_OPTIONS)
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
        address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
        server.start()
        return address, server

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 - Beam's name
        """Starts a worker."""
        if self._use_process:
            return super().StartWorker(request, context)
        self._worker_threads[request.worker_id], _ = run_in_thread(
            request.control_endpoint.url,
            request.worker_id,
            state_cache_size=self._state_cache_size,
            data_buffer_time_limit_ms=self._data_buffer_time_limit_ms,
        )
        return beam_fn_api_pb2.StartWorkerResponse()


def use_own_pool() -> None:
    """Makes Beam start workers of engines by our pool."""
    worker_pool_main.BeamFnExternalWorkerPoolServicer = LoopbackPool
