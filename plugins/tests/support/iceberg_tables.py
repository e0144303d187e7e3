"""Tables of Apache Iceberg, with deleted rows of other engines.

The package ``pyiceberg`` reads files of deleted rows, and writes none.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record
from pyroaring import BitMap64

NAME = "db.trips"


def catalog_of(folder: Path) -> SqlCatalog:
    """Returns a catalog in a folder, made if needed."""
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    catalog = SqlCatalog("default", uri=uri, warehouse=warehouse)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def create(folder: Path, rows: pa.Table, **properties: str) -> Table:
    """Makes the table ``NAME`` with some rows."""
    table = catalog_of(folder).create_table(NAME, rows.schema, properties=properties)
    table.append(rows)
    return table


def source_of(folder: Path, **options: Any) -> dict[str, Any]:
    """Returns the source of ``NAME`` in a recipe."""
    path = catalog_of(folder).load_table(NAME).metadata_location
    return {"format": "iceberg", "path": path, **options}


class _DeleteManifest(ManifestWriterV2):
    """Writes a manifest of files of deleted rows."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def with_deletes(
    table: Table, path: Path, kind: FileFormat, rows: int, ids: Sequence[int] = ()
) -> Path:
    """Adds a snapshot with deleted rows; returns its metadata file.

    Args:
      table: as it is now.
      path: the file.
      kind: its format.
      rows: in it.
      ids: fields whose values are deleted; none: rows are deleted by position.
    """
    parent = table.current_snapshot()
    assert parent is not None
    number = parent.snapshot_id + 1
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    spec, schema = table.spec(), table.schema()
    sequence = table.metadata.last_sequence_number + 1
    content = DataFileContent.EQUALITY_DELETES if ids else DataFileContent.POSITION_DELETES
    file = DataFile.from_args(
        content=content, file_path=str(path), file_format=kind, partition=Record(),
        record_count=rows, file_size_in_bytes=path.stat().st_size, column_sizes={},
        value_counts={}, null_value_counts={}, nan_value_counts={}, lower_bounds={},
        upper_bounds={}, key_metadata=None, split_offsets=None, equality_ids=list(ids) or None,
        sort_order_id=None,
    )  # fmt: skip
    file.spec_id = spec.spec_id
    manifest = folder / f"{uuid.uuid4()}-m0.avro"
    output = table.io.new_output(f"file://{manifest}")
    with _DeleteManifest(spec, schema, output, number, "deflate") as writer:
        writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file
            )
        )
    listed = folder / f"snap-{number}.avro"
    output = table.io.new_output(f"file://{listed}")
    with write_manifest_list(2, output, number, parent.snapshot_id, sequence, "deflate") as lists:
        lists.add_manifests([writer.to_manifest_file(), *parent.manifests(table.io)])
    snapshot = Snapshot(
        snapshot_id=number, parent_snapshot_id=parent.snapshot_id, sequence_number=sequence,
        timestamp_ms=table.metadata.last_updated_ms + 1, manifest_list=f"file://{listed}",
        summary=Summary(Operation.DELETE), schema_id=schema.schema_id,
    )  # fmt: skip
    metadata = json.loads(table.metadata.model_dump_json())
    metadata["snapshots"].append(json.loads(snapshot.model_dump_json()))
    metadata |= {"current-snapshot-id": number, "last-sequence-number": sequence}
    metadata["refs"]["main"]["snapshot-id"] = number
    path = folder / f"{uuid.uuid4()}.metadata.json"
    path.write_text(json.dumps(metadata))
    return path


def positions(path: Path, deleted: Mapping[str, Sequence[int]]) -> int:
    """Writes data file -> deleted rows as Parquet; returns their number."""
    pairs = [(name, row) for name, rows in deleted.items() for row in rows]
    table = {"file_path": [name for name, _ in pairs], "pos": [row for _, row in pairs]}
    pq.write_table(pa.table(table), path)
    return len(pairs)


def vectors(path: Path, deleted: Mapping[str, Sequence[int]]) -> int:
    """Writes data file -> deleted rows as deletion vectors; returns their number."""
    content, blobs = b"PFA1", []
    for name, rows in deleted.items():
        vector = bytes.fromhex("d1d33964") + BitMap64(rows).serialize()
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        blobs.append(
            {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
             "offset": len(content), "length": len(blob),
             "properties": {"referenced-data-file": name, "cardinality": str(len(rows))}}
        )  # fmt: skip
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    end = b"PFA1" + footer + struct.pack("<I", len(footer)) + b"\0\0\0\0" + b"PFA1"
    path.write_bytes(content + end)
    return sum(map(len, deleted.values()))
