"""Makes the columns of requests, some of them of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.joins.index import build_index, join_batch
from beam_pipelines.reader.encodings.raw_rows import to_batch
from beam_pipelines.reader.encodings.request import EventJoin, Request
from beam_pipelines.sql.derive import Deriver
from beam_pipelines.sql.expressions import NoValueError, find_row


class RequestMaker:
    """Derives and joins the columns of a request, as a conversion does.

    Several threads may call it at once.

    Args:
      request: what there is to do.
      origins: column -> the part of the recipe that makes it, for messages.
    """

    def __init__(self, request: Request, origins: Mapping[str, str]) -> None:
        """Plans the expressions, by a request without rows."""
        self._request, self._origins = request, origins
        most = request.most_bytes
        self._base = Deriver(request.base, request.columns, most)
        self._events = [_Events(each) for each in request.joins]
        nothing = pa.RecordBatch.from_pylist([], schema=request.columns)
        joined = self._joined(nothing, {each.join.source: [] for each in request.joins})
        self._derive = Deriver(request.derived, joined.schema, most)

    def __call__(self, rows: Any, history: Mapping[str, Any]) -> pa.RecordBatch:
        """Returns raw rows with all columns.

        Args:
          rows: as ``to_batch`` takes them.
          history: source -> its events, of each join of the request.

        Raises:
          DataError: as ``to_batch`` does; an expression has no value; or an as-of join finds
            several newest events.
          TypeError: rows or events are something else.
        """
        batch = to_batch(rows, self._request.columns, self._origins)
        return _derived(self._derive, self._joined(batch, history))

    def _joined(self, batch: pa.RecordBatch, history: Mapping[str, Any]) -> pa.RecordBatch:
        batch = _derived(self._base, batch)
        for each, read in zip(self._request.joins, self._events, strict=True):
            left = pa.RecordBatch.from_arrays(
                [batch.column(name) for name in each.left.values()], list(each.left)
            )
            events = read(left, history[each.join.source])
            index = build_index(pa.Table.from_batches([events]), each.join, each.added)
            joined, _ = join_batch(left, index, each.join)
            for name, new in each.made.items():
                batch = batch.append_column(new, joined.column(name))
        return batch


class _Events:
    """Reads the events of a join."""

    def __init__(self, own: EventJoin) -> None:
        self._own = own
        self._readers: dict[tuple[str, ...], tuple[pa.Schema, Deriver]] = {}

    def __call__(self, left: pa.RecordBatch, events: Any) -> pa.RecordBatch:
        """Returns events with all columns of the join.

        A key whose columns they lack is that of the one row.
        """
        join = self._own.join
        keys = join.right_on
        if left.num_rows == 1:
            names = _outer_names(events)
            keys = tuple(key for key in keys if not names.isdisjoint(self._columns_of(key)))
        columns, derive = self._reader(keys)
        try:
            batch = _derived(derive, to_batch(events, columns, {}))
        except (DataError, TypeError) as error:
            raise type(error)(f"history of '{join.source}', {error}") from error
        for name, key in join.on:
            if key not in batch.schema.names:
                first = pa.array(np.zeros(batch.num_rows, np.int64))
                batch = batch.append_column(key, left.column(name).take(first))
        return batch

    def _reader(self, keys: tuple[str, ...]) -> tuple[pa.Schema, Deriver]:
        """Returns columns of events, and what derives the others."""
        if keys not in self._readers:
            request = self._own.events(keys)
            derive = Deriver(request.derived, request.columns, request.most_bytes)
            self._readers[keys] = request.columns, derive
        return self._readers[keys]

    def _columns_of(self, key: str) -> set[str]:
        """Returns the columns that only a key needs."""
        columns, others = self._reader((key,))[0], self._reader(())[0]
        return set(columns.names).difference(others.names)


def _outer_names(events: Any) -> set[str]:
    """Returns the names of the columns that events have."""
    if isinstance(events, pa.Table | pa.RecordBatch):
        return set(events.schema.names)
    if hasattr(events, "columns"):
        return set(events.columns)
    rows = events if isinstance(events, Sequence) else [events]
    return {name for row in rows if isinstance(row, Mapping) for name in row}


def _derived(derive: Deriver, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows with the derived columns.

    Raises:
      DataError: an expression has no value for a row.
    """
    try:
        return derive(batch)
    except NoValueError as error:
        row = find_row(error.batch, error.expression)
        raise DataError(
            f"{'rows' if row is None else f'row {row}'}, {error.where} "
            f"({error.expression.sql}): found {error}, expected a value."
        ) from error
