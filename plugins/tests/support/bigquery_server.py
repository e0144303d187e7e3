"""A server on this machine that speaks BigQuery's interfaces, for tests.

REST answers what a client asks before it reads: tables, query jobs. gRPC gives rows as Arrow, by
CreateReadSession and ReadRows. DuckDB runs the queries.
"""

from __future__ import annotations

import contextlib
import datetime
import http.server
import itertools
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types

PROJECT, DATASET = "shop-1", "shop"
_SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
_MESSAGE_ROWS = 1000


class Server:
    """Tables with their versions, and what clients asked for.

    Attributes:
      rest, storage: addresses.
      versions: table -> (time, rows) in order.
      schemas: table -> its fields, as REST describes them.
      kinds: table -> its kind, if it is no ``TABLE``.
      sessions: requests for sessions, in order.
      queries: texts of queries that ran.
      breaks: numbers of rows; a stream breaks once after each.
      lost: rows that each stream leaves out.
      offsets: of all reads, in order.
    """

    def __init__(self) -> None:
        self.rest = self.storage = ""
        self.versions: dict[str, list[tuple[datetime.datetime, pa.Table]]] = {}
        self.schemas: dict[str, list[dict[str, Any]]] = {}
        self.kinds: dict[str, str] = {}
        self.sessions: list[types.CreateReadSessionRequest] = []
        self.queries: list[str] = []
        self.breaks: list[int] = []
        self.lost = 0
        self.offsets: list[int] = []
        self._streams: dict[str, pa.Table] = {}
        self._jobs: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def put(self, name: str, rows: pa.Table, fields: list[dict[str, Any]] | None = None) -> None:
        """Adds a table, or its next version."""
        with self._lock:
            self.schemas[name] = fields or _fields_of(rows)
            self.versions.setdefault(name, []).append((_now(), rows))

    def rows_at(self, name: str, moment: datetime.datetime | None = None) -> pa.Table:
        """The rows of a table at a time, or the last ones."""
        with self._lock:
            found = [rows for time, rows in self.versions[name] if moment is None or time <= moment]
        return found[-1]

    # REST.

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and answer to a request."""
        parts = path.removeprefix("/bigquery/v2/projects/").split("/")
        if parts[1:2] == ["datasets"] and parts[3:4] == ["tables"]:
            return self._table(f"{parts[2]}.{parts[4]}")
        if parts[1:] == ["jobs"] and method == "POST":
            return self._insert(body)
        if parts[1] in ("jobs", "queries"):
            job = self._jobs[parts[2]]
            return 200, job["job"] if parts[1] == "jobs" else job["rows"]
        return 404, _error(404, f"Not found: {path}")

    def _table(self, name: str) -> tuple[int, dict[str, Any]]:
        if name not in self.versions:
            return 404, _error(404, f"Not found: Table {PROJECT}:{name}")
        rows = self.rows_at(name)
        return 200, _resource(name) | {
            "type": self.kinds.get(name, "TABLE"),
            "schema": {"fields": self.schemas[name]},
            "numRows": str(rows.num_rows),
            "numBytes": str(rows.nbytes),
        }

    def _insert(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Runs a query job."""
        asked = body["configuration"]
        sql, is_dry = asked["query"]["query"], asked.get("dryRun", False)
        try:
            rows, fields = self._query(sql)
        except duckdb.Error as error:
            return 400, _error(400, str(error))
        number = next(self._numbers)
        name = f"_anonymous.result{number}"
        job = {
            "id": f"{PROJECT}:{number}",
            "jobReference": body["jobReference"] | {"location": "US"},
            "configuration": asked
            | {"query": asked["query"] | {"destinationTable": _resource(name)["tableReference"]}},
            "status": {"state": "DONE"},
            "statistics": {
                "query": {
                    "totalBytesProcessed": str(rows.nbytes),
                    "schema": {"fields": fields},
                    "statementType": "SELECT",
                }
            },
        }
        if is_dry:
            return 200, job
        self.queries.append(sql)
        self.put(name, rows)
        # A client reads what does not come at once by the other interface.
        is_short = (rows.num_rows, rows.num_columns) == (1, 1)
        found = {
            "jobComplete": True,
            "jobReference": job["jobReference"],
            "schema": {"fields": fields},
            "totalRows": str(rows.num_rows),
            "rows": [
                {"f": [{"v": _cell(value)} for value in row.values()]}
                for row in rows.slice(0, int(is_short)).to_pylist()
            ],
            **({"pageToken": "more"} if rows.num_rows and not is_short else {}),
        }
        self._jobs[body["jobReference"]["jobId"]] = {"job": job, "rows": found}
        return 200, job

    def _query(self, sql: str) -> tuple[pa.Table, list[dict[str, Any]]]:
        """The rows of a query, and its fields."""
        if "CURRENT_TIMESTAMP()" in sql:
            rows = pa.table({"t": pa.array([_now()], pa.timestamp("us", "UTC"))})
            return rows, _fields_of(rows)
        moment = None
        if at := re.search(r" FOR SYSTEM_TIME AS OF TIMESTAMP '([^']*)'", sql):
            moment = datetime.datetime.fromisoformat(at[1])
            sql = sql.replace(at[0], "")
        # DuckDB has not all types; so it does not see columns that are read as they are.
        plain = re.fullmatch(rf"SELECT ((?:\*|[\w.`, ])+) FROM `{PROJECT}\.([\w.]+)` AS q", sql)
        if plain and plain[2] in self.versions:
            fields = {field["name"]: field for field in self.schemas[plain[2]]}
            names = re.findall(r"AS `(\w+)`", plain[1]) or list(fields)
            rows = self.rows_at(plain[2], moment).select(names)
            return rows, [fields[name] for name in names]
        sql = _in_duckdb(sql.replace(f"`{PROJECT}.{DATASET}.", "`"))
        sql = sql.replace("AS STRING)", "AS VARCHAR)")
        with duckdb.connect() as connection:
            for name in self.versions:
                table = name.partition(".")[2]
                if name.startswith(f"{DATASET}.") and re.search(rf"\b{table}\b", sql):
                    rows = self.rows_at(name, moment)
                    known = [f.name for f in rows.schema if not pa.types.is_decimal256(f.type)]
                    connection.register(table, rows.select(known))
            rows = connection.sql(sql).to_arrow_table()
            return rows, _fields_of(rows)

    # gRPC.

    def create(self, request: types.CreateReadSessionRequest, context: Any) -> types.ReadSession:
        """Cuts the rows of a table into streams."""
        self.sessions.append(request)
        asked = request.read_session
        _, _, _, dataset, _, table = asked.table.split("/")
        if f"{dataset}.{table}" in self.kinds:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "request failed: a view")
        rows = self.rows_at(f"{dataset}.{table}")
        rows = rows.select(list(asked.read_options.selected_fields) or rows.schema.names)
        count = max(1, request.max_stream_count)
        streams = []
        for number in range(count):
            first, last = (rows.num_rows * k // count for k in (number, number + 1))
            if first < last:
                name = f"projects/p/locations/us/sessions/s/streams/{next(self._numbers)}"
                self._streams[name] = rows.slice(first, last - first)
                streams.append(types.ReadStream(name=name))
        return types.ReadSession(name="s", streams=streams)

    def read(
        self, request: types.ReadRowsRequest, context: Any
    ) -> Iterator[types.ReadRowsResponse]:
        """Sends the rows of a stream from an offset on."""
        rows, offset = self._streams[request.read_stream], request.offset
        self.offsets.append(offset)
        with self._lock:
            stop = self.breaks.pop() if self.breaks else None
        rest, sent = rows.slice(offset, rows.num_rows - self.lost - offset), 0
        schema = rows.schema.serialize().to_pybytes()
        for batch in rest.combine_chunks().to_batches(_MESSAGE_ROWS):
            if stop is not None and sent >= stop:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            yield types.ReadRowsResponse(
                row_count=batch.num_rows,
                arrow_record_batch={
                    "serialized_record_batch": batch.serialize().to_pybytes(),
                },
                arrow_schema=None if sent else {"serialized_schema": schema},
            )
            sent += batch.num_rows


@contextlib.contextmanager
def bigquery_server() -> Iterator[Server]:
    """Starts both interfaces on this machine."""
    server = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            path = urllib.parse.urlsplit(self.path).path
            status, found = server.answer(method, path, body)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    methods = {
        "CreateReadSession": grpc.unary_unary_rpc_method_handler(
            server.create,
            types.CreateReadSessionRequest.deserialize,
            types.ReadSession.serialize,
        ),
        "ReadRows": grpc.unary_stream_rpc_method_handler(
            server.read, types.ReadRowsRequest.deserialize, types.ReadRowsResponse.serialize
        ),
    }
    storage = grpc.server(ThreadPoolExecutor(8))
    storage.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    port = storage.add_insecure_port("127.0.0.1:0")
    storage.start()
    rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=rest.serve_forever)
    thread.start()
    server.rest = f"http://127.0.0.1:{rest.server_address[1]}"
    server.storage = f"127.0.0.1:{port}"
    try:
        yield server
    finally:
        rest.shutdown()
        rest.server_close()
        thread.join()
        storage.stop(None).wait()


