"""zlib and the inflate kernel read the deflate kernel's blocks."""

from __future__ import annotations

import hashlib
import random
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from beam_pipelines.core import _native
from beam_pipelines.core._native import deflate, shared
from tests.support.wire import of_values

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")


def record(features: dict[str, int | float | bytes]) -> bytes:
    """Returns a framed tf.Example."""
    made = of_values(**{name: [value] for name, value in features.items()})
    framed: bytes = _native.frame(pa.array([made], pa.large_binary()))[0].as_py()
    return framed


def clicks(rows: int, seed: int) -> bytes:
    """Returns records of counts and frequent, rare and missing categories."""
    rng = random.Random(seed)
    found = []
    for _ in range(rows):
        features: dict[str, int | float | bytes] = {"label": rng.randrange(2)}
        for number in range(6):
            features[f"I{number}"] = rng.getrandbits(rng.randrange(1, 12))
        for number in range(8):
            if rng.random() < 0.95:
                category = rng.getrandbits(rng.randrange(1, 14))
                features[f"C{number}"] = b"%08x" % (category * 2_654_435_761 % 2**32)
        features["price"] = rng.random()
        found.append(record(features))
    return b"".join(found)


def some_bytes(kind: str, size: int, seed: int) -> bytes:
    """Returns bytes of a kind.

    ``cut`` and ``damaged`` are records that do not fit their frames.
    """
    rng = random.Random(seed)
    if kind == "random":
        return rng.randbytes(size)
    if kind == "period":
        return (rng.randbytes(rng.randrange(1, 70)) * size)[:size]
    if kind == "skewed":  # codes of more bits than the kernel's
        return bytes(
            rng.choices(range(256), [max(1, 2**30 >> byte) for byte in range(256)], k=size)
        )
    data = bytearray(clicks(size // 600 + 1, seed))
    if kind == "cut":
        return bytes(data[rng.randrange(len(data)) :][:size])
    if kind == "damaged":
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(len(data))] = rng.choice([0, 0x0A, 0x12, 0x80, 0xFF])
    if kind == "long":  # a record of more than a block
        return bytes(data) + record({"text": rng.randbytes(300_000)}) + bytes(data)
    return bytes(data)


def inflated(part: bytes) -> bytes:
    """Returns what zlib makes of a part, which has no last block."""
    whole = zlib.decompressobj(-15)
    found = whole.decompress(part)
    assert not whole.eof
    assert not whole.unconsumed_tail
    return found


KINDS = ["random", "period", "skewed", "rows", "cut", "damaged", "long"]


@given(
    st.lists(
        st.builds(
            some_bytes,
            st.sampled_from(KINDS),
            st.one_of(st.integers(0, 600), st.integers(0, 60_000)),
            st.integers(0, 10_000),
        ),
        max_size=3,
    ),
    st.integers(0, 2),
)
def test_inflates_to_the_same_bytes(parts: list[bytes], start: int) -> None:
    """Zlib and the inflate kernel read each part alone."""
    found = deflate(pa.array(parts, pa.large_binary())[start:]).to_pylist()
    assert list(map(inflated, found)) == parts[start:]
    for part, data in zip(found, parts[start:], strict=True):
        assert shared.kernels.inflate(part, len(data)) == data
    assert all(part.endswith(b"\x00\x00\xff\xff") for part in found)


@given(st.binary(max_size=3000))
def test_is_little_longer_at_most(data: bytes) -> None:
    """Bytes that no code makes shorter are stored."""
    (found,) = deflate(pa.array([data], pa.binary())).to_pylist()
    assert inflated(found) == data
    assert len(found) <= len(data) + 10


@pytest.mark.parametrize(
    "size", [0, 1, 15, 16, 17, 32_768, 32_769, 65_535, 65_536, 262_144, 700_001]
)
def test_edges_of_windows_and_blocks(size: int) -> None:
    """Repeated and random bytes around limits of the format."""
    half = random.Random(size).randbytes(max(1, size // 2))
    for data in (bytes(size), (half + half)[:size], half):
        (found,) = deflate(pa.array([data], pa.large_binary())).to_pylist()
        assert inflated(found) == data


def test_the_same_bytes_everywhere() -> None:
    """The bytes are those of other processors."""
    data = clicks(3000, 1) + some_bytes("skewed", 50_000, 2) + some_bytes("long", 6000, 3)
    found = deflate(pa.array([data], pa.large_binary()))
    digest = hashlib.sha256(found[0].as_py()).hexdigest()
    assert digest == "474f7671c13e1a29db65d8d7d39eb6dd5d52165138d11375b90fab2a2fb1d31b"


def test_is_smaller_than_isal() -> None:
    """A table of clicks takes at most 0.9 of isal's bytes."""
    data = clicks(400, 5)
    (found,) = deflate(pa.array([data], pa.large_binary())).to_pylist()
    stream = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
    assert len(found) <= 0.9 * len(stream.compress(data) + stream.flush())


def test_other_types() -> None:
    """Only texts are compressed."""
    with pytest.raises(TypeError, match=r"parts: found int64, expected a binary or string array"):
        deflate(pa.array([1]))
