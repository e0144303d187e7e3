"""Apache Iceberg: the files of a snapshot.

Catalogs, metadata and manifests are read by the package ``pyiceberg``.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, mask
from beam_pipelines.recipe.model import Source
from beam_pipelines.storage import input_roots
from beam_pipelines_plugins.lakehouses import iceberg_deletes
from beam_pipelines_plugins.lakehouses.options import IcebergOptions
from beam_pipelines_plugins.lakehouses.projection import plain_schema
from beam_pipelines_plugins.lakehouses.snapshots import (
    NOTHING,
    DataFile,
    Positions,
    TableSnapshot,
    missing_package,
    utc,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def snapshot_of(source: Source) -> TableSnapshot:
    """Returns a table at its source's snapshot, or the current one.

    Raises:
      RecipeProblems: there is no such catalog, table or snapshot.
      DataError: the table cannot be read, or needs what is not supported.
    """
    table = _table(source)
    place = iceberg_deletes.local_path(table.metadata_location)
    with _explained(_title(source)), input_roots.within_store(place):
        return _snapshot(source, table, _chosen(source, table))


def _title(source: Source) -> str:
    options = source.options_of(IcebergOptions)
    if options.catalog is None:
        return f"Iceberg table {mask(source.path[0])}"
    return f"Iceberg table {options.table} of catalog {options.catalog.shown}"


def _table(source: Source) -> Table:
    """Opens the table of a source.

    Raises:
      RecipeProblems: the catalog has no such table.
    """
    try:
        from beam_pipelines_plugins.lakehouses import iceberg_catalogs
    except ImportError as error:
        raise missing_package("pyiceberg", error) from error
    with _explained(_title(source)):
        catalog = source.options_of(IcebergOptions).catalog
        if catalog is None:
            return iceberg_catalogs.table_at(source.path[0])
        return iceberg_catalogs.table_of(catalog, source)


@contextlib.contextmanager
def _explained(title: str) -> Iterator[None]:
    """Turns errors of the package into ``DataError``."""
    try:
        yield
    except (DataError, RecipeProblems):
        raise
    # The package has no base class of its errors, and passes on those of databases and storages.
    except Exception as error:
        raise DataError(
            f"{title}: cannot be read: {mask(str(error)) or type(error).__name__}. Check 'catalog' "
            "and 'table', or 'path', and that its metadata are whole."
        ) from error


def _chosen(source: Source, table: Table) -> Snapshot:
    """Returns the snapshot that a source names.

    Raises:
      RecipeProblems: there is none.
    """
    options = source.options_of(IcebergOptions)
    key, found = "table" if options.catalog is not None else "path", None
    if options.snapshot_id is not None:
        key, found = "snapshot_id", table.snapshot_by_id(options.snapshot_id)
    elif options.as_of is not None:
        moment = datetime.datetime.fromisoformat(options.as_of)
        key, found = "as_of", table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
    else:
        found = table.current_snapshot()
    if found is None:
        first = ", ".join(
            f"{known.snapshot_id} ({utc(known.timestamp_ms)})" for known in table.snapshots()[-5:]
        )
        message = f"found no such snapshot of the table. The latest are {first or 'none'}."
        raise RecipeProblems([Problem(("sources", source.name, key), message)])
    return found


def _snapshot(source: Source, table: Table, chosen: Snapshot) -> TableSnapshot:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    title = _title(source)
    schema = _schema(source, table, chosen)
    manifests = chosen.manifests(table.io)
    deletes = _deletes(table, chosen, manifests)
    found = sorted(_entries(table, manifests, title), key=lambda each: each.sequence_number or 0)
    mapping = table.name_mapping()
    return TableSnapshot(
        title,
        str(chosen.snapshot_id),
        utc(chosen.timestamp_ms),
        plain_schema(schema_to_pyarrow(schema, include_field_ids=True), True),
        "id",
        "" if mapping is None else mapping.model_dump_json(),
        [
            _data_file(
                table,
                schema,
                entry.data_file,
                deletes.get(entry.data_file.file_path, NOTHING),
            )
            for entry in found
        ],
        str(table.metadata.table_uuid),
        iceberg_deletes.local_path(table.metadata_location),
    )


def _schema(source: Source, table: Table, chosen: Snapshot) -> Schema:
    """Returns the columns of now, or of a snapshot that is named."""
    options = source.options_of(IcebergOptions)
    if options.snapshot_id is None and options.as_of is None:
        return table.schema()
    return table.schemas().get(chosen.schema_id or 0, table.schema())


def _entries(
    table: Table, manifests: Iterable[ManifestFile], title: str
) -> Iterator[ManifestEntry]:
    """Yields the entries of data files in manifests.

    Raises:
      DataError: a file is no Parquet file, or has deleted rows.
    """
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

    for manifest in manifests:
        if manifest.content != ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            if file.content != DataFileContent.DATA:
                raise DataError(
                    f"{title}: found {file.file_path} of deleted rows among the files of data, "
                    "expected them in a manifest of their own. Have the engine that writes the "
                    "table rewrite its manifests."
                )
            if file.file_format != FileFormat.PARQUET:
                raise DataError(
                    f"{title}: found the file {file.file_path} of {file.file_format.value}, "
                    "expected Parquet. Have the table's files rewritten with the property "
                    "'write.format.default' = 'parquet'."
                )
            yield entry


def _deletes(
    table: Table, chosen: Snapshot, manifests: Iterable[ManifestFile]
) -> dict[str, Positions]:
    """Returns path -> deleted rows of the files that have some.

    Raises:
      ValueError: the package refuses rows that are deleted by their values.
    """
    from pyiceberg.manifest import ManifestContent

    if all(manifest.content != ManifestContent.DELETES for manifest in manifests):
        return {}
    return iceberg_deletes.read_deletes(
        {
            task.file.file_path: [
                (each.file_path, each.file_format.value) for each in task.delete_files
            ]
            for task in table.scan(snapshot_id=chosen.snapshot_id).plan_files()
            if task.delete_files
        }
    )


def _data_file(table: Table, schema: Schema, file: IcebergFile, deleted: Positions) -> DataFile:
    return DataFile(
        iceberg_deletes.local_path(file.file_path),
        file.file_size_in_bytes,
        file.record_count,
        _constants(table, schema, file),
        deleted,
    )


def _constants(table: Table, schema: Schema, file: IcebergFile) -> dict[str, Any]:
    """Returns the values that a file has if it lacks their columns."""
    from pyiceberg.transforms import IdentityTransform

    known = {field.field_id: field for field in schema.fields}
    constants = {
        field.name: field.initial_default
        for field in schema.fields
        if field.initial_default is not None
    }
    for place, part in enumerate(table.specs()[file.spec_id].fields):
        field = known.get(part.source_id)
        if field is not None and isinstance(part.transform, IdentityTransform):
            constants[field.name] = file.partition[place]
    return constants
