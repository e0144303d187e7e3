"""Avro files against fastavro's own reader, or an error."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from beam_pipelines_plugins.formats.avro_blocks import AvroFile
from plugins.tests.support.avro_files import container
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_TOKENS = [b"\0", b"\1", b"\x02", b"\x7f", b"\x80\x01", b"\xff" * 9 + b"\x01", b'"string"', b'"null"',
           b'"type"', b"[", b"]", b'{"type":"array","items":"int"}', b"avro.schema", b"deflate"]  # fmt: skip
_SCHEMAS: tuple[tuple[Any, list[Any]], ...] = (
    ([("n", "long"), ("s", ["null", "string"])], [{"n": n, "s": None if n % 3 else "ç"} for n in range(9)]),
    ([("b", "boolean"), ("x", "double"), ("y", "bytes")], [{"b": True, "x": 0.5, "y": b"\xff"}] * 3),
    ([("a", {"type": "array", "items": "int"}), ("r", {"type": "record", "name": "R", "fields": [
        {"name": "v", "type": "float"}]})], [{"a": [1, 2], "r": {"v": 1.5}}] * 4),
    ([("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
      ("f", {"type": "fixed", "name": "F", "size": 3})], [{"e": "B", "f": b"abc"}] * 4),
)  # fmt: skip


def by_fastavro(data: bytes) -> list[Any]:
    """Returns the rows by fastavro, flat names."""
    rows = []
    for record in fastavro.reader(io.BytesIO(data)):
        row: dict[str, Any] = {}
        for name, value in dict(record).items():  # type: ignore[arg-type]
            if isinstance(value, dict):
                row |= {f"{name}.{inner}": item for inner, item in value.items()}
            else:
                row[name] = value
        rows.append(row)
    return rows


def run(data: bytes) -> None:
    """Compares the rows of a file with fastavro's."""
    path = scratch.write("avro", "a.avro", data)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        expected = by_fastavro(data)
    except Exception:  # noqa: BLE001 - what fastavro does not take is nothing to compare with
        return
    require(table.num_rows == len(expected), "avro: another number of rows")
    names = set(table.column_names)
    if expected and all(isinstance(value, (int, str, bytes)) for value in expected[0].values()):
        rows = [{name: row[name] for name in row if name in names} for row in expected]
        if names == set(expected[0]):
            require(table.to_pylist() == rows, "avro: other values", f"{table.to_pylist()} {rows}")


def seeds() -> list[bytes]:
    """Files of several schemas and codecs."""
    made = []
    for fields, rows in _SCHEMAS:
        schema = {"type": "record", "name": "Row", "fields": [
            {"name": name, "type": type_} for name, type_ in fields]}  # fmt: skip
        for codec in ("null", "deflate", "snappy", "xz"):
            file = io.BytesIO()
            fastavro.writer(
                file, schema, rows, codec=codec, sync_marker=b"s" * 16, sync_interval=20
            )
            made.append(file.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes of blocks, of their counts, or anything."""
    try:
        file = AvroFile(io.BytesIO(data), "a.avro")
        codec, file.codec = file.codec, "null"
        blocks = [(block.num_records, block.bytes_.read()) for block in file.blocks(int)]
    except Exception:  # noqa: BLE001 - a damaged file has no blocks to change
        blocks = []
    if not blocks or not chance.randrange(3):
        return mutations.splice(data, _TOKENS, chance)
    place = chance.randrange(len(blocks))
    rows, own = blocks[place]
    if chance.randrange(2):
        own = mutations.splice(own, _TOKENS, chance)
    else:
        rows = min(max(0, mutations.near(rows, chance)), 2**62)
    blocks[place] = (rows, own)
    return container(file.schema, codec, blocks, file.sync)


TARGET = Target(run, seeds, mutate)
