"""Long lists of files, stored in an Arrow file.

A job carries its plan in about a hundred places, and unpickles it in as many.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.errors import mask
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.storage import files

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


def store_files(plan: SourcePlan, folder: str) -> SourcePlan:
    """Returns a plan with its list of files stored in a folder.

    Only lists of small files are stored; another plan is returned as it is.
    """
    if not plan.ranges or plan.ranges[0].members == (0, 0):
        return plan
    data = files_to_bytes(plan.files)
    path = files.join(folder, f"files-{google_crc32c.value(data):08x}-{len(data)}.arrow")
    files.write_bytes(path, data)
    return dataclasses.replace(plan, files=StoredFiles(path, len(plan.files)))


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
