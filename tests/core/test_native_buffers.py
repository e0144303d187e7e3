"""The kernel that serializes refuses bad buffers, and keeps what it returned."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core import _native
from beam_pipelines.core._native import reference
from tests.core.test_native import batch_of

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")


def texts_with_offsets(offsets: list[int]) -> pa.Array:
    """Returns an array of texts over four bytes.

    The offsets between the first and the last are arbitrary.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abcd")]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def lists_with_offsets(offsets: list[int]) -> pa.Array:
    """Returns an array of lists over four numbers.

    The offsets between the first and the last are arbitrary.
    """
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32))]
    return pa.Array.from_buffers(
        pa.list_(pa.int64()), len(offsets) - 1, buffers, children=[pa.array([1, 2, 3, 4])]
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (texts_with_offsets([0, 3, 1, 4]), "found offsets 3 and 1 in row 1, expected them in order, from 0 to 4"),
        (texts_with_offsets([0, 900, 900, 4]), "found offsets 0 and 900 in row 0"),
        (texts_with_offsets([0, -9, 2, 4]), "found offsets 0 and -9 in row 0"),
        (lists_with_offsets([0, 3, 1, 4]), "found offsets 3 and 1 in row 1"),
        (lists_with_offsets([0, 900, 900, 4]), "found offsets 0 and 900 in row 0"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False), "found index 7 in row 1, expected one into"),
        (pa.DictionaryArray.from_arrays(pa.array([0, -1]), pa.array(["a"]), safe=False), "found index -1 in row 1"),
        (pa.array([[1, None]]), "found a null inside a list, which tf.Example cannot hold"),
        (pa.array([[1, 2]]), None),
    ],
    ids=[
        "decreasing",
        "beyond",
        "negative",
        "list decreasing",
        "list beyond",
        "index",
        "negative index",
        "null in list",
        "sound",
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_order", [True, False])
def test_buffers_that_contradict_themselves_are_refused(array, message, in_order):
    """Offsets and indices out of range are errors that name the row.

    This holds for rows in order and in any order.
    """
    rows = None if in_order else np.arange(len(array))
    if message is None:
        assert len(_native.serialize(batch_of(array), rows)) == len(array)
        return
    with pytest.raises(ValueError, match=message):
        _native.serialize(batch_of(array), rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([0, 3]), "rows: found 3 at place 1, expected a row from 0 to 2"),
        (np.array([-1], np.int32), "rows: found -1 at place 0"),
        (pa.array([0, None]), "rows: found a null at place 1"),
    ],
)
def test_rows_that_are_not_there_are_refused(rows: Any, message: str) -> None:
    """A selection may name the batch's rows only."""
    with pytest.raises(ValueError, match=message):
        _native.serialize(batch_of(pa.array([1, 2, 3])), rows)


@pytest.mark.parametrize("lists", [(), ("x",)])
def test_a_record_of_over_two_gib_is_refused(lists: tuple[str, ...]) -> None:
    """A record of over two GiB is refused without taking memory.

    protobuf could not read it. The record is a list of one text of a MiB, 3,000 times.
    """
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(3000, np.int32)), pa.array(["x" * (1 << 20)])
    )
    with pytest.raises(ValueError, match="feature 'x': found a record of over 2 GiB"):
        _native.serialize(
            batch_of(pa.ListArray.from_arrays(pa.array([0, 3000], pa.int32()), texts)), lists=lists
        )


def test_results_stay_when_others_are_made() -> None:
    """A kept result does not change when other results reuse memory."""
    batch = pa.RecordBatch.from_pydict(
        {"i": list(range(50_000)), "s": [f"text {number}" for number in range(50_000)]}
    )
    kept = [_native.serialize(batch, np.arange(start, 50_000)) for start in (0, 7, 9)]
    expected = reference.serialize(batch)
    del kept[1]
    for start in (3, 5):
        assert _native.serialize(batch, np.arange(start, 50_000)).equals(expected.slice(start))
    assert kept[0].equals(expected)
    assert kept[1].equals(expected.slice(9))


def test_rows_whose_lengths_differ_widely() -> None:
    """Rows have the right bytes when their lengths differ widely.

    A length takes one to four bytes, and long names and texts leave the short path.
    """
    values = [b"x" * size for size in (0, 100, 130, 20_000, 1, 3_000_000, 5, 127, 128)]
    batch = pa.RecordBatch.from_arrays([pa.array(values), pa.array([1] * 9)], ["text", "n" * 300])
    expected = reference.serialize(batch).to_pylist()
    assert _native.serialize(batch).to_pylist() == expected
    rows = np.array([5, 0, 3, 5, 1])
    assert _native.serialize(batch, rows).to_pylist() == [expected[row] for row in rows]


@pytest.mark.parametrize("there", [False, True], ids=["not built", "built elsewhere"])
def test_kernels_that_cannot_be_loaded_are_spoken_of(tmp_path: Path, there: bool) -> None:
    """Kernels built for another system give a message; missing ones do not.

    The installation has already reported missing ones.
    """
    package = tmp_path / "beam_pipelines"
    core = Path(_native.__file__).parents[1]
    shutil.copytree(core, package / "core", ignore=shutil.ignore_patterns("_kernels*"))
    (package / "__init__.py").touch()
    if there:
        (package / "core" / "_native" / "_kernels.abi3.so").write_text("for another machine")
    code = "from beam_pipelines.core import _native; print(_native.KERNELS_AVAILABLE)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert ("cannot be loaded" in done.stderr, "install again" in done.stderr) == (there, there)
