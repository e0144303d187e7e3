"""NumPy's arrays: npy, and npz with an array for each column.

The first axis of an array are the rows. Nothing is unpickled.
Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.archives import MOST_BYTES
from beam_pipelines.sources.format import CHUNK_BYTES, MAX_CHUNK_ROWS, check_columns
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

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


class NumPy(PartFiles):
    """Files of arrays; one range a file."""

    title = "NumPy"
    suffixes = (".npz", ".npy")
    is_cut = False

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a file; see ``PartFiles``."""
        is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
        file.seek(0)
        with contextlib.ExitStack() as stack:
            members = _members(source, path, file, stack) if is_zip else iter([(VALUE, file)])
            arrays = [_array(path, *member) for member in members]
            _check_sizes(source, path, arrays)
            schema = pa.schema([(one.name, one.type) for one in arrays])
            yield OpenedPart(schema, _batches(arrays, schema))


class _StoredArray(NamedTuple):
    """An array, whose file is at its first value.

    Attributes:
      name: of the column.
      file: of the array.
      shape: of the array; rows first.
      is_fortran: whether the first axis varies fastest.
      dtype: of the values.
      type: of the column.
    """

    name: str
    file: BinaryIO
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    type: pa.DataType

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def _members(
    source: Source, path: str, file: BinaryIO, stack: contextlib.ExitStack
) -> Iterator[tuple[str, BinaryIO]]:
    """Yields name and file of each array."""
    archive = stack.enter_context(zipfile.ZipFile(file))
    members = archive.infolist()
    check_columns(source, path, len(members))
    for member in members:
        sizes = member.compress_size, member.file_size
        if exceeds_ratio(source.limits, *sizes):
            message = ratio_exceeded(source.limits, *sizes)
            raise DataError(f"{path}, array '{member.filename}': {message}")
        if not member.filename.endswith(_SUFFIX):
            raise DataError(
                f"{path}: found '{member.filename}', expected arrays alone, as numpy.savez writes "
                "them."
            )
        opened = stack.enter_context(archive.open(member))
        yield member.filename.removesuffix(_SUFFIX), cast("BinaryIO", opened)


def _array(path: str, name: str, file: BinaryIO) -> _StoredArray:
    """Reads the header of an array.

    Raises:
      DataError: the array is no column.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"array '{name}' has version {version} of the format")
    formats = np.lib.format
    is_first = version == (1, 0)
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"array '{name}' has the shape {shape}")
    cure = "it in another form, or leave it out of the file"
    if dtype.kind not in _KINDS:
        found = _WHY.get(dtype.kind, f"values of type {dtype}")
    elif not shape:
        found = "a single value"
    elif 0 in shape[1:] or dtype.itemsize == 0:
        found = f"rows without values, of shape {shape[1:]}"
    else:
        try:
            type_ = to_arrow(np.empty((0, *shape[1:]), dtype)).type
            return _StoredArray(name, file, shape, is_fortran and len(shape) > 1, dtype, type_)
        except pa.ArrowNotImplementedError:
            found, cure = f"values of type {dtype}", _CASTS[dtype.kind]
    raise DataError(
        f"{path}, array '{name}': found {found}, expected rows of numbers, bools, texts, bytes or "
        f"times, of a type that Arrow has. Save {cure}."
    )


def _check_sizes(source: Source, path: str, arrays: list[_StoredArray]) -> None:
    """Raises ``DataError`` if arrays are no columns of one table."""
    for one in arrays:
        where = f"{path}, array '{one.name}'"
        if one.shape[0] != arrays[0].shape[0]:
            raise DataError(
                f"{where}: found {one.shape[0]:,} rows, expected {arrays[0].shape[0]:,} as in "
                f"'{arrays[0].name}'. Save arrays of other lengths in other files."
            )
        if one.row_bytes > source.limits.cell_bytes:
            found = f"rows of {one.row_bytes:,} bytes"
            raise DataError(f"{where}: {exceeded(source.limits, 'cell_bytes', found)}")
        if one.is_fortran and one.row_bytes * one.shape[0] > MOST_BYTES:
            raise DataError(
                f"{where}: found an array in Fortran order of more than {MOST_BYTES:,} bytes, "
                "which has to be held in memory. Save numpy.ascontiguousarray(array)."
            )


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
    missing = rows * array.row_bytes
    pieces = []
    while missing and (data := array.file.read(missing)):
        pieces.append(data)
        missing -= len(data)
    if missing:
        raise EOFError(f"array '{array.name}' ends {missing:,} bytes early")
    values = np.frombuffer(b"".join(pieces), array.dtype)
    return values.reshape((rows, *array.shape[1:]), order="F" if array.is_fortran else "C")


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
