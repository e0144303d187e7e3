"""Builds the serving graph while a local run writes its shards.

Building a graph takes seconds, mostly to load TensorFlow, and a local runner runs one step at a
time. So the launcher starts the building process with the run. The step ``BuildGraph`` writes a
request to the temporary folder. A thread of the launcher finds it, has the graph built, and writes
an answer. The commit waits for the answer. On a cluster, whose job outlives its launcher, the step
builds the graph itself (``first_pass_result.build_graph``).
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError, PipelineError
from beam_pipelines.pipeline.first_pass_result import FirstPassResult, graph_job
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.serving.process import GraphBuilder
from beam_pipelines.storage import files

_POLL_SECS = 0.05


def request_graph(result: FirstPassResult, folder: str) -> None:
    """Requests the graph of a first pass, in a folder."""
    if result.encoded is None:
        return
    schemas = {"raw": result.schema, "encoded": result.encoded}
    for name, schema in schemas.items():
        files.write_bytes(files.join(folder, f"{name}.pb"), schema.SerializeToString())
    request = {"fitted": result.fitted, "analyzed": result.analyzed}
    with files.replace(files.join(folder, "request.json")) as file:
        file.write(json.dumps(request).encode())


def await_graph(folder: str) -> None:
    """Waits until the request in a folder, if any, is answered.

    Raises:
      DataError: the graph could not be built.
    """
    if not files.exists(files.join(folder, "request.json")):
        return
    answer = files.join(folder, "answer.json")
    while not files.exists(answer):
        time.sleep(_POLL_SECS)
    error = json.loads(files.read_bytes(answer))["error"]
    if error:
        raise DataError(error)


@contextlib.contextmanager
def graph_builder(plan: Plan, folder: str, target: str) -> Iterator[None]:
    """Builds the serving graph in its own process, on request.

    It does so while the body runs.

    Args:
      plan: of the run.
      folder: folder of the request; empty: starts nothing.
      target: folder of the graph.
    """
    if not folder:
        yield
        return
    stop = threading.Event()
    with GraphBuilder(target) as builder:
        thread = threading.Thread(target=_serve, args=(plan, folder, builder, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            builder.stop()
            thread.join()


def _serve(plan: Plan, folder: str, builder: GraphBuilder, stop: threading.Event) -> None:
    request = files.join(folder, "request.json")
    while not files.exists(request):
        if stop.wait(_POLL_SECS):
            return
    error = ""
    try:
        asked = json.loads(files.read_bytes(request))
        raw, encoded = (
            schema_pb2.Schema.FromString(files.read_bytes(files.join(folder, f"{name}.pb")))
            for name in ("raw", "encoded")
        )
        builder.build(graph_job(plan, raw, encoded, asked["fitted"], asked["analyzed"]))
    except PipelineError as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 - without an answer, the commit would wait forever
        error = f"the serving graph could not be built: {type(failure).__name__}: {failure}"
    if not stop.is_set():
        with files.replace(files.join(folder, "answer.json")) as file:
            file.write(json.dumps({"error": error}).encode())
