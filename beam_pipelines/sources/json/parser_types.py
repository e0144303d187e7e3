"""The types that the parser of JSON is asked for."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.core.arrow.columns import array_type
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.nesting import nested, shapes

# Types of the numbers of tensors and raw bytes that take fractions.
_FLOATS = ("float16", "float32", "float64", "bfloat16", "complex64", "complex128")


def parsed_schema(source: Source, schema: pa.Schema, read_schema: pa.Schema) -> pa.Schema:
    """Returns the nested types for the parser, of the columns to read."""
    read_types = {field.name: field.type for field in read_schema}

    def parsed(name: str, found: pa.DataType) -> pa.DataType | None:
        if name not in read_types:
            return None
        if array := array_type(source.types.get(name)):
            # Integers and fractions may both be in a column of declared floats.
            return shapes.with_leaf(found, pa.float64()) if array[1] in _FLOATS else found
        type_ = _parsed_type(read_types[name])
        if name in source.types and pa.types.is_string(shapes.leaf(found)):
            type_ = shapes.with_leaf(type_, pa.string())
        return shapes.with_leaf(found, shapes.leaf(type_)) if shapes.depth(found) > 1 else type_

    return pa.schema(nested.map_leaves(schema, parsed))


def _parsed_type(type_: pa.DataType) -> pa.DataType:
    """Returns the parser's type for one to read, before a cast.

    The parser takes times with an offset for times without one, and no other times than these.
    """
    is_time = pa.types.is_temporal(shapes.leaf(type_))
    return shapes.with_leaf(type_, pa.string()) if is_time else type_
