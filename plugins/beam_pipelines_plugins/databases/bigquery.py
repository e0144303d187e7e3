"""BigQuery, read as Arrow by Google's client.

A query runs once, and its result is read in order. A table is a query at a snapshot.
"""

from __future__ import annotations

import datetime
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines_plugins.databases.database import Database, TableColumn, TableFacts, Values
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.extras import needed

# Both names of a type: of SQL, and of the REST interface.
_PLAIN: dict[str, pa.DataType] = {
    **dict.fromkeys(("INTEGER", "INT64"), pa.int64()),
    **dict.fromkeys(("FLOAT", "FLOAT64"), pa.float64()),
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    **dict.fromkeys(("STRING", "JSON", "GEOGRAPHY"), pa.string()),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    **dict.fromkeys(("NUMERIC", "DECIMAL"), pa.decimal128(38, 9)),
    **dict.fromkeys(("BIGNUMERIC", "BIGDECIMAL"), pa.decimal256(76, 38)),
}
_STRUCTS = ("RECORD", "STRUCT")
_REPEATED = "REPEATED"


def column_of(field: Any, quoted: str, declared: str | None) -> TableColumn:
    """Returns how a column is read.

    Args:
      field: of the table's schema, with ``name``, ``field_type``, ``mode`` and ``fields``.
      quoted: its name as SQL.
      declared: the recipe's type, or ``None``.
    """
    stored, column, kind = _type_of(field), f"q.{quoted}", field.field_type.lower()
    is_array = field.mode == _REPEATED
    is_decimal = stored is not None and pa.types.is_decimal(stored)
    if declared == "text" and (stored is None or is_decimal):
        is_nested = is_array or field.field_type in _STRUCTS
        text = f"TO_JSON_STRING({column})" if is_nested else f"CAST({column} AS STRING)"
        return TableColumn(field.name, kind, text, pa.string())
    kind = f"array of {kind}" if is_array else kind
    return TableColumn(field.name, kind, column, stored, stored if is_decimal else None)


def _type_of(field: Any) -> pa.DataType | None:
    """Returns the Arrow type of a field, or ``None``."""
    if field.field_type in _STRUCTS:
        parts = [(part.name, _type_of(part)) for part in field.fields]
        own = None if any(type_ is None for _, type_ in parts) else pa.struct(parts)
    else:
        own = _PLAIN.get(field.field_type)
    return pa.list_(own) if own is not None and field.mode == _REPEATED else own


# Kinds of tables that are read as they are; a query reads the others.
_STORED = ("TABLE", "CLONE")
_MOMENT = "is of the moment when BigQuery runs it, not of the snapshot"


class BigQuery(Database):
    """BigQuery, and servers that speak its interfaces."""

    name = "BigQuery"
    format = "bigquery"
    schemes = ("bigquery",)

    def __init__(self, url: str) -> None:
        with needed("BigQuery", "bigquery"):
            from google.api_core.exceptions import GoogleAPIError
            from google.auth.exceptions import GoogleAuthError
            from google.cloud import bigquery, bigquery_storage_v1
        parts = urllib.parse.urlsplit(url)
        self._dataset = urllib.parse.unquote(parts.path.strip("/"))
        self.errors = (GoogleAPIError, GoogleAuthError, OSError, ValueError, pa.ArrowException)
        self._config = bigquery.QueryJobConfig
        self._time: datetime.datetime | None = None
        storage: Any = bigquery_storage_v1.BigQueryReadClient
        with self.answers():
            self._connection = bigquery.Client(parts.netloc or None)
            self._storage = storage()

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        escaped = name.replace("\\", "\\\\").replace("`", "\\`")
        return f"`{escaped}`"

    def rows_of(self, request: DatabaseOptions) -> str:
        """Returns the SQL of a table or query; see ``Database``."""
        if request.query is not None:
            return super().rows_of(request)
        has_time = self._time and self._stored(request)
        moment = f" FOR SYSTEM_TIME AS OF TIMESTAMP '{self._time}'" if has_time else ""
        return f"`{self._name(request)}` AS q{moment}"

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> TableFacts:
        """Returns columns and size; see ``Database``."""
        with self.answers():
            schema = self._run(f"SELECT * FROM {self.rows_of(request)}", dry_run=True).schema
        columns = (column_of(one, self.quoted(one.name), types.get(one.name)) for one in schema)
        if (table := self._stored(request)) is not None:
            return TableFacts(tuple(columns), table.num_rows)
        return TableFacts(tuple(columns), None, (f"a query or a view {_MOMENT}",))

    def begin(self) -> str:
        """Begins at a time of the server; see ``Database``."""
        ((time,),) = self.rows("SELECT CURRENT_TIMESTAMP() AS t")
        self._time = time
        return str(time.isoformat())

    def read(
        self, request: DatabaseOptions, columns: Sequence[TableColumn], limit: int | None
    ) -> Iterator[Sequence[Values]]:
        """Yields the rows of a table or query; see ``Database``."""
        names = [one.name for one in columns]
        select, left = self.select_of(request, columns, limit), limit
        is_plain = all(one.expression == f"q.{self.quoted(one.name)}" for one in columns)
        if request.query is not None and request.partition is None and is_plain:
            select = request.query  # within another query it would lose its order
        with self.answers():
            found = self._run(select).result()
            for batch in found.to_arrow_iterable(self._storage, max_stream_count=1):
                yield batch.select(names).slice(0, left).columns
                left = left and left - batch.num_rows
                if left is not None and left <= 0:
                    return

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        with self.answers():
            return [tuple(row) for row in self._run(statement).result()]

    def words(self, error: Exception) -> str:
        """Returns the first line; the address and the job do not help."""
        text = str(getattr(error, "message", None) or error).strip().partition("\n")[0]
        return re.sub(r"^(GET|POST) \S+: ", "", text)

    def close(self) -> None:
        """Ends the connections."""
        super().close()
        self._storage.transport.close()

    def _stored(self, request: DatabaseOptions) -> Any:
        """Returns a request's table, if it is one that has snapshots."""
        if request.query is not None:
            return None
        with self.answers():
            table = self._connection.get_table(self._name(request))
        return table if table.table_type in _STORED else None

    def _name(self, request: DatabaseOptions) -> str:
        """Returns the full name of a request's table."""
        parts = (request.table or "").split(".")
        if len(parts) == 1 and self._dataset:
            parts = [self._dataset, *parts]
        return ".".join([self._connection.project, *parts] if len(parts) == 2 else parts)

    def _run(self, sql: str, dry_run: bool = False) -> Any:
        """Begins a query, or asks for its columns."""
        config = self._config(dry_run=dry_run, use_query_cache=False)
        if self._dataset:
            config.default_dataset = f"{self._connection.project}.{self._dataset}"
        return self._connection.query(sql, job_config=config)
