"""The reader of pickles: it reads plain data, and runs no code."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.sources.images.safe_pickle import UnsafePickleError, loads
from tests.support.image_sets import pickled

KEYS = st.text(max_size=5) | st.binary(max_size=5)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=300) | st.binary(max_size=300)
)
FLAT = SCALARS | st.lists(SCALARS, max_size=5) | st.tuples(SCALARS, SCALARS)
PLAIN = FLAT | st.dictionaries(KEYS, FLAT, max_size=5)


@given(PLAIN, st.integers(3, 5))
def test_plain_data_comes_back(value: Any, protocol: int) -> None:
    """Plain data is read like Python's own pickle."""
    data = pickle.dumps(value, protocol)
    assert loads(data) == pickle.loads(data) == value  # noqa: S301 (our own data)


@pytest.mark.parametrize("protocol", [3, 4, "python 2"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">i4", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back(protocol: int | str, dtype: str, order: str) -> None:
    """Arrays of integers come back.

    A second one of the same type does, too.
    """
    array = np.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype), order=order)
    value = {"a": array, "b": array[:1].copy(), "e": np.zeros((0, 3), dtype)}
    found = loads(pickled(value) if protocol == "python 2" else pickle.dumps(value, protocol))
    for (_, wanted), got in zip(value.items(), found.values(), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_python_2_texts_stay_bytes() -> None:
    """Byte strings of Python 2 are bytes, with any content."""
    assert loads(pickled({"label_names": [b"caf\xe9", "x"]})) == {
        b"label_names": [b"caf\xe9", b"x"]
    }
    # Written by Python 2.7: cPickle.dumps({'data': u'x', 'n': 1L}, 2)
    assert loads(
        b"\x80\x02}q\x01(U\x01nq\x02\x8a\x01\x01U\x04dataq\x03X\x01\x00\x00\x00xq\x04u."
    ) == {b"n": 1, b"data": "x"}


class Exploit:
    """Pickles as a call of the given function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


def exploits(folder: Path) -> dict[str, bytes]:
    """Pickles that try to make a file ``ran`` in a folder."""
    touch = f"touch {folder}/ran"
    code = f"open({str(folder / 'ran')!r}, 'w')"
    array = pickle.dumps(np.arange(3, dtype=np.uint8), 2)
    return {
        **{
            f"os.system {protocol}": pickle.dumps(Exploit(os.system, touch), protocol)
            for protocol in range(6)
        },
        "eval": pickle.dumps({b"data": Exploit(eval, code)}, 2),
        "exec in a list": pickle.dumps([1, Exploit(exec, code)], 4),
        "getattr chain": b"\x80\x02c__builtin__\ngetattr\n(c__builtin__\n__import__\n(X\x02\x00\x00\x00ostRX\x06\x00\x00\x00systemtR(X"
        + struct.pack("<i", len(touch))
        + touch.encode()
        + b"tR.",
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0eos.path.os.sys\x93.",
        "name of an attribute of an allowed module": b"\x80\x02cnumpy\nload\n(X\x01\x00\x00\x00xtR.",
        "memo": b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93\x8c"
        + bytes([len(touch)])
        + touch.encode()
        + b"\x85R.",
        "INST": b"(S'" + touch.encode() + b"'\nios\nsystem\n.",
        "OBJ": b"\x80\x02(cos\nsystem\nX\x01\x00\x00\x00xo.",
        "NEWOBJ": b"\x80\x02cnumpy\nndarray\n)\x81.",
        "persistent id": b"\x80\x02X\x01\x00\x00\x00xQ.",
        "extension": b"\x80\x02\x82\x01.",
        "state of a name": b"\x80\x02cnumpy\ndtype\n}X\x01\x00\x00\x00aK\x01sb.",
        "call of ndarray": b"\x80\x02cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85\x85R.",
        "another codec": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00xX\x05\x00\x00\x00rot13\x86R.",
        "objects in an array": pickle.dumps(np.array([Exploit(os.system, touch)], object), 2),
        "an array of objects": pickle.dumps(np.array([None, 1], object), 2),
        "an array with fields": pickle.dumps(np.zeros(2, [("a", "u1")]), 2),
        "another type of array": array.replace(b"u1", b"O8"),
        "floats": pickle.dumps(1.5, 2),
    }


@pytest.mark.parametrize("name", list(exploits(Path())))
def test_code_is_refused_and_does_not_run(tmp_path: Path, name: str) -> None:
    """A pickle of more than data is an error without effect."""
    with pytest.raises(UnsafePickleError):
        loads(exploits(tmp_path)[name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["os.system 2", "eval", "getattr chain", "memo", "INST", "objects in an array"]
)
def test_the_exploits_are_real(tmp_path: Path, name: str) -> None:
    """Python's own pickle runs the exploits that the reader refuses."""
    pickle.loads(exploits(tmp_path)[name])  # noqa: S301 (that is the point)
    assert (tmp_path / "ran").exists()


def big(claim: int) -> dict[str, bytes]:
    """Small pickles that claim, or would make, much memory."""
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    type_ = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    size = b"\x8a\x08" + struct.pack("<q", claim)
    text = b"X" + struct.pack("<i", 1000) + b"x" * 1000
    return {
        "array": head + b"(K\x01" + size + b"\x85" + type_ + b"\x89U\x03abctb.",
        "array of no bytes": head + b"(K\x01K\x00" + size + b"\x86" + type_ + b"\x89U\x03abctb.",
        "string": b"\x80\x02T\xff\xff\xff\x7fabc.",
        "bytes": b"\x80\x04\x8e" + struct.pack("<q", claim) + b"abc.",
        "integer": b"\x80\x02\x8b\xff\xff\xff\x7fabc.",
        "frame": b"\x80\x04\x95" + struct.pack("<q", claim) + b"abc.",
        "memo": b"\x80\x02Nr\xff\xff\xff\x7fabc.",
        "encoded again and again": b"\x80\x02]("
        + text
        + b"q\x000"
        + b"c_codecs\nencode\nq\x010"
        + b"h\x01h\x00X\x06\x00\x00\x00latin1\x86R" * 1000
        + b"e.",
    }


@pytest.mark.parametrize("name", list(big(0)))
def test_claims_of_memory_are_not_believed(name: str) -> None:
    """A small pickle that claims ten gigabytes is refused."""
    data = big(10 * 10**9)[name]
    tracemalloc.start()
    try:
        with pytest.raises(UnsafePickleError):
            loads(data)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("opening", [b"]" * 45_000 + b"a" * 44_999, b")" + b"\x85" * 90_000])
def test_depth_is_no_danger(opening: bytes) -> None:
    """Deep nesting is refused.

    There are tens of thousands of nested lists or tuples, also as a key.
    """
    with pytest.raises(UnsafePickleError, match=r"a list in the place|tuples of tuples"):
        loads(b"\x80\x02" + opening + b".")
    with pytest.raises(UnsafePickleError, match=r"unhashable|tuples of tuples"):
        loads(b"\x80\x02}" + opening + b"Ns.")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"labels": [[1]]}, "a list in the place"),
        ({"labels": [{}, ()]}, "a dict in the place"),
        ({"data": [np.zeros(2, np.uint8)]}, "a array in the place"),
        ({"data": {"a": 1}}, "a dict in the place"),
        ({1: 2}, "a key that is no text"),
        (np.uint8, "the name 'numpy.uint8'"),
        (np.ndarray, "a name in the place"),
    ],
)
def test_values_are_flat(value: Any, message: str) -> None:
    """Lists in lists, and keys that are no text, are refused."""
    with pytest.raises(UnsafePickleError, match=message):
        loads(pickle.dumps(value, 4))


