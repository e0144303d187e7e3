"""One snapshot of a table, from the log of Delta or Iceberg."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from beam_pipelines.core.arrow.columns import is_list

Positions = NDArray[np.int64]
NOTHING: Positions = np.empty(0, np.int64)
FIELD_ID = b"PARQUET:field_id"
# Returns the name of a field, from the field and its path, such as ``a.element.b``.
Name = Callable[[pa.Field, str], str]
_SMALL = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


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
      columns: of the table, as ``plain`` gives them.
      keys: the same types, with the names or ids that files have; "" for a field without.
      ids: path of a field -> its id, for files without ids; ``None``: ``keys`` are names.
      files: in the order of their rows.
      table: id of the table, which another table at its place has not.
      place: path of its folder or metadata, in whose store its files are.
    """

    title: str
    id: str
    committed: str
    columns: pa.Schema
    keys: pa.Schema
    ids: Mapping[str, str] | None
    files: Sequence[DataFile]
    table: str
    place: str

    @property
    def rows(self) -> int | None:
        """Rows that are left; ``None`` if the log does not say."""
        if any(file.rows is None for file in self.files):
            return None
        return sum((file.rows or 0) - len(file.deleted) for file in self.files)


def own_name(field: pa.Field, _: str = "") -> str:
    """Returns a field's name."""
    return str(field.name)


def id_of(field: pa.Field, _: str = "") -> str:
    """Returns the id that Parquet has of a field, or ""."""
    return bytes((field.metadata or {}).get(FIELD_ID, b"")).decode()


def plain(schema: pa.Schema, name: Name) -> pa.Schema:
    """Returns nullable columns with small offsets, whose fields have other names.

    Args:
      schema: of a table or a file.
      name: of each column and each field of a struct.
    """
    return pa.schema(list(_plain(pa.struct(list(schema)), name, "")))


def _plain(type_: pa.DataType, name: Name, path: str) -> pa.DataType:
    def inner(found: pa.DataType, step: str) -> pa.DataType:
        return _plain(found, name, f"{path}{step}.")

    if pa.types.is_struct(type_):
        return pa.struct(
            [(name(field, path + field.name), inner(field.type, field.name)) for field in type_]
        )
    if pa.types.is_map(type_):
        return pa.map_(inner(type_.key_type, "key"), inner(type_.item_type, "value"))
    if is_list(type_):
        return pa.list_(inner(type_.value_type, "element"))
    return _SMALL.get(type_, type_)


def utc(millis: int) -> str:
    """Returns milliseconds since 1970 as a time in UTC."""
    moment = datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
