"""The ``preprocessing_fn`` of a recipe at planning: source, inputs, and storage check."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import os
import sys
import types
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError, Problem, RecipeError, RecipeProblems
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.schema import raw_features
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Recipe

FUNCTION = "preprocessing_fn"


@dataclasses.dataclass(frozen=True)
class Preprocessing(PickledOnce):
    """The ``preprocessing_fn`` of a recipe; calling it with tensors runs the function.

    Attributes:
      path: of the module, for messages.
      source: its text at planning, which workers run.
      inputs: feature -> number of values in every row of a dense tensor; ``None`` for a sparse
        tensor.
      types: feature -> Arrow type of its values.
      label: name of a feature that it must return, or ``None``.
    """

    path: str
    source: str
    inputs: Mapping[str, int | None]
    types: Mapping[str, pa.DataType]
    label: str | None = None

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = getattr(_load(self.path, self.source), FUNCTION)(inputs)
        return result


def plan_preprocessing(
    recipe: Recipe, plan: EncodePlan, contract: bytes | None
) -> Preprocessing | None:
    """Checks the recipe's ``preprocessing_fn`` without running it.

    Args:
      recipe: as it is.
      plan: of the encodings before it.
      contract: the recipe's schema of the columns, serialized, or ``None``.

    Returns:
      ``None`` if the recipe has no ``preprocessing_fn``.

    Raises:
      RecipeProblems: the file is missing, is not Python, or has no ``preprocessing_fn(inputs)``.
    """
    if recipe.preprocessing_fn is None:
        return None
    path = files.resolve(recipe.preprocessing_fn, recipe.directory)
    try:
        source = files.read_document(path).decode()
        _check_source(path, source)
    except (DataError, UnicodeDecodeError, ValueError) as error:
        raise RecipeProblems([Problem((FUNCTION,), str(error))]) from error
    features = plan.features(
        {}
        if contract is None
        else raw_features(schema_pb2.Schema.FromString(contract), plan.columns)
    )
    return Preprocessing(
        path,
        source,
        {name: _dense_length(feature) for name, feature in features.items()},
        {name: feature.value_type for name, feature in features.items()},
        recipe.label,
    )


def check_storage(output: str) -> None:
    """Checks that TensorFlow can write to the output: tensorflow-transform needs it.

    Raises:
      RecipeError: it cannot.
    """
    start_tensorflow()
    import tensorflow as tf

    scheme = output.partition("://")[0] if "://" in output else ""
    if scheme not in tf.io.gfile.get_registered_schemes():
        raise RecipeError(
            f"--output: found {output} with a preprocessing_fn, expected a folder on this machine "
            "or a gs:// URL: TensorFlow, which "
            f"runs the function, cannot write to {scheme}://. Convert here, and copy the dataset."
        )


def start_tensorflow() -> None:
    """Loads TensorFlow without its messages about the machine.

    The C++ libraries print some of them, whatever the level of their log, while they are loaded.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow_transform" in sys.modules:
        return
    before = os.dup(2)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 2)
        importlib.import_module("tensorflow_transform.beam")
    finally:
        os.dup2(before, 2)
        os.close(before)


def _check_source(path: str, source: str) -> None:
    """Checks that the module's syntax tree has the function.

    Raises:
      ValueError: it has not; says where the function should be.
    """
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: found no Python ({error.msg}), expected a module."
        ) from error
    if FUNCTION not in {getattr(node, "name", "") for node in tree.body}:
        raise ValueError(
            f"{path}: found no function '{FUNCTION}', expected 'def {FUNCTION}(inputs)' at the "
            "module's top level."
        )


def _dense_length(feature: Feature) -> int | None:
    if not feature.required:
        return None
    return feature.length if feature.is_list else 1


@functools.lru_cache(maxsize=4)
def _load(path: str, source: str) -> types.ModuleType:
    """Runs the recipe's module, once per process."""
    module = types.ModuleType("recipe_preprocessing")
    module.__file__ = path
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 - the one place where a recipe brings code
    return module
