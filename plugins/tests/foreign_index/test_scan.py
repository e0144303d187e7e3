"""foreign_index/scan.py finds parts of other writers' files that inflate alone."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.compression import Compression
from beam_pipelines.tfrecord.part_index import IndexedShard, PartIndex, make_index
from beam_pipelines.tfrecord.parts import after_bits, inflate_part
from beam_pipelines_plugins.foreign_index import restart_points, scan
from beam_pipelines_plugins.foreign_index.restart_points import InflatedFile, header_bytes
from beam_pipelines_plugins.foreign_index.scan import Scanned, scan_file


def framed(records: list[bytes]) -> bytes:
    """Returns records as an uncompressed TFRecord file."""
    return data_of(_native.frame(pa.array(records, pa.large_binary()))).to_pybytes()


def index_of(scanned: Scanned, data: bytes, compression: Compression) -> PartIndex:
    """Returns the index of one scanned file."""
    shard = IndexedShard("f", scanned.rows, len(data), "00000000")
    return make_index(compression, [shard], scanned.columns, scanned.restarts)


def part_by_part(index: PartIndex, data: bytes) -> bytes:
    """Inflates all parts of a file, each alone."""
    columns = index.columns
    return b"".join(
        inflate_part(index, part, data[columns.offset[part] :][: columns.bytes[part]])
        for part in range(len(index))
    )


@given(
    st.lists(st.lists(st.binary(max_size=90), max_size=4), min_size=1, max_size=6),
    st.integers(0, 60),
    st.sampled_from([0, 1, 6, 9]),
    st.sampled_from(["gzip", "zlib"]),
    st.integers(1, 70),
)
@settings(max_examples=80, deadline=None)
def test_any_blocks_are_restart_points(
    groups: list[list[bytes]], shift: int, level: int, compression: Compression, read_bytes: int
) -> None:
    """Blocks may begin within a record, and refer to the bytes before."""
    whole = framed([record for group in groups for record in group])
    stream = zlib.compressobj(level, zlib.DEFLATED, 31 if compression == "gzip" else 15)
    data, blocks, start = b"", [], 0
    for group in groups:
        end = min(len(whole), start + len(framed(group)) + shift)
        data += stream.compress(whole[start:end]) + stream.flush(zlib.Z_SYNC_FLUSH)
        blocks.append((8 * len(data), end))
        start = end
    data += stream.compress(whole[start:]) + stream.flush()
    before, restart_points._READ_BYTES = restart_points._READ_BYTES, read_bytes
    try:
        file = InflatedFile(io.BytesIO(data), "f", compression, blocks)
        scanned = scan._scan_inflated(file, "f")
    finally:
        restart_points._READ_BYTES = before
    assert scanned.rows == sum(map(len, groups))
    assert part_by_part(index_of(scanned, data, compression), data) == whole


def some_records(seed: int) -> list[bytes]:
    """Draws 20 MB of records: small and large, random and regular."""
    rng = random.Random(seed)
    words = [rng.randbytes(5) for _ in range(3000)]
    texts = [b"".join(rng.choices(words, k=rng.choice([4, 60, 2000]))) for _ in range(2000)]
    return [*texts, rng.randbytes(5_000_000), *texts, b"", bytes(6_000_000), texts[0]]


@pytest.mark.parametrize(
    ("compression", "level"), [("gzip", 6), ("gzip", 1), ("gzip", 0), ("zlib", 9)]
)
def test_blocks_of_large_files_are_found(
    tmp_path: Path, compression: Compression, level: int
) -> None:
    """Parts of a large file of one member begin anywhere."""
    pytest.importorskip("rapidgzip")
    records = some_records(level)
    whole = framed(records)
    data = gzip.compress(whole, level) if compression == "gzip" else zlib.compress(whole, level)
    (tmp_path / "f").write_bytes(data)
    scanned = scan_file(str(tmp_path / "f"), compression)
    assert scanned.rows == len(records)
    assert len(scanned.columns.rows) > 2
    assert part_by_part(index_of(scanned, data, compression), data) == whole


def test_members_are_restart_points(tmp_path: Path) -> None:
    """Each gzip member begins a part, whatever its header."""
    pytest.importorskip("rapidgzip")
    records = [[bytes([number]) * 50] * 40 for number in range(9)]
    bodies = [gzip.compress(framed(group))[10:] for group in records]
    members = [HEADERS[number % len(HEADERS)][0] + body for number, body in enumerate(bodies)]
    data = b"".join([*members, gzip.compress(b"")])
    (tmp_path / "f").write_bytes(data)
    scanned = scan_file(str(tmp_path / "f"), "gzip")
    assert scanned.columns.rows.tolist() == [40] * 9
    assert part_by_part(index_of(scanned, data, "gzip"), data) == gzip.decompress(data)


HEADERS = [
    (b"\x1f\x8b\x08\x00" + bytes(6), 10),
    (b"\x1f\x8b\x08\x08" + bytes(6) + b"a name\0", 17),
    (b"\x1f\x8b\x08\x04" + bytes(6) + b"\x03\x00\0\0\0", 15),
    (b"\x1f\x8b\x08\x1c" + bytes(6) + b"\x00\x00name\0comment\0", 25),
]


@pytest.mark.parametrize(("header", "size"), HEADERS)
def test_headers_of_any_length(header: bytes, size: int) -> None:
    """A header's length follows from its flags, once it is all there."""
    assert header_bytes(header + b"\x03\x00", "gzip") == size
    for end in range(len(header)):
        assert header_bytes(header[:end], "gzip") in (None, size)


