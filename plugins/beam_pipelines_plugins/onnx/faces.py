"""Encodings in an ONNX graph: a function for each fitted encoding.

``to_onnx(fitted, *columns)`` takes scalars, or lists of a fixed length in columns without null. It
returns the values, [rows] or [rows, length]; those of rows that are null in the first input are
ignored. An encoding of another distribution has a method of this name, or registers a function.

Raises:
  InexpressibleError: ONNX has no operators for it; says why.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings.formula import Formula
from beam_pipelines.encodings.kinds.bag_of_words import FittedBagOfWords
from beam_pipelines.encodings.kinds.cast import _RANGES, Cast
from beam_pipelines.encodings.kinds.column import Column
from beam_pipelines.encodings.kinds.date_parts import DateParts
from beam_pipelines.encodings.kinds.fill import FillValue, Missing
from beam_pipelines.encodings.kinds.ids import Cross, FittedVocabulary, HashBucket
from beam_pipelines.encodings.kinds.numbers import Clip, Cyclic
from beam_pipelines.encodings.kinds.tokenize import Tokenize
from beam_pipelines.encodings.kinds.vectors import OneHot, Vector, _wrong
from beam_pipelines.encodings.tokens import UNSEEN
from beam_pipelines.encodings.values import smallest_normal
from beam_pipelines_plugins.onnx.onnx_graph import (
    GraphValue,
    InexpressibleError,
    OnnxColumn,
    exact_floats,
    look_up,
    narrowed,
    onnx_library,
)


@functools.singledispatch
def to_onnx(fitted: Any, *columns: OnnxColumn) -> GraphValue:
    """Builds an encoding in a graph, by the function of its class."""
    own = getattr(fitted, "to_onnx", None)
    if own is None:
        raise InexpressibleError("ONNX has no operators for it")
    value: GraphValue = own(*columns)
    return value


def _unknown(column: OnnxColumn) -> GraphValue:
    """Returns bool [rows], whether a value is null or NaN."""
    values, is_present = column.values, column.is_present
    if not values.dtype.startswith("float"):
        if is_present is not None:
            return ~is_present
        # Equal to itself, in the number of rows.
        return ~(values == values)  # noqa: PLR0124
    is_nan = values.apply("IsNaN", "bool")
    return is_nan if is_present is None else is_nan | ~is_present


@to_onnx.register
def _formula(fitted: Formula, *columns: OnnxColumn) -> GraphValue:
    """Computes the numbers."""
    (column,) = columns
    own = fitted.for_float32() if column.values.dtype == "float32" else fitted
    result: GraphValue = own.formula(column.wide(), onnx_library(column.builder))
    return result.cast(np.dtype(fitted.dtype).name)


@to_onnx.register
def _fitted_bag_of_words(fitted: FittedBagOfWords, *columns: OnnxColumn) -> GraphValue:
    """Has no operators."""
    raise InexpressibleError("it takes or gives any number of texts a row")


@to_onnx.register
def _cast(fitted: Cast, *columns: OnnxColumn) -> GraphValue:
    """Casts the values; numbers in texts have no equal parser."""
    (column,) = columns
    x = column.values
    if fitted.to in ("text", "bytes"):
        return x.cast("str")
    if x.dtype == "str":
        raise InexpressibleError("ONNX does not parse texts as numbers in the same way")
    if fitted.to == "float32":
        return narrowed(x).cast("float32")
    is_float = x.dtype != "int64"
    if is_float:
        x = x.builder.where(x.apply("Abs") < smallest_normal(x.dtype), 0.0, x)
    if fitted.to == "bool":
        return (~(x == 0)).cast("int64")
    low, high = _RANGES[fitted.to]
    if is_float:
        is_whole = (x.apply("Floor") == x) & (x >= -(2.0**63)) & (x < 2.0**63)
        x = x.builder.checked(x, is_whole, "cast: not a whole number").cast("int64")
    if fitted.to == "int64":
        return x
    in_range = (x >= low) & (x <= high)
    return x.builder.checked(x, in_range, f"cast: beyond the range of {fitted.to}")


@to_onnx.register
def _clip(fitted: Clip, *columns: OnnxColumn) -> GraphValue:
    """Clips the numbers."""
    values = columns[0].values
    clipped: GraphValue = fitted._clipped(values, values.builder.where, np.dtype(values.dtype).type)
    return clipped


@to_onnx.register
def _column(fitted: Column, *columns: OnnxColumn) -> GraphValue:
    """Returns the values."""
    return columns[0].values


@to_onnx.register
def _cross(fitted: Cross, *columns: OnnxColumn) -> GraphValue:
    """Has no operators."""
    raise InexpressibleError("ONNX has no operator that reads the bytes of a text, to hash it")


@to_onnx.register
def _cyclic(fitted: Cyclic, *columns: OnnxColumn) -> GraphValue:
    """Computes sines and cosines, and puts zeros where a row is null."""
    (column,) = columns
    builder = column.builder
    points = [part.expanded() for part in fitted._point(column.wide(), onnx_library(builder))]
    pairs = builder.node("Concat", "float64", *points, axis=1).cast("float32")
    if column.is_present is None:
        return pairs
    return builder.where(column.is_present.expanded(), pairs, 0.0)


@to_onnx.register
def _date_parts(fitted: DateParts, *columns: OnnxColumn) -> GraphValue:
    """Computes the part."""
    part: GraphValue = fitted._formula(columns[0].values)
    return part


@to_onnx.register
def _missing(fitted: Missing, *columns: OnnxColumn) -> GraphValue:
    """Finds nulls and NaN."""
    return _unknown(columns[0]).cast("int64")


@to_onnx.register
def _fill_value(fitted: FillValue, *columns: OnnxColumn) -> GraphValue:
    """Fills nulls and NaN."""
    (column,) = columns
    values = exact_floats(column.values, "float64") if fitted.to_float else column.values
    value = fitted.value[0].as_py() if isinstance(fitted.value, pa.Array) else fitted.value
    return column.builder.where(_unknown(column), value, values)


@to_onnx.register
def _hash_bucket(fitted: HashBucket, *columns: OnnxColumn) -> GraphValue:
    """Has no operators."""
    raise InexpressibleError("ONNX has no operator that reads the bytes of a text, to hash it")


@to_onnx.register
def _one_hot(fitted: OneHot, *columns: OnnxColumn) -> GraphValue:
    """Compares each id with each place."""
    (column,) = columns
    builder = column.builder
    places = builder.constant(np.arange(fitted._known_size()), "int64")
    found = column.values.expanded() == places
    if column.is_present is not None:
        found &= column.is_present.expanded()
    ones = found.cast("float32")
    if column.feature.is_list:
        return builder.node("ReduceMax", "float32", ones, axes=[1], keepdims=0)
    return ones


@to_onnx.register
def _tokenize(fitted: Tokenize, *columns: OnnxColumn) -> GraphValue:
    """Has no operators."""
    raise InexpressibleError("it takes or gives any number of texts a row")


@to_onnx.register
def _vector(fitted: Vector, *columns: OnnxColumn) -> GraphValue:
    """Concatenates the rows."""
    if fitted.as_bytes:
        raise InexpressibleError("ONNX has no operator that makes bytes of numbers")
    dtype = "int64" if all(item.values.dtype == "int64" for item in columns) else "float32"
    parts = []
    for name, item, length in zip(fitted.inputs, columns, fitted.lengths, strict=True):
        if item.feature.is_list and item.feature.length != length:
            raise InexpressibleError(_wrong(name, length))
        values = item.values
        if item.is_present is not None:
            values = values.builder.checked(values, item.is_present, _wrong(name, length))
        if dtype == "float32":
            values = narrowed(exact_floats(values, dtype, name))
        parts.append(values if item.feature.is_list else values.expanded())
    return columns[0].builder.node("Concat", dtype, *parts, axis=1)


@to_onnx.register
def _fitted_vocabulary(fitted: FittedVocabulary, *columns: OnnxColumn) -> GraphValue:
    """Looks values up."""
    if fitted.num_oov > 1:
        raise InexpressibleError(
            f"num_oov is {fitted.num_oov}, and ONNX has no operator that reads the bytes of a "
            "text, to hash it; with num_oov 0 or 1 it is expressible"
        )
    size = len(fitted.tokens)
    return look_up(columns[0], fitted.tokens, np.arange(size), size if fitted.num_oov else UNSEEN)
