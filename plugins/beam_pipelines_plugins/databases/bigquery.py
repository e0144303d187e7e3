"""BigQuery, read as Arrow by its Storage Read API.

A table is read at a snapshot. A query runs once, and its result is a table, which is read in order.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines_plugins.databases.database import (
    Database,
    TableColumn,
    TableFacts,
    Values,
    answers,
)
from beam_pipelines_plugins.databases.options import DatabaseOptions

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


# Of emulators: an address for REST, which Google's client knows too, and one for gRPC.
_REST, _GRPC = "BIGQUERY_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST"
# Kinds of tables that are read as they are; a query reads the others.
_STORED = ("TABLE", "CLONE")
_MOMENT = "is of the moment when BigQuery runs it, not of the snapshot"


class BigQuery(Database):
    """BigQuery, and servers that speak its interfaces."""

    name = "BigQuery"
    format = "bigquery"
    schemes = ("bigquery",)

    def __init__(self, url: str) -> None:
        try:
            from google.api_core.exceptions import GoogleAPIError
            from google.auth.credentials import AnonymousCredentials
            from google.auth.exceptions import GoogleAuthError
            from google.cloud import bigquery, bigquery_storage_v1
        except ImportError as error:
            raise DataError(
                "BigQuery: found no packages google-cloud-bigquery and "
                "google-cloud-bigquery-storage. Install them: pip install "
                "'./plugins[bigquery]' in a clone."
            ) from error
        parts = urllib.parse.urlsplit(url)
        self._dataset = urllib.parse.unquote(parts.path.strip("/"))
        self._errors = (GoogleAPIError, GoogleAuthError, OSError)
        self._library, self._storage_library = bigquery, bigquery_storage_v1
        self._time: datetime.datetime | None = None
        anonymous: Any = AnonymousCredentials
        credentials = anonymous() if _REST in os.environ else None
        with self._answers():
            self._client: Any = bigquery.Client(parts.netloc or None, credentials)
            self._storage = self._reader()

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        escaped = name.replace("\\", "\\\\").replace("`", "\\`")
        return f"`{escaped}`"

    def rows_of(self, request: DatabaseOptions) -> str:
        """Returns the SQL of a table or query; see ``Database``."""
        if request.query is not None:
            return super().rows_of(request)
        has_time = self._time and self._table(request).table_type in _STORED
        moment = f" FOR SYSTEM_TIME AS OF TIMESTAMP '{self._time}'" if has_time else ""
        return f"`{self._name(request)}` AS q{moment}"

    def describe(self, request: DatabaseOptions, types: Mapping[str, str]) -> TableFacts:
        """Returns columns and size; see ``Database``."""
        decisions: tuple[str, ...] = ()
        with self._answers():
            if request.query is None:
                table = self._table(request)
                fields, rows = table.schema, table.num_rows
                if table.table_type not in _STORED:
                    decisions = (f"{request.table} is a {table.table_type.lower()}: it {_MOMENT}",)
            else:
                job = self._run(request.query, dry_run=True)
                fields, rows = job.schema, None
                decisions = (f"the query {_MOMENT}",)
        columns = (column_of(one, self.quoted(one.name), types.get(one.name)) for one in fields)
        return TableFacts(tuple(columns), rows, decisions)

    def tables(self) -> list[str]:
        """Returns the names of the tables in the dataset, or all."""
        with self._answers():
            if self._dataset:
                return [table.table_id for table in self._client.list_tables(self._dataset)]
            return [
                f"{dataset.dataset_id}.{table.table_id}"
                for dataset in self._client.list_datasets()
                for table in self._client.list_tables(dataset.reference)
            ]

    def begin(self) -> str:
        """Begins at a time of the server; see ``Database``."""
        ((time,),) = self.rows("SELECT CURRENT_TIMESTAMP() AS t")
        self._time = time
        return str(time.isoformat())

    def read(
        self, request: DatabaseOptions, columns: Sequence[TableColumn], limit: int | None
    ) -> Iterator[Sequence[Values]]:
        """Yields the rows of a table or query; see ``Database``."""
        names, types = [one.name for one in columns], self._storage_library.types
        is_plain = all(one.expression == f"q.{self.quoted(one.name)}" for one in columns)
        is_plain, modifiers = is_plain and request.partition is None, None
        left = math.inf if limit is None else limit
        with self._answers():
            table = self._table(request) if request.query is None else None
            if is_plain and table is not None and table.table_type in _STORED:
                modifiers = {"snapshot_time": self._time} if self._time else None
            else:
                select = (is_plain and request.query) or self.select_of(request, columns, limit)
                job = self._run(select)
                job.result()
                table = job.destination
            session = types.ReadSession(
                table=table.path.strip("/"),
                data_format=types.DataFormat.ARROW,
                table_modifiers=modifiers,
                read_options={"selected_fields": names},
            )
            parent = f"projects/{self._client.project}"
            found = self._storage.create_read_session(
                parent=parent, read_session=session, max_stream_count=1
            )
            for one in found.streams:
                reader = self._storage.read_rows(one.name)
                try:
                    for page in reader.rows().pages:
                        batch = page.to_arrow().select(names)
                        yield batch.slice(0, min(left, batch.num_rows)).columns
                        left -= batch.num_rows
                        if left <= 0:
                            return
                finally:
                    reader.cancel()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        with self._answers():
            return [tuple(row) for row in self._run(statement).result()]

    def close(self) -> None:
        """Ends the connections."""
        with contextlib.suppress(*self._errors):
            self._client.close()
            self._storage.transport.close()

    def _reader(self) -> Any:
        """Returns a client of the Storage Read API."""
        library, address = self._storage_library, os.environ.get(_GRPC)
        if address is None:
            return library.BigQueryReadClient(credentials=self._client._credentials)  # noqa: SLF001
        import grpc
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
            BigQueryReadGrpcTransport,
        )

        unlimited = [("grpc.max_receive_message_length", -1)]
        channel = grpc.insecure_channel(address, options=unlimited)
        return library.BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=channel))

    def _name(self, request: DatabaseOptions) -> str:
        """Returns the full name of a request's table."""
        parts = (request.table or "").split(".")
        if len(parts) == 1 and self._dataset:
            parts = [self._dataset, *parts]
        return ".".join([self._client.project, *parts] if len(parts) == 2 else parts)

    def _table(self, request: DatabaseOptions) -> Any:
        return self._client.get_table(self._name(request))

    def _run(self, sql: str, dry_run: bool = False) -> Any:
        """Begins a query, or asks for its columns."""
        default = f"{self._client.project}.{self._dataset}" if self._dataset else None
        config = self._library.QueryJobConfig(
            dry_run=dry_run, use_query_cache=False, default_dataset=default
        )
        return self._client.query(sql, job_config=config)

    def _answers(self) -> contextlib.AbstractContextManager[None]:
        return answers((*self._errors, ValueError, pa.ArrowException), _words)


def _words(error: Exception) -> str:
    """Returns the first line; the address and the job do not help."""
    text = str(getattr(error, "message", None) or error).strip().partition("\n")[0]
    return re.sub(r"^(GET|POST) \S+: ", "", text)
