"""IDX files with labels against struct's numbers, or an error.

They are compressed or not, and cut into ranges anywhere. Input: a byte of switches, one free, two
that choose cuts; then the length of the labels' file in two bytes, that file, and the arrays.
"""

from __future__ import annotations

import gzip
import io
import math
import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from PIL import Image

from beam_pipelines.sources import planner
from beam_pipelines.sources.images.idx import IdxOptions
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.fuzz.targets.csv_ranges import cut, places
from tests.support.made_source import made_source

HEAD = 4
_CODES = {0x08: ">B", 0x09: ">b", 0x0B: ">h", 0x0C: ">i", 0x0D: ">f", 0x0E: ">d"}


class Items(NamedTuple):
    """A file by a plain reader: each item's numbers, and item sizes."""

    rows: list[tuple[float, ...]]
    sizes: tuple[int, ...]


def items_of(data: bytes) -> Items | None:
    """Reads a file; ``None`` if its header and length do not match."""
    if (
        len(data) < 4
        or data[:2] != b"\0\0"
        or data[2] not in _CODES
        or not data[3]
        or len(data) < 4 + 4 * data[3]
    ):
        return None
    count, *sizes = struct.unpack_from(f">{data[3]}I", data, 4)
    code = _CODES[data[2]]
    number = math.prod(sizes)
    body = data[4 + 4 * data[3] :]
    size = number * struct.calcsize(code)
    if not size or len(body) != count * size:
        return None
    return Items(
        [struct.unpack_from(f">{number}{code[1]}", body, place * size) for place in range(count)],
        tuple(sizes),
    )


def run(data: bytes) -> None:
    """Compares the product's rows with the plain reader's."""
    head, body = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    labels, arrays = parts_of(body)
    is_compressed, has_labels, is_damaged, reject, has_classes = (
        bool(head[0] & bit) for bit in (1, 2, 4, 8, 16)
    )
    name = ("images-idx3-ubyte" if has_labels else "idx3-ubyte") + ".gz" * is_compressed
    content = arrays
    if is_compressed and not is_damaged:
        content = gzip.compress(arrays, mtime=0)
    path = scratch.write("idx", name, content)
    if has_labels:
        scratch.write("idx", "labels-idx1-ubyte", labels)
    options = IdxOptions(("a", "b", "c") if has_classes and has_labels else ())

    def call() -> Any:
        plan = planner.plan_source(made_source("s", (path,), format="idx", idx=options), "")
        if not is_compressed:
            plan = cut(plan, places(head[2:], len(arrays)))
        return read.read_table(plan, reject)

    found, _ = explained(call)
    expected, ids = items_of(arrays), items_of(labels)
    if found is None:
        return
    table, _, rejected = found
    require(reject or not rejected, "idx: rejected without being asked")
    require(is_damaged or expected is not None, "idx: a damaged file, and no error", arrays[:40])
    if expected is None:
        return
    bad = {int(row.position.rpartition(" ")[2]) for row in rejected}
    kept = [row for number, row in enumerate(expected.rows) if number not in bad]
    require(
        len(kept) == table.num_rows,
        "idx: another number of rows",
        f"{len(kept)} {table.num_rows} {rejected[:2]}",
    )
    if has_labels:
        require(
            ids is not None and len(ids.rows) == len(expected.rows),
            "idx: other labels, and no error",
            labels[:40],
        )
        assert ids is not None
        column = next(
            table.column(name) for name in table.column_names if name.endswith("class/label")
        )
        numbers = [row[0] for number, row in enumerate(ids.rows) if number not in bad]
        require(
            column.to_pylist() == numbers, "idx: other labels", f"{column.to_pylist()} {numbers}"
        )
    compare(table, kept, expected.sizes)


