"""Apache Iceberg: the files of a snapshot, by the package ``pyiceberg``."""

from __future__ import annotations

import collections
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyroaring import BitMap64

from beam_pipelines.core.errors import DataError, RecipeProblems, mask
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import problem
from beam_pipelines_plugins.lakehouses.iceberg_files import table_at
from beam_pipelines_plugins.lakehouses.options import IcebergOptions, local_path
from beam_pipelines_plugins.lakehouses.snapshots import (
    NOTHING,
    DataFile,
    Positions,
    TableSnapshot,
    id_of,
    own_name,
    plain,
    utc,
)

_MAGIC = bytes.fromhex("d1d33964")


def snapshot_of(source: Source) -> TableSnapshot:
    """Returns a table at its source's snapshot, or the current one.

    Raises:
      RecipeProblems: there is no such snapshot.
      DataError: the table cannot be read, or needs what is not supported.
    """
    (path,) = source.path
    title = f"Iceberg table {mask(path)}"
    try:
        table = table_at(path)
        place = local_path(table.metadata_location)
        with input_roots.within_store(place):
            return _snapshot(source, title, table, place)
    except (DataError, RecipeProblems):
        raise
    # The package has no base class of its errors, and passes on those of storages.
    except Exception as error:
        raise DataError(
            f"{title}: cannot be read: {mask(str(error)) or type(error).__name__}. Check 'path', "
            "and that its metadata are whole."
        ) from error


def _chosen(source: Source, table: Table) -> Snapshot:
    """Returns the snapshot that a source names.

    Raises:
      RecipeProblems: there is none.
    """
    options = source.options_of(IcebergOptions)
    if options.snapshot_id is not None:
        found = table.snapshot_by_id(options.snapshot_id)
    else:
        found = table.current_snapshot()
    if found is None:
        key = "path" if options.snapshot_id is None else "snapshot_id"
        latest = ", ".join(
            f"{known.snapshot_id} ({utc(known.timestamp_ms)})" for known in table.snapshots()[-5:]
        )
        message = f"found no such snapshot of the table. The latest are {latest or 'none'}."
        raise RecipeProblems([problem(source, key, message)])
    return found


def _snapshot(source: Source, title: str, table: Table, place: str) -> TableSnapshot:
    chosen, schema = _chosen(source, table), table.schema()
    if "snapshot_id" in source.options:
        schema = table.schemas().get(chosen.schema_id or 0, schema)
    entries = [
        entry
        for manifest in chosen.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    data = [entry for entry in entries if entry.data_file.content == DataFileContent.DATA]
    for entry in data:
        if entry.data_file.file_format != FileFormat.PARQUET:
            raise DataError(
                f"{title}: found the file {entry.data_file.file_path} of "
                f"{entry.data_file.file_format.value}, expected Parquet. Have the table's files "
                "rewritten with the property 'write.format.default' = 'parquet'."
            )
    deleted: Mapping[str, Positions] = {}
    if len(data) < len(entries):
        deleted = _deleted(table.scan(snapshot_id=chosen.snapshot_id).plan_files())
    mapping = table.name_mapping()
    fields = schema_to_pyarrow(schema, include_field_ids=True)
    return TableSnapshot(
        title,
        str(chosen.snapshot_id),
        utc(chosen.timestamp_ms),
        plain(fields, own_name),
        plain(fields, id_of),
        {} if mapping is None else dict(_ids(mapping.root)),
        [
            DataFile(
                local_path(entry.data_file.file_path),
                entry.data_file.file_size_in_bytes,
                entry.data_file.record_count,
                _constants(table, schema, entry.data_file),
                deleted.get(entry.data_file.file_path, NOTHING),
            )
            for entry in sorted(data, key=lambda each: each.sequence_number or 0)
        ],
        str(table.metadata.table_uuid),
        place,
    )


def _ids(mapping: Iterable[MappedField], path: str = "") -> Iterator[tuple[str, str]]:
    """Yields path -> id of the fields that Iceberg's name mapping names."""
    for field in mapping:
        for name in field.names:
            if field.field_id is not None:
                yield f"{path}{name}", str(field.field_id)
            yield from _ids(field.fields, f"{path}{name}.")


def _constants(table: Table, schema: Schema, file: IcebergFile) -> dict[str, Any]:
    """Returns the values that a file has if it lacks their columns."""
    constants = {
        field.name: field.initial_default
        for field in schema.fields
        if field.initial_default is not None
    }
    known = {field.field_id: field.name for field in schema.fields}
    for place, part in enumerate(table.specs()[file.spec_id].fields):
        if part.source_id in known and isinstance(part.transform, IdentityTransform):
            constants[known[part.source_id]] = file.partition[place]
    return constants


def _deleted(tasks: Iterable[FileScanTask]) -> dict[str, Positions]:
    """Returns path of a data file -> its deleted rows.

    They are numbers from 0, ascending. Each file is read once.

    Raises:
      DataError: one cannot be read.
    """
    formats = {each.file_path: each.file_format for task in tasks for each in task.delete_files}
    found: dict[str, list[Positions]] = collections.defaultdict(list)
    readers = {FileFormat.PARQUET: _positions, FileFormat.PUFFIN: _vectors}
    for path, kind in formats.items():
        read = readers.get(kind)
        if read is None:
            raise DataError(
                f"{path}: found deleted rows in {kind.value}, expected Parquet or Puffin. Have the "
                "table's files rewritten."
            )
        for data_file, rows in read(local_path(path)):
            found[data_file].append(rows)
    return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}


def _positions(path: str) -> Iterator[tuple[str, Positions]]:
    """Yields data file -> deleted rows of a Parquet file."""
    with files.open_read(path) as file, files.reading(path):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        for batch in parquet.iter_batches(columns=["file_path", "pos"]):
            grouped = pa.table(batch).group_by("file_path").aggregate([("pos", "list")])
            for name, rows in zip(grouped["file_path"], grouped["pos_list"], strict=True):
                yield name.as_py(), rows.values.to_numpy(zero_copy_only=False)


def _vectors(path: str) -> Iterator[tuple[str, Positions]]:
    """Yields data file -> deletion vector of a Puffin file.

    A vector is a magic number and a bitmap, with their length before and their CRC-32 behind, which
    the package does not check.
    """
    puffin = PuffinFile(files.read_bytes(path))
    for blob in puffin.footer.blobs:
        data_file = blob.properties.get("referenced-data-file", "")
        payload = puffin.get_blob_payload(blob)
        vector, checksum = payload[4:-4], payload[-4:]
        if vector[:4] != _MAGIC or zlib.crc32(vector) != int.from_bytes(checksum, "big"):
            raise DataError(
                f"{path}: found a damaged deletion vector of {data_file}, expected a whole one. "
                "Get the file again, or restore the table."
            )
        yield data_file, np.array(BitMap64.deserialize(vector[4:]).to_array(), np.int64)
