"""Files that are compressed as a whole.

The suffix names the compression. Files are read as a stream; checksums are of the bytes on disk.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator
from typing import BinaryIO, Protocol, cast

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.bytes_read import add_consumed
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import MIB, Limits, exceeds_ratio, ratio_exceeded
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source

COMPRESSION_FOR_SUFFIX = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
CODEC_FOR_COMPRESSION = {"gzip": "gzip", "bzip2": "bz2", "zstd": "zstd"}
# Suffixes of tables that Python reads, what they are, and how.
_NO_PICKLE = "a pickle, which is not read, because a pickle can run any code"
_SAS = "a table of SAS, which is not read"
_PANDAS_READS = {
    **dict.fromkeys((".pkl", ".pickle"), (_NO_PICKLE, "pandas.read_pickle({})")),
    ".dta": ("a table of Stata, which is not read", "pandas.read_stata({})"),
    ".sas7bdat": (_SAS, "pandas.read_sas({}, encoding='infer')"),
    ".xpt": (_SAS, "pyreadstat.read_xport({})[0]"),
    ".sav": ("a table of SPSS, which is not read", "pyreadstat.read_sav({})[0]"),
    ".rds": ("a table of R, which is not read", "pyreadr.read_r({})[None]"),
    ".xml": (
        "XML, which is not read, because it has no rows and columns of its own",
        "pandas.read_xml({}, parser='etree')",
    ),
    ".arff": ("ARFF, which is not read", "pandas.DataFrame(scipy.io.arff.loadarff({})[0])"),
}
# Suffixes of compressions and archives that are not read.
_UNREAD_SUFFIXES = {
    **{f".{name}": name for name in ("xz", "lzma", "lz4", "lzo", "snappy", "7z", "rar")},
    ".txz": "xz",
    ".br": "brotli",
}
_NAME_FOR_START = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"PK\x03\x04": "zip",
}
START_BYTES = max(map(len, _NAME_FOR_START))


def compression_of(source: Source, path: str) -> str:
    """Returns ``gzip``, ``bzip2``, ``zstd``, ``zlib`` or ``none``.

    The recipe's ``compression`` wins over the suffix.
    """
    if source.compression is not None:
        return source.compression
    return next(
        (name for suffix, name in COMPRESSION_FOR_SUFFIX.items() if path.lower().endswith(suffix)),
        "none",
    )


def check_suffix(path: str) -> None:
    """Checks that a file's suffix is of no unread compression.

    Raises:
      DataError: it has one.
    """
    for suffix, name in _UNREAD_SUFFIXES.items():
        if path.lower().endswith(suffix):
            raise unread(path, name)


def check_readable(path: str) -> None:
    """Checks that a file is of no format that pandas converts.

    Args:
      path: of a file of no known suffix.

    Raises:
      DataError: it is one.
    """
    name = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        name = name.removesuffix(suffix)
    for suffix in filter(name.endswith, _PANDAS_READS):
        raise read_by_pandas(path, suffix)


def read_by_pandas(path: str, suffix: str) -> DataError:
    """Returns the error for a file of a suffix that pandas reads."""
    own, (found, read) = path.rpartition("/")[2], _PANDAS_READS[suffix]
    return DataError(
        f"{path}: found {found}. Make Parquet of it with Python, and read this: "
        f"{read.format(repr(own))}.to_parquet({own + '.parquet'!r})"
    )


def name_of_start(data: bytes) -> str:
    """Returns the compression or archive that begins so, or ``""``."""
    return next((name for start, name in _NAME_FOR_START.items() if data.startswith(start)), "")


def unread(path: str, name: str) -> DataError:
    """Returns the error for a file of an unread compression."""
    return DataError(
        f"{path}: found a file compressed with {name}, which is not read, expected gzip (.gz), "
        "bzip2 (.bz2), zstd (.zst) or none; of archives zip (.zip) and tar (.tar, .tar.gz, .tgz, "
        ".tar.bz2, .tar.zst). Decompress it, or compress it so."
    )


def not_as_named(
    path: str, found: str, compression: str, read: Collection[str] = CODEC_FOR_COMPRESSION
) -> str:
    """Returns the error of a file with another compression than expected.

    Args:
      path: of the file.
      found, compression: the compression that it has, and the expected one; or ``none``.
      read: those that its format reads.
    """
    shown = "no compression" if found == "none" else found
    is_read = found == "none" or found in read
    cure = f"Set 'compression: {found}' of the source." if is_read else "Decompress it."
    return (
        f"{path}: found {shown}, expected {compression} by the file's name or 'compression'. {cure}"
    )


def no_zlib(source: Source) -> list[Problem]:
    """Returns a problem if the compression is zlib, only for TFRecord files."""
    if source.compression != "zlib":
        return []
    message = "zlib is for TFRecord files; text is compressed with gzip, bzip2 or zstd."
    return [Problem(("sources", source.name, "compression"), message)]


class Readable(Protocol):
    """A file that is read from front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """Reads the next bytes, at most ``size`` if that is not negative."""


