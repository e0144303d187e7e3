"""TFRecord files against a plain loop, or an error on damage.

The error names the first damaged record. Files are compressed or not. Input: a byte that chooses
the compression, one that sets the bytes of a read; then the file, or its uncompressed content.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import random
import re
import struct
import zlib
from collections.abc import Iterator
from unittest import mock

from beam_pipelines.core import _native
from beam_pipelines.core.layout.shard_formats import compression_of
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.tfrecord import framing
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.support.kernels import without_kernels

HEAD = 2
# Name of the file, and whether the input is its raw bytes or its content.
_WAYS = (
    ("a.tfrecord", False),
    ("a.tfrecord.gz", True),
    ("a.tfrecord.zlib", True),
    ("a.tfrecord.gz", False),
    ("a.tfrecord.zlib", False),
)
_READ_BYTES = (4 << 20, 1, 7, 16, 64)


@functools.cache
def _table() -> tuple[int, ...]:
    """CRC-32C of each byte. Source: RFC 3720, the polynomial 0x1EDC6F41 reflected."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def masked_crc(data: bytes) -> int:
    """Returns the masked CRC-32C, byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _table()[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """Returns a record with its frame."""
    length = struct.pack("<Q", len(record))
    return (
        length
        + struct.pack("<I", masked_crc(length))
        + record
        + struct.pack("<I", masked_crc(record))
    )


def records_of(data: bytes) -> tuple[list[bytes], tuple[int, int] | None]:
    """Returns the whole records of a file.

    It also returns number and offset of the first damaged or incomplete one.
    """
    records: list[bytes] = []
    place = 0
    while place < len(data):
        (length,) = struct.unpack("<Q", data[place : place + 8].ljust(8, b"\0"))
        end = place + 12 + length
        body = data[place + 12 : end]
        sums = data[place + 8 : place + 12] + data[end : end + 4]
        if sums != struct.pack("<II", masked_crc(data[place : place + 8]), masked_crc(body)):
            return records, (len(records), place)
        records.append(body)
        place = end + 4
    return records, None


class UnclearError(Exception):
    """A gzip header with undefined flags or a wrong checksum.

    Python rejects it, the product does not. The data has its own checksum.
    """


def decompressed(name: str, content: bytes) -> bytes | None:
    """Returns a file's content by Python's zlib; ``None`` if it is damaged."""
    if name.endswith("d"):
        return content
    parts = []
    while content:
        stream = zlib.decompressobj(31 if name.endswith("gz") else 15)
        try:
            parts.append(stream.decompress(content))
        except zlib.error as error:
            if any(words in str(error) for words in ("header flags", "header crc")):
                raise UnclearError from error
            return None
        if not stream.eof:
            return None
        content = stream.unused_data
    return b"".join(parts)


def read_records(
    path: str, name: str, size: int, is_native: bool
) -> tuple[list[bytes] | None, str]:
    """Reads a file by the product, so many bytes at a time."""

    def call() -> list[bytes]:
        with files.open_read(path) as file:
            return [
                record
                for block in framing.read_record_blocks(file, path, compression_of(name))
                for record in block
            ]

    with (
        mock.patch.object(framing, "READ_BYTES", size),
        contextlib.nullcontext() if is_native else without_kernels(),
    ):
        return explained(call)


def run(data: bytes) -> None:
    """Compares both readers, and the source of raw records, with the loop."""
    head, body = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    name, is_made = _WAYS[head[0] % len(_WAYS)]
    content = body
    if is_made:
        content = gzip.compress(body, mtime=0) if name.endswith("gz") else zlib.compress(body)
    path = scratch.write("tfrecord", name, content)
    try:
        plain = decompressed(name, content)
    except UnclearError:
        read_records(path, name, _READ_BYTES[head[1] % len(_READ_BYTES)], is_native=False)
        return
    expected, damaged = ([], None) if plain is None else records_of(plain)
    is_bad = plain is None or damaged is not None
    kinds = [False, True] if _native.KERNELS_AVAILABLE else [False]
    for is_native in kinds:
        found, why = read_records(path, name, _READ_BYTES[head[1] % len(_READ_BYTES)], is_native)
        reader = "native" if is_native else "Arrow"
        require(
            (found is None) == is_bad,
            f"tfrecord: {reader}: {'no error' if is_bad else 'an error without a reason'}",
            f"{why} {expected}",
        )
        require(
            found is None or found == expected,
            f"tfrecord: {reader}: other records",
            f"{found} {expected}",
        )
        if damaged is not None:
            place = re.search(r"record (\d+), offset (\d+)", why)
            require(
                place is not None and tuple(map(int, place.groups())) == damaged,
                f"tfrecord: {reader}: another place",
                f"{why} {damaged}",
            )
    compare_source(path, expected, is_bad)


def compare_source(path: str, expected: list[bytes], is_bad: bool) -> None:
    """Compares what the format ``raw_records`` makes of the file."""

    def call() -> list[bytes]:
        plan = planner.plan_source(Source("s", (path,), format="raw_records"), "")
        table, _, _ = read.read_table(plan, reject=False)
        return list(table.column("record").to_pylist())

    found, why = explained(call)
    require(
        (found is None) == (is_bad or not expected), "tfrecord: raw records: an error or none", why
    )
    require(
        found is None or found == expected,
        "tfrecord: raw records: other records",
        f"{found} {expected}",
    )


def seeds() -> list[bytes]:
    """Files of no record, of empty records and of several records.

    They are compressed, of several members, or cut off.
    """
    plain = [
        b"",
        framed(b""),
        framed(b"abc") + framed(b"") + framed(bytes(range(70))),
        framed(b"x" * 300) * 3,
    ]
    made = [
        bytes([way, size]) + text
        for way in range(3)
        for size in range(len(_READ_BYTES))
        for text in plain
    ]
    members = gzip.compress(plain[2], mtime=0) + gzip.compress(plain[1], mtime=0)
    return [
        *made,
        b"\3\0" + members,
        b"\3\1" + members[:-3],
        b"\4\0" + zlib.compress(plain[2]),
        b"\0\0" + plain[2][:-1],
    ]


def frames(data: bytes) -> Iterator[bytes]:
    """Yields the frames of a file, and the rest.

    It follows the lengths, right or wrong, as far as they lead.
    """
    place = 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        end = place + 16 + length
        if end > len(data):
            break
        yield data[place:end]
        place = end
    if data[place:]:
        yield data[place:]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes whole frames, with right checksums most of the time."""
    parts = list(frames(data[HEAD:])) or [framed(b"")]
    number = chance.randrange(len(parts))
    part = parts[number]
    action = chance.randrange(6)
    if action == 0:
        parts[number] = framed(mutations.splice(part[12:-4], [b"\0", b"\xff", part[:12]], chance))
    elif action == 1:  # a wrong length with a right checksum
        length = struct.pack("<Q", mutations.near(len(part) - 16, chance) % (1 << 64))
        parts[number] = length + struct.pack("<I", masked_crc(length)) + part[12:]
    elif action == 2:
        parts.insert(number, framed(bytes(chance.randrange(40))))
    elif action == 3:
        place = chance.randrange(len(part))
        parts[number] = (
            part[:place] + bytes([part[place] ^ 1 << chance.randrange(8)]) + part[place + 1 :]
        )
    elif action == 4:
        parts[number] = part[: chance.randrange(len(part))]
    else:
        parts.insert(number, chance.choice(parts))
    return mutations.keep_head(data, HEAD, b"".join(parts), chance)


TARGET = Target(run, seeds, mutate, max_bytes=1200)
