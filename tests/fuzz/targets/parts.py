"""The reader's parts against a plain loop over records, or an error.

Input: a byte that chooses the compression, one that sets the rows that the index promises, two for
the place of a changed bit of the shard (0: none); then the framed records of a part.
"""

from __future__ import annotations

import contextlib
import io
import random
import zlib

import numpy as np
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.reader.order import make_epoch
from beam_pipelines.reader.parts import Indexed, ShardFile, load, make_split
from beam_pipelines.tfrecord import part_index
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.fuzz.targets import tfrecord
from tests.reader.indexed import HEADS, TYPES, compressed, tail
from tests.support.kernels import without_kernels

HEAD = 4
_COMPRESSIONS = ("gzip", "none", "zlib")


def make_shard(head: bytes, framed: bytes, rows: int) -> Indexed | None:
    """Writes a shard of one part; ``None`` if its index is refused."""
    compression = _COMPRESSIONS[head[0] % len(_COMPRESSIONS)]
    start, part = HEADS[compression], compressed(framed, compression)
    shard = bytearray(start + part + tail(framed, compression))
    bit = int.from_bytes(head[2:], "little")
    if bit and part:
        shard[len(start) + bit // 8 % len(part)] ^= 1 << bit % 8
    path = scratch.write("parts", "s.tfrecord", bytes(shard))
    indexed = [part_index.IndexedShard("s.tfrecord", rows, len(shard), "00000000")]
    own = (0, len(start), len(part), len(framed), rows, zlib.crc32(framed))
    columns = part_index.PartColumns(
        *(np.array([value], type_) for value, type_ in zip(own, TYPES, strict=True))
    )
    file = io.BytesIO()
    part_index.write_index(file, part_index.make_index(compression, indexed, columns))
    written = pa.py_buffer(file.getvalue())
    index, _ = explained(
        lambda: part_index.parse_index(written, "index.arrow", compression, indexed)
    )
    return index and Indexed((ShardFile(path, rows, len(shard)),), index)


def run(data: bytes) -> None:
    """Compares the loaded part with the records, with kernels and without."""
    head, framed = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    records, damaged = tfrecord.records_of(framed)
    rows = max(1, len(records) + head[1] % 5 - 2)
    found = make_shard(head, framed, rows)
    is_whole = not damaged and rows == len(records)
    if found is None:
        require(not is_whole, "parts: a right index is refused")
        return
    split = make_split("train", [found])
    epoch = make_epoch(
        split.rows_of_parts, split.extents, split.runs, split.framed_bytes, 1, 0, is_shuffled=True
    )
    for is_native in [False, True] if _native.KERNELS_AVAILABLE else [False]:
        with contextlib.nullcontext() if is_native else without_kernels():
            block, why = explained(lambda: load(split, epoch, np.array([0])))
        is_changed = head[2:] != bytes(2)
        require(
            block is None if not is_whole else is_changed or block is not None,
            "parts: no error" if block else "parts: an error without a reason",
            why,
        )
        if block is not None:
            frames = block.frames[0].to_pylist()
            require([frame[12:-4] for frame in frames] == records, "parts: other records", frames)
            require(sorted(block.order.tolist()) == list(range(rows)), "parts: other rows")


def seeds() -> list[bytes]:
    """Parts of one record and of several, whole and changed."""
    texts = [
        tfrecord.framed(b"a"),
        tfrecord.framed(b"abc") + tfrecord.framed(b"") + tfrecord.framed(bytes(range(70))),
        tfrecord.framed(b"x" * 300) * 3,
    ]
    heads = [b"\0\2\0\0", b"\1\2\0\0", b"\2\2\0\0", b"\0\3\0\0", b"\0\2\7\0", b"\1\2\77\0"]
    return [head + text for head in heads for text in texts]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes frames as ``tfrecord`` does, or the head."""
    changed = tfrecord.mutate(bytes(2) + data[HEAD:], chance)[2:]
    return mutations.keep_head(data, HEAD, changed if chance.randrange(2) else data[HEAD:], chance)


TARGET = Target(run, seeds, mutate, max_bytes=1200)
