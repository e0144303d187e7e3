"""Parses the rows of a few batches from the windows of lanes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.columns import Column, Feature, WrongRowError, make_column
from beam_pipelines.reader.lanes import ShardFile, Window, place_of
from beam_pipelines.reader.order import Epoch, Int64s, Stretches
from beam_pipelines.tfrecord.protobuf_parser import Layout, WireError, parse_sequences
from beam_pipelines.tfrecord.record_block import FOOTER_BYTES, HEADER_BYTES

_NO_EXAMPLE = "the record is damaged, or no tf.Example"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of windows, in the order of the batches.

    Attributes:
      windows: (lane, window), those with the rows.
      records: int64[n], the rows' numbers among the records of all windows.
    """

    windows: Sequence[tuple[int, Window]]
    records: Int64s

    def chunks(self) -> list[pa.LargeBinaryArray]:
        """Returns the framed records of all windows."""
        return [chunk for _, window in self.windows for chunk in window.chunks]

    def place(self, row: int, epoch: Epoch, files: Sequence[ShardFile]) -> str:
        """Returns file and record of a row, for errors."""
        record = int(self.records[row])
        ends = np.cumsum([len(window.order) for _, window in self.windows])
        place = int(np.searchsorted(ends, record, side="right"))
        lane, window = self.windows[place]
        number = window.start + record - int(ends[place]) + len(window.order)
        path, number = place_of(files, epoch.lanes[lane], number)
        return f"{path}, record {number}"


def gather_rows(
    epoch: Epoch, found: Stretches, windows: Mapping[int, Sequence[tuple[int, Window]]]
) -> Rows:
    """Finds the rows of some batches in the windows of lanes.

    Args:
      epoch: the order.
      found: what the batches take.
      windows: lane -> neighbouring windows with their numbers; they have all that is taken.
    """
    used: list[tuple[int, Window]] = []
    orders: list[Int64s] = []
    shift = np.zeros(len(epoch.lanes), np.int64)  # from a lane's place to its place in `orders`
    places = records = 0
    for lane, numbered in windows.items():
        shift[lane] = places - epoch.lanes[lane].bounds(numbered[0][0])[0]
        for _, window in numbered:
            used.append((lane, window))
            orders.append(window.order + records)
            records += len(window.order)
            places += len(window.order)
    if not used:
        return Rows([], np.zeros(0, np.int64))
    lengths = found.ends - found.starts
    starts = found.starts + shift[found.lanes]
    behind = np.cumsum(lengths)
    taken = np.arange(behind[-1]) + np.repeat(starts - behind + lengths, lengths)
    return Rows(used, np.concatenate(orders)[taken])


def parse_rows(
    rows: Rows, features: Sequence[Feature], as_: str, epoch: Epoch, files: Sequence[ShardFile]
) -> dict[str, Column]:
    """Parses rows.

    Returns:
      Feature -> its values in all rows.

    Raises:
      DataError: a record is damaged, or has other values than the schema or ``fill`` promises.
    """
    types = {feature.name: feature.type for feature in features}
    columns: Sequence[pa.Array] | None = None
    if _native.KERNELS_AVAILABLE:
        batch = _native.parse_examples(rows.chunks(), types, framed=True, rows=rows.records)
        columns = None if batch is None else batch.columns
    try:
        if columns is None:
            columns = _by_protobuf(rows, types)
        return {
            feature.name: make_column(column, feature, as_)
            for feature, column in zip(features, columns, strict=True)
        }
    except WireError as error:
        what = f"feature '{error.feature}': {error.found}" if error.feature else _NO_EXAMPLE
        where = rows.place(error.record, epoch, files)
        raise DataError(f"{where}: {what}. Convert again with --overwrite.") from error
    except WrongRowError as error:
        raise DataError(f"{rows.place(error.row, epoch, files)}: {error.message}.") from error


def _by_protobuf(rows: Rows, types: Mapping[str, Any]) -> list[pa.Array]:
    """Parses records that the kernel declines, or all without kernels."""
    frames = pa.chunked_array(rows.chunks(), pa.large_binary()).take(pa.array(rows.records))
    records = (frame[HEADER_BYTES:-FOOTER_BYTES] for frame in frames.to_pylist())
    context, _ = parse_sequences(records, Layout(types, {}))
    return context
