"""Tar archives against ``tarfile`` and a plain grouping, or an error."""

from __future__ import annotations

import io
import random
import tarfile
from typing import Any

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from beam_pipelines_plugins.formats.webdataset_format import name_parts
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_TOKENS = [b"\0", b"\0" * 512, b"ustar\0", b"ustar  ", b"x", b"g", b"L", b"2", b"5", b"00000001000\0", b"\x80",
           b"12 path=a.cls\n", b"9 size=1\n", b"1", b"-1", b"{", b"}", b'{"a":1}', b"null", b".json", b".cls", b"/", b"."]  # fmt: skip


def by_tarfile(data: bytes) -> list[tuple[str, dict[str, bytes]]]:
    """Returns key and files of each row."""
    rows: list[tuple[str, dict[str, bytes]]] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for info in archive:
            parts = name_parts(info.name)
            content = archive.extractfile(info)
            if parts is None or content is None or info.isdir():
                continue
            if not rows or rows[-1][0] != parts[0]:
                rows.append((parts[0], {}))
            rows[-1][1][parts[1]] = content.read()
    return rows


def run(data: bytes) -> None:
    """Reads an archive; compares the rows."""
    path = scratch.write("webdataset", "a.tar", data)

    def call() -> Any:
        planned = planner.plan_source(Source("s", (path,)), "")
        return read.read_table(planned, reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        expected = by_tarfile(data)
    except Exception:  # noqa: BLE001 - what tarfile does not take is nothing to compare with
        return
    # tarfile ends without a word at a header that it does not take.
    keys = table.column("__key__").to_pylist()[: len(expected)]
    require(keys == [key for key, _ in expected], "webdataset: other rows", f"{keys} {expected}")
    if "cls" in table.column_names:
        numbers = table.column("cls").to_pylist()
        own = [int(files["cls"]) for _, files in expected if "cls" in files]
        require(numbers[: len(own)] == own, "webdataset: other numbers", f"{numbers} {own}")


def archive(files: list[tuple[str, bytes]], format_: int) -> bytes:
    """Returns an archive whose bytes do not depend on the time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format_, bufsize=1) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()[: tar.offset + 1_024]


def seeds() -> list[bytes]:
    """Archives of several kinds of files and headers."""
    rows = [[(f"{n}.cls", b"%d" % n), (f"{n}.json", b'{"a": [%d]}' % n)] for n in range(2)]
    long = [[("d" * 120 + f"/{n}.txt", b"x"), ("d" * 120 + f"/{n}.bin", b"y")] for n in range(1)]
    return [
        archive([file for row in some for file in row], format_)
        for some in (rows, long)
        for format_ in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes contents, or headers, whose sums it makes right."""
    body = bytearray(data)
    blocks = len(body) // 512
    if blocks and chance.randrange(3):
        start = 512 * chance.randrange(blocks)
        place, token = chance.choice((0, 90, 124, 156, 257, 345, 0)), chance.choice(_TOKENS)[:40]
        body[start + place : start + place + len(token)] = token
        for begin in range(0, 512 * blocks, 512):
            block = bytes(body[begin : begin + 512])
            if block[257:262] == b"ustar":
                total = sum(block[:148]) + 256 + sum(block[156:])
                body[begin + 148 : begin + 156] = b"%06o\0 " % total
        return bytes(body)
    return mutations.splice(bytes(body), _TOKENS, chance)


TARGET = Target(run, seeds, mutate, max_bytes=16_384)
