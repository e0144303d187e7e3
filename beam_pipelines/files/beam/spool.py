"""Keeps standard input and files of simple web servers."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines.files.beam import files, http_files

STDIN = "-"
# So that an endless stream ends with a message and not with a full disk.
MOST_BYTES = 64 << 30
_SUFFIX_FOR_START = (
    (b"PAR1", ".parquet"),
    (b"ARROW1", ".arrow"),
    (b"PK\x03\x04", ".zip"),
    (b"\x1f\x8b", ".csv.gz"),
    (b"{", ".jsonl"),
    (b"[", ".jsonl"),
)


def as_file(path: str) -> str:
    """Returns the same path, or that of a copy.

    Copies are removed when the process ends.

    Args:
      path: of a source; ``-`` is standard input.

    Raises:
      DataError: there is no input, it is too large, or a server does not answer.
    """
    if path == STDIN:
        return _standard_input(os.getpid())
    scheme = path.partition("://")[0] if "://" in path else ""
    if scheme not in http_files.SCHEMES:
        return path
    try:
        found = http_files.probe(path)
        if found is None or found.has_ranges:
            return path
        return _copy_of(os.getpid(), path)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read: {error}. Check the address and the network, or download the "
            "file."
        ) from error


@functools.lru_cache(maxsize=1)
def _standard_input(_process: int) -> str:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise DataError(
            "-: found no piped data on standard input, expected some, as in 'cat a.csv | "
            "beam-pipelines convert -'."
        )
    stream = sys.stdin.buffer
    first = stream.read(MIB)
    start = first.lstrip()[:8]
    suffix = next((name for sign, name in _SUFFIX_FOR_START if start.startswith(sign)), ".csv")
    return _spooled(f"stdin{suffix}", _read(first, stream.read), "-")


def _read(first: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    yield first
    while block := read(MIB):
        yield block


@functools.lru_cache(maxsize=256)
def _copy_of(_process: int, url: str) -> str:
    name = os.path.basename(urllib.parse.urlsplit(url).path) or "download"
    return _spooled(name, [http_files.read_whole(url)], url)


def _spooled(name: str, blocks: Iterable[bytes], origin: str) -> str:
    folder = tempfile.mkdtemp(prefix="beam-pipelines-input-")
    atexit.register(_remove, folder, os.getpid())
    path, size = os.path.join(folder, name), 0
    with files.explained(path), open(path, "wb") as file:
        for block in blocks:
            size += len(block)
            if size > MOST_BYTES:
                raise DataError(
                    f"{origin}: found more than {MOST_BYTES:,} bytes, expected at most as many of "
                    "data that are copied before they are read. Name a file."
                )
            file.write(block)
    return path


def _remove(folder: str, process: int) -> None:
    """Removes a copy, but not in a forked worker."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
