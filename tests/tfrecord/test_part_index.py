"""tfrecord/part_index.py keeps numbers, finds rows, refuses damage."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.tfrecord import part_index

# (rows, stored bytes, framed bytes) of each part of each shard.
SHARDS = [[(3, 50, 90), (1, 20, 20)], [], [(2, 40, 64), (5, 90, 200), (1, 16, 16)]]


def index_of(
    shards: list[list[tuple[int, int, int]]], compression: Compression = "gzip"
) -> part_index.PartIndex:
    """Returns the index of shards with 20 bytes around the parts."""
    rows = [
        (number, 10 + sum(size for _, size, _ in shard[:place]), stored, framed, count, 7 * place)
        for number, shard in enumerate(shards)
        for place, (count, stored, framed) in enumerate(shard)
    ]
    types = [np.int32, np.int64, np.int64, np.int64, np.int32, np.uint32]
    columns = part_index.PartColumns(
        *(
            np.array([row[place] for row in rows], type_).astype(type_)
            for place, type_ in enumerate(types)
        )
    )
    files = [
        part_index.IndexedShard(
            f"examples/Split-train/a-{number}.gz",
            sum(part[0] for part in shard),
            20 + sum(part[1] for part in shard),
            f"{number:08x}",
        )
        for number, shard in enumerate(shards)
    ]
    return part_index.make_index(compression, files, columns)


def bytes_of(index: part_index.PartIndex) -> bytes:
    """Returns the file of an index."""
    file = io.BytesIO()
    part_index.write_index(file, index)
    return file.getvalue()


def parsed(data: bytes, index: part_index.PartIndex) -> part_index.PartIndex:
    """Reads an index as that of the same shards."""
    return part_index.parse_index(pa.py_buffer(data), "i.arrow", index.compression, index.shards)


parts = st.tuples(st.integers(1, 9), st.integers(200, 999), st.integers(200, 9999))


@given(st.lists(st.lists(parts, max_size=4), max_size=4))
def test_every_number_is_kept(shards: list[list[tuple[int, int, int]]]) -> None:
    """Columns and shards are read as they were written."""
    index = index_of(shards)
    found = parsed(bytes_of(index), index)
    assert found.shards == index.shards
    assert found.rows == sum(part[0] for shard in shards for part in shard)
    for one, other in zip(found.columns, index.columns, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    assert found.first_row.tolist() == index.first_row.tolist()


@given(st.lists(st.lists(parts, max_size=4), max_size=4))
def test_a_shard_has_its_parts(shards: list[list[tuple[int, int, int]]]) -> None:
    """A shard's parts follow each other."""
    index = index_of(shards)
    for number, shard in enumerate(shards):
        first = sum(map(len, shards[:number]))
        assert index.parts_of_shard(number) == range(first, first + len(shard))


