"""foreign_index/scan.py finds parts that are read alone."""

from __future__ import annotations

import contextlib
import gzip
import random
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.sinks.tfrecord.sink import DeflateStream, compress_parts
from beam_pipelines.tfrecord.framing import inflate_part
from beam_pipelines.tfrecord.part_index import IndexedShard, PartIndex, make_index
from beam_pipelines_plugins.foreign_index import scan
from beam_pipelines_plugins.foreign_index.scan import Scanned, scan_file


def framed(records: list[bytes]) -> bytes:
    """Returns records as an uncompressed TFRecord file."""
    return data_of(_native.frame(pa.array(records, pa.large_binary()))).to_pybytes()


def index_of(scanned: Scanned, data: bytes, compression: Compression) -> PartIndex:
    """Returns the index of one scanned file."""
    shard = IndexedShard("f", scanned.rows, len(data), "00000000")
    return make_index(compression, [shard], scanned.columns)


def part_by_part(index: PartIndex, data: bytes) -> bytes:
    """Inflates all parts of a file, each alone."""
    columns = index.columns
    return b"".join(
        inflate_part(index, part, data[columns.offset[part] :][: columns.bytes[part]])
        for part in range(len(index))
    )


def compressed(groups: list[list[bytes]], compression: Compression, level: int) -> bytes:
    """Returns a shard; each group of records is one part or more."""
    stream = DeflateStream(compression)
    data = stream.start()
    for group in groups:
        frames = _native.frame(pa.array(group, pa.large_binary()))
        parts = compress_parts(compression, level, frames, 400)
        stream.add(parts)
        data += data_of(parts.column("data")).to_pybytes()
    return data + stream.end()


@given(
    st.lists(
        st.lists(st.binary(max_size=90) | st.just(b"\0\0\xff\xff" * 5), max_size=9), max_size=6
    ),
    st.sampled_from([0, 1, 6, 9]),
    st.sampled_from(["gzip", "zlib"]),
)
@settings(max_examples=80, deadline=None)
def test_parts_of_compressed_shards(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[list[bytes]],
    level: int,
    compression: Compression,
) -> None:
    """Parts end in a flush, and records may look like one."""
    data = compressed(groups, compression, level)
    path = tmp_path_factory.mktemp("shard") / "f"
    path.write_bytes(data)
    scanned = scan_file(str(path), compression)
    assert scanned.rows == sum(map(len, groups))
    assert part_by_part(index_of(scanned, data, compression), data) == b"".join(map(framed, groups))


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_other_writers_are_refused(tmp_path: Path, compression: Compression) -> None:
    """A stream without parts that inflate alone has no index."""
    record = random.Random(1).randbytes(500)
    stream = zlib.compressobj(6, zlib.DEFLATED, 31 if compression == "gzip" else 15)
    pieces = [stream.compress(framed([record])) + stream.flush(zlib.Z_SYNC_FLUSH) for _ in "abc"]
    for data in (b"".join([*pieces, stream.flush()]), gzip.compress(framed([record]))):
        (tmp_path / "f").write_bytes(data)
        with pytest.raises(DataError, match=r"f, byte \d+: .* without the parts"):
            scan_file(str(tmp_path / "f"), compression)


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
def test_damage_is_refused(tmp_path: Path, compression: Compression) -> None:
    """A damaged file gets no index, or one of the same records."""
    groups = [[bytes([number]) * 30 for number in range(21)]] * 2
    data = b"".join(map(framed, groups))
    data = data if compression == "none" else compressed(groups, compression, 1)
    for bad in (data[:-1], data[: len(data) // 2 - 1], data + b"\x1f\x8b"):
        (tmp_path / "f").write_bytes(bad)
        with pytest.raises(DataError, match="f"):
            scan_file(str(tmp_path / "f"), compression)
    for place in range(len(data)):
        bad = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        (tmp_path / "f").write_bytes(bad)
        # Header, checksum and the bits before a stored block are of no part.
        with contextlib.suppress(DataError):
            scanned = scan_file(str(tmp_path / "f"), compression)
            found = part_by_part(index_of(scanned, bad, compression), bad)
            assert found == b"".join(map(framed, groups))


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


def test_a_part_of_other_bytes_is_refused() -> None:
    """A part of other bytes is refused with its reason."""
    data = framed([b"a" * 30, b"b" * 30])
    compressed = zlib.compressobj(6, zlib.DEFLATED, -15)
    stored = compressed.compress(data) + compressed.flush(zlib.Z_SYNC_FLUSH)
    columns = scan._columns([scan._Part(0, len(stored), len(data), 2, 0)])
    index = make_index("gzip", [IndexedShard("f", 2, len(stored), "")], columns)
    with pytest.raises(ValueError, match="found records with CRC-32"):
        inflate_part(index, 0, stored)
    with pytest.raises(ValueError, match="expected"):
        inflate_part(index, 0, stored[:-1])
    with pytest.raises(ValueError, match="damaged gzip data"):
        inflate_part(index, 0, b"\xff" * len(stored))
