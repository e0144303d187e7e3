"""BigQuery, read as Arrow by its Storage Read API.

A table is read at a snapshot. A query runs once, and its result is a table, which is read in order.
"""

from __future__ import annotations

import contextlib
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    TableColumn,
    TableFacts,
)

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


def column_of(field: Any, declared: str | None) -> TableColumn:
    """Returns how a column is read.

    Args:
      field: of the table's schema, with ``name``, ``field_type``, ``mode`` and ``fields``.
      declared: the recipe's type, or ``None``.
    """
    stored, column = _type_of(field), f"q.`{field.name}`"
    kind = field.field_type.lower()
    kind = f"array of {kind}" if field.mode == _REPEATED else kind
    is_decimal = stored is not None and pa.types.is_decimal(stored)
    if declared == "text" and (stored is None or is_decimal):
        is_scalar = field.mode != _REPEATED and field.field_type not in _STRUCTS
        text = f"CAST({column} AS STRING)" if is_scalar else f"TO_JSON_STRING({column})"
        return TableColumn(field.name, kind, text, pa.string())
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
    has_order = False

    def connect(self, url: str) -> Session:
        """Opens a connection; see ``Database``."""
        return _Session(url)

    def quoted(self, name: str) -> str:
        """Returns a name as an SQL identifier."""
        escaped = name.replace("\\", "\\\\").replace("`", "\\`")
        return f"`{escaped}`"

    def read(
        self, session: Session, request: RowRequest, columns: Sequence[TableColumn]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a table or query; see ``Database``."""
        own, left = _own(session), request.limit
        for batch in own.read_stream(request, columns):
            rows = batch.slice(0, left)
            if rows.num_rows:
                yield rows
            if left is not None:
                left -= rows.num_rows
                if not left:
                    return

    def count(self, session: Session, request: RowRequest) -> int | None:
        """Returns the server's number of rows at the snapshot; see ``Database``."""
        return _own(session).count(request)

    def describe_read(self, request: RowRequest, columns: Sequence[TableColumn]) -> str:
        """Returns the fields that are sent, or the query; see ``Database``."""
        sql = _sql_of(request, columns)
        if sql is not None:
            return sql
        return f"the fields {', '.join(column.name for column in columns)} of {request.table}"


class _Session(Session):
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
        self._time: Any = None
        # Source -> rows of its query's result.
        self._results: dict[str, int] = {}
        anonymous: Any = AnonymousCredentials
        credentials = anonymous() if _REST in os.environ else None
        with self._explained():
            self._client = bigquery.Client(project=parts.netloc or None, credentials=credentials)
            self._storage = self._reader()

    def describe(self, request: RowRequest) -> TableFacts:
        """Returns columns and size; see ``Session``."""
        sql = request.query
        decisions: tuple[str, ...] = ()
        with self._explained():
            if sql is None:
                table = self._client.get_table(self._name(request))
                fields, rows, size_bytes = table.schema, table.num_rows, table.num_bytes
                if table.table_type not in _STORED:
                    decisions = (f"{request.table} is a {table.table_type.lower()}: it {_MOMENT}",)
            else:
                job = self._run(sql, dry_run=True)
                fields, rows, size_bytes = job.schema, None, job.total_bytes_processed
                decisions = (f"the query {_MOMENT}",)
        columns = tuple(column_of(field, request.types.get(field.name)) for field in fields)
        size_bytes = max(1, size_bytes or 0)
        rows = max(1, size_bytes // (12 * max(1, len(columns))) if rows is None else rows)
        return TableFacts(columns, rows, size_bytes, decisions)

    def tables(self) -> list[str]:
        """Returns the names of the tables in the dataset, or all."""
        with self._explained():
            if self._dataset:
                return [table.table_id for table in self._client.list_tables(self._dataset)]
            return [
                f"{dataset.dataset_id}.{table.table_id}"
                for dataset in self._client.list_datasets()
                for table in self._client.list_tables(dataset.reference)
            ]

    def begin(self) -> str:
        """Begins at a time of the server; see ``Session``."""
        ((self._time,),) = self.rows("SELECT CURRENT_TIMESTAMP() AS t")
        return str(self._time.isoformat())

    def read_stream(
        self, request: RowRequest, columns: Sequence[TableColumn]
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a table, or of a query run now."""
        with self._explained():
            for stream in self._session(request, columns).streams:
                reader = self._storage.read_rows(stream.name)
                try:
                    for page in reader.rows().pages:
                        yield page.to_arrow()
                finally:
                    reader.cancel()

    def read(self, select: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a query."""
        with self._explained():
            yield from self._run(select).result().to_arrow_iterable()

    def _session(self, request: RowRequest, columns: Sequence[TableColumn]) -> Any:
        """Begins to read a table or a query's result, in one stream."""
        types, modifiers = self._storage_library.types, None
        sql = _sql_of(request, columns)
        if sql is None:
            found = self._client.get_table(self._name(request))
            table = found.path.strip("/")
            if found.table_type not in _STORED:
                sql = _select(f"`{self._name(request)}`", columns)
        if sql is not None:
            job = self._run(sql)
            self._results[request.source] = job.result().total_rows
            table = job.destination.path.strip("/")
        elif self._time is not None:
            modifiers = {"snapshot_time": self._time}
        session = types.ReadSession(
            table=table,
            data_format=types.DataFormat.ARROW,
            table_modifiers=modifiers,
            read_options={"selected_fields": [column.name for column in columns]},
        )
        parent = f"projects/{self._client.project}"
        return self._storage.create_read_session(
            parent=parent, read_session=session, max_stream_count=1
        )

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        with self._explained():
            return [tuple(row) for row in self._run(select).result()]

    def count(self, request: RowRequest) -> int:
        """Returns the number of rows at the snapshot, or of a query."""
        if request.source in self._results:
            return self._results[request.source]
        moment = f"FOR SYSTEM_TIME AS OF TIMESTAMP '{self._time.isoformat()}'"
        rows = f"`{self._name(request)}` {moment}"
        ((count,),) = self.rows(f"SELECT COUNT(*) AS n FROM {rows}")
        return int(count)

    def close(self) -> None:
        """Ends the connections."""
        with contextlib.suppress(*self._errors):
            client: Any = self._client
            client.close()
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

    def _name(self, request: RowRequest) -> str:
        """Returns the full name of a request's table."""
        parts = (request.table or "").split(".")
        if len(parts) == 1 and self._dataset:
            parts = [self._dataset, *parts]
        return ".".join([self._client.project, *parts] if len(parts) == 2 else parts)

    def _run(self, sql: str, dry_run: bool = False) -> Any:
        """Begins a query, or asks for its columns."""
        default = f"{self._client.project}.{self._dataset}" if self._dataset else None
        config = self._library.QueryJobConfig(
            dry_run=dry_run, use_query_cache=False, default_dataset=default
        )
        return self._client.query(sql, job_config=config)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns errors of Google's clients into ``ServerError``."""
        try:
            yield
        except (*self._errors, ValueError, pa.ArrowException) as error:
            # The first line says it; the address and the job do not help.
            text = str(getattr(error, "message", None) or error).strip().partition("\n")[0]
            text = re.sub(r"^(GET|POST) \S+: ", "", text)
            raise ServerError(text) from error


def _own(session: Session) -> _Session:
    if not isinstance(session, _Session):
        raise TypeError("this is no session of BigQuery")
    return session


def _sql_of(request: RowRequest, columns: Sequence[TableColumn]) -> str | None:
    """Returns the query of a request, or ``None``."""
    if all(map(_is_plain, columns)):
        return request.query
    if request.query is None:
        return _select(f"`{request.table}`", columns)
    return _select(f"({request.query.strip().rstrip(';')}\n)", columns)


def _is_plain(column: TableColumn) -> bool:
    """Whether a column is read as it is."""
    return column.expression == f"q.`{column.name}`"


def _select(rows: str, columns: Sequence[TableColumn]) -> str:
    listed = ", ".join(f"{column.expression} AS `{column.name}`" for column in columns)
    return f"SELECT {listed} FROM {rows} AS q"
