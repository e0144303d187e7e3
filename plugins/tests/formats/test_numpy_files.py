"""NumPy's npy and npz files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources import source_format
from beam_pipelines_plugins.formats import numpy_files
from tests.sources.support import plan_of, read_rows, types_of

RNG = np.random.default_rng(0)
ARRAYS: dict[str, np.ndarray] = {
    "int": np.arange(-3, 7, dtype=np.int16),
    "big": np.arange(10, dtype=">i8"),
    "bool": np.arange(10) % 3 == 0,
    "half": np.linspace(0, 1, 10).astype(np.float16),
    "text": np.array([f"ç{n}" for n in range(10)]),
    "bytes": np.array([b"a%d" % n for n in range(10)]),
    "day": np.arange("2026-11-01", "2026-11-11", dtype="datetime64[D]"),
    "vector": RNG.random((10, 3)).astype(np.float32),
    "matrix": RNG.integers(0, 9, (10, 2, 3)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_columns(tmp_path: Path, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of NumPy; arrays of rows have a shape."""
    monkeypatch.setattr(numpy_files, "MAX_CHUNK_ROWS", 4)
    monkeypatch.setattr(source_format, "MAX_CHUNK_ROWS", 3)
    save(tmp_path / "a.npz", **ARRAYS)
    expected = [
        {
            name: (array[row].reshape(-1) if array.ndim > 1 else array[row]).tolist()
            for name, array in ARRAYS.items()
        }
        for row in range(10)
    ]
    assert read_rows(tmp_path / "a.npz") == expected
    types = types_of(tmp_path / "a.npz")
    assert [types[name] for name in ("int", "bool", "half", "text", "bytes", "day")] == [
        "int64", "bool", "float", "string", "binary", "date32[day]",
    ]  # fmt: skip
    shapes = {
        field.name: (field.metadata or {}).values() for field in plan_of(tmp_path / "a.npz").schema
    }
    assert list(shapes["matrix"]) == [b"2,3"]


def test_a_single_array_is_the_column_value(tmp_path: Path) -> None:
    """Several npy files are one source."""
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(3) + 3 * number)
    assert [row["value"] for row in read_rows(str(tmp_path / "*.npy"))] == list(range(6))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "pickles": ({"x": np.array([{}, None])}, "array 'x': found values of type object, expected rows of numbers"),
    "fields": ({"x": np.zeros(3, [("a", "i4")])}, "array 'x': found values of type [('a', '<i4')]"),
    "complex": ({"x": np.zeros(3, complex)}, "array 'x': found values of type complex128"),
    "long doubles": ({"x": np.zeros(3, np.longdouble)}, "found values of type float128, expected rows of numbers, bools, texts, bytes or times"),
    "months": ({"x": np.zeros(3, "M8[M]")}, "found values of type datetime64[M], expected"),
    "years": ({"x": np.zeros(3, "m8[Y]")}, "found values of type timedelta64[Y], expected"),
    "scalar": ({"x": np.float32(1)}, "array 'x': found the shape ()"),
    "order": ({"x": np.zeros((3, 2), order="F")}, "array 'x': found the shape (3, 2) in Fortran order"),
    "lengths": ({"x": np.zeros(3), "y": np.zeros(4)}, "array 'y': found 4 rows, expected 3 as in 'x'"),
    "empty rows": ({"x": np.zeros((3, 0))}, "array 'x': found the shape (3, 0)"),
    "no rows": ({"x": np.zeros(0)}, "found no rows"),
    "large rows": ({"x": np.zeros((2, 200))}, "array 'x': found rows of 1,600 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_are_no_columns(tmp_path: Path, case: str) -> None:
    """The error names file and array."""
    arrays, message = REFUSED[case]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=r"a\.npz") as error:
        read_rows(tmp_path / "a.npz", limits=Limits(cell_bytes=1_000))
    assert message in str(error.value)


def test_damage_is_an_error(tmp_path: Path) -> None:
    """Cut files, other members and wrong sizes say what is wrong."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(1_000))
    data = path.read_bytes()
    for size in (1, 50, len(data) - 30):
        path.write_bytes(data[:size])
        with pytest.raises(DataError, match=r"a\.npz: found damaged NumPy data"):
            read_rows(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "text")
    with pytest.raises(DataError, match=r"found 'readme\.txt', expected arrays alone"):
        read_rows(path)
    np.save(path, np.array([0x110000], np.uint32).view("<U1"))
    (tmp_path / "a.npz.npy").replace(path)
    with pytest.raises(DataError, match="texts that are no Unicode"):
        read_rows(path)
    np.save(file := io.BytesIO(), np.arange(1_000))
    (tmp_path / "b.npy").write_bytes(file.getvalue()[:-5])
    with pytest.raises(DataError, match=r"b\.npy: .*array 'value' ends 5 bytes early"):
        read_rows(tmp_path / "b.npy")


def test_bombs_are_refused(tmp_path: Path) -> None:
    """An array that grows without bounds exceeds the limit."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(12 << 20))
    with pytest.raises(DataError, match="decompression_ratio"):
        read_rows(tmp_path / "a.npz")