def _in_duckdb(sql: str) -> str:
    """BigQuery's names and constants as DuckDB's; its TIMESTAMP has a zone."""
    sql = re.sub(r"\bTIMESTAMP '([^']*\+00)'", r"TIMESTAMPTZ '\1'", sql).replace("`", '"')
    return sql.replace("DATETIME '", "TIMESTAMP '")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _error(code: int, message: str) -> dict[str, Any]:
    found = {"message": message, "reason": "notFound" if code == 404 else "invalidQuery"}
    return {"error": {"code": code, "message": message, "errors": [found]}}


def _reference(dataset: str) -> dict[str, str]:
    return {"projectId": PROJECT, "datasetId": dataset}


def _resource(name: str) -> dict[str, Any]:
    dataset, table = name.split(".")
    return {
        "id": f"{PROJECT}:{name}",
        "tableReference": {**_reference(dataset), "tableId": table},
    }


def _cell(value: Any) -> str | None:
    if isinstance(value, datetime.datetime):
        return str(round(value.timestamp() * 1e6))
    return None if value is None else str(value)


def _fields_of(rows: pa.Table) -> list[dict[str, Any]]:
    """The fields of rows of plain types, as REST describes them."""
    kinds = {
        pa.int64(): "INTEGER",
        pa.int32(): "INTEGER",
        pa.string(): "STRING",
        pa.float64(): "FLOAT",
        pa.date32(): "DATE",
        pa.timestamp("us", "UTC"): "TIMESTAMP",
    }
    return [
        {"name": field.name, "type": kinds.get(field.type, "STRING"), "mode": "NULLABLE"}
        for field in rows.schema
    ]
