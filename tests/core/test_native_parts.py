"""The kernel of parts gives their records, or declines."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core._native import StoredPart, order_rows, read_parts, shared
from beam_pipelines.core.arrow.hashing import GOLDEN, mix_int

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")


def framed(records: list[bytes]) -> bytes:
    """Returns framed records."""
    found = _native.frame(pa.array(records, pa.large_binary()))
    return b"".join(found.to_pylist())


def stored(data: bytes, is_compressed: bool) -> bytes:
    """Returns a part as a shard has it."""
    if not is_compressed:
        return data
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def write(
    path: Path, parts: list[list[bytes]], is_compressed: bool, is_given: bool
) -> list[StoredPart]:
    """Writes a shard; returns its parts, with their bytes or a path."""
    head, found = b"head", []
    pieces = [stored(framed(records), is_compressed) for records in parts]
    size, offset = len(head) + sum(map(len, pieces)), len(head)
    path.write_bytes(head + b"".join(pieces))
    for records, piece in zip(parts, pieces, strict=True):
        data = framed(records)
        numbers = len(piece), len(data), len(records), zlib.crc32(data)
        if is_given:
            before = len(found) % 3
            shard = bytes(before) + piece + bytes(len(found) % 2)
            found.append(StoredPart(None, shard, size, before, *numbers))
        else:
            found.append(StoredPart(os.fsencode(path), None, size, offset, *numbers))
        offset += len(piece)
    return found


def read(parts: list[StoredPart], is_compressed: bool) -> list[bytes] | None:
    """Returns the records that the kernel finds."""
    found = read_parts(parts, is_compressed)
    if found is None:
        return None
    found.validate(full=True)
    return [one[12:-4] for one in found.to_pylist()]


@given(
    st.lists(st.lists(st.binary(max_size=90), min_size=1, max_size=30), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_parts(tmp_path, parts, is_compressed, is_given):
    """Records come in order, from files and from bytes."""
    found = write(tmp_path / "shard", parts, is_compressed, is_given)
    expected = [record for records in parts for record in records]
    assert read(found, is_compressed) == expected
    assert read(found[::-1], is_compressed) == [one for own in parts[::-1] for one in own]


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        {"framed_size": 1}, {"framed_size": -1}, {"rows": 1}, {"rows": -1}, {"crc32": 1},
        {"offset": 1}, {"size": -1}, {"file_size": 1},
    ],
)  # fmt: skip
def test_parts_that_are_not_as_the_index_says(tmp_path, is_compressed, is_given, wrong):
    """Another size, number of rows or checksum declines all parts."""
    found = write(tmp_path / "shard", [[b"a"] * 9, [b"bc"] * 5], is_compressed, is_given)
    ((name, step),) = wrong.items()
    if is_given and name in {"offset", "size", "file_size"}:
        return
    changed = found[1]._replace(**{name: getattr(found[1], name) + step})
    assert read([found[0], changed], is_compressed) is None
    assert read(found, is_compressed) == [b"a"] * 9 + [b"bc"] * 5


def test_files_that_are_none(tmp_path):
    """Missing files, folders, pipes and changed files are declined at once."""
    (part,) = write(tmp_path / "shard", [[b"a"] * 9], True, False)
    os.mkfifo(tmp_path / "pipe")
    for path in ("none", "pipe", "."):
        assert read([part._replace(path=os.fsencode(tmp_path / path))], True) is None
    (tmp_path / "shard").write_bytes((tmp_path / "shard").read_bytes() + b"x")
    assert read([part], True) is None


@given(st.integers(0), st.integers(1, 255), st.booleans())
def test_damaged_parts(tmp_path, place, bits, is_compressed):
    """A changed byte gives the same records or none."""
    records = [random.Random(number).randbytes(number % 20) for number in range(50)]
    (part,) = write(tmp_path / "shard", [records], is_compressed, True)
    assert part.data is not None
    at = place % len(part.data)
    changed = part.data[:at] + bytes([part.data[at] ^ bits]) + part.data[at + 1 :]
    assert read([part._replace(data=changed)], is_compressed) in (None, records)


@pytest.mark.parametrize(
    "wrong", [{"size": -1}, {"rows": -1}, {"framed_size": 1 << 62}, {"path": None}, {"data": b""}]
)
def test_wrong_arguments(tmp_path, wrong):
    """Numbers below 0, and both or neither place, are errors."""
    (part,) = write(tmp_path / "shard", [[b"a"]], True, False)
    with pytest.raises(ValueError, match="part 0: found other bytes or numbers"):
        read_parts([part._replace(**wrong)], True)


@given(st.binary(max_size=300) | st.integers(0, 70_000).map(lambda size: b"\x5a\xc3\x01" * size))
def test_checksums(data):
    """The CRC-32 is zlib's, by instructions and by tables."""
    assert shared.kernels.crc32(data) == (zlib.crc32(data),) * 2


@given(st.lists(st.integers(0, 300), max_size=5), st.integers(0, 2**64 - 1))
def test_order_of_rows(rows, key):
    """Rows are sorted by SplitMix64 of part and row."""
    found, first = order_rows(key, range(10, 10 + len(rows)), rows).tolist(), 0
    for part, count in enumerate(rows, 10):
        own = mix_int(mix_int(part + GOLDEN) ^ key)
        numbers = [(mix_int(own + row * GOLDEN) >> 32, row) for row in range(count)]
        expected = [first + row for _, row in sorted(numbers)]
        assert found[first : first + count] == expected
        first += count
    assert len(found) == first


def test_wrong_numbers_of_rows():
    """Parts have 0 to 2^32 - 1 rows."""
    for rows in (-1, 1 << 32):
        with pytest.raises(ValueError, match="expected 0 to 2"):
            order_rows(1, [0], [rows])
    with pytest.raises(OverflowError):
        order_rows(1 << 64, [0], [1])
