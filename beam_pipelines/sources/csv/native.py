"""Parses CSV records with the native kernel, if there is one.

It returns ``None`` where it is not certain that plain Python would return the same.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.sources.text.quotes import Dialect

# The kernel's names of types.
_KERNEL_TYPES = {
    pa.int8(): "c",
    pa.uint8(): "C",
    pa.int16(): "s",
    pa.uint16(): "S",
    pa.int32(): "i",
    pa.uint32(): "I",
    pa.int64(): "l",
    pa.uint64(): "L",
    pa.float32(): "f",
    pa.float64(): "g",
    pa.bool_(): "b",
    pa.string(): "u",
    pa.binary(): "z",
    pa.date32(): "tdD",
    pa.time64("us"): "ttu",
    pa.timestamp("us"): "tsu:",
}


def parse(
    data: bytes,
    names: tuple[str, ...],
    read_schema: pa.Schema,
    schema: pa.Schema,
    dialect: Dialect,
    nulls: tuple[str, ...],
    line_bytes: int | None,
    exact: Collection[str] = (),
    long: Collection[str] = (),
) -> pa.RecordBatch | None:
    """Parses records, or declines.

    Args:
      data: whole records, without a header.
      names, read_schema, schema, dialect, nulls, exact, long: see ``CsvParser``.
      line_bytes: the most bytes of a record; a chunk with longer ones is declined. ``None``: any
        number.

    Returns:
      The records of ``CsvParser.by_python``, or ``None`` where the kernel is not certain of them,
        or is missing.
    """
    kernel_types = [type_ for field in read_schema if (type_ := _kernel_type(field.type))]
    if not kernel_types or len(kernel_types) < len(read_schema):
        return None
    place_of = {name: place for place, name in enumerate(names)}
    wanted = [
        (place_of[name], ("?" if name in long else "!" if name in exact else "") + type_)
        for name, type_ in zip(read_schema.names, kernel_types, strict=True)
    ]
    arrays = _native.parse_csv(
        data, dialect.delimiter, dialect.quote, len(names), wanted, nulls, line_bytes
    )
    if arrays is None:
        return None
    # The kernel's timestamps have no zone.
    views = [array.view(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(views, schema=schema)


def _kernel_type(type_: pa.DataType) -> str | None:
    if pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz is not None:
        return "tsu:UTC"
    return _KERNEL_TYPES.get(type_)
