"""Apache Iceberg: the files of a snapshot, by the package ``pyiceberg``.

The package ``pyiceberg`` imports and calls classes that properties name, and opens any path.
Metadata are data: only the properties listed here are taken from them. All files are opened by
``files.open_read``, within ``--input_root``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO, InputFile
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import DataScan, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform

from beam_pipelines.core.errors import DataError, RecipeProblems, mask
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.source_format import problem
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.lakehouses import snapshots
from beam_pipelines_plugins.lakehouses.options import IcebergOptions, local_path


def snapshot_of(source: Source) -> snapshots.TableSnapshot:
    """Returns a table at its source's snapshot, or the current one.

    Raises:
      RecipeProblems: there is no such snapshot.
      DataError: the table cannot be read.
    """
    with _reading(source):
        return _snapshot(source, _table_at(source.path[0]))


def batches_of(source: Source, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a table, in the order of its files.

    Args:
      source: with the metadata file.
      columns: to read.

    Raises:
      DataError: the table cannot be read, or needs what the package does not know.
    """
    with _reading(source):
        table = _table_at(source.path[0])
        scan = _scan(source, table, tuple(columns.names))
        reader = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
        tasks = {task.file.file_path: task for task in scan.plan_files()}
        data, _ = _files(table, _chosen(source, table))
    for file in data:  # by itself the package reads all at once
        with _reading(source):
            found = reader.to_record_batches([tasks[file.file_path]])
            batches = [batch.select(columns.names).cast(columns) for batch in found]
        yield from batches


@contextlib.contextmanager
def _reading(source: Source) -> Iterator[None]:
    """Reads files of a table's store only, and turns errors into ours."""
    (path,) = source.path
    try:
        with input_roots.within_store(path):
            yield
    except (DataError, RecipeProblems):
        raise
    # The package has no base class of its errors, and passes on those of storages.
    except Exception as error:
        raise DataError(
            f"Iceberg table {mask(path)}: cannot be read: "
            f"{mask(str(error)) or type(error).__name__}. Check 'path', and that its metadata are "
            "whole; what the package does not support, the table's engine can rewrite."
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
            f"{known.snapshot_id} ({snapshots.utc(known.timestamp_ms)})"
            for known in table.snapshots()[-5:]
        )
        message = f"found no such snapshot of the table. The latest are {latest or 'none'}."
        raise RecipeProblems([problem(source, key, message)])
    return found


def _scan(source: Source, table: Table, names: tuple[str, ...] = ("*",)) -> DataScan:
    """Returns a scan of the snapshot that is named, or the latest."""
    snapshot_id = source.options_of(IcebergOptions).snapshot_id
    return table.scan(snapshot_id=snapshot_id, selected_fields=names)


