"""Parses the rows of a few batches from the records of parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.columns import Column, Feature, WrongRowError, make_column
from beam_pipelines.reader.order import Int64s
from beam_pipelines.reader.parts import Block
from beam_pipelines.tfrecord.protobuf_parser import Layout, WireError, parse_sequences
from beam_pipelines.tfrecord.record_block import FOOTER_BYTES, HEADER_BYTES

_NO_EXAMPLE = "the record is damaged, or no tf.Example"


class Rows(NamedTuple):
    """Rows of blocks, in the order of the batches.

    Attributes:
      blocks: those with the rows.
      records: int64[n], the rows' numbers among the records of all blocks.
    """

    blocks: Sequence[Block]
    records: Int64s

    def chunks(self) -> list[pa.LargeBinaryArray]:
        """Returns the framed records of all parts."""
        return [frames for block in self.blocks for frames in block.frames]

    def place(self, row: int) -> str:
        """Returns file and record of a row, for errors."""
        record = int(self.records[row])
        for block in self.blocks:
            for part, frames in zip(block.parts, block.frames, strict=True):
                if record < len(frames):
                    return block.split.place(part, record)
                record -= len(frames)
        raise AssertionError


def gather_rows(blocks: Sequence[Block], parts: Int64s, starts: Int64s, ends: Int64s) -> Rows:
    """Finds rows in blocks.

    Args:
      blocks: with all the rows.
      parts: int64[n], numbers of parts among those of all blocks.
      starts, ends: int64[n], the rows of each, in the part's order.
    """
    if not len(parts):
        return Rows([], np.zeros(0, np.int64))
    lengths = [len(frames) for block in blocks for frames in block.frames]
    first = np.cumsum([0, *lengths])
    records = np.cumsum([0, *(len(block.order) for block in blocks)])
    order = np.concatenate(
        [block.order + base for block, base in zip(blocks, records[:-1], strict=True)]
    )
    counts = ends - starts
    behind = np.cumsum(counts)
    taken = np.arange(behind[-1]) + np.repeat(first[parts] + starts - behind + counts, counts)
    return Rows(blocks, order[taken])


def parse_rows(rows: Rows, features: Sequence[Feature], as_: str) -> dict[str, Column]:
    """Parses rows.

    Returns:
      Feature -> its values in all rows.

    Raises:
      DataError: a record is damaged, or has other values than the schema or ``fill`` promises.
    """
    types = {feature.name: feature.type for feature in features}
    columns: Sequence[pa.Array] | None = None
    if _native.KERNELS_AVAILABLE:
        sizes = {
            feature.name: math.prod(feature.shape)
            for feature in features
            if feature.shape is not None and feature.fill is None
        }
        # With lists of any size, ``make_column`` finds the row that has another one.
        for of in (sizes, {}) if sizes else ({},):
            batch = _native.parse_examples(rows.chunks(), types, True, rows=rows.records, sizes=of)
            if batch is not None:
                columns = batch.columns
                break
    try:
        if columns is None:
            columns = _by_protobuf(rows, types)
        return {
            feature.name: make_column(column, feature, as_)
            for feature, column in zip(features, columns, strict=True)
        }
    except WireError as error:
        what = f"feature '{error.feature}': {error.found}" if error.feature else _NO_EXAMPLE
        where = rows.place(error.record)
        raise DataError(f"{where}: {what}. Convert again with --overwrite.") from error
    except WrongRowError as error:
        raise DataError(f"{rows.place(error.row)}: {error.message}.") from error


def _by_protobuf(rows: Rows, types: Mapping[str, Any]) -> list[pa.Array]:
    """Parses records that the kernel declines, or all without kernels."""
    frames = pa.chunked_array(rows.chunks(), pa.large_binary()).take(pa.array(rows.records))
    records = (frame[HEADER_BYTES:-FOOTER_BYTES] for frame in frames.to_pylist())
    context, _ = parse_sequences(records, Layout(types, {}))
    return context
