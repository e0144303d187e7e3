"""One snapshot of a table, from the log of Delta or Iceberg."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.recipe.model import Source

_SMALL = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


# Places and ids of fields.
Ids = frozenset[tuple[str, bytes]]
_FIELD_ID = b"PARQUET:field_id"


class DataFile(NamedTuple):
    """A file of a snapshot.

    Attributes:
      path: of the file.
      size_bytes: by the log.
      rows: by the log; ``None``: it does not say.
      constants: partition column -> the one value of all rows.
    """

    path: str
    size_bytes: int
    rows: int | None
    constants: Mapping[str, Any] = {}


class TableSnapshot(NamedTuple):
    """A table at one snapshot.

    Attributes:
      title: kind and name of the table, for messages.
      id: version or id of the snapshot.
      committed: when it was made, in UTC; "" if the log does not say.
      columns: of the table, as ``plain`` gives them.
      files: in the order of their rows.
      table: id of the table, which another table at its place has not.
      pinned: the source at this snapshot, whatever is written to the table.
      needs: what only the library can do with the files; "": they are Parquet files with the
        table's columns, by their names.
      ids: of its fields, as ``ids_of`` gives them; empty: names count alone.
    """

    title: str
    id: str
    committed: str
    columns: pa.Schema
    files: Sequence[DataFile]
    table: str
    pinned: Source
    needs: str
    ids: Ids = frozenset()

    @property
    def rows(self) -> int | None:
        """Rows of the table; ``None`` if the log does not say."""
        rows = [file.rows for file in self.files]
        return None if self.needs or None in rows else sum(filter(None, rows))


def plain(schema: pa.Schema) -> pa.Schema:
    """Returns nullable columns with small offsets, without metadata."""
    return pa.schema([(field.name, _plain(field.type)) for field in schema])


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _plain(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    return pa.list_(_plain(type_.value_type)) if is_list(type_) else _SMALL.get(type_, type_)


def ids_of(schema: pa.Schema) -> Ids:
    """Returns place and id of each field that has one."""
    return frozenset(_ids(pa.struct(list(schema)), ""))


def _ids(type_: pa.DataType, place: str) -> Iterator[tuple[str, bytes]]:
    for number in range(type_.num_fields):
        field = type_.field(number)
        own = f"{place}.{field.name if pa.types.is_struct(type_) else number}"
        if found := (field.metadata or {}).get(_FIELD_ID):
            yield own, found
        yield from _ids(field.type, own)


def agree(ids: Ids, others: Ids) -> bool:
    """Whether a place has one id, and an id one place."""
    both = ids | others
    return len(both) == len(dict(both)) == len({number for _, number in both})


def utc(millis: int) -> str:
    """Returns milliseconds since 1970 as a time in UTC."""
    moment = datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