def _files(table: Table, chosen: Snapshot) -> tuple[list[IcebergFile], bool]:
    """Returns a snapshot's data files by age, and whether it has deletes."""
    entries = [
        entry
        for manifest in chosen.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    data = [entry for entry in entries if entry.data_file.content == DataFileContent.DATA]
    data.sort(key=lambda entry: entry.sequence_number or 0)
    return [entry.data_file for entry in data], len(data) < len(entries)


def _snapshot(source: Source, table: Table) -> snapshots.TableSnapshot:
    chosen, place = _chosen(source, table), local_path(table.metadata_location)
    (data, has_deletes), scan = _files(table, chosen), _scan(source, table)
    schema = scan.projection()
    columns, *old = map(schema_to_pyarrow, (schema, *table.schemas().values()))
    ids = snapshots.ids_of(columns)
    needs = {
        "deleted rows": has_deletes and any(scan.plan_files()),
        "files other than Parquet": any(file.file_format != FileFormat.PARQUET for file in data),
        "renamed columns": not all(snapshots.agree(ids, snapshots.ids_of(one)) for one in old),
        "a mapping of names": table.name_mapping() is not None,
        "partition values in its log only": any(_lacks(table, file) for file in data),
        "default values": any(field.initial_default is not None for field in schema.fields),
    }
    return snapshots.TableSnapshot(
        f"Iceberg table {mask(source.path[0])}",
        str(chosen.snapshot_id),
        snapshots.utc(chosen.timestamp_ms),
        snapshots.plain(columns),
        [
            snapshots.DataFile(
                local_path(file.file_path), file.file_size_in_bytes, file.record_count
            )
            for file in data
        ],
        str(table.metadata.table_uuid),
        dataclasses.replace(source, path=(place,)),
        ", ".join(need for need, is_there in needs.items() if is_there),
        ids,
    )


def _lacks(table: Table, file: IcebergFile) -> bool:
    """Whether a file may lack a column, whose value its partition has."""
    return any(
        isinstance(part.transform, IdentityTransform)
        and part.source_id not in (file.value_counts or {})
        for part in table.specs()[file.spec_id].fields
    )


# What a table's metadata may say.
_OF_TABLES = ("schema.name-mapping.default",)
_MOST_METADATA_BYTES, _MOST_ENTRIES = 256 << 20, 1_000_000
_AVRO, _DATA = b"Obj\x01", (b"PAR1", b"ORC")


class TableFiles(FileIO):
    """Opens the files of tables for reading, and no others.

    No property changes where or how.
    """

    def new_input(self, location: str) -> _TableFile:
        """Returns a file that data name; it is not opened yet."""
        input_roots.check(local_path(location))
        return _TableFile(location)

    def delete(self, location: Any) -> Any:
        """Raises ``DataError``: tables are read only."""
        raise DataError(f"{location}: not written, as tables are read only.")

    new_output = delete


class _TableFile(InputFile):
    """A file of a table: metadata and manifests are in memory."""

    def __len__(self) -> int:
        return len(self.open().getbuffer())

    def exists(self) -> bool:
        return files.exists(local_path(self.location))

    def open(self, seekable: bool = True) -> Any:
        path, most = local_path(self.location), _MOST_METADATA_BYTES
        file = files.open_read(path)
        if file.read(4).startswith(_DATA):
            file.seek(0)
            return file
        file.close()
        data = files.read_at_most(path, most)
        if data is not None and path.endswith(".gz.metadata.json"):
            with gzip.open(io.BytesIO(data)) as unpacked:
                data = None if len(unpacked.read(most + 1)) > most else data
        if data is None:
            raise DataError(
                f"{path}: found more than {most:,} bytes of metadata, expected at most as many. "
                "Have old snapshots of the table expired."
            )
        if data.startswith(_AVRO):
            _check_manifest(path, data)
        return io.BytesIO(data)


def _check_manifest(path: str, data: bytes) -> None:
    """Checks what a manifest becomes: the package takes blocks of any size.

    Raises:
      DataError: it has too many bytes or entries.
    """
    rows = size = 0

    def left(_packed: int) -> int:
        return _MOST_METADATA_BYTES - size

    try:
        for block in AvroFile(io.BytesIO(data), path).blocks(left):
            rows += block.num_records
            size += len(block.bytes_.getvalue())
    except TooLargeError:
        rows = _MOST_ENTRIES + 1
    if rows > _MOST_ENTRIES:
        raise DataError(
            f"{path}: found more than {_MOST_METADATA_BYTES:,} bytes or {_MOST_ENTRIES:,} "
            "entries in a manifest, expected at most as many. Have manifests rewritten."
        )


def _table_at(path: str) -> Table:
    """Opens the table of a metadata file or a table's folder."""
    path = local_path(path)
    if not path.endswith(".metadata.json"):
        folder = files.join(path, "metadata")
        hinted = files.join(folder, "version-hint.text")
        if not files.exists(hinted):
            raise DataError(
                f"{hinted}: there is no such file. Expected it in the folder of an Iceberg table, "
                "or the path of the .metadata.json that a catalog has of it."
            )
        name = files.read_document(hinted).decode().strip().removesuffix(".metadata.json")
        path = files.join(folder, f"{'v' if name.isnumeric() else ''}{name}.metadata.json")
    metadata = FromInputFile.table_metadata(_TableFile(path))
    kept = {key: value for key, value in metadata.properties.items() if key in _OF_TABLES}
    metadata = metadata.model_copy(update={"properties": kept})
    return Table(("table", path), metadata, path, TableFiles(), NoopCatalog("data"))
