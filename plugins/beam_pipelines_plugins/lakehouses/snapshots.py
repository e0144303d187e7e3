"""What a table's log says of one snapshot, whichever log it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from beam_pipelines.core.errors import DataError

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
    """

    title: str
    id: str
    committed: str
    schema: pa.Schema
    by: By
    names: str
    files: Sequence[DataFile]
    table: str

    @property
    def rows(self) -> int | None:
        """Rows that are left; ``None`` if the log does not say."""
        return rows_of(self.files)


def rows_of(files: Sequence[DataFile]) -> int | None:
    """Returns the rows that are left in files; ``None``: not known."""
    if any(file.rows is None for file in files):
        return None
    return sum((file.rows or 0) - len(file.deleted) for file in files)


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
        "'beam-pipelines[lakehouse]'."
    )
