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
import os
import posixpath
import tempfile
import threading
import time
from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core import dataset_layout
from beam_pipelines.core.errors import DataError, PipelineError
from beam_pipelines.dataset.checked_files import add_files, check_files
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.opening.encoder import fitted_encodings, recipe_of
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.first_pass_result import FirstPassResult, graph_job, job_of
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.serving import schemas
from beam_pipelines.serving.process import GraphBuilder, build_in_subprocess
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


def make_graph(dataset: str | os.PathLike[str]) -> str:
    """Builds the serving graph of a dataset, unless it is there.

    The graph has the bytes of one that the conversion builds (``output: {serving: true}``). The
    other files of the dataset stay as they are. A graph that is not complete has no
    ``saved_model.pb``.

    Args:
      dataset: its folder or URL.

    Returns:
      The path of the graph, a SavedModel: ``<dataset>/transform_graph/transform_fn``.

    Raises:
      RecipeError: a run is writing to the dataset.
      DataError: there is no dataset; it has no encodings; or the graph could not be built.
    """
    dataset = os.fspath(dataset)
    read_manifest(dataset)  # first, as the lock makes a folder where there is none
    if not files.exists(files.within(dataset, dataset_layout.ENCODED_SCHEMA)):
        raise DataError(
            f"{dataset}: found a dataset without encodings, which has no serving graph. Its "
            "records are the raw rows."
        )
    with run_lock.locked(dataset, files.join(dataset, dataset_layout.TEMPORARY)):
        path = files.within(dataset, posixpath.dirname(dataset_layout.SAVED_MODEL))
        if files.exists(files.within(dataset, dataset_layout.SAVED_MODEL)):
            return path
        manifest = read_manifest(dataset)
        check_files(
            dataset, manifest, dataset_layout.RAW_SCHEMA_FOLDER, dataset_layout.TRANSFORM_GRAPH
        )
        recipe = recipe_of(dataset, manifest)
        if recipe.preprocessing_fn is not None:
            raise DataError(
                f"{path}: found no graph, expected the one of the preprocessing_fn, "
                "whose analysis is stored there only. Convert again with --overwrite."
            )
        encode = fitted_encodings(
            lambda path: files.read_bytes(files.within(dataset, path)),
            dataset,
            manifest,
            recipe,
            read_schema(files.within(dataset, dataset_layout.RAW_SCHEMA)),
        )
        graph = files.join(dataset, dataset_layout.TRANSFORM_GRAPH)
        raw = read_schema(files.within(graph, schemas.RAW_SCHEMA))
        encoded = read_schema(files.within(dataset, dataset_layout.ENCODED_SCHEMA))
        job = job_of(encode, raw, encoded, recipe.label)
        with tempfile.TemporaryDirectory(prefix="beam-pipelines-") as folder:
            build_in_subprocess(job, folder)
            names = sorted(_files_in(folder), key=dataset_layout.SAVED_MODEL.endswith)
            for name in names:
                with open(os.path.join(folder, *name.split("/")), "rb") as file:
                    content = file.read()
                with files.replace(files.within(graph, name)) as target:
                    target.write(content)
        add_files(dataset, [f"{dataset_layout.TRANSFORM_GRAPH}/{name}" for name in names])
    return path


def _files_in(folder: str) -> list[str]:
    """Returns the sorted paths of a local folder's files, relative to it."""
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")
        for parent, _, names in os.walk(folder)
        for name in names
    )
