"""Long lists of files and of ranges, stored in files.

A job carries its plan in about a hundred places, and unpickles it in as many.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.errors import mask
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan

# A job's graph names as many ranges, at most.
_MANY_RANGES = 1000
_FIELDS = tuple(field.name for field in dataclasses.fields(FileInfo))


@dataclasses.dataclass(frozen=True)
class StoredFiles(Sequence[FileInfo]):
    """A source's files, in an Arrow file that a process reads once.

    Attributes:
      path: of the Arrow file, which is named after its content.
      length: number of files.
    """

    path: str
    length: int

    def __iter__(self) -> Iterator[FileInfo]:
        return iter(self[:])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, _ = index.indices(self.length)
            return _infos(_read(self.path).slice(start, stop - start))
        return _infos(_read(self.path).slice(range(self.length)[index], 1))[0]


@dataclasses.dataclass(frozen=True)
class StoredRanges(Sequence[ByteRange]):
    """A source's ranges, in a file that a process reads once.

    Attributes:
      stored: the file, which is named after its content.
      length: number of ranges.
    """

    stored: RunFile
    length: int

    def __iter__(self) -> Iterator[ByteRange]:
        return iter(_read_ranges(self.stored))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return _read_ranges(self.stored)[index]


def store_files(plan: SourcePlan, folder: str) -> SourcePlan:
    """Returns a plan with its files and ranges stored in a folder.

    Only long lists are stored, and lists of small files.
    """
    if not plan.ranges or (plan.ranges[0].members == (0, 0) and len(plan.ranges) < _MANY_RANGES):
        return plan
    data = files_to_bytes(plan.files)
    stored = _stored(data, folder, "files-{}.arrow")
    plan = dataclasses.replace(plan, files=StoredFiles(stored.path, len(plan.files)))
    data = zlib.compress(pickle.dumps(plan.ranges, pickle.HIGHEST_PROTOCOL))
    stored = _stored(data, folder, "ranges-{}")
    return dataclasses.replace(plan, ranges=StoredRanges(stored, len(plan.ranges)))


def _stored(data: bytes, folder: str, name: str) -> RunFile:
    path = files.join(folder, name.format(f"{google_crc32c.value(data):08x}-{len(data)}"))
    return RunFile.write(path, data)


@functools.lru_cache(maxsize=4)
def _read_ranges(stored: RunFile) -> Sequence[ByteRange]:
    return pickle.loads(zlib.decompress(stored.read()))  # type: ignore[no-any-return]  # noqa: S301 - as the job has written it


def masked_to_bytes(listed: Sequence[FileInfo]) -> bytes:
    """Returns a list of files as an Arrow file, secrets masked."""
    if (
        mask(listed[0].path) == listed[0].path
    ):  # secrets are in the recipe's path, and so in all paths or none
        return files_to_bytes(listed)
    return files_to_bytes([dataclasses.replace(file, path=mask(file.path)) for file in listed[:]])


def files_to_bytes(listed: Sequence[FileInfo]) -> bytes:
    """Returns a list of files as an Arrow file, secrets included."""
    if isinstance(listed, StoredFiles):
        return files.read_bytes(listed.path)
    table = pa.table({name: [getattr(file, name) for file in listed] for name in _FIELDS})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@functools.lru_cache(maxsize=4)
def _read(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(files.read_bytes(path))).read_all().combine_chunks()


def _infos(table: pa.Table) -> tuple[FileInfo, ...]:
    return tuple(FileInfo(**row) for row in table.to_pylist())