class ChecksummedFile(io.RawIOBase):
    """A file that computes the CRC-32C of all bytes read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc = google_crc32c.Checksum()

    def readable(self) -> bool:
        """Always: Arrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Reads the next bytes."""
        data = self._file.read(size)
        self._crc.update(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes back to look at damage; the checksum is wrong afterwards."""
        return self._file.seek(offset, whence)

    def crc32c(self) -> int:
        """Reads the rest, and returns the checksum of the whole file."""
        while self.read(MIB):
            pass
        return int.from_bytes(self._crc.digest(), "big")


class CountedFile:
    """A file that counts the bytes read."""

    closed = False  # Arrow asks

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Reads the next bytes."""
        data = self._file.read(size)
        self.count += len(data)
        return data

    def tell(self) -> int:
        """Returns how many bytes were read."""
        return self.count

    def seek(self, offset: int) -> None:
        """Goes back to look at damage; bytes read again count again."""
        cast("BinaryIO", self._file).seek(offset)

    def close(self) -> None:
        """Leaves the file open for its owner; Arrow closes its inputs."""


class _Decompressed:
    """A decompressed stream that refuses to grow beyond the limit."""

    def __init__(self, file: Readable, path: str, compression: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._compressed = CountedFile(file)
        self.count = 0
        codec = CODEC_FOR_COMPRESSION[compression]
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._compressed, mode="r"), codec)

    def read(self, size: int = -1, /) -> bytes:
        """Reads the next decompressed bytes.

        Raises:
          OSError: the data is damaged.
          DataError: there are more of them than the limit allows.
        """
        before = self._compressed.count
        data: bytes = self._stream.read(size)
        self.count += len(data)
        add_consumed(self._compressed.count - before)
        if exceeds_ratio(self._limits, self._compressed.count, self.count):
            raise DataError(
                f"{self._path}: {ratio_exceeded(self._limits, self._compressed.count, self.count)}"
            )
        return data


def decompressed_blocks(
    file: Readable, path: str, compression: str, block_bytes: int, limits: Limits
) -> Iterator[bytes]:
    """Yields the decompressed bytes of an open file, block by block.

    Raises:
      DataError: the compressed data is damaged or cut off, or grows too much.
    """
    with explained(path, compression):
        stream = decompressed(file, path, compression, limits)
        while block := stream.read(block_bytes):
            yield block


@contextlib.contextmanager
def explained(path: str, compression: str) -> Iterator[None]:
    """Raises ``DataError`` for the errors of a damaged compressed file."""
    try:
        yield
    except OSError as error:
        if compression == "none":
            raise DataError(
                f"{path}: cannot be read: {error}. Check the storage, and run again."
            ) from error
        found = compression
        with contextlib.suppress(OSError), files.open_read(path) as again:
            found = name_of_start(again.read(START_BYTES)) or "none"
        if found != compression:
            raise DataError(not_as_named(path, found, compression)) from error
        raise DataError(
            f"{path}: found damaged {compression} data, expected a whole file: {error}. "
            "Get the file again, or set 'compression' of the source if it is compressed otherwise."
        ) from error


def decompressed(file: Readable, path: str, compression: str, limits: Limits) -> Readable:
    """Returns an open file as a stream of decompressed bytes.

    Reading damaged data raises OSError, and reading a bomb DataError.
    """
    return file if compression == "none" else _Decompressed(file, path, compression, limits)


def read_head(path: str, compression: str, size: int, limits: Limits) -> bytes:
    """Returns the first decompressed bytes of a file, at most ``size``."""
    with files.open_read(path) as file:
        return next(decompressed_blocks(file, path, compression, size, limits), b"")
