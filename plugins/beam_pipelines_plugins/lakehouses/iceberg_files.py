"""Opens Iceberg tables, whose metadata start and open nothing else.

The package ``pyiceberg`` imports and calls classes that properties name, and opens any path.
Metadata are data: only the properties listed here are taken from them. All files are opened by
``files.open_read``, within ``--input_root``.
"""

from __future__ import annotations

import contextlib
import gzip
import io
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.lakehouses.options import local_path

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


def table_at(path: str) -> Table:
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
