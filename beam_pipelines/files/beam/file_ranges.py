"""Reads ranges of files, several at once from object stores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import DataError
from beam_pipelines.files import stores
from beam_pipelines.files.beam import cloud_access, files

# Beam parses options anew each time, which takes a millisecond of every request.
_access_of = functools.lru_cache(maxsize=1)(cloud_access.access_of)
# Requests of a process at once.
_THREADS = 16
# Beam's own readers ask for 16 MiB each time, so these stores are read without them.
_SCHEMES = ("s3", "gs")
_TO_THE_END = 1 << 40


class Address(NamedTuple):
    """Where bytes are stored: ``length`` of them at ``offset`` of a file.

    ``None``: all from there on.
    """

    path: str
    offset: int
    length: int | None


def read_range(address: Address) -> bytes:
    """Returns the bytes at an address.

    Raises:
      DataError: the file cannot be read, or is too short.
    """
    path, offset, length = address
    if FileSystems.get_scheme(path) in _SCHEMES:
        data = _from_store(address)
    else:
        with files.open_read(path) as file, files.reading(path):
            file.seek(offset)
            data = file.read(-1 if length is None else length)
    if length not in (None, len(data)):
        raise DataError(
            f"{path}: found {len(data)} bytes at {offset}, expected {length}. "
            "A temporary file was changed or removed during the run: run again."
        )
    return data


def _from_store(address: Address) -> bytes:
    # Workers have the options of their job here only.
    if FileSystems._pipeline_options is not None:  # noqa: SLF001
        stores.use(_access_of(FileSystems._pipeline_options))  # noqa: SLF001
    size = _TO_THE_END if address.length is None else address.length
    try:
        return stores.read(address.path, address.offset, size).content
    except FileNotFoundError as error:
        raise DataError(f"{address.path}: there is no such file.") from error


def read_ranges(addresses: Sequence[Address]) -> list[bytes]:
    """Returns the bytes at each address; raises as ``read_range``."""
    if len(addresses) < 2 or not files.is_object(addresses[0].path):
        return [read_range(address) for address in addresses]
    with ThreadPoolExecutor(_THREADS) as executor:
        return list(executor.map(read_range, addresses))