def compare(table: Any, rows: list[tuple[float, ...]], sizes: tuple[int, ...]) -> None:
    """Compares the numbers of each row."""
    columns = {
        name.removeprefix("image/"): table.column(name).to_pylist() for name in table.column_names
    }
    for number, row in enumerate(rows):
        if "encoded" in columns:
            with Image.open(io.BytesIO(columns["encoded"][number])) as picture:
                found: Any = tuple(picture.tobytes())
        elif "values" in columns:
            found = tuple(columns["values"][number])
        else:
            found = (columns["value"][number],)
        require(
            are_same(found, row), "idx: other numbers", f"row {number}: {found[:20]} {row[:20]}"
        )
        if "height" in columns:
            shape = (
                columns["height"][number],
                columns["width"][number],
                columns["channels"][number],
            )
            require(shape == (*sizes, 1)[:3], "idx: another shape", f"{shape} {sizes}")


def are_same(found: tuple[float, ...], expected: tuple[float, ...]) -> bool:
    """Whether numbers are equal; NaN equals NaN."""
    pairs = zip(found, expected, strict=False)
    return len(found) == len(expected) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs
    )


def parts_of(body: bytes) -> tuple[bytes, bytes]:
    """Returns the file of labels and that of arrays."""
    (length,) = struct.unpack("<H", body[:2].ljust(2, b"\0"))
    return body[2 : 2 + length], body[2 + length :]


def joined(labels: bytes, arrays: bytes) -> bytes:
    """Returns the body of an input."""
    return struct.pack("<H", len(labels)) + labels + arrays


def made(code: int, sizes: tuple[int, ...], content: bytes) -> bytes:
    """Returns a file with a header, sizes and content."""
    return (
        bytes([0, 0, code, len(sizes)])
        + struct.pack(f">{len(sizes)}I", *(size % (1 << 32) for size in sizes))
        + content
    )


def seeds() -> list[bytes]:
    """Files of all types and some ranks, with labels."""
    return list(_seeds())


def _seeds() -> Iterator[bytes]:
    labels = made(8, (3,), b"\0\1\2")
    for code, type_ in _CODES.items():
        for sizes in ((3,), (3, 2), (3, 2, 2), (3, 2, 2, 3), (3, 1, 1, 1, 2)):
            content = bytes(range(math.prod(sizes) * struct.calcsize(type_) % 256)) + bytes(
                math.prod(sizes) * struct.calcsize(type_) // 256 * 256
            )
            for switches, form in ((0, 0), (2, 4), (11, 3), (26, 1)):
                yield bytes([switches, form, 200, 100]) + joined(labels, made(code, sizes, content))


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes the header's type, rank or sizes, or the labels.

    The content fits the header or not.
    """
    labels, arrays = parts_of(data[HEAD:])
    if not chance.randrange(3):
        labels = made(
            chance.choice((8, 9, 11, 12)),
            (chance.choice((3, 2, 4, 0)),),
            mutations.splice(labels[8:], [b"\0", b"\1", b"\xff"], chance),
        )
    if chance.randrange(4):
        code = chance.choice((*_CODES, *_CODES, 0, 0x0A, 255))
        sizes = tuple(
            chance.choice((1, 2, 3, 3, 4, 0)) for _ in range(chance.choice((1, 2, 3, 3, 4, 5)))
        )
        if not chance.randrange(4):
            place = chance.randrange(len(sizes))
            sizes = (*sizes[:place], mutations.near(sizes[place], chance), *sizes[place + 1 :])
        wanted = math.prod(sizes) * struct.calcsize(_CODES.get(code, "B"))
        arrays = made(
            code,
            sizes,
            bytes(
                chance.randrange(256)
                for _ in range(max(0, min(wanted, 400) + chance.choice((0, 0, 0, 0, 1, -1))))
            ),
        )
    else:
        arrays = mutations.splice(arrays, [b"\0", b"\xff", b"\0\0\x08\x01", arrays[:4]], chance)
    return mutations.keep_head(data, HEAD, joined(labels, arrays), chance)


TARGET = Target(run, seeds, mutate, max_bytes=600)
