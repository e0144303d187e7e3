"""tfrecord/compression.py cuts records in parts that inflate alone."""

from __future__ import annotations

import itertools
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.sinks.tfrecord.sink import PARTS, DeflateStream, compress_parts
from beam_pipelines.tfrecord.framing import part_edges

BITS = {"gzip": 31, "zlib": 15}


def inflated(compression: str, part: bytes) -> bytes:
    """Inflates one part alone."""
    return part if compression == "none" else zlib.decompressobj(-15).decompress(part)


@given(
    st.lists(st.binary(max_size=300), max_size=30),
    st.integers(1, 600),
    st.integers(0, 3),
    st.sampled_from(["gzip", "zlib", "none"]),
    st.sampled_from([0, 1, 3, 6]),
)
def test_parts_are_whole_records(records, part_size, start, compression, level):
    """Each part has whole records, inflates alone, and has its CRC-32."""
    array = pa.array(records, pa.large_binary())[start:]
    parts = compress_parts(compression, level, array, part_size)
    assert parts.schema == PARTS
    rest = iter(array.to_pylist())
    for row in parts.to_pylist():
        own = list(itertools.islice(rest, row["rows"]))
        assert len(own) == 1 or sum(map(len, own)) <= part_size
        assert inflated(compression, row["data"]) == b"".join(own)
        assert row["framed_bytes"] == sum(map(len, own))
        assert row["crc32"] == zlib.crc32(b"".join(own))
    assert list(rest) == []


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 60))
def test_parts_are_as_large_as_they_may_be(sizes: list[int], part_size: int) -> None:
    """The edges are those of a loop over records."""
    expected, filled = [0], 0
    for number, size in enumerate(sizes):
        if number > expected[-1] and filled + size > part_size:
            expected.append(number)
            filled = 0
        filled += size
    records = pa.array([bytes(size) for size in sizes], pa.large_binary())
    assert part_edges(records, part_size).tolist() == [*expected, *([len(sizes)] if sizes else [])]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
@pytest.mark.parametrize("level", [0, 1, 2, 3, 4, 6, 9])
def test_all_parts_are_one_stream(compression: Compression, level: int) -> None:
    """Parts of any level make a stream with its checksum."""
    records = pa.array([bytes([number % 7]) * number for number in range(300)], pa.large_binary())
    stream = DeflateStream(compression)
    data = stream.start()
    for batch in (records[:10], records[:0], records[10:]):
        parts = compress_parts(compression, level, batch, 1000)
        stream.add(parts)
        data += data_of(parts.column("data")).to_pybytes()
    whole = zlib.decompressobj(BITS[compression])
    assert whole.decompress(data + stream.end()) == data_of(records).to_pybytes()
    assert whole.eof
    assert not whole.unused_data
    assert stream.size == data_of(records).size
