"""One snapshot of a table, from the log of Delta or Iceberg.

Deleted rows that are still in files are kept as an Arrow file with one batch for each data file, so
that a worker reads those of its own file only.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files

Positions = NDArray[np.int64]
# How a column is found in a data file: by its name there, or by its field id.
By = Literal["name", "id"]
NOTHING: Positions = np.empty(0, np.int64)


class DataFile(NamedTuple):
    """A Parquet file of a snapshot.

    Attributes:
      path: of the file.
      size_bytes: by the log.
      rows: by the log, deleted ones included; ``None``: it does not say.
      constants: column -> the one value of all rows, if the file may lack the column.
      deleted: numbers of the rows that were deleted, from 0, ascending.
    """

    path: str
    size_bytes: int
    rows: int | None
    constants: Mapping[str, Any]
    deleted: Positions = NOTHING


class TableSnapshot(NamedTuple):
    """A table at one snapshot.

    Attributes:
      title: kind and name of the table, for messages.
      id: version or id of the snapshot.
      committed: when it was made, in UTC; "" if the log does not say.
      schema: its columns. The metadata of a field say what it is called in files (``key_of``).
      by: how columns are found in files.
      names: a mapping of names to ids for files without ids, as JSON; else "".
      files: in the order of their rows.
      table: id of the table, which another table at its place has not.
      place: path of its folder or metadata, in whose store its files are.
    """

    title: str
    id: str
    committed: str
    schema: pa.Schema
    by: By
    names: str
    files: Sequence[DataFile]
    table: str
    place: str

    @property
    def rows(self) -> int | None:
        """Rows that are left; ``None`` if the log does not say."""
        return rows_of(self.files)


def rows_of(files: Sequence[DataFile]) -> int | None:
    """Returns the rows that are left in files; ``None``: not known."""
    if any(file.rows is None for file in files):
        return None
    return sum((file.rows or 0) - len(file.deleted) for file in files)


def utc(millis: int) -> str:
    """Returns milliseconds since 1970 as a time in UTC."""
    moment = datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


class Note(NamedTuple):
    """What travels with a file in a plan, as JSON.

    Attributes:
      rows: as in ``DataFile``.
      constants: number of the file's row among the table's constants; ``None``: it has none.
      deletes: number of its batch among the table's deleted rows; ``None``: it has none.
    """

    rows: int | None = None
    constants: int | None = None
    deletes: int | None = None

    def to_text(self) -> str:
        """Returns the note as JSON, without what is not known."""
        known = {name: value for name, value in self._asdict().items() if value is not None}
        return json.dumps(known, separators=(",", ":"))


def note_of(text: str) -> Note:
    """Returns the note of a file in a plan."""
    return Note(**json.loads(text))


def missing_package(name: str, error: ImportError) -> DataError:
    """Returns the error for a package that is not installed."""
    return DataError(
        f"found no package '{name}', which reads this table ({error}). Install it: pip install "
        "'./plugins[lakehouse]' in a clone."
    )


_SCHEMA = pa.schema([("position", pa.int64())])


@dataclasses.dataclass(frozen=True)
class Deletes:
    """The deleted rows of all files of a table.

    Attributes:
      data: the Arrow file; empty: there are none, or they are stored.
      path: of the stored file, or empty.
    """

    data: bytes = b""
    path: str = ""

    def of_file(self, number: int | None) -> Positions:
        """Returns the deleted rows of one file, from 0, ascending.

        Args:
          number: of its batch; ``None``: it has none.
        """
        if number is None:
            return NOTHING
        if not self.path:
            return _batch(pa.BufferReader(self.data), number)
        with files.open_read(self.path) as file, files.reading(self.path):
            return _batch(file, number)

    def stored(self, folder: str) -> Deletes:
        """Returns them in a file of a folder, which workers see."""
        if not self.data:
            return self
        name = f"deletes-{google_crc32c.value(self.data):08x}-{len(self.data)}.arrow"
        path = files.join(folder, name)
        files.write_bytes(path, self.data)
        return Deletes(path=path)


def keep_deletes(deleted: Iterable[Positions]) -> Deletes:
    """Returns deleted rows, one batch for each item."""
    sink = pa.BufferOutputStream()
    batches = 0
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        for positions in deleted:
            writer.write_batch(pa.record_batch([pa.array(positions, pa.int64())], schema=_SCHEMA))
            batches += 1
    return Deletes(sink.getvalue().to_pybytes()) if batches else Deletes()


def _batch(file: object, number: int) -> Positions:
    batch = pa.ipc.open_file(file).get_batch(number)
    return np.array(batch.column(0).to_numpy(zero_copy_only=False), np.int64)
