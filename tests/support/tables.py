"""Writes tables as files, in the format that a file's name tells."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import fastavro
import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, orc

_AVRO = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}


def write_table(path: Path, table: pa.Table, rows: int | None = None) -> Path:
    """Writes a table, with ``rows`` rows a group; returns the path."""
    path.write_bytes(table_as(path.name.partition(".")[2], table, rows))
    return path


def table_as(suffix: str, table: pa.Table, rows: int | None = None) -> bytes:
    """Returns a table as a file of a suffix."""
    sink = io.BytesIO()
    if suffix in ("arrow", "arrows"):
        opened = pa.ipc.new_file if suffix == "arrow" else pa.ipc.new_stream
        with opened(sink, table.schema) as writer:
            writer.write_table(table, rows)
    elif suffix == "parquet":
        pq.write_table(table, sink, row_group_size=rows)
    elif suffix in _TEXT:
        sink.write(_TEXT[suffix](table).encode())
    elif suffix.endswith(".gz"):
        sink.write(gzip.compress(table_as(suffix.removesuffix(".gz"), table)))
    else:
        _BINARY[suffix](table, sink)
    return sink.getvalue()


def _csv(table: pa.Table) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([table.column_names, *(row.values() for row in table.to_pylist())])
    return text.getvalue()


def _avro(table: pa.Table, sink: io.BytesIO) -> None:
    fields = [{"name": one.name, "type": ["null", _AVRO[one.type]]} for one in table.schema]
    schema = {"type": "record", "name": "Row", "fields": fields}
    fastavro.writer(sink, schema, table.to_pylist())


def _hdf5(table: pa.Table, sink: io.BytesIO) -> None:
    with h5py.File(sink, "w") as file:
        for name, values in table.to_pydict().items():
            file[name] = values


def _xlsx(table: pa.Table, sink: io.BytesIO) -> None:
    book = openpyxl.Workbook()
    for cells in (table.column_names, *(row.values() for row in table.to_pylist())):
        book.active.append(list(cells))
    book.save(sink)


_TEXT: dict[str, Callable[[pa.Table], str]] = {
    "csv": _csv,
    "json": lambda table: json.dumps(table.to_pylist(), indent=1),
    "jsonl": lambda table: "".join(json.dumps(row) + "\n" for row in table.to_pylist()),
}
_BINARY: dict[str, Callable[[pa.Table, io.BytesIO], object]] = {
    "feather": feather.write_feather,
    "orc": orc.write_table,
    "avro": _avro,
    "npz": lambda table, sink: np.savez(
        sink, **{name: np.array(values) for name, values in table.to_pydict().items()}
    ),
    "h5": _hdf5,
    "xlsx": _xlsx,
}
