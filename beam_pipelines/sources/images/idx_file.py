"""One IDX file: its header and its items, compressed or not.

Source of the format: http://yann.lecun.com/exdb/mnist/. Two zero bytes, the type, the rank, each
dimension as a big-endian uint32, and then the numbers, big-endian too, the last dimension running
fastest. An *item* is the numbers of one index of the first dimension.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits, exceeded
from beam_pipelines.sources.compression import (
    CODEC_FOR_COMPRESSION,
    START_BYTES,
    Readable,
    decompressed,
    name_of_start,
)
from beam_pipelines.storage import files

_DTYPE_FOR_CODE = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_NAME_FOR_CODE = {
    0x08: "ubyte",
    0x09: "byte",
    0x0B: "short",
    0x0C: "int",
    0x0D: "float",
    0x0E: "double",
}


class IdxHeader(NamedTuple):
    """The header of a file.

    Attributes:
      code: of the numbers' type.
      dims: sizes of the dimensions, the number of items first.
    """

    code: int
    dims: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers in the file, big-endian."""
        return np.dtype(_DTYPE_FOR_CODE[self.code])

    @property
    def values(self) -> int:
        """Numbers in an item."""
        return math.prod(self.dims[1:])

    @property
    def item_bytes(self) -> int:
        """Bytes of an item."""
        return self.values * self.dtype.itemsize

    @property
    def size_bytes(self) -> int:
        """Bytes of the header itself."""
        return 4 + 4 * len(self.dims)

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file, uncompressed."""
        return self.size_bytes + self.dims[0] * self.item_bytes

    def __str__(self) -> str:
        shape = "×".join(f"{size}" for size in self.dims)
        return f"{_NAME_FOR_CODE[self.code]} {shape}"


def read_idx_header(
    path: str, compression: str, limits: Limits, file_bytes: int | None = None
) -> IdxHeader:
    """Reads a header.

    Args:
      path: of the file.
      compression: of the file.
      limits: of the recipe.
      file_bytes: size of the file, which is compared with the header's if it is not compressed;
        ``None`` compares nothing.

    Raises:
      DataError: it is no header, or that of a shorter or longer file.
    """
    with _opened(path, compression, limits) as file:
        start = _read(file, 4)
        if (
            len(start) < 4
            or start[:2] != b"\0\0"
            or start[2] not in _DTYPE_FOR_CODE
            or not start[3]
        ):
            hint = _hint(start + file.read(START_BYTES))
            raise DataError(
                f"{path}: found {start.hex(' ') or 'nothing'} at the beginning, expected an IDX "
                f"file: 00 00, a type from 08 to 0e, a rank. {hint}"
            )
        sizes = _read(file, 4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise DataError(
            f"{path}: found a header that is cut off, expected {start[3]} dimensions. Get the file "
            "again."
        )
    header = IdxHeader(start[2], struct.unpack(f">{start[3]}I", sizes))
    if not header.item_bytes:
        raise DataError(
            f"{path}: found {header}, items without a number, expected numbers. Get the file again."
        )
    if header.item_bytes > limits.cell_bytes:
        raise DataError(
            f"{path}: "
            + exceeded(limits, "cell_bytes", f"{header}, {header.item_bytes:,} bytes an item")
        )
    if compression == "none" and file_bytes not in (None, header.file_bytes):
        raise DataError(
            f"{path}: found {file_bytes:,} bytes, expected {header.file_bytes:,} of {header} as "
            "its header says. Get the file again."
        )
    return header


def _hint(start: bytes) -> str:
    name = name_of_start(start)
    if name in CODEC_FOR_COMPRESSION:
        return f"It is compressed: set 'compression: {name}'."
    return f"It is a file of {name}: decompress it." if name else "Check 'path' of the source."


def read_items(
    path: str, compression: str, limits: Limits, header: IdxHeader, first: int, end: int, step: int
) -> Iterator[npt.NDArray[Any]]:
    """Yields items [first, end), at most ``step`` at a time.

    They are numbers [n, values] of the header's type.

    Raises:
      DataError: the file ends too early or too late.
    """
    with _opened(path, compression, limits) as file:
        _skip(file, path, compression, header, first)
        for start in range(first, end, step):
            wanted = min(step, end - start)
            data = _read(file, wanted * header.item_bytes)
            if len(data) < wanted * header.item_bytes:
                raise _too_short(path, header, start + len(data) // header.item_bytes)
            yield np.frombuffer(data, header.dtype).reshape(wanted, header.values)
        if end == header.dims[0] and file.read(1):
            raise DataError(
                f"{path}: found more than the {header.file_bytes:,} bytes of {header} that its "
                "header says, expected no more. "
                "Get the file again."
            )


def _skip(file: Any, path: str, compression: str, header: IdxHeader, items: int) -> None:
    """Goes to an item of a file that was just opened."""
    place = header.size_bytes + items * header.item_bytes
    if compression == "none":
        file.seek(place)
        return
    while place:
        skipped = len(file.read(min(place, MIB)))
        if not skipped:
            raise _too_short(path, header, 0)
        place -= skipped


def _too_short(path: str, header: IdxHeader, items: int) -> DataError:
    return DataError(
        f"{path}: found {items:,} items before the file ends, expected {header.dims[0]:,} "
        f"({header}). Get the file again."
    )


def _read(file: Readable, size: int) -> bytes:
    """Reads ``size`` bytes, or the rest if there are fewer."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


@contextlib.contextmanager
def _opened(path: str, compression: str, limits: Limits) -> Iterator[Readable]:
    with files.open_read(path) as file:
        try:
            yield decompressed(file, path, compression, limits)
        except OSError as error:
            raise DataError(
                f"{path}: found damaged {compression} data, expected a whole file: {error}. "
                "Get the file again, or set 'compression' of the source if it is compressed "
                "otherwise."
            ) from error
