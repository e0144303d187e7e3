"""The inflate kernel equals zlib's, or declines."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from beam_pipelines.core import _native
from beam_pipelines.core._native import shared

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

RAW_BITS = -15
LAST_BLOCK = b"\x03\x00"


def texts(kind: str, size: int, seed: int) -> bytes:
    """Returns bytes with codes and matches of a kind."""
    rng = random.Random(seed)
    if kind == "random":
        return rng.randbytes(size)
    if kind == "period":
        return (rng.randbytes(rng.randrange(1, 70)) * size)[:size]
    if kind == "skewed":  # codes of up to 15 bits
        return bytes(rng.choices(range(256), [1.6**-byte + 1e-5 for byte in range(256)], k=size))
    rows = (b"feature%03d:%d" % (row % 40, rng.randrange(100_000)) for row in range(size // 11))
    return b"".join(rows)[:size]


def deflated(text: bytes, level: int, strategy: int, cut: int, is_last: bool) -> bytes:
    """Returns a raw stream; ``level`` below 0 is one of isal's."""
    if level < 0:
        stream = isal_zlib.compressobj(-1 - level, wbits=RAW_BITS)
    else:
        stream = zlib.compressobj(level, zlib.DEFLATED, RAW_BITS, 8, strategy)
    parts = [stream.compress(text[:cut]), stream.flush(zlib.Z_SYNC_FLUSH)]
    end = zlib.Z_FINISH if is_last else zlib.Z_FULL_FLUSH
    return b"".join([*parts, stream.compress(text[cut:]), stream.flush(end)])


def inflated(data: bytes, size: int) -> bytes | None:
    """Returns what the kernel returns for one stream."""
    return shared.kernels.inflate(data, size)


STREAMS = st.tuples(
    st.builds(
        texts,
        st.sampled_from(["random", "period", "skewed", "rows"]),
        st.one_of(st.integers(0, 600), st.integers(0, 200_000)),
        st.integers(0, 1000),
    ),
    st.integers(-4, 9),
    st.integers(0, 4),
    st.integers(0, 200_000),
    st.booleans(),
)


@given(STREAMS)
def test_streams_of_zlib_and_isal(arguments: tuple[bytes, int, int, int, bool]) -> None:
    """Every level and strategy comes out; another size is declined."""
    text = arguments[0]
    data = deflated(*arguments)
    assert inflated(data, len(text)) == text
    assert inflated(data + LAST_BLOCK, len(text)) == text
    assert inflated(data, len(text) + 1) is None
    assert not text or inflated(data, len(text) - 1) is None


@given(STREAMS, st.integers(0), st.integers(1, 255))
def test_damaged_streams(arguments, place, bits):
    """A changed or cut stream gives what zlib gives, or nothing."""
    data, size = deflated(*arguments), len(arguments[0])
    place %= len(data)
    changed = data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]
    for damaged in (changed, data[:place]):
        found = inflated(damaged, size)
        if found is not None:
            assert found == zlib.decompressobj(RAW_BITS).decompress(damaged + LAST_BLOCK)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x07", id="block type 3"),
        pytest.param(b"\x01\x05\x00\x00\x00hello", id="stored size without its complement"),
        pytest.param(b"\x01\x06\x00\xf9\xffhello", id="stored block that is cut"),
        pytest.param(b"\x63\x00\x02\x00", id="match before the first byte"),
        pytest.param(b"\xfd" + b"\xff" * 60, id="too many symbols"),
        pytest.param(b"\x05\x00" + b"\x00" * 60, id="no codes"),
    ],
)
def test_wrong_streams(data: bytes) -> None:
    """Wrong blocks are declined."""
    assert inflated(data, 5) is None
