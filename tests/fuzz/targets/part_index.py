"""Indexes of parts against plain loops, or an error.

Input: the file of an index.
"""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa

from beam_pipelines.tfrecord.part_index import (
    IndexedShard,
    PartColumns,
    PartIndex,
    make_index,
    parse_index,
    write_index,
)
from tests.fuzz import mutations
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

_PATH = "Split-train-1.arrow"
_TYPES = np.int32, np.int64, np.int64, np.int64, np.int32, np.uint32


def written(index: PartIndex) -> bytes:
    """Returns the file of an index."""
    file = io.BytesIO()
    write_index(file, index)
    return file.getvalue()


def parsed(data: bytes) -> tuple[PartIndex | None, str]:
    """Returns the index of a file, or why there is none."""
    why = ""
    for compression in ("gzip", "none", "zlib"):
        index, why = explained(lambda of=compression: parse_index(pa.py_buffer(data), _PATH, of))
        if index is not None or "found an index of" not in why:
            return index, why
    return None, why


def run(data: bytes) -> None:
    """Checks that an index that is believed leads to no wrong place."""
    index, _ = parsed(data)
    if index is None:
        return
    rows, ends = 0, [0] * len(index.shards)
    found = [0] * len(index.shards)
    for part in range(len(index)):
        shard, offset, size, framed, count, _ = (int(column[part]) for column in index.columns)
        require(0 <= shard < len(index.shards), "part_index: no such shard", shard)
        is_inside = (
            ends[shard] <= offset and size > 0 and offset + size <= index.shards[shard].bytes
        )
        require(is_inside, "part_index: outside of its shard", (part, offset, size))
        require(count > 0 and framed >= 16 * count, "part_index: no place for records", part)
        require(int(index.first_row[part]) == rows, "part_index: another first row", part)
        require(part in index.parts_of_shard(shard), "part_index: another shard", part)
        rows, ends[shard], found[shard] = rows + count, offset + size, found[shard] + count
    require(rows == index.rows, "part_index: another number of rows", rows)
    require(found == [shard.rows for shard in index.shards], "part_index: rows of shards", found)


def seeds() -> list[bytes]:
    """Indexes of none, one and several shards."""
    shards = [IndexedShard(f"s-{number}", 5 * number, 900, "0123abcd") for number in range(3)]
    parts = [(1, 10, 100, 400, 5, 7), (2, 10, 50, 300, 4, 8), (2, 60, 100, 300, 6, 9)]
    columns = PartColumns(
        *(np.array([part[place] for part in parts], type_) for place, type_ in enumerate(_TYPES))
    )
    nothing = PartColumns(*(np.zeros(0, type_) for type_ in _TYPES))
    return [
        written(make_index("gzip", [], nothing)),
        written(make_index("zlib", shards[:1], nothing)),
        written(make_index("gzip", shards, columns)),
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes numbers of an index, with a right checksum, or bytes."""
    index, _ = parsed(data)
    if index is None or not len(index) or not chance.randrange(3):
        return mutations.splice(data, [b"\0", b"\xff" * 8, b"ARROW1", data[:16]], chance)
    columns = {name: column.copy() for name, column in index.columns._asdict().items()}
    first_row = index.first_row.copy()
    for _ in range(chance.choice((1, 1, 2))):
        changed = chance.choice([*columns.values(), first_row])
        place = chance.randrange(len(changed))
        bits = changed.dtype.itemsize * 8
        number = mutations.near(int(changed[place]), chance) % (1 << bits)
        changed[place] = np.array([number], np.uint64).astype(changed.dtype)[0]
    return written(
        PartIndex(_PATH, index.compression, index.shards, PartColumns(**columns), first_row)
    )


TARGET = Target(run, seeds, mutate, max_bytes=8192)
