"""Reads tables at one snapshot, and keeps their rows in files.

One connection reads all tables of a URL, one after the other, in one transaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.plan import RANGE_BYTES, Snapshot, SourcePlan
from beam_pipelines.storage import files
from beam_pipelines_plugins.databases import database_of
from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    failure,
)
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.databases.planner import ranges_of
from beam_pipelines_plugins.databases.tables import KeptFile, Table, readable, value_bytes


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
      note_rows: is told how many rows came.

    Raises:
      DataError: a server does not answer or gives other rows than it counts; a value that no
        column type equals; a table without rows.
    """
    by_url: dict[str, dict[str, Table]] = {}
    for name, plan in plans.items():
        table = plan.reader
        if not isinstance(table, Table):
            raise TypeError(f"{plan.source.name} is no table of a database")
        request = dataclasses.replace(table.request, limit=limits.get(name))
        url = plan.source.options_of(DatabaseOptions).url or ""
        by_url.setdefault(url, {})[name] = dataclasses.replace(table, request=request)
    kept: dict[str, SourcePlan] = {}
    for url, tables in by_url.items():
        database, request = database_of(url), next(iter(tables.values())).request
        try:
            session = database.connect(url)
            try:
                snapshot = session.begin()
                for name, table in tables.items():
                    request = table.request
                    own = _keep(database, session, table, files.join(folder, name), note_rows)
                    rows = _checked(request, own, database.count(session, request))
                    kept[name] = _kept_plan(plans[name], table, own, Snapshot(snapshot, rows))
            finally:
                session.close()
        except ServerError as error:
            raise failure(request, database, error) from error
    return kept


def _keep(
    database: Database,
    session: Session,
    table: Table,
    folder: str,
    note_rows: Callable[[int], None],
) -> list[KeptFile]:
    """Reads a table into files, a batch each."""
    row, found = 1, list[KeptFile]()
    for received in database.read(session, table.request, table.columns):
        batch = readable(received, table, row)
        if not batch.num_rows:
            continue
        path = files.join(folder, f"{len(found):06d}.arrow")
        with files.open_write(path) as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        found.append(KeptFile(path, batch.num_rows, sum(map(value_bytes, batch.columns))))
        row += batch.num_rows
        note_rows(batch.num_rows)
    return found


def _checked(request: RowRequest, kept: Sequence[KeptFile], counted: int | None) -> int | None:
    """Returns the server's count of the rows that came, or ``None``.

    Raises:
      DataError: it counts others; or there are none.
    """
    came = sum(file.rows for file in kept)
    if counted is not None:
        counted = counted if request.limit is None else min(counted, request.limit)
    if counted is not None and counted != came:
        raise DataError(
            f"{request.name}: the server counts {counted:,} rows, and {came:,} came, at one "
            "snapshot. Nothing was written. Run again; if it recurs, look for a proxy between; or "
            "if it is a view that gives other rows each time, read it by 'query'."
        )
    if not came:
        raise DataError(
            f"{request.name}: found no rows, expected data. Check 'table' or 'query' of source "
            f"'{request.source}'."
        )
    return counted


def _kept_plan(
    plan: SourcePlan, table: Table, kept: Sequence[KeptFile], snapshot: Snapshot
) -> SourcePlan:
    """Returns the plan of kept rows.

    Ranges have a number of rows that depends on the values alone, so that batches of a driver do
    not show in the dataset.
    """
    rows = sum(file.rows for file in kept)
    size_bytes = sum(file.size_bytes for file in kept)
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
