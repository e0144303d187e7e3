"""Files of stripes: any consecutive rows of them can be read alone.

A file has stripes, then its tail: where each stripe ends, the schema, and a description. Where the
C++ kernels do not take the columns, stripes are Arrow IPC streams.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import concat_batches, size_of
from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches

# A reader of a few rows reads up to two stripes more than it needs; a stripe costs 20 ns a column,
# as much as four numbers, and has twelve at least.
STRIPE_BYTES, STRIPE_BYTES_A_COLUMN = 32 << 10, 96
# Ends of the file: bytes of the stripes' ends, and of the schema.
_SIZES = struct.Struct("<QQ")


class Packed(NamedTuple):
    """The content of a file.

    Attributes:
      buffers: to be written one after the other.
      tail: where the tail begins.
    """

    buffers: Sequence[bytes | pa.Buffer]
    tail: int


class Tail(NamedTuple):
    """The content of a file's tail.

    Attributes:
      schema: of the batch.
      ends: int64[stripes], where each stripe ends.
      rows: of the batch.
      rows_per_stripe: the last stripe may have fewer.
      is_arrow: whether stripes are Arrow IPC streams.
      about: the description.
    """

    schema: pa.Schema
    ends: npt.NDArray[np.int64]
    rows: int
    rows_per_stripe: int
    is_arrow: bool
    about: Any

    def span(self, first: int, rows: int) -> Span:
        """Returns where one or more rows are, from row ``first`` on."""
        begin, end = first // self.rows_per_stripe, (first + rows - 1) // self.rows_per_stripe
        return Span(
            int(self.ends[begin - 1]) if begin else 0,
            int(self.ends[end]),
            first - begin * self.rows_per_stripe,
            rows,
            self.is_arrow,
        )


class Span(NamedTuple):
    """Where consecutive rows are in a file.

    Attributes:
      begin, end: of the stripes' bytes.
      skip: rows of the first stripe that come before.
      rows: how many they are.
      is_arrow: as in ``Tail``.
    """

    begin: int
    end: int
    skip: int
    rows: int
    is_arrow: bool


def pack(batch: pa.RecordBatch, description: Any) -> Packed:
    """Returns the file of a batch.

    Args:
      batch: columns of any types.
      description: JSON data, kept with the rows.
    """
    rows = batch.num_rows
    wanted = STRIPE_BYTES + STRIPE_BYTES_A_COLUMN * batch.num_columns
    size = max(1, rows * wanted // max(1, size_of(batch)))
    stripes: Sequence[bytes | pa.Buffer]
    packed = _native.pack_stripes(batch, size)
    if packed is None:
        stripes = [batches_to_bytes([batch.slice(row, size)]) for row in range(0, rows, size)]
        ends = np.cumsum([len(stripe) for stripe in stripes], dtype=np.int64)
    else:
        data, ends = packed
        tail = int(ends[-1]) if len(ends) else 0
        stripes = [data.slice(0, tail)]
    schema = batch.schema.serialize()
    about = {
        "rows": rows,
        "rows_per_stripe": size,
        "is_arrow": packed is None,
        "about": description,
    }
    return Packed(
        [
            *stripes,
            ends.tobytes(),
            schema,
            json.dumps(about).encode(),
            _SIZES.pack(ends.nbytes, schema.size),
        ],
        int(ends[-1]) if len(ends) else 0,
    )


def read_tail(data: bytes) -> Tail:
    """Parses the bytes of a file from its tail on.

    Raises:
      ValueError: they are no tail.
    """
    try:
        ends_size, schema_size = _SIZES.unpack(data[-_SIZES.size :])
        schema = _read_schema(data[ends_size : ends_size + schema_size])
        about = json.loads(data[ends_size + schema_size : -_SIZES.size])
        ends = np.frombuffer(data[:ends_size], np.int64)
        return Tail(schema, ends, **about)
    except (struct.error, pa.ArrowException, IndexError, TypeError, OSError) as error:
        raise ValueError(f"no index of rows ({error})") from error


@functools.lru_cache(maxsize=4)  # the files of a run have few schemas
def _read_schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def unpack(schema: pa.Schema, pieces: Sequence[tuple[bytes, Span]]) -> pa.RecordBatch:
    """Returns the rows of spans, one after the other.

    Args:
      schema: of all.
      pieces: the bytes of each span, and the span.

    Raises:
      ValueError: the bytes are others than those that were written.
    """
    if not any(span.is_arrow for _, span in pieces):
        return _native.unpack_stripes(
            schema, [(data, span.skip, span.rows) for data, span in pieces]
        )
    batches = [
        _of_streams(data, span) if span.is_arrow else unpack(schema, [(data, span)])
        for data, span in pieces
    ]
    return concat_batches(batches)


def _of_streams(data: bytes, span: Span) -> pa.RecordBatch:
    source, batches, found = pa.BufferReader(data), [], 0
    while found < span.skip + span.rows:
        batches += bytes_to_batches(source)
        found += batches[-1].num_rows
    return concat_batches(batches).slice(span.skip, span.rows)
