"""NumPy's arrays: npy, and npz with an array for each column.

The first axis of an array are the rows. Nothing is unpickled.
Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.batch_files import BatchFiles, OpenedFile
from beam_pipelines.sources.files.archives import MOST_BYTES, open_whole
from beam_pipelines.sources.format import CHUNK_BYTES, MAX_CHUNK_ROWS, check_columns

# Name of the only column of a npy file.
VALUE = "value"
_SUFFIX = ".npy"
# Code points beyond the last one, or of halves of pairs, are no text.
_LAST_CODE, _SURROGATES = 0x10FFFF, 0xD800 >> 11
_ZIP_MAGIC = b"PK"
_KINDS = "biufUSMm"
_WHY = {
    "O": "Python objects, which are pickled and may run code",
    "V": "records with fields",
    "c": "complex numbers",
}
# What makes a type that Arrow has of another one of the same kind.
_CASTS = {
    "f": "array.astype('float64'), if the nearest values will do",
    "M": "array.astype('datetime64[us]')",
    "m": "array.astype('int64'), or another unit",
}
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    OverflowError,
    TypeError,
    KeyError,
    SyntaxError,
)


class NumPy(BatchFiles):
    """Files of arrays; one range a file."""

    title = "NumPy"
    suffixes = (".npz", ".npy")

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file; see ``BatchFiles``."""
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_whole(path))
            try:
                is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
                file.seek(0)
                arrays = list(
                    _members(source, path, file, stack) if is_zip else [_array(VALUE, file)]
                )
                _check_arrays(source, path, arrays)
                schema = pa.schema([(one.name, one.type) for one in arrays])
                yield OpenedFile(file, schema, _batches(arrays, schema))
            except _DAMAGED as error:
                raise DataError(
                    f"{path}: found damaged NumPy data, expected a whole npy or npz file: {error}. "
                    "Get the file again, or set 'format'."
                ) from error


class _StoredArray(NamedTuple):
    """An array, whose file is at its first value.

    Attributes:
      name: of the column.
      file: of the array.
      shape: of the array; rows first.
      is_fortran: whether the first axis varies fastest.
      dtype: of the values.
    """

    name: str
    file: BinaryIO
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def type(self) -> pa.DataType:
        """Type of the column."""
        return to_arrow(np.empty((0, *self.shape[1:]), self.dtype)).type


def _members(
    source: Source, path: str, file: BinaryIO, stack: contextlib.ExitStack
) -> Iterator[_StoredArray]:
    archive = stack.enter_context(zipfile.ZipFile(file))
    members = archive.infolist()
    check_columns(source, path, len(members))
    for member in members:
        if exceeds_ratio(source.limits, member.compress_size, member.file_size):
            message = ratio_exceeded(source.limits, member.compress_size, member.file_size)
            raise DataError(f"{path}, array '{member.filename}': {message}")
        if not member.filename.endswith(_SUFFIX):
            raise DataError(
                f"{path}: found '{member.filename}', expected arrays alone, as numpy.savez writes "
                "them."
            )
        opened = cast("BinaryIO", stack.enter_context(archive.open(member)))
        yield _array(member.filename.removesuffix(_SUFFIX), opened)


def _array(name: str, file: BinaryIO) -> _StoredArray:
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
        (3, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"array '{name}' has version {version} of the format")
    try:
        shape, is_fortran, dtype = readers[version](file)
    except Exception as error:
        # NumPy parses Python's syntax, which fails in many ways.
        raise ValueError(f"array '{name}' has a damaged header") from error
    if any(size < 0 for size in shape):
        raise ValueError(f"array '{name}' has the shape {shape}")
    return _StoredArray(name, file, tuple(shape), is_fortran and len(shape) > 1, dtype)


def _check_arrays(source: Source, path: str, arrays: list[_StoredArray]) -> None:
    """Raises ``DataError`` if arrays are no columns of one table."""
    for one in arrays:
        where = f"{path}, array '{one.name}'"
        if one.dtype.kind not in _KINDS:
            what = _WHY.get(one.dtype.kind, f"values of type {one.dtype}")
            raise DataError(
                f"{where}: found {what}, expected numbers, bools, texts, bytes or times. Save it "
                "in another form."
            )
        if not _has_type(one.dtype):
            raise DataError(
                f"{where}: found values of type {one.dtype}, which no column type equals. Save "
                f"{_CASTS[one.dtype.kind]}."
            )
        if not one.shape:
            raise DataError(
                f"{where}: found a single value, expected an array whose first axis are the rows. "
                "Leave it out of the file."
            )
        if 0 in one.shape[1:] or one.dtype.itemsize == 0:
            raise DataError(f"{where}: found rows without values, of shape {one.shape[1:]}.")
        if one.shape[0] != arrays[0].shape[0]:
            raise DataError(
                f"{where}: found {one.shape[0]:,} rows, expected {arrays[0].shape[0]:,} as in "
                f"'{arrays[0].name}'. Save arrays of other lengths in other files."
            )
        if one.row_bytes > source.limits.cell_bytes:
            raise DataError(
                f"{where}: found rows of {one.row_bytes:,} bytes, expected at most "
                f"{source.limits.cell_bytes:,}. If the data are right, raise 'limits: "
                "{cell_bytes: …}'."
            )
        if one.is_fortran and one.row_bytes * one.shape[0] > MOST_BYTES:
            raise DataError(
                f"{where}: found an array in Fortran order of more than {MOST_BYTES:,} bytes, "
                "which has to be held in memory. Save numpy.ascontiguousarray(array)."
            )


def _has_type(dtype: np.dtype[Any]) -> bool:
    """Whether Arrow has a type for values of a NumPy dtype."""
    try:
        to_arrow(np.empty(0, dtype))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _batches(arrays: list[_StoredArray], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = arrays[0].shape[0] if arrays else 0
    row_bytes = sum(one.row_bytes for one in arrays)
    step = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // max(1, row_bytes)))
    whole = {one.name: _read(one, rows) for one in arrays if one.is_fortran}
    for start in range(0, rows, step):
        count = min(step, rows - start)
        columns = [
            to_arrow(
                whole[one.name][start : start + count] if one.is_fortran else _read(one, count)
            )
            for one in arrays
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _read(array: _StoredArray, rows: int) -> npt.NDArray[Any]:
    """Returns the next rows of an array."""
    size = rows * array.row_bytes
    pieces, missing = [], size
    while missing and (data := array.file.read(missing)):
        pieces.append(data)
        missing -= len(data)
    if missing:
        raise EOFError(f"array '{array.name}' ends {missing:,} bytes early")
    values: npt.NDArray[Any] = np.frombuffer(b"".join(pieces), array.dtype)
    values = values.reshape(array.shape[::-1] if array.is_fortran else (rows, *array.shape[1:]))
    return cast("npt.NDArray[Any]", values.transpose() if array.is_fortran else values)


def to_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Returns rows as values, or as fixed-size lists of them."""
    flat = values.reshape(-1)
    if flat.dtype.kind == "f" and flat.dtype.itemsize == 2:
        flat = flat.astype(np.float32)
    if flat.dtype.kind == "U":
        codes = flat.astype(flat.dtype.newbyteorder("=")).view(np.uint32)
        if ((codes > _LAST_CODE) | (codes >> 11 == _SURROGATES)).any():
            raise ValueError("an array has texts that are no Unicode")
    if flat.dtype.kind in "US":
        column = pa.array(flat.tolist(), pa.string() if flat.dtype.kind == "U" else pa.binary())
    else:
        column = pa.array(flat.astype(flat.dtype.newbyteorder("="), copy=False))
    for size in reversed(values.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column
