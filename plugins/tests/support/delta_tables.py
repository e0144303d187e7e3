"""Tables of Delta Lake: its writer's, and those it cannot write.

The package ``deltalake`` reads deletion vectors and column mappings, and writes neither.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


def write(path: Path, rows: Mapping[str, Any] | pa.Table, **options: Any) -> DeltaTable:
    """Writes rows to a table, or adds them to it."""
    table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
    write_deltalake(str(path), table, mode="append", **options)
    return DeltaTable(str(path))


def scanned(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Returns the rows by the package's own engine, in any order."""
    found: list[dict[str, Any]] = pa.table(DeltaTable(str(path), **options).scan()).to_pylist()
    return found


def commit(path: Path, actions: Sequence[Mapping[str, Any]], version: int | None = None) -> int:
    """Writes a version with these actions to a log; returns its number."""
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    number = len(list(log.glob("*.json"))) if version is None else version
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{number:020d}.json").write_text(text + "\n")
    return number


def actions_of(path: Path, version: int) -> list[dict[str, Any]]:
    """Returns the actions of a version."""
    text = (path / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def protocol(*features: str) -> dict[str, Any]:
    """Returns the action that asks readers for features."""
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    }


def delete_rows(path: Path, file: str, rows: Sequence[int]) -> int:
    """Deletes rows of a file by a deletion vector.

    Args:
      path: of the table.
      file: as the log names it.
      rows: their numbers in the file, from 0.
    """
    added = next(
        action["add"]
        for version in range(len(list((path / "_delta_log").glob("*.json"))))
        for action in actions_of(path, version)
        if action.get("add", {}).get("path") == file
    )
    vector = struct.pack("<I", _MAGIC) + BitMap64(rows).serialize()
    vector += b"\0" * (-len(vector) % 4)
    described = {
        "storageType": "i",
        "pathOrInlineDv": _z85(vector),
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }
    removed = {"path": file, "dataChange": True, "deletionTimestamp": 1}
    changed = {**added, "dataChange": True, "deletionVector": described}
    return commit(path, [protocol("deletionVectors"), {"remove": removed}, {"add": changed}])


def _z85(data: bytes) -> str:
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits = [_Z85[number // 85**place % 85] for place in range(4, -1, -1)]
        text += "".join(digits)
    return text


def field(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    """Returns a field of a table's schema."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def mapped(name: str, type_: Any, number: int, physical: str) -> dict[str, Any]:
    """Returns a field that files call by another name."""
    keys = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return field(name, type_, **keys)


def metadata(
    fields: Sequence[Mapping[str, Any]],
    partitions: Sequence[str] = (),
    table: str = "a",
    **settings: str,
) -> dict[str, Any]:
    """Returns the action that says columns and settings of a table."""
    return {
        "metaData": {
            "id": table,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
            "partitionColumns": list(partitions),
            "configuration": settings,
        }
    }


def add(
    path: Path, name: str, rows: pa.Table, partition: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """Writes a data file and returns the action that adds it."""
    path.mkdir(exist_ok=True)
    pq.write_table(rows, path / name)
    return {
        "add": {
            "path": name,
            "partitionValues": dict(partition or {}),
            "size": (path / name).stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows}),
        }
    }