@given(st.binary(max_size=60))
def test_any_bytes_end_in_data_or_an_error(tail: bytes) -> None:
    """Bytes at random never end in another exception than ours."""
    for data in (tail, b"\x80\x02" + tail, b"\x80\x02](" + tail + b"e."):
        try:
            loads(data)
        except UnsafePickleError as error:
            assert str(error)  # noqa: PT017


@given(st.data())
def test_damaged_batches_end_in_data_or_an_error(data: st.DataObject) -> None:
    """A damaged batch is read, or refused by our error."""
    whole = pickled(
        {
            "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
            "labels": [1, 2],
            "filenames": [b"a", b"b"],
        }
    )
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :]
    for damaged in (changed, whole[:place]):
        try:
            loads(damaged)
        except UnsafePickleError as error:  # a byte may make a list its own item
            assert str(error)  # noqa: PT017


def test_the_writer_writes_what_python_2_wrote() -> None:
    """Python reads the test's Python 2 pickles as it reads real ones.

    It needs ``encoding='bytes'``.
    """
    value = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2]}
    found = pickle.load(io.BytesIO(pickled(value)), encoding="bytes")  # noqa: S301 (our own data)
    assert list(found) == [b"data", b"labels"]
    np.testing.assert_array_equal(found[b"data"], value["data"])
