"""ORC files against pyarrow's own rows, or an error.

ORC has no checksums, and pyarrow gives other values each time where a file is damaged. So values
are compared only of whole files. Input: the file.
"""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import pyarrow as pa
from pyarrow import orc

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_TOKENS = [b"\0", b"\1", b"\x08", b"\x7f", b"\x80\x01", b"\xff", b"\xff" * 8, b"ORC", b"\x0a\x02", b"\x12\x00"]  # fmt: skip


def run(data: bytes) -> None:
    """Reads a file; compares numbers with pyarrow's."""
    path = scratch.write("orc", "a.orc", data)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    expected = orc.ORCFile(io.BytesIO(data)).read()
    require(table.num_rows == expected.num_rows, "orc: another number of rows")
    if data in seeds():
        require(table["n"].to_pylist() == expected["n"].to_pylist(), "orc: other values")


@functools.cache
def seeds() -> list[bytes]:
    """Files of several types and compressions."""
    table = pa.table({"n": [1, 2, None], "t": ["a", "ç", None], "x": [[1.5], [], None]})
    made = []
    for compression in ("uncompressed", "zlib", "zstd"):
        stream = io.BytesIO()
        orc.write_table(table, stream, compression=compression)
        made.append(stream.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes, mostly in place, as the end says where things are."""
    if not chance.randrange(4):
        return mutations.splice(data, _TOKENS, chance)
    body = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        token = chance.choice(_TOKENS)
        place = chance.randrange(max(1, len(body)))
        body[place : place + len(token)] = token
    return bytes(body)


TARGET = Target(run, seeds, mutate)
