"""Arrow IPC files and streams against pyarrow's own rows, or an error.

Input: the file. Values are compared where pyarrow finds the file valid.
"""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import pyarrow as pa

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_TOKENS = [b"\0", b"\1", b"\x08", b"\x7f", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\0" * 8, b"ARROW1"]


def run(data: bytes) -> None:
    """Reads a file; compares numbers with pyarrow's."""
    path = scratch.write("arrow", "a.arrow", data)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is not None:
        compare("arrow", table, _expected(data))


def _expected(data: bytes) -> pa.Table:
    if data.startswith(b"ARROW1"):
        return pa.ipc.open_file(io.BytesIO(data)).read_all()
    return pa.ipc.open_stream(io.BytesIO(data)).read_all()


def compare(title: str, table: pa.Table, expected: pa.Table) -> None:
    """Compares rows and plain integers of the product with those of pyarrow."""
    require(table.num_rows == expected.num_rows, f"{title}: another number of rows")
    for field in expected.schema:
        names = expected.schema.get_all_field_indices(field.name)
        if len(names) == 1 and field.name in table.column_names and field.type == pa.int64():
            same = table[field.name].to_pylist() == expected[field.name].to_pylist()
            require(same, f"{title}: other values")


def rows() -> pa.Table:
    """Returns rows of several types."""
    return pa.table(
        {
            "n": [1, 2, None],
            "t": ["a", "ç", None],
            "x": [[1.5], [], None],
            "d": pa.array(["p", "q", "p"]).dictionary_encode(),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )


@functools.cache
def seeds() -> list[bytes]:
    """Files and streams, with and without compression."""
    made = []
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        for compression in (None, "zstd"):
            stream = io.BytesIO()
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with new(stream, rows().schema, options=options) as writer:
                writer.write_table(rows())
            made.append(stream.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes, mostly in place, as offsets say where things are."""
    if not chance.randrange(6):
        return mutations.splice(data, _TOKENS, chance)
    body = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(max(1, len(body)))
        if chance.randrange(2):
            body[place : place + 1] = (
                bytes([body[place] ^ 1 << chance.randrange(8)]) if body else b""
            )
        else:
            token = chance.choice(_TOKENS)
            body[place : place + len(token)] = token
    return bytes(body)


TARGET = Target(run, seeds, mutate, 8192)
