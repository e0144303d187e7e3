"""Logs of Iceberg tables: rows of the package, or an error.

Input: the metadata of a table and the entries of its manifest, as JSON, with a zero byte between;
its data files are always the same. ``@`` stands for their folder.
"""

from __future__ import annotations

import functools
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from pyiceberg.table import StaticTable

from beam_pipelines.core.limits import Limits
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from plugins.tests.support import iceberg_tables as iceberg
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.support.made_source import made_source

_TOKENS = [b'"long"', b'"string"', b'"decimal(9, 2)"', b'"struct"', b'"identity"', b'"bucket[4]"', b"null", b"-1", b"0", b"{}", b"[]",
           b'"append"', b'"overwrite"', b'"format-version":1', b'"schema.name-mapping.default"', b"99999999999999999999", b'"@/a"', b'"n"', b"true"]  # fmt: skip
_END = b"\0"
# Parts of a file's entry that are bytes.
_STATISTICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts",
               "lower_bounds", "upper_bounds", "key_metadata", "split_offsets", "partitions")  # fmt: skip
_NAMES = ("list.avro", "manifest.avro", "data.parquet")
_UUID = "00000000-0000-4000-8000-000000000000"


def run(data: bytes) -> None:
    """Compares a table's rows with the package's."""
    made, (metadata, _, entries) = _table(), data.partition(_END)
    own = metadata.replace(b"@", made.folder.as_uri().encode())
    path = scratch.write("iceberg-own", "a.metadata.json", own)
    if not _write(made, _NAMES[1], made.manifest, entries):
        return

    def call() -> Any:
        source = made_source("s", (path,), format="iceberg", limits=Limits(nesting_depth=16))
        return read.read_table(planner.plan_source(source, ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        expected = StaticTable.from_metadata(path).scan().to_arrow()
    except Exception:  # noqa: BLE001 - what the package does not take is nothing to compare with
        return
    require(table.num_rows == expected.num_rows, "iceberg: another number of rows")
    for name in set(table.column_names) & set(expected.column_names):
        if pa.types.is_integer(expected.schema.field(name).type):
            ours, theirs = (sorted(map(str, each[name].to_pylist())) for each in (table, expected))
            require(ours == theirs, "iceberg: other values", f"{ours} {theirs}")


class _Avro(NamedTuple):
    """A file of Avro: its schema, records and own metadata."""

    schema: Any
    records: list[Any]
    keys: dict[str, str]


class _Made(NamedTuple):
    """A table whose names and numbers are the same in each process.

    Attributes:
      folder: of all files.
      metadata: JSON.
      manifest: of the data file.
    """

    folder: Path
    metadata: str
    manifest: _Avro


@functools.cache
def _table() -> _Made:
    folder = Path(scratch.folder("iceberg"))
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "c": ["x", "y", None]})
    table = iceberg.create(folder, rows)
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    paths = [table.metadata_location, (snapshot and snapshot.manifest_list) or "",
             *(manifest.manifest_path for manifest in manifests),
             *(task.file.file_path for task in table.scan().plan_files())]  # fmt: skip
    named = dict(zip(paths, ("a.metadata.json", *_NAMES), strict=True))

    def plain(text: str) -> str:
        for path, name in named.items():
            text = text.replace(path, f"@/{name}")
        text = text.replace(str(table.metadata.current_snapshot_id), "1")
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", _UUID, text)
        return re.sub(r"\b1[78]\d{11}\b", "1767225600000", text).replace(folder.as_uri(), "@")

    def decoded(path: str) -> _Avro:
        with open(path.removeprefix("file://"), "rb") as file:
            reader = fastavro.reader(file)
            records = [_without_bytes(record) for record in reader]
            keys = {key: value for key, value in reader.metadata.items() if "avro" not in key}
            return _Avro(reader.writer_schema, json.loads(plain(json.dumps(records))), keys)

    made = _Made(
        folder,
        json.dumps(json.loads(plain(Path(paths[0].removeprefix("file://")).read_text()))),
        decoded(paths[2]),
    )
    listed = decoded(paths[1])
    shutil.copy(paths[3].removeprefix("file://"), folder / _NAMES[2])
    _write(made, _NAMES[0], listed, json.dumps(listed.records).encode())
    return made


def _without_bytes(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record without its statistics, which are bytes."""
    return {
        key: None
        if key in _STATISTICS
        else _without_bytes(value)
        if isinstance(value, dict)
        else value
        for key, value in record.items()
    }


def _write(made: _Made, name: str, avro: _Avro, records: bytes) -> bool:
    """Writes a file of Avro; returns whether the records fit its schema."""
    text = records.decode("utf-8", "replace").replace("@", made.folder.as_uri())
    try:
        with open(made.folder / name, "wb") as file:
            fastavro.writer(file, avro.schema, json.loads(text), metadata=avro.keys)
    except Exception:  # noqa: BLE001 - no such file
        return False
    return True


def seeds() -> list[bytes]:
    """A table as it is, and one of the version before."""
    made = _table()
    entries = _END + json.dumps(made.manifest.records).encode()
    earlier = made.metadata.replace('"format-version": 2', '"format-version": 1')
    return [made.metadata.encode() + entries, earlier.encode() + entries]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes metadata or entries, or puts their words anywhere."""
    metadata, _, entries = data.partition(_END)
    if chance.randrange(3):
        return mutations.splice(metadata, _TOKENS, chance) + _END + entries
    return metadata + _END + mutations.splice(entries, _TOKENS, chance)


TARGET = Target(run, seeds, mutate, max_bytes=8192)
