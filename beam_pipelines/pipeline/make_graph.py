"""Builds the serving graph of a dataset that was written without it."""

from __future__ import annotations

import os
import posixpath
import tempfile

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core import dataset_layout
from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.checked_files import add_files, check_files
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.opening.encoder import fitted_encodings, recipe_of
from beam_pipelines.pipeline import run_lock
from beam_pipelines.pipeline.first_pass_result import job_of
from beam_pipelines.serving import schemas
from beam_pipelines.serving.process import build_in_subprocess
from beam_pipelines.storage import files


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