def test_records_across_members_are_refused(tmp_path: Path) -> None:
    """A record across the end of a member is named."""
    pytest.importorskip("rapidgzip")
    whole = framed([b"a" * 30, b"b" * 30, b"c" * 30])
    (tmp_path / "f").write_bytes(gzip.compress(whole[:60]) + gzip.compress(whole[60:]))
    with pytest.raises(DataError, match="f, record 1: found a record that begins in one gzip"):
        scan_file(str(tmp_path / "f"), "gzip")


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
def test_damage_is_refused(tmp_path: Path, compression: Compression) -> None:
    """A damaged or truncated file gets no index."""
    pytest.importorskip("rapidgzip")
    whole = framed([bytes([number]) * 30 for number in range(21)])
    data = {"gzip": gzip.compress(whole), "zlib": zlib.compress(whole), "none": whole}[compression]
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for bad in (flipped, data[:-1], data[:middle], data + b"\x1f\x8b"):
        (tmp_path / "f").write_bytes(bad)
        with pytest.raises(DataError, match="f"):
            scan_file(str(tmp_path / "f"), compression)


def test_parts_of_plain_files(tmp_path: Path) -> None:
    """Parts of a plain file have whole records."""
    records = [bytes(number % 5000) for number in range(4000)]
    data = framed(records)
    (tmp_path / "f").write_bytes(data)
    scanned = scan_file(str(tmp_path / "f"), "none")
    assert scanned.sizes is not None
    assert scanned.sizes.tolist() == [len(record) + 16 for record in records]
    assert scanned.columns.framed_bytes.max() <= scan.PART_BYTES
    assert part_by_part(index_of(scanned, data, "none"), data) == data


@pytest.mark.parametrize("bits", range(8))
@pytest.mark.parametrize("inflate", [zlib, isal_zlib])
def test_bits_before_a_stream_are_left_out(bits: int, inflate: Any) -> None:
    """A stream inflates from any bit of its first byte."""
    # Ones before the stored block's three zeros.
    stored = b"stored at a whole byte"
    header = len(stored).to_bytes(2, "little") + (0xFFFF - len(stored)).to_bytes(2, "little")
    fits = bits + 3 <= 8
    start = bytes([(1 << bits) - 1]) if fits else bytes([(1 << bits) - 1, 0])
    data = start + header + stored + b"\x03\x00"
    found = inflate.decompressobj(-15).decompress(after_bits(data, bits))
    assert found == stored


def test_a_part_of_other_bytes_is_refused() -> None:
    """A part of other bytes is refused with its reason."""
    data = framed([b"a" * 30, b"b" * 30])
    compressed = zlib.compressobj(6, zlib.DEFLATED, -15)
    stored = compressed.compress(data) + compressed.flush(zlib.Z_SYNC_FLUSH)
    columns = scan._columns([scan._Part(0)], [0], [len(stored)])
    columns = columns._replace(framed_bytes=np.array([len(data)]), rows=np.array([2], np.int32))
    index = make_index("gzip", [IndexedShard("f", 2, len(stored), "")], columns)
    with pytest.raises(ValueError, match="found records with CRC-32"):
        inflate_part(index, 0, stored)
    with pytest.raises(ValueError, match="expected"):
        inflate_part(index, 0, stored[:-1])
    with pytest.raises(ValueError, match="damaged gzip data"):
        inflate_part(index, 0, b"\xff" * len(stored))