@given(
    st.lists(st.lists(st.integers(0, 900) | st.just(1 << 62), max_size=12), min_size=1, max_size=5)
)
def test_extents(sizes: list[list[int]]) -> None:
    """Extents divide a shard's records evenly, and have whole parts."""
    index = index_of([[(1, 8, size) for size in shard] for shard in sizes])
    expected, numbers = [], itertools.count()
    for shard in sizes:
        kept = [min(max(size, 1), 500) for size in shard]
        starts = itertools.accumulate(kept[:-1], initial=0) if shard else ()
        blocks = itertools.groupby(starts, lambda start: start // 500)
        expected += [[next(numbers) for _ in block] for _, block in blocks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_index, "EXTENT_BYTES", 500)
        patch.setattr(part_index, "RUN_BYTES", 250)
        assert set(index.extents.tolist()) <= set(index.runs.tolist())
        edges = index.extents.tolist()
        assert [list(range(*pair)) for pair in itertools.pairwise(edges)] == expected
        for extent in expected:
            assert {tuple(index.extent_of(part)) for part in extent} == {tuple(extent)}
            place = index.bytes_of(index.extent_of(extent[0]))
            assert place.start == index.columns.offset[extent[0]]
            assert len(place) == 8 * len(extent)


def test_columns_are_not_copied() -> None:
    """The columns of an index are views of its bytes."""
    index = index_of(SHARDS)
    found = part_index.parse_index(pa.py_buffer(bytes_of(index)), "i.arrow", "gzip", index.shards)
    for column in (*found.columns, found.first_row):
        assert not column.flags.owndata
        assert not column.flags.writeable


def test_every_damage_is_noticed() -> None:
    """A changed byte is refused, or changes nothing that is read."""
    index = index_of(SHARDS)
    data = bytes_of(index)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        try:
            found = parsed(bytes(damaged), index)
        except DataError:
            continue
        for one, other in zip(found.columns, index.columns, strict=True):
            assert one.tolist() == other.tolist()
        assert found.first_row.tolist() == index.first_row.tolist()


def test_every_cut_is_noticed() -> None:
    """An index that ends early is refused."""
    index = index_of(SHARDS)
    data = bytes_of(index)
    for size in range(len(data) - 1):
        with pytest.raises(DataError, match=r"i\.arrow: .* or convert again"):
            parsed(data[:size], index)


@pytest.mark.parametrize(
    ("column", "part", "value"),
    [
        ("shard", 0, -1), ("shard", 4, 3), ("shard", 0, 1), ("offset", 1, -1), ("offset", 1, 59),
        ("offset", 4, 1 << 62), ("bytes", 0, 0), ("bytes", 4, 27), ("bytes", 4, (1 << 63) - 1),
        ("framed_bytes", 0, 47), ("framed_bytes", 1, 1 << 40), ("rows", 0, 0), ("rows", 0, 2),
    ],
)  # fmt: skip
def test_impossible_parts_are_refused(column: str, part: int, value: int) -> None:
    """A part outside of its shard, or too small, is refused."""
    index = index_of(SHARDS)
    changed = getattr(index.columns, column).copy()
    changed[part] = value
    columns = index.columns._replace(**{column: changed})
    wrong = part_index.make_index("gzip", index.shards, columns)
    with pytest.raises(DataError, match=r"i\.arrow: .*damaged"):
        parsed(bytes_of(wrong), index)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda shards: shards[:2], "found an index of 3 shards, expected 2"),
        (lambda shards: [shards[0]._replace(name="b"), *shards[1:]], "expected 'b' with 4 rows"),
        (lambda shards: [shards[0]._replace(crc32c="1"), *shards[1:]], "expected .*CRC-32C 1"),
        (lambda shards: [shards[0]._replace(bytes=1), *shards[1:]], "expected .* 1 bytes"),
        (lambda shards: [shards[0]._replace(rows=1), *shards[1:]], "expected .* 1 rows"),
    ],
)
def test_index_of_other_shards_is_refused(change, reason):
    """An index of other shards is refused with the difference."""
    index = index_of(SHARDS)
    data = pa.py_buffer(bytes_of(index))
    with pytest.raises(DataError, match=reason):
        part_index.parse_index(data, "i.arrow", "gzip", change(list(index.shards)))


def test_index_of_another_compression_is_refused() -> None:
    """An index of zlib shards is none of gzip shards."""
    index = index_of(SHARDS, "zlib")
    with pytest.raises(DataError, match="an index of zlib shards, expected gzip"):
        part_index.parse_index(pa.py_buffer(bytes_of(index)), "i.arrow", "gzip")


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of a later version is refused by its version."""
    index = index_of(SHARDS)
    with monkeypatch.context() as patch:
        patch.setattr(part_index, "VERSION", 2)
        data = bytes_of(index)
    with pytest.raises(DataError, match="found version 2, expected 1"):
        parsed(data, index)


@pytest.mark.parametrize(
    "description",
    [
        [],
        {},
        {"version": 1},
        {"version": 1, "compression": "lzma", "shards": []},
        {"version": 1, "compression": "gzip", "shards": [["a", 4, 90]]},
        {"version": 1, "compression": "gzip", "shards": [["a", True, 90, ""]]},
        {"version": 1, "compression": "gzip", "shards": [["a", -4, 90, ""]]},
        {"version": 1, "compression": "gzip", "shards": [[["a"], 4, 90, ""]]},
    ],
)
def test_a_wrong_description_is_refused(description: object) -> None:
    """Metadata of another form are refused."""
    index = index_of(SHARDS[:1])
    batch = pa.ipc.open_file(pa.py_buffer(bytes_of(index))).get_batch(0)
    text = json.dumps(description).encode()
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    metadata = {b"part_index": text, b"crc32": b"%08x" % part_index._checksum(text, arrays)}
    file = io.BytesIO()
    with pa.ipc.new_file(file, batch.schema.with_metadata(metadata)) as writer:
        writer.write_batch(batch.replace_schema_metadata(metadata))
    with pytest.raises(DataError, match="is damaged or no index"):
        parsed(file.getvalue(), index)


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"no index at all", bytes(4096)])
def test_another_file_is_refused(data: bytes) -> None:
    """A file that is no Arrow file is refused by its path."""
    with pytest.raises(DataError, match=r"i\.arrow: is damaged or no index of parts"):
        part_index.parse_index(pa.py_buffer(data), "i.arrow", "gzip")
