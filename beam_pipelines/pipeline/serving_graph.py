"""Builds the serving graph while a local run writes its shards.

Building a graph takes seconds, mostly to load TensorFlow, and a local runner runs one step at a
time. So the launcher starts the building process with the run. The step ``BuildGraph`` writes a
request to the temporary folder. A thread of the launcher finds it, has the graph built, and writes
an answer. The commit waits for the answer. On a cluster, whose job outlives its launcher, the step
builds the graph itself (``build_graph``).
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

from beam_pipelines.analysis.schema import read_schema, schema_to_text
from beam_pipelines.core.errors import DataError, PipelineError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.schema_features import flattened, without_features
from beam_pipelines.core.layout.tensor_representations import drop_inferred
from beam_pipelines.core.process.full_package import tensorflow_lacks
from beam_pipelines.dataset.checked_files import add_files, check_files
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.encodings.plan import EncodePlan, without_lists_of_lists
from beam_pipelines.opening.encoder import fitted_encodings, recipe_of
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.serving import schemas
from beam_pipelines.serving.job import GraphJob
from beam_pipelines.serving.process import GraphBuilder, build_in_subprocess
from beam_pipelines.serving.schemas import ENCODED_SCHEMA, schema_files
from beam_pipelines.storage import files
from beam_pipelines.transforms.encode import load_fitted

_POLL_SECS = 0.05


def graph_job(
    plan: Plan, raw: schema_pb2.Schema, encoded: schema_pb2.Schema, fitted: str, analyzed: str
) -> GraphJob:
    """Returns the input of the process that builds the serving graph.

    Args:
      plan: of the conversion.
      raw, encoded: schemas of the columns and of the features.
      fitted, analyzed: as in ``FittedFolders``.
    """
    encode = load_fitted(plan.encode, fitted)
    return job_of(encode, raw, encoded, plan.recipe.label, analyzed)


def job_of(
    encode: EncodePlan,
    raw: schema_pb2.Schema,
    encoded: schema_pb2.Schema,
    label: str | None,
    analyzed: str = "",
) -> GraphJob:
    """Returns ``graph_job`` of encodings that are fitted."""
    # The graph takes feature lists as flat values, as a tf.Example has them. It leaves out those
    # with lists as steps, whose values would lose their steps.
    encode, left_out = without_lists_of_lists(encode)
    raw, encoded = (
        without_features(drop_inferred(flattened(schema)), left_out) for schema in (raw, encoded)
    )
    return GraphJob.of(encode, raw, encoded, label, analyzed or None)


def builds_graph(plan: Plan) -> bool:
    """Whether a run that fits encodings builds their serving graph.

    TensorFlow takes seconds to load, so a recipe has to ask for it. A ``preprocessing_fn`` loads it
    anyway, and its analysis is stored in the graph only.
    """
    return plan.recipe.output.serving or plan.preprocessing is not None


def build_graph(plan: Plan, result: FirstPassResult, folder: str) -> None:
    """Builds the serving graph in a folder, or writes its schemas only.

    With fitted encodings of a dataset (``plan.transform_graph``), it copies their files.

    Raises:
      DataError: it could not be built.
    """
    if result.encoded is None:
        return
    if not plan.transform_graph:
        job = graph_job(plan, result.schema, result.encoded, result.fitted, result.analyzed)
        if builds_graph(plan):
            build_in_subprocess(job, folder)
            return
        raw, encoded = map(schema_pb2.Schema.FromString, (job.raw_schema, job.encoded_schema))
        for path, content in schema_files(raw, encoded, job.plan.columns.names).items():
            files.write_bytes(files.within(folder, path), content)
        return
    for file in files.list_files(files.join(plan.transform_graph, "**")):
        path = files.relative(file.path, plan.transform_graph)
        content = files.read_bytes(file.path)
        if path == ENCODED_SCHEMA:
            own = read_schema(file.path)
            left_out = {feature.name for feature in own.feature} - set(plan.encode.written)
            if left_out and not plan.preprocessing:  # the label, which the new data lack
                content = schema_to_text(without_features(own, left_out))
        files.write_bytes(files.within(folder, path), content)


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
    if lacks := tensorflow_lacks():
        raise DataError(f"{dataset}: {lacks}")
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
