"""tfrecord/framing.py and TensorFlow read each other's files.

It notices every damage.
"""

from __future__ import annotations

import gzip
import io
import random
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import Compression
from beam_pipelines.sinks.tfrecord import sink
from beam_pipelines.tfrecord import framing

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")

RECORDS = [b"", b"a", b"hello" * 100, bytes(range(256)), b"z" * 70_000]
TENSORFLOW_NAME = {"gzip": "GZIP", "zlib": "ZLIB", "none": ""}


def framed(records: list[bytes]) -> bytes:
    """Returns records as an uncompressed TFRecord file."""
    return data_of(_native.frame(pa.array(records, pa.binary()))).to_pybytes()


def read_all(data: bytes, compression: str = "none") -> list[bytes]:
    """Reads all records of a file's bytes."""
    return [
        r
        for block in framing.read_record_blocks(io.BytesIO(data), "f.tfrecord", compression)
        for r in block
    ]


def stream_of(parts: list[bytes], compression: Compression, level: int) -> bytes:
    """Compresses parts apart, as one stream."""
    stream = sink.DeflateStream(compression)
    data = stream.start()
    for part in parts:
        records = pa.array([part], pa.large_binary())
        compressed = sink.compress_parts(compression, level, records, 1)
        stream.add(compressed)
        data += data_of(compressed.column("data")).to_pybytes()
    return data + stream.end()


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 400))
def test_checksums_combine(first: bytes, second: bytes, times: int) -> None:
    """The Adler-32 of two texts follows from their own checksums.

    The sums may have gone through the modulus many times.
    """
    first, second = first * times, second * times
    combined = sink.combine_adler32(zlib.adler32(first), zlib.adler32(second), len(second))
    assert combined == zlib.adler32(first + second)


@given(st.lists(st.binary(max_size=2000), max_size=5), st.sampled_from([0, 1, 3, 4, 6, 9]))
def test_parts_are_one_stream(parts: list[bytes], level: int) -> None:
    """Parts form one gzip member or zlib stream with its checksum.

    Python's own modules read them.
    """
    for compression, bits in (("gzip", 31), ("zlib", 15)):
        stream = zlib.decompressobj(bits)
        assert stream.decompress(stream_of(parts, compression, level)) == b"".join(parts)
        assert stream.eof
        assert not stream.unused_data


@pytest.mark.parametrize(
    ("compression", "level"),
    [("gzip", 0), ("gzip", 1), ("gzip", 3), ("gzip", 6), ("zlib", 1), ("zlib", 6), ("none", 0)],
)
def test_tensorflow_reads_what_we_write(tmp_path, compression, level):
    """tf.data reads every compression at every kind of level."""
    path = tmp_path / "records"
    path.write_bytes(stream_of([framed(RECORDS[:3]), b"", framed(RECORDS[3:])], compression, level))
    dataset = tf.data.TFRecordDataset(str(path), TENSORFLOW_NAME[compression])
    assert [record.numpy() for record in dataset] == RECORDS
    assert read_all(path.read_bytes(), compression) == RECORDS


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
def test_we_read_what_tensorflow_writes(tmp_path: Path, compression: str) -> None:
    """Files of tf.io.TFRecordWriter are read."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path, TENSORFLOW_NAME[compression]) as writer:
        for record in RECORDS:
            writer.write(record)
    assert read_all(Path(path).read_bytes(), compression) == RECORDS


@given(st.lists(st.binary(max_size=100)), st.integers(1, 50))
def test_round_trip_in_any_chunks(records: list[bytes], chunk: int) -> None:
    """A framed record is read back for every read size."""
    before, framing.READ_BYTES = framing.READ_BYTES, chunk
    try:
        assert read_all(framed(records)) == records
        assert read_all(gzip.compress(framed(records)), "gzip") == records
        assert read_all(zlib.compress(framed(records)), "zlib") == records
    finally:
        framing.READ_BYTES = before


def test_several_gzip_members_are_read() -> None:
    """Other writers concatenate members; we read them all."""
    data = b"".join(gzip.compress(framed([record])) for record in RECORDS)
    assert read_all(data, "gzip") == RECORDS


@pytest.mark.parametrize("first_member", range(262_141, 262_153))
def test_one_member_at_tensorflows_critical_sizes(tmp_path: Path, first_member: int) -> None:
    """tf.data reads our files whole at TensorFlow's critical sizes.

    It loses the data after a gzip member that ends at such a size.
    """
    noise = random.Random(first_member).randbytes(first_member)
    overhead = len(stream_of([framed([noise])], "gzip", 1)) - first_member
    for parts in (
        [noise[overhead:], b"last" * 1000],
        [noise[overhead:], b""],
        [noise[: -overhead - 40], b"last"],
    ):
        path = tmp_path / "records"
        path.write_bytes(stream_of([framed([part]) for part in parts], "gzip", 1))
        assert [record.numpy() for record in tf.data.TFRecordDataset(str(path), "GZIP")] == parts


def test_every_flipped_bit_is_noticed() -> None:
    """A flipped bit is an error that names the file.

    The bit is in the length, the data or a CRC of any record.
    """
    data = framed([b"first", b"second"])
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DataError, match=r"f\.tfrecord"):
            read_all(bytes(damaged))


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
def test_truncation_is_noticed(compression: str) -> None:
    """A file cut anywhere but between records is an error."""
    data = framed([b"first", b"second"])
    packed = {"gzip": gzip.compress, "zlib": zlib.compress, "none": bytes}[compression](data)
    whole = {0, len(framed([b"first"]))} if compression == "none" else {0}
    for end in range(1, len(packed)):
        if end not in whole:
            with pytest.raises(DataError, match=r"f\.tfrecord"):
                read_all(packed[:end], compression)


def test_damage_names_record_and_offset() -> None:
    """The error says which record, from 0, and where it begins."""
    data = bytearray(framed([b"first", b"second", b"third"]))
    data[len(framed([b"first"])) + 13] ^= 1
    with pytest.raises(DataError, match="record 1, offset 21: the CRC of the data does not match"):
        read_all(bytes(data))


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_not_compressed_at_all_is_an_error(compression: str) -> None:
    """A plain file under a compressed name is an error.

    It is not an empty dataset.
    """
    with pytest.raises(DataError, match="damaged"):
        read_all(framed([b"first" * 50]), compression)


def test_slices_are_framed_as_they_are() -> None:
    """A slice of an array frames its own values only."""
    array = pa.array(RECORDS, pa.binary()).slice(1, 3)
    assert read_all(data_of(_native.frame(array)).to_pybytes()) == RECORDS[1:4]
