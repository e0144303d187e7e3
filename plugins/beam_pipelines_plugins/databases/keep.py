"""Reads tables at one snapshot, and keeps their rows in files.

Connections read parts of the tables in parallel. A part whose connection breaks is read again, at
the same snapshot. The numbers of rows are compared with the server's own counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines.sources.plan import RANGE_BYTES, Snapshot, SourcePlan
from beam_pipelines.storage import files
from beam_pipelines_plugins.databases import database_of
from beam_pipelines_plugins.databases.database import (
    Database,
    Request,
    ServerError,
    Session,
    failure,
)
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.databases.planner import ranges_of
from beam_pipelines_plugins.databases.tables import KeptFile, Table, readable, value_bytes

# Each part costs the server a scan, of an index if there is one.
_PART_BYTES, _MOST_PARTS = 64 * MIB, 16
# Pauses before a part is read again.
_PAUSES = (0.5, 2.0, 8.0)
# How often the SELECTs of a run that failed are cancelled, until they end.
_CANCEL_SECONDS = 0.1


class _Part(NamedTuple):
    """A part of a table's rows, which one connection reads.

    Attributes:
      source: name of the source.
      number: among the source's parts, which are in the order of their rows.
      where: one of ``Database.parts``; "": all rows.
    """

    source: str
    number: int
    where: str


def keep_tables(
    plans: Mapping[str, SourcePlan],
    limits: Mapping[str, int],
    folder: str,
    note_rows: Callable[[int], None] = lambda _: None,
) -> dict[str, SourcePlan]:
    """Reads tables, and returns the plans of their kept rows.

    All tables of one URL are read at one snapshot.

    Args:
      plans: of sources in databases, by name.
      limits: source -> number of its first rows; all of the others.
      folder: for the files.
      note_rows: is told how many rows came, by several threads.

    Raises:
      DataError: a server does not answer or gives other rows than it counts; a value that no
        column type equals; a table without rows.
    """
    by_url: dict[str, dict[str, SourcePlan]] = {}
    for name, plan in plans.items():
        url = plan.source.options_of(DatabaseOptions).url or ""
        by_url.setdefault(url, {})[name] = plan
    kept: dict[str, SourcePlan] = {}
    for url, own in by_url.items():
        tables = {name: _limited(plan, limits.get(name)) for name, plan in own.items()}
        reading = _Reading(database_of(url), url, tables, folder, note_rows)
        for name, (found, snapshot) in reading.run().items():
            kept[name] = _kept_plan(own[name], tables[name], found, snapshot)
    return kept


def _limited(plan: SourcePlan, limit: int | None) -> Table:
    table = plan.reader
    if not isinstance(table, Table):
        raise TypeError(f"{plan.source.name} is no table of a database")
    return dataclasses.replace(table, request=dataclasses.replace(table.request, limit=limit))


def _kept_plan(
    plan: SourcePlan, table: Table, kept: Sequence[KeptFile], snapshot: Snapshot
) -> SourcePlan:
    """Returns the plan of kept rows.

    Ranges have a number of rows that depends on the values alone, so that neither parts nor
    batches of a driver show in the dataset.
    """
    rows = sum(file.rows for file in kept)
    size_bytes = sum(file.size_bytes for file in kept)
    if not rows:
        raise DataError(
            f"{table.request.name}: found no rows, expected data. Check 'table' or 'query' of "
            f"source '{plan.source.name}'."
        )
    most = max(1, RANGE_BYTES * rows // max(1, size_bytes))
    range_rows = 1 << (most.bit_length() - 1)
    file = dataclasses.replace(plan.files[0], size_bytes=size_bytes)
    return dataclasses.replace(
        plan,
        files=(file,),
        ranges=ranges_of(file, rows, range_rows),
        reader=dataclasses.replace(table, range_rows=range_rows, kept=tuple(kept)),
        decisions=table.decisions,
        snapshot=snapshot,
    )


class _Reading:
    """One snapshot of a database, and the connections that read it."""

    def __init__(
        self,
        database: Database,
        url: str,
        tables: Mapping[str, Table],
        folder: str,
        note_rows: Callable[[int], None],
    ) -> None:
        self._database, self._url, self._tables = database, url, tables
        self._folder, self._note_rows = folder, note_rows
        self._snapshot = ""
        # The session of each thread, by its identifier.
        self._sessions: dict[int, Session] = {}
        self._stops = threading.Event()

    def run(self) -> dict[str, tuple[list[KeptFile], Snapshot]]:
        """Returns source -> its files in order, and its snapshot."""
        with _explained(next(iter(self._tables.values())).request, self._database):
            first = self._database.connect(self._url)
            try:
                self._snapshot = first.begin()
                parts = [part for name in self._tables for part in self._parts(first, name)]
                if self._database.sessions == 1:
                    self._sessions[threading.get_ident()] = first
                    found = [self._keep(part) for part in parts]
                    counts = self._counts(first)
                else:
                    found, counts = self._in_parallel(first, parts)
            finally:
                for session in (first, *self._sessions.values()):
                    session.close()
        result: dict[str, tuple[list[KeptFile], Snapshot]] = {}
        for name, table in self._tables.items():
            own = [
                file
                for part, some in zip(parts, found, strict=True)
                for file in some
                if part.source == name
            ]
            counted = counts[name]
            _check_count(table.request, sum(file.rows for file in own), counted)
            result[name] = own, Snapshot(self._snapshot, counted)
        return result

    def _in_parallel(
        self, first: Session, parts: Sequence[_Part]
    ) -> tuple[list[list[KeptFile]], dict[str, int | None]]:
        """Reads parts by several connections, while the first one counts."""
        threads = max(1, min(self._database.sessions, len(parts)))
        with ThreadPoolExecutor(threads, "table") as pool:
            pending = [pool.submit(self._keep, part) for part in parts]
            try:
                counts = self._counts(first)
                for future in as_completed(pending):
                    future.result()
            except BaseException:
                self._stops.set()
                for future in pending:
                    future.cancel()
                # A SELECT may begin after it was asked for.
                while wait(pending, _CANCEL_SECONDS).not_done:
                    for session in list(self._sessions.values()):
                        session.cancel()
                raise
            return [future.result() for future in pending], counts

    def _parts(self, session: Session, name: str) -> list[_Part]:
        """Returns the parts of a table, in the order of their rows."""
        table = self._tables[name]
        number = max(self._database.sessions, table.size_bytes // _PART_BYTES)
        parts = self._database.parts(
            session, table.request, table.columns, table.partition, min(_MOST_PARTS, number)
        )
        return [_Part(name, place, where) for place, where in enumerate(parts)]

    def _counts(self, session: Session) -> dict[str, int | None]:
        """Returns source -> the server's counts, if it repeats the rows."""
        counts: dict[str, int | None] = {}
        for name, table in self._tables.items():
            counts[name] = None
            if table.is_repeatable:
                count, limit = self._database.count(session, table.request), table.request.limit
                counts[name] = count if limit is None else min(count, limit)
        return counts

    def _keep(self, part: _Part) -> list[KeptFile]:
        """Reads one part into files; again, if its connection breaks."""
        with _explained(self._tables[part.source].request, self._database):
            for attempt, pause in enumerate(_PAUSES):
                try:
                    return self._read(part, attempt)
                except ServerError as error:
                    if not error.is_transient or self._database.sessions == 1:
                        raise
                    lost = self._sessions.pop(threading.get_ident(), None)
                    if lost is not None:
                        lost.close()
                    if self._stops.wait(pause):
                        raise
            return self._read(part, len(_PAUSES))

    def _read(self, part: _Part, attempt: int) -> list[KeptFile]:
        """Reads one part into files; their names are new in each attempt."""
        table = self._tables[part.source]
        session = self._session()
        row = 1 if not part.where else None
        found: list[KeptFile] = []
        for received in self._database.read(session, table.request, table.columns, part.where):
            if self._stops.is_set():
                break
            batch = readable(received, table, row)
            if not batch.num_rows:
                continue
            name = f"{part.number:04d}-{attempt}-{len(found):06d}.arrow"
            path = files.join(self._folder, part.source, name)
            with files.open_write(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            size_bytes = sum(map(value_bytes, batch.columns))
            found.append(KeptFile(path, batch.num_rows, size_bytes))
            row = None if row is None else row + batch.num_rows
            self._note_rows(batch.num_rows)
        return found

    def _session(self) -> Session:
        """Returns the session of this thread, at the snapshot."""
        thread = threading.get_ident()
        if thread not in self._sessions:
            session = self._database.connect(self._url)
            try:
                session.begin(self._snapshot)
            except ServerError:
                session.close()
                raise
            self._sessions[thread] = session
        return self._sessions[thread]


def _check_count(request: Request, read: int, counted: int | None) -> None:
    """Raises ``DataError`` if a server counts other rows than it gave."""
    if counted is not None and counted != read:
        raise DataError(
            f"{request.name}: the server counts {counted:,} rows, and {read:,} came, at one "
            "snapshot. Nothing was written. Run again; if it recurs, look for a proxy between, or "
            "a function in 'query' that is declared STABLE and is not."
        )


@contextlib.contextmanager
def _explained(request: Request, database: Database) -> Iterator[None]:
    """Turns a server's error into a ``DataError``."""
    try:
        yield
    except ServerError as error:
        raise failure(request, database, error) from error
