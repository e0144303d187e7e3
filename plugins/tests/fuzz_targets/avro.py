"""Avro files against fastavro's own reader, or an error.

Input: a byte that chooses the size of ranges, and the file.
"""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro

from beam_pipelines_plugins.formats.avro_blocks import AvroFile
from plugins.tests.support.avro_files import container
from plugins.tests.support.whole_and_ranges import read_both
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import require
from tests.fuzz.target import Target

HEAD = 1
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
    """Reads a file whole and in ranges; compares the rows with fastavro's."""
    size, text = data[:HEAD].ljust(HEAD, b"\0")[0] + 16, data[HEAD:]
    path = scratch.write("avro", "a.avro", text)
    found = read_both(path, size)
    if found is None:
        return
    table, again, _ = found
    if again is not None:
        require(again.num_rows == table.num_rows, "avro: other rows in ranges")
    try:
        expected = by_fastavro(text)
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
            made.append(b"\0" + file.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes of blocks, of their counts, or anything."""
    text = data[HEAD:]
    try:
        file = AvroFile(io.BytesIO(text), "a.avro")
        found = file.packed(file.start, len(text))
        blocks = [(block.num_records, block.bytes_.read()) for block in found]
    except Exception:  # noqa: BLE001 - a damaged file has no blocks to change
        blocks = []
    if not blocks or not chance.randrange(3):
        return mutations.keep_head(data, HEAD, mutations.splice(text, _TOKENS, chance), chance)
    place = chance.randrange(len(blocks))
    rows, own = blocks[place]
    if chance.randrange(2):
        own = mutations.splice(own, _TOKENS, chance)
    else:
        rows = min(max(0, mutations.near(rows, chance)), 2**62)
    blocks[place] = (rows, own)
    changed = container(file.schema, file.codec, blocks, file.sync)
    return mutations.keep_head(data, HEAD, changed, chance)


TARGET = Target(run, seeds, mutate)
