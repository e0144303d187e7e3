"""Builds ONNX graphs of encodings.

Values have Python's operators, and there is a library for formulas. The formulas of ``date_parts``,
``z_score`` and others are traced: they compute with ``GraphValue`` as with numpy arrays. ``onnx``
is imported inside functions: it is an optional package.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings.formula import Library, rounded
from beam_pipelines.encodings.values import BEYOND, smallest_normal

if TYPE_CHECKING:
    from beam_pipelines.encodings.feature import Feature

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
_ML = "ai.onnx.ml"
_NAMES = {
    "int64": "INT64",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "bool": "BOOL",
    "str": "STRING",
}


class InexpressibleError(ValueError):
    """An encoding that ONNX has no operators for; says why."""


class Builder:
    """The nodes of a graph, in order.

    Attributes:
      nodes: protos of the nodes.
      inputs, outputs: protos of the graph's inputs and outputs.
      constants: protos of the constants.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], GraphValue] = {}
        self._count = 0

    def node(
        self, operator: str, dtype: str, *operands: GraphValue, name: str = "", **attributes: Any
    ) -> GraphValue:
        """Adds a node and returns its output, of type ``dtype``."""
        from onnx import helper

        self._count += 1
        output = f"value_{self._count}"
        domain = _ML if operator == "LabelEncoder" else ""
        names = [operand.name for operand in operands]
        node = helper.make_node(
            operator, names, [output], name=name or output, domain=domain, **attributes
        )
        self.nodes.append(node)
        return GraphValue(self, output, dtype)

    def constant(self, array: Any, dtype: str) -> GraphValue:
        """Returns a constant, each once."""
        from onnx import numpy_helper

        values = np.asarray(array, object if dtype == "str" else dtype)
        data = repr(values.tolist()).encode() if dtype == "str" else values.tobytes()
        key = dtype, values.shape, data
        if key not in self._known:
            name = f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(values, name))
            self._known[key] = GraphValue(self, name, dtype)
        return self._known[key]

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> GraphValue:
        """Adds an input [rows, *shape]."""
        self.inputs.append(_info(name, dtype, shape))
        return GraphValue(self, name, dtype)

    def output(self, name: str, value: GraphValue, shape: Sequence[int]) -> None:
        """Adds an output [rows, *shape]."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value.name], [name], name=f"output {name}"))
        self.outputs.append(_info(name, value.dtype, shape))

    def where(self, condition: GraphValue, then: Any, other: Any) -> GraphValue:
        """Chooses value by value."""
        dtype = then.dtype if isinstance(then, GraphValue) else other.dtype
        then, other = (self.as_value(value, dtype) for value in (then, other))
        return self.node("Where", dtype, condition, then, other)

    def as_value(self, value: Any, dtype: str) -> GraphValue:
        """Returns a value or a number as a value."""
        return value if isinstance(value, GraphValue) else self.constant(value, dtype)

    def checked(self, values: GraphValue, holds: GraphValue, message: str) -> GraphValue:
        """Returns values for which the graph checks a condition.

        ONNX has no assertion. ``Gather`` fails at an index beyond the end, and the runtime names
        the node: its name is the message.

        Args:
          values: of any shape.
          holds: bool, of the same shape.
          message: why a value is refused.
        """
        flat_shape = self.constant([-1], "int64")
        flat = self.node("Reshape", values.dtype, values, flat_shape)
        size = self.node("Size", "int64", values)
        zero, one = self.constant(0, "int64"), self.constant(1, "int64")
        places = self.node("Range", "int64", zero, size, one)
        wanted = self.where(self.node("Reshape", "bool", holds, flat_shape), places, size)
        taken = self.node("Gather", values.dtype, flat, wanted, name=message, axis=0)
        return self.node("Reshape", values.dtype, taken, self.node("Shape", "int64", values))

    def model(self, name: str, documentation: str) -> Any:
        """Returns the checked ``onnx.ModelProto``."""
        import onnx
        from onnx import helper

        graph = helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, self.constants, documentation
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(_ML, ML_OPSET)],
            ir_version=IR_VERSION,
            producer_name="beam-pipelines",
        )
        onnx.checker.check_model(model)
        return model


def _info(name: str, dtype: str, shape: Sequence[int]) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(
        name, getattr(TensorProto, _NAMES[dtype]), ["rows", *shape]
    )


class GraphValue:
    """A value in a graph, with the operators that formulas use.

    A number on the other side is a constant of the same type.

    Attributes:
      builder: of the graph.
      name: of the value.
      dtype: ``int64``, ``float32``, ``float64``, ``bool`` or ``str``.
    """

    # numpy's numbers leave operators to this class.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: Builder, name: str, dtype: str) -> None:
        self.builder, self.name, self.dtype = builder, name, dtype

    def _pair(self, operator: str, other: Any, dtype: str | None = None) -> GraphValue:
        operand = self.builder.as_value(other, self.dtype)
        return self.builder.node(operator, dtype or self.dtype, self, operand)

    def _reversed(self, operator: str, other: Any) -> GraphValue:
        operand = self.builder.as_value(other, self.dtype)
        return self.builder.node(operator, self.dtype, operand, self)

    def __add__(self, other: Any) -> GraphValue:
        return self._pair("Add", other)

    def __sub__(self, other: Any) -> GraphValue:
        return self._pair("Sub", other)

    def __mul__(self, other: Any) -> GraphValue:
        return self._pair("Mul", other)

    def __truediv__(self, other: Any) -> GraphValue:
        return self._pair("Div", other)

    def __radd__(self, other: Any) -> GraphValue:
        return self._reversed("Add", other)

    def __rsub__(self, other: Any) -> GraphValue:
        return self._reversed("Sub", other)

    def __rmul__(self, other: Any) -> GraphValue:
        return self._reversed("Mul", other)

    def __floordiv__(self, other: int) -> GraphValue:
        """Divides integers, down; ``Div`` divides towards 0."""
        quotient = self._pair("Div", other)
        return quotient - (self - quotient * other < 0).cast("int64")

    def __neg__(self) -> GraphValue:
        return self.builder.node("Neg", self.dtype, self)

    def __lt__(self, other: Any) -> GraphValue:
        return self._pair("Less", other, "bool")

    def __le__(self, other: Any) -> GraphValue:
        return self._pair("LessOrEqual", other, "bool")

    def __gt__(self, other: Any) -> GraphValue:
        return self._pair("Greater", other, "bool")

    def __ge__(self, other: Any) -> GraphValue:
        return self._pair("GreaterOrEqual", other, "bool")

    def __eq__(self, other: object) -> GraphValue:  # type: ignore[override]
        return self._pair("Equal", other, "bool")

    def __and__(self, other: GraphValue) -> GraphValue:
        return self._pair("And", other)

    def __or__(self, other: GraphValue) -> GraphValue:
        return self._pair("Or", other)

    def __invert__(self) -> GraphValue:
        return self.builder.node("Not", "bool", self)

    def cast(self, dtype: str) -> GraphValue:
        """Returns the value in another type."""
        from onnx import TensorProto

        if dtype == self.dtype:
            return self
        target = getattr(TensorProto, _NAMES[dtype])
        return self.builder.node("Cast", dtype, self, to=target)

    def apply(self, operator: str, dtype: str | None = None) -> GraphValue:
        """Applies an operator of one operand."""
        return self.builder.node(operator, dtype or self.dtype, self)

    def expanded(self) -> GraphValue:
        """Returns the value with one more dimension of 1 at its end."""
        axis = self.builder.constant([-1], "int64")
        return self.builder.node("Unsqueeze", self.dtype, self, axis)


@dataclasses.dataclass(frozen=True)
class OnnxColumn:
    """A feature of all rows in a graph.

    Attributes:
      values: [rows], or [rows, length] of lists; 0 or ``""`` where it is null.
      is_present: bool [rows]; ``None`` if no row is null.
      feature: its type.
    """

    values: GraphValue
    is_present: GraphValue | None
    feature: Feature

    @property
    def builder(self) -> Builder:
        """The builder of the graph."""
        return self.values.builder

    def with_values(self, values: GraphValue) -> OnnxColumn:
        """Returns a column of other values, 0 where it is null."""
        if self.is_present is None:
            return OnnxColumn(values, None, self.feature)
        default = "" if values.dtype == "str" else 0
        kept = self.builder.where(self.is_present, values, default)
        return OnnxColumn(kept, self.is_present, self.feature)

    def wide(self) -> GraphValue:
        """Returns numbers as float64, subnormal floats as 0 (``values.to_float64``)."""
        numbers = self.values.cast("float64")
        if not self.values.dtype.startswith("float"):
            return numbers
        is_tiny = numbers.apply("Abs") < smallest_normal(self.values.dtype)
        return self.builder.where(is_tiny, 0.0, numbers)


def place(constants: Any, x: GraphValue) -> GraphValue:
    """Returns the number of sorted constants at or below x as int64.

    For NaN it is that of all.
    """
    builder, count = x.builder, len(constants)
    if not count:
        return (x == x).cast("int64") * 0  # noqa: PLR0124 - any value of x's shape
    at_or_below = (x.expanded() >= builder.constant(constants, x.dtype)).cast("int64")
    axis = builder.constant([-1], "int64")
    places = builder.node("ReduceSum", "int64", at_or_below, axis, keepdims=0)
    return builder.where(x.apply("IsNaN", "bool"), count, places)


def look_up(column: OnnxColumn, keys: pa.Array, values: Any, default: float) -> GraphValue:
    """Returns the value of each key, or ``default``.

    Args:
      column: of texts or integers; these are looked up by their decimal texts.
      keys: binary, distinct.
      values: int64 or float32, of each key.
      default: of other keys.
    """
    try:
        texts = [key.decode() for key in keys.to_pylist()]
    except UnicodeDecodeError as error:
        raise InexpressibleError("texts of ONNX are UTF-8, and a key is not") from error
    dtype = "int64" if np.asarray(values).dtype.kind == "i" else "float32"
    attribute = "int64" if dtype == "int64" else "float"
    attributes = {
        "keys_strings": texts,
        f"values_{attribute}s": np.asarray(values).tolist(),
        f"default_{attribute}": default,
    }
    text = column.values.cast("str")
    return column.builder.node("LabelEncoder", dtype, text, **attributes)


def exact_floats(values: GraphValue, dtype: str, name: str = "") -> GraphValue:
    """Returns integers as the floats that equal them; floats as they are."""
    if values.dtype != "int64":
        return values
    floats = values.cast(dtype)
    same = (floats.cast("int64") == values) & (floats < 2.0**63)
    return values.builder.checked(floats, same, rounded(dtype, name))


def narrowed(values: GraphValue) -> GraphValue:
    """Returns float64 as the nearest float32, as ``values.narrowed`` does."""
    if values.dtype != "float64":
        return values
    small = values.cast("float32")
    is_kept = ~small.apply("IsInf", "bool") | values.apply("IsInf", "bool")
    return values.builder.checked(small, is_kept, BEYOND)


def _log1p(x: GraphValue) -> GraphValue:
    """Returns log(1 + x) with all digits near 0, by Kahan's correction."""
    above = x + 1.0
    corrected = above.apply("Log") * (x / (above - 1.0))
    is_itself = (above == 1.0) | (x == math.inf)
    return x.builder.where(is_itself, x, corrected)


def onnx_library(builder: Builder) -> Library:
    """Returns the functions of formulas, on ``GraphValue``."""

    def take(constants: npt.NDArray[np.float64], places: GraphValue) -> GraphValue:
        table = builder.constant(constants, "float64")
        return builder.node("Gather", "float64", table, places)

    def remainder(x: GraphValue, divisor: float) -> GraphValue:
        return builder.node("Mod", x.dtype, x, builder.constant(divisor, x.dtype), fmod=1)

    return Library(
        where=builder.where,
        place=place,
        take=take,
        remainder=remainder,
        narrow=lambda x: x.cast("float32").cast("float64"),
        log=lambda x: x.apply("Log"),
        log1p=_log1p,
        sqrt=lambda x: x.apply("Sqrt"),
        floor=lambda x: x.apply("Floor"),
        sin=lambda x: x.apply("Sin"),
        cos=lambda x: x.apply("Cos"),
    )
