"""NumPy's files against numpy.load, or an error.

Input: a byte, 1 for a npz file, and the file.
"""

from __future__ import annotations

import io
import random
import zipfile
from typing import Any

import numpy as np

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

HEAD = 1
_TOKENS = [b"\x93NUMPY", b"\x01\0", b"\x02\0", b"(3,)", b"(0,)", b"(1, 2)", b"(-1,)", b"(99999999999,)", b"True",
           b"False", b"'<i8'", b"'|O'", b"'<U3'", b"'>f4'", b"'|V8'", b"[('a', 'i4')]", b"\xff", b"\0"]  # fmt: skip


def run(data: bytes) -> None:
    """Reads a file, and compares its rows with NumPy's."""
    is_zip, body = bool(data[:HEAD] == b"\1"), data[HEAD:]
    path = scratch.write("numpy", "a.npz" if is_zip else "a.npy", body)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        loaded = np.load(io.BytesIO(body), allow_pickle=False)
        arrays = {"value": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception:  # noqa: BLE001 - what NumPy does not take is nothing to compare with
        return
    for name, array in arrays.items():
        require(table.num_rows == len(array), "numpy: another number of rows")
        if array.dtype.kind in "iub" and array.ndim == 1 and name in table.column_names:
            found = table.column(name).to_pylist()
            require(found == array.tolist(), "numpy: other values", f"{found} {array.tolist()}")


def npz(arrays: dict[str, np.ndarray], compression: int) -> bytes:
    """Returns a npz file whose bytes do not depend on the time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            np.save(one := io.BytesIO(), array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), one.getvalue(), compression)
    return file.getvalue()


def seeds() -> list[bytes]:
    """Arrays of several types and shapes."""
    arrays = [
        np.arange(5),
        np.arange(6, dtype=">i2").reshape(3, 2),
        np.asfortranarray(np.ones((2, 3), np.float32)),
        np.array(["a", "bc"]),
        np.array([True, False]),
    ]
    made = []
    for array in arrays:
        np.save(file := io.BytesIO(), array)
        made.append(b"\0" + file.getvalue())
    two = {"x": np.arange(4), "y": np.zeros((4, 2))}
    return [*made, *(b"\1" + npz(two, kind) for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes headers and values."""
    changed = mutations.splice(data[HEAD:], _TOKENS, chance)
    return mutations.keep_head(data, HEAD, changed, chance)


TARGET = Target(run, seeds, mutate)
