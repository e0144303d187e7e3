"""Native framing equals tfrecord.py and TensorFlow, and finds every damage.

CRC-32C equals google-crc32c.
"""

from __future__ import annotations

import itertools
import pathlib

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core._native import records, shared

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

RECORDS = [b"", b"a", b"hello" * 100, bytes(range(256)), b"z" * 70_000]
KINDS = [pa.binary(), pa.large_binary()]


def framed(records: list[bytes]) -> bytes:
    """Returns records as an uncompressed TFRecord file, by the kernels' elder."""
    return b"".join(_native.frame(pa.array(records, pa.binary())).to_pylist())


@given(st.binary(max_size=300), st.integers(0, 7))
@settings(max_examples=120)
def test_crc_equals_google_crc32c(data: bytes, start: int) -> None:
    """The instruction and the tables give the same CRC at any alignment."""
    view = memoryview(b"-" * start + data)[start:]
    expected = google_crc32c.value(data)
    assert shared.kernels.crc32c(records._one_text(view).__arrow_c_array__()) == (
        expected,
        expected,
    )


@given(st.lists(st.binary(max_size=100)), st.sampled_from(KINDS), st.integers(0, 5))
def test_frames_equal_those_of_tfrecord(records, kind, start):
    """Slices of both widths get the same frames, and are found again."""
    array = pa.array(records, kind).slice(min(start, len(records)))
    frames = _native.frame(array)
    assert frames.to_pylist() == _native.frame(array).to_pylist()
    starts = _native.unframe(b"".join(frames.to_pylist()))
    assert (
        starts.tolist()
        == np.concatenate([[0], np.cumsum([len(data) + 16 for data in array.to_pylist()])]).tolist()
    )


def test_tensorflow_reads_frames_and_its_own_are_found(tmp_path: pathlib.Path) -> None:
    """tf.data reads what we frame, and unframe what tf.io.TFRecordWriter writes."""
    path = tmp_path / "ours"
    path.write_bytes(
        _native.frame(pa.array(RECORDS)).buffers()[2].to_pybytes()[: sum(map(len, RECORDS)) + 80]
    )
    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path))] == RECORDS
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in RECORDS:
            writer.write(record)
    data = (tmp_path / "theirs").read_bytes()
    starts = _native.unframe(data).tolist()
    assert [data[begin + 12 : end - 4] for begin, end in itertools.pairwise(starts)] == RECORDS


def test_every_flipped_bit_is_noticed() -> None:
    """A flipped bit's error names record, offset and wrong CRC."""
    data = framed([b"first", b"second"])
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(_native.DamagedRecordError) as found:
            _native.unframe(bytes(damaged))
        number, offset = (0, 0) if bit // 8 < 21 else (1, 21)
        part = "length" if bit // 8 - offset < 12 else "data"
        assert (found.value.number, found.value.offset, found.value.part) == (number, offset, part)


def test_what_is_cut_off_is_left_for_later() -> None:
    """Truncated bytes give the whole records and the rest's start."""
    data = framed([b"first", b"second"])
    for end in range(len(data) + 1):
        expected = [0] + [start for start in (21, 43) if start <= end]
        assert _native.unframe(data[:end]).tolist() == expected


def test_a_length_beyond_everything_is_the_beginning_of_a_record() -> None:
    """A length of 2**64 - 1 gives an incomplete record, no overflow."""
    size = b"\xff" * 8
    crc = google_crc32c.value(size)
    header = size + int(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
    assert _native.unframe(header + b"x" * 100).tolist() == [0]


def test_what_cannot_be_framed_is_refused() -> None:
    """A null and another type are errors."""
    with pytest.raises(ValueError, match="records: found a null at place 1"):
        _native.frame(pa.array([b"a", None]))
    with pytest.raises(TypeError, match="records: found int64"):
        _native.frame(pa.array([1]))
