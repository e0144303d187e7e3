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
from beam_pipelines.sources.source_format import CHUNK_BYTES, MAX_CHUNK_ROWS, check_columns
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

# Name of the only column of a npy file.
VALUE = "value"
_SUFFIX = ".npy"
# Code points beyond the last one, or of halves of pairs, are no text.
_LAST_CODE, _SURROGATES = 0x10FFFF, 0xD800 >> 11
_ZIP_MAGIC = b"PK"
_KINDS = "biufUSMm"


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
      dtype: of the values.
      type: of the column.
    """

    name: str
    file: BinaryIO
    shape: tuple[int, ...]
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
    formats = np.lib.format
    is_first = formats.read_magic(file) == (1, 0)
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    found = f"values of type {dtype}"
    if dtype.kind in _KINDS:
        found = f"the shape {shape}{' in Fortran order' * is_fortran}"
        has_rows = shape and min(shape[1:], default=1) > 0 and dtype.itemsize > 0 and shape[0] >= 0
        if has_rows and not (is_fortran and len(shape) > 1):
            try:
                type_ = to_arrow(np.empty((0, *shape[1:]), dtype)).type
                return _StoredArray(name, file, shape, dtype, type_)
            except pa.ArrowNotImplementedError:
                found = f"values of type {dtype}"
    raise DataError(
        f"{path}, array '{name}': found {found}, expected rows of numbers, bools, texts, bytes or "
        "times, of a type that Arrow has, in C order. Save it in another form, such as "
        "numpy.ascontiguousarray(array) or array.astype('float64'), or leave it out of the file; "
        "nothing is unpickled."
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


def _batches(arrays: list[_StoredArray], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = arrays[0].shape[0] if arrays else 0
    row_bytes = sum(one.row_bytes for one in arrays)
    step = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // max(1, row_bytes)))
    for start in range(0, rows, step):
        columns = [to_arrow(_read(one, min(step, rows - start))) for one in arrays]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _read(array: _StoredArray, rows: int) -> npt.NDArray[Any]:
    """Returns the next rows of an array."""
    size = rows * array.row_bytes
    if len(data := array.file.read(size)) < size:
        raise EOFError(f"array '{array.name}' ends {size - len(data):,} bytes early")
    return np.frombuffer(data, array.dtype).reshape((rows, *array.shape[1:]))


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
