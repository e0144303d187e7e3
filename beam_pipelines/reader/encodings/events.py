"""Makes the columns of requests, some of them of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.joins.index import build_index, join_batch
from beam_pipelines.reader.encodings.raw_rows import to_batch
from beam_pipelines.reader.encodings.request import Request
from beam_pipelines.sql.derive import Deriver
from beam_pipelines.sql.expressions import NoValueError, find_row


class RequestMaker:
    """Derives and joins the columns of a request, as a conversion does.

    Several threads may call it at once.
    """

    def __init__(self, request: Request) -> None:
        """Plans the expressions, by a request without rows."""
        self._request = request
        most = request.most_bytes
        self._base = Deriver(request.base, request.columns, most)
        own = [each.events for each in request.joins]
        self._events = [Deriver(each.derived, each.columns, most) for each in own]
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
        batch = to_batch(rows, self._request.columns)
        return _derived(self._derive, self._joined(batch, history))

    def _joined(self, batch: pa.RecordBatch, history: Mapping[str, Any]) -> pa.RecordBatch:
        batch = _derived(self._base, batch)
        for each, derive in zip(self._request.joins, self._events, strict=True):
            source = each.join.source
            try:
                events = _derived(derive, to_batch(history[source], each.events.columns))
            except (DataError, TypeError) as error:
                raise type(error)(f"history of '{source}', {error}") from error
            left = pa.RecordBatch.from_arrays(
                [batch.column(name) for name in each.left.values()], list(each.left)
            )
            index = build_index(pa.Table.from_batches([events]), each.join, each.added)
            joined, _ = join_batch(left, index, each.join)
            for name, new in each.made.items():
                batch = batch.append_column(new, joined.column(name))
        return batch


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
