"""Avro: blocks of records, one range a file."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import FREE_BYTES, Limits, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.bad_input.bad_rows import as_bytes
from beam_pipelines.sources.parquet.format import top_columns
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

# Rows of Python objects at a time, which take some times the bytes of their columns.
_MOST_ROWS = 16_384


class Avro(PartFiles):
    """Object container files; one range a file."""

    title = "Avro"
    suffixes = (".avro",)
    is_cut = False
    is_compressed = True

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a range, or a file; see ``PartFiles``."""
        from fastavro.schema import parse_schema  # takes 30 ms

        opened, named = AvroFile(file, path), _Named()
        type_ = _type_of(
            _without_odd(parse_schema(opened.schema, named), named, source), named, f"{path}: "
        )
        if not pa.types.is_struct(type_):
            raise DataError(
                f"{path}: found values of {type_}, expected records with fields. Write each value "
                "as the field of a record: {type: record, name: Row, fields: [{name: value, type: "
                "…}]}."
            )
        opened.schema = _plain(opened.schema)
        schema = read = pa.schema(list(type_))
        if part:
            read = pa.schema([schema.field(name) for name in top_columns(part[0], schema)])
        yield OpenedPart(schema, _batches(_records(source.limits, path, opened), read))


def _without_odd(schema: Any, named: _Named, source: Source) -> Any:
    """Returns a record without odd fields that the source leaves out."""
    wanted = {name.partition(".")[0] for name in source.columns}

    def is_kept(field: Mapping[str, Any]) -> bool:
        if field["name"] in wanted:
            return True
        with contextlib.suppress(DataError):
            return bool(_type_of(field["type"], named, ""))
        return False

    if not source.columns or not isinstance(schema, dict) or schema["type"] != "record":
        return schema
    return {**schema, "fields": list(filter(is_kept, schema["fields"]))}


def _records(limits: Limits, path: str, opened: AvroFile) -> Iterator[dict[str, Any]]:
    """Yields the records of a file."""
    blocks = opened.blocks(lambda size: max(FREE_BYTES, limits.decompression_ratio * size))
    try:
        for block in blocks:
            yield from block
            if block.bytes_.read(1):
                raise ValueError(f"the block at byte {block.offset:,} has more than its records")
    except TooLargeError as error:
        offset, *sizes = error.args
        message = ratio_exceeded(limits, *sizes)
        raise DataError(f"{path}, block at byte {offset:,}: {message}") from error


def _batches(records: Iterator[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields records as columns; texts are checked with the rows."""
    names = schema.names
    types = [as_bytes(pa.array([], field.type)).type for field in schema]
    while some := list(itertools.islice(records, _MOST_ROWS)):
        arrays = [
            pa.array([record[name] for record in some], type_).view(field.type)
            for name, type_, field in zip(names, types, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


# Types of Avro's schemas as Arrow's.
# Format: https://avro.apache.org/docs/1.12.0/specification/.
_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
# (type, logical type) -> type. A logical type that is not here is ignored, as the format says.
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL_128, _DECIMAL_256 = 38, 76
# Records of records double with each level.
_MOST_LEVELS, _MOST_TYPES = 200, 200_000


class _Named(dict[str, Any]):
    """Full name -> its definition; counts the types that were made."""

    count = 0


def _type_of(schema: Any, named: _Named, where: str, within: tuple[str, ...] = ()) -> pa.DataType:
    """Returns the type of a schema.

    Args:
      schema: parsed by fastavro, so that names are full ones.
      named: the definitions in it.
      where: ``PATH: ``, or ``PATH: FIELD.``, for messages.
      within: names of the records around it.

    Raises:
      DataError: it has a union of several types, contains itself, has too large decimals or too
        many types, or values of no bytes.
    """
    named.count += 1
    if len(within) > _MOST_LEVELS or named.count > _MOST_TYPES:
        raise _refused(
            where,
            f"more than {_MOST_LEVELS} levels, or {_MOST_TYPES:,} types, expected a table",
            "Write the file with flatter records.",
        )
    if isinstance(schema, list):
        return _type_of(_only(schema, where), named, where, within)
    if schema == "null":
        raise _no_bytes(where, "null")
    if not isinstance(schema, dict):
        return _PRIMITIVES.get(schema) or _type_of(named[schema], named, where, within)
    kind = schema["type"]
    if kind in ("record", "error"):
        return _record(schema, named, where, within)
    if kind in ("array", "map"):
        values = schema["items" if kind == "array" else "values"]
        inner = _type_of(values, named, where, (*within, ""))
        return pa.list_(inner) if kind == "array" else pa.map_(pa.string(), inner)
    return _logical(schema, where) or _type_of(kind, named, where, within)


def _no_bytes(where: str, what: str) -> DataError:
    """Returns an error: a small file may have any number of them."""
    found = f"values of {what}, which take no bytes, expected others"
    return _refused(where, found, "Write the file without them.")


def _only(union: list[Any], where: str) -> Any:
    """Returns the only type of a union that is not null."""
    kinds = [kind for kind in union if kind != "null"]
    if len(kinds) == 1:
        return kinds[0]
    names = [
        kind.get("name", kind.get("type")) if isinstance(kind, dict) else kind for kind in union
    ]
    raise _refused(
        where,
        f"a union of {', '.join(map(str, names)) or 'nothing'}, expected one type, or one and null",
        "Leave it out with 'columns', or write a field for each type, each a union of it and null.",
    )


def _refused(where: str, found: str, cure: str) -> DataError:
    return DataError(f"{where.rstrip('.: ')}: found {found}. {cure}")


def _record(
    schema: Mapping[str, Any], named: _Named, where: str, within: tuple[str, ...]
) -> pa.DataType:
    name = schema["name"]
    if name in within:
        raise _refused(
            where,
            f"the record '{name}' within itself, whose values may be nested to any depth, expected "
            "a column",
            "Write the field as a text of JSON, or its records as rows with the key of the outer "
            "one.",
        )
    if not schema["fields"]:
        raise _no_bytes(where, f"the record '{name}'")
    fields = [
        (field["name"], _type_of(field["type"], named, f"{where}{field['name']}.", (*within, name)))
        for field in schema["fields"]
    ]
    return pa.struct(fields)


def _logical(schema: Mapping[str, Any], where: str) -> pa.DataType | None:
    """Returns the type of a logical type, or ``None``."""
    kind, meaning = str(schema["type"]), str(schema.get("logicalType"))
    if kind == "fixed" and schema.get("size") == 0:
        raise _no_bytes(where, "a fixed of 0 bytes")
    if meaning != "decimal" or kind not in ("bytes", "fixed"):
        return _LOGICAL.get((kind, meaning))
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 < precision <= _DECIMAL_256:
        found = f"a decimal of {precision} digits, expected 1 to {_DECIMAL_256}"
        raise _refused(where, found, "Write the file with fewer digits, or with texts.")
    return (pa.decimal128 if precision <= _DECIMAL_128 else pa.decimal256)(precision, scale)


def _plain(schema: Any) -> Any:
    """Returns a schema whose values fastavro leaves as they are stored.

    Only decimals become numbers. Dates and times stay integers and texts bytes, which Arrow takes.
    """
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    kept = {key: schema[key] for key in schema if key not in ("default", "logicalType")}
    if schema.get("logicalType") == "decimal":
        kept["logicalType"] = "decimal"
    nested = {
        key: _plain(kept[key]) for key in ("type", "items", "values", "fields") if key in kept
    }
    return kept | nested
