"""Apache Iceberg: the files of a snapshot, by the package ``pyiceberg``.

The package ``pyiceberg`` imports and calls classes that properties name, and opens any path.
Metadata are data: only the properties listed here are taken from them. All files are opened by
``files.open_read``, within ``--input_root``.
"""

from __future__ import annotations

import collections
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
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
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.lakehouses import snapshots
from beam_pipelines_plugins.lakehouses.options import IcebergOptions, local_path

_MAGIC = bytes.fromhex("d1d33964")


def snapshot_of(source: Source) -> snapshots.TableSnapshot:
    """Returns a table at its source's snapshot, or the current one.

    Raises:
      RecipeProblems: there is no such snapshot.
      DataError: the table cannot be read, or needs what is not supported.
    """
    (path,) = source.path
    title = f"Iceberg table {mask(path)}"
    try:
        table = _table_at(path)
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
            f"{known.snapshot_id} ({snapshots.utc(known.timestamp_ms)})"
            for known in table.snapshots()[-5:]
        )
        message = f"found no such snapshot of the table. The latest are {latest or 'none'}."
        raise RecipeProblems([problem(source, key, message)])
    return found


def _snapshot(source: Source, title: str, table: Table, place: str) -> snapshots.TableSnapshot:
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
    deleted: Mapping[str, snapshots.Positions] = {}
    if len(data) < len(entries):
        deleted = _deleted(table.scan(snapshot_id=chosen.snapshot_id).plan_files())
    mapping = table.name_mapping()
    fields = schema_to_pyarrow(schema, include_field_ids=True)
    return snapshots.TableSnapshot(
        title,
        str(chosen.snapshot_id),
        snapshots.utc(chosen.timestamp_ms),
        snapshots.plain(fields, snapshots.own_name),
        snapshots.plain(fields, snapshots.id_of),
        {} if mapping is None else dict(_ids(mapping.root)),
        [
            snapshots.DataFile(
                local_path(entry.data_file.file_path),
                entry.data_file.file_size_in_bytes,
                entry.data_file.record_count,
                _constants(table, schema, entry.data_file),
                deleted.get(entry.data_file.file_path, snapshots.NOTHING),
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


def _deleted(tasks: Iterable[FileScanTask]) -> dict[str, snapshots.Positions]:
    """Returns path of a data file -> its deleted rows.

    They are numbers from 0, ascending. Each file is read once.

    Raises:
      DataError: one cannot be read.
    """
    formats = {each.file_path: each.file_format for task in tasks for each in task.delete_files}
    found: dict[str, list[snapshots.Positions]] = collections.defaultdict(list)
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


def _positions(path: str) -> Iterator[tuple[str, snapshots.Positions]]:
    """Yields data file -> deleted rows of a Parquet file."""
    with files.open_read(path) as file, files.reading(path):
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        for batch in parquet.iter_batches(columns=["file_path", "pos"]):
            grouped = pa.table(batch).group_by("file_path").aggregate([("pos", "list")])
            for name, rows in zip(grouped["file_path"], grouped["pos_list"], strict=True):
                yield name.as_py(), rows.values.to_numpy(zero_copy_only=False)


def _vectors(path: str) -> Iterator[tuple[str, snapshots.Positions]]:
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


# What a table's metadata may say.
_OF_TABLES = ("schema.name-mapping.default",)
_MOST_METADATA_BYTES, _MOST_ENTRIES = 256 << 20, 1_000_000
_AVRO = b"Obj\x01"


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
    """A metadata file or a manifest, in memory."""

    def __len__(self) -> int:
        return len(self.open().getbuffer())

    def exists(self) -> bool:
        return files.exists(local_path(self.location))

    def open(self, seekable: bool = True) -> Any:
        path, most = local_path(self.location), _MOST_METADATA_BYTES
        data = files.read_at_most(path, most)
        if data is not None and path.endswith(".gz.metadata.json"):
            with gzip.open(io.BytesIO(data)) as file:
                data = None if len(file.read(most + 1)) > most else data
        if data is None:
            raise DataError(
                f"{path}: found more than {most:,} bytes of metadata, expected at most as many. "
                "Have old snapshots of the table expired."
            )
        return io.BytesIO(_unpacked(path, data) if data.startswith(_AVRO) else data)


def _unpacked(path: str, manifest: bytes) -> bytes:
    """Returns a manifest without compression: the package takes blocks of any size.

    Raises:
      DataError: it has too many bytes or entries.
    """
    from fastavro.write import Writer  # takes 30 ms

    rows, unpacked = 0, io.BytesIO()

    def most(_packed: int) -> int:
        return _MOST_METADATA_BYTES - unpacked.tell()

    file = AvroFile(io.BytesIO(manifest), path)
    writer = Writer(unpacked, file.schema, sync_marker=file.sync)
    with contextlib.suppress(TooLargeError):
        for block in file.blocks(file.start, len(manifest), most):
            rows += block.num_records
            if rows > _MOST_ENTRIES:
                break
            writer.write_block(block)
        else:
            return unpacked.getvalue()
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
