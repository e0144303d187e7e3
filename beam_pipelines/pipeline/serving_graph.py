"""Builds the serving graph of a conversion, or of a dataset later."""

from __future__ import annotations

import os
import posixpath

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema, schema_to_text
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.schema_features import flattened, without_features
from beam_pipelines.core.layout.tensor_representations import drop_inferred
from beam_pipelines.core.process.full_package import tensorflow_lacks
from beam_pipelines.dataset.manifest import add_files, check_files, read_manifest
from beam_pipelines.encodings.plan import EncodePlan, without_lists_of_lists
from beam_pipelines.files.beam import files, listing
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.serving import specs
from beam_pipelines.serving.process import build_in_subprocess
from beam_pipelines.serving.write import GraphJob
from beam_pipelines.transforms.encode import load_fitted


def job_of(
    encode: EncodePlan,
    raw: schema_pb2.Schema,
    encoded: schema_pb2.Schema,
    label: str | None,
    analyzed: str = "",
) -> GraphJob:
    """Returns the input of the process that builds the serving graph.

    Args:
      encode: fitted encodings.
      raw, encoded: schemas of the columns and of the features.
      label: name of the label, or ``None``.
      analyzed: as in ``FittedFolders``.
    """
    # The graph takes feature lists as flat values, as a tf.Example has them. It leaves out those
    # with lists as steps, whose values would lose their steps.
    encode, left_out = without_lists_of_lists(encode)
    raw, encoded = (
        without_features(drop_inferred(flattened(schema)), left_out) for schema in (raw, encoded)
    )
    return GraphJob(encode, raw, encoded, label, analyzed or None)


def build_graph(plan: Plan, result: FirstPassResult, folder: str) -> None:
    """Builds the serving graph in a folder, or writes its schemas only.

    With fitted encodings of a dataset (``plan.transform_graph``), it copies their files.

    Raises:
      DataError: it could not be built.
    """
    if result.encoded is None:
        return
    if not plan.transform_graph:
        encode = load_fitted(plan.encode, result.fitted)
        label = plan.recipe.label
        job = job_of(encode, result.schema, result.encoded, label, result.analyzed)
        # TensorFlow takes seconds to load, so a recipe has to ask for it. A preprocessing_fn loads
        # it anyway, and its analysis is stored in the graph only.
        if plan.recipe.output.serving or plan.preprocessing is not None:
            build_in_subprocess(job, folder)
            return
        for path, content in specs.schema_files(*job[1:3], job.plan.columns.names).items():
            files.write_bytes(files.within(folder, path), content)
        return
    for file in listing.files_below(plan.transform_graph):
        path = files.relative(file.path, plan.transform_graph)
        content = files.read_bytes(file.path)
        if path == specs.ENCODED_SCHEMA:
            own = read_schema(file.path)
            left_out = {feature.name for feature in own.feature} - set(plan.encode.written)
            if left_out:  # the label, which the new data lack
                content = schema_to_text(without_features(own, left_out))
        files.write_bytes(files.within(folder, path), content)


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
    from beam_pipelines.reader.encodings.encoder import fitted_encodings, recipe_of

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
        raw = read_schema(files.within(graph, specs.RAW_SCHEMA))
        encoded = read_schema(files.within(dataset, dataset_layout.ENCODED_SCHEMA))
        job = job_of(encode, raw, encoded, recipe.label)
        names = build_in_subprocess(job, graph)
        add_files(dataset, [f"{dataset_layout.TRANSFORM_GRAPH}/{name}" for name in names])
    return path
