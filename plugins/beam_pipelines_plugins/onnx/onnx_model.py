"""Makes an ONNX model of a dataset's encodings."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.plan import Chain
from beam_pipelines.reader.features import ReadFeature
from beam_pipelines_plugins.onnx.faces import to_onnx
from beam_pipelines_plugins.onnx.onnx_graph import Builder, InexpressibleError, OnnxColumn, narrowed

if TYPE_CHECKING:
    from onnx import ModelProto

    from beam_pipelines.reader.encodings.encoder import FittedPlan

# Inputs have other names than outputs: an encoding may replace a column.
RAW, IS_PRESENT = "raw_", "_is_present"
_DTYPES = {
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.string(): "str",
}


def make_model(
    fitted: FittedPlan, features: Sequence[ReadFeature], folder: str, name: str
) -> ModelProto:
    """Returns the encodings of some features as an ONNX model.

    Args:
      fitted: the encodings of the features.
      features: as the schema has them.
      folder: of the dataset, for messages.
      name: of the dataset.

    Raises:
      DataError: ``onnx`` is not installed, or ONNX cannot express a feature; names all of these.
    """
    if importlib.util.find_spec("onnx") is None:
        raise DataError(
            "the package onnx is not installed, which makes ONNX models. Install it: "
            "pip install onnx."
        )
    problems = _problems(fitted, features)
    if problems:
        lines = "".join(f"\n  {feature}: {reason}" for feature, reason in problems.items())
        others = [feature.name for feature in features if feature.name not in problems]
        remedy = (
            f"Export the others: --only {','.join(others)}"
            if others
            else "Take bp.open(…).encoder(), which needs no ONNX."
        )
        raise DataError(f"{folder}: found features that ONNX cannot express.{lines}\n{remedy}")
    graph = _ModelGraph(fitted)
    for feature in features:
        graph.write(feature)
    return graph.builder.model(name, f"Encodings of the dataset {name}")


def _problems(fitted: FittedPlan, features: Sequence[ReadFeature]) -> dict[str, str]:
    """Returns feature -> why ONNX cannot express it."""
    problems = {}
    for feature in features:
        try:
            _ModelGraph(fitted).write(feature)
        except InexpressibleError as error:
            problems[feature.name] = str(error)
    return problems


class _ModelGraph:
    """Builds features when they are asked for, each once."""

    def __init__(self, fitted: FittedPlan) -> None:
        self.builder = Builder()
        self._plan, self._raw = fitted.plan, fitted.raw
        self._columns: dict[str, OnnxColumn] = {}
        self._made: dict[int, OnnxColumn] = {}

    def write(self, feature: ReadFeature) -> None:
        """Adds the outputs of a feature."""
        column = self._feature(feature.name, len(self._plan.chains))
        if feature.shape is None and (column.feature.is_list or column.is_present is None):
            raise InexpressibleError("its rows have several lengths")
        shape = feature.shape or ()
        values = narrowed(column.values)
        if len(shape) > 1:
            target = self.builder.constant([-1, *shape], "int64")
            values = self.builder.node("Reshape", values.dtype, values, target)
        if feature.shape is not None and column.is_present is not None:
            message = f"feature {feature.name}: found null, expected a value in every row"
            values = self.builder.checked(values, column.is_present, message)
        self.builder.output(feature.name, values, shape)
        if feature.shape is None and column.is_present is not None:
            self.builder.output(f"{feature.name}{IS_PRESENT}", column.is_present, ())

    def _feature(self, name: str, end: int) -> OnnxColumn:
        """Returns a feature as the chains before number ``end`` leave it."""
        for number in reversed(range(end)):
            if self._plan.chains[number].name == name:
                if number not in self._made:
                    self._made[number] = self._chain(self._plan.chains[number], number)
                return self._made[number]
        if name not in self._columns:
            self._columns[name] = self._input(name)
        return self._columns[name]

    def _chain(self, chain: Chain, number: int) -> OnnxColumn:
        columns = tuple(self._feature(name, number) for name in chain.inputs)
        for step in chain.steps:
            feature = step.fitted.output(*(column.feature for column in columns))
            try:
                values = to_onnx(step.fitted, *columns)
            except InexpressibleError as error:
                raise InexpressibleError(f"{step.kind}: {error}") from error
            is_present = None if feature.required else columns[0].is_present
            columns = (OnnxColumn(values, is_present, feature).with_values(values),)
        return columns[0]

    def _input(self, name: str) -> OnnxColumn:
        """Adds the inputs of a column."""
        feature = self._raw[name]
        if pa.types.is_binary(feature.value_type):
            raise InexpressibleError(f"column '{name}' has bytes, and texts of ONNX are UTF-8")
        if feature.is_list and not (feature.required and feature.length is not None):
            raise InexpressibleError(f"the lists of column '{name}' have several lengths")
        dtype = _DTYPES[feature.value_type]
        shape = [feature.length] if feature.is_list and feature.length is not None else []
        values = self.builder.input(f"{RAW}{name}", dtype, shape)
        if feature.required:
            return OnnxColumn(values, None, feature)
        is_present = self.builder.input(f"{RAW}{name}{IS_PRESENT}", "bool", [])
        return OnnxColumn(values, is_present, feature).with_values(values)
