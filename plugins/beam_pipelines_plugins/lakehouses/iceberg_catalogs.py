"""Opens Iceberg tables, whose metadata start and open nothing else.

The package ``pyiceberg`` imports and calls classes that properties name, and opens any path.
Metadata and the answers of a catalog's server are data: only the properties listed here are taken
from them. All files are opened by ``files.open_read``, within ``--input_root``.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any, cast

import requests
from pyiceberg import catalog as catalogs
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO, InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.utils.config import merge_config

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.model import Source
from beam_pipelines.remote.web import ANSWER_SECS, read_answer
from beam_pipelines.sources.format import problem
from beam_pipelines.storage import files, input_roots
from beam_pipelines_plugins.formats.avro_blocks import AvroFile, TooLargeError
from beam_pipelines_plugins.lakehouses.options import (
    Catalog,
    IcebergOptions,
    local_path,
    sqlite_path,
)

# What a table's metadata may say, and what a catalog's server may say of itself.
_OF_TABLES = ("schema.name-mapping.default",)
_OF_SERVERS = ("prefix", "namespace-separator", "view-endpoints-supported", "rest-page-size")
# Properties of data that could only be meant to load code.
_CODE = ("py-io-impl", "py-catalog-impl", "auth")
_MOST_METADATA_BYTES, _MOST_ENTRIES = 256 << 20, 1_000_000
_AVRO = b"Obj\x01"
_CONFIGURATION = ".pyiceberg.yaml"


class TableFiles(FileIO):
    """Opens the files of tables for reading, and no others.

    No property changes where or how.
    """

    def new_input(self, location: str) -> _TableFile:
        """Returns a file that data name; it is not opened yet."""
        _check_named(location)
        return _TableFile(location)

    def delete(self, location: Any) -> Any:
        """Raises ``DataError``: tables are read only."""
        raise DataError(f"{location}: not written, as tables are read only.")

    new_output = delete


def _check_named(location: str) -> None:
    """Checks a place that a catalog names: no server, but for ``--input_root``."""
    input_roots.check(local_path(location))
    if location.lower().startswith("http") and not input_roots.is_restricted():
        words = "found a server that the catalog names, expected a bucket or folder. If you trust"
        raise DataError(f"{location}: {words} it, name it and the catalog with --input_root.")


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
                f"{hinted}: there is no such file. Expected it in the folder of an Iceberg table "
                "without a catalog; or name one of its files .metadata.json."
            )
        name = files.read_document(hinted).decode().strip().removesuffix(".metadata.json")
        path = files.join(folder, f"{'v' if name.isnumeric() else ''}{name}.metadata.json")
    return _own(("table", path), path, FromInputFile.table_metadata(_TableFile(path)))


def table_of(catalog: Catalog, source: Source) -> Table:
    """Opens the table that a source names in a catalog.

    Raises:
      RecipeProblems: there is no such catalog or table.
    """
    opened = _opened(catalog, source)
    try:
        table = opened.load_table(source.options_of(IcebergOptions).table or "")
    except NoSuchTableError as error:
        message = (
            f"{error}. Expected a table of the catalog by the name '{catalog.name}'; 'catalog: "
            "{name: …, uri: …}' names another."
        )
        raise RecipeProblems([problem(source, "table", message)]) from error
    _check_named(table.metadata_location)
    return _own(table.name(), table.metadata_location, table.metadata)


def _own(name: tuple[str, ...], location: str, metadata: TableMetadata) -> Table:
    """Returns a table that can reach nothing but its files."""
    refuse_code(metadata.properties, "the table's properties")
    kept = {key: value for key, value in metadata.properties.items() if key in _OF_TABLES}
    metadata = metadata.model_copy(update={"properties": kept})
    return Table(name, metadata, location, TableFiles(), NoopCatalog("data"))


def refuse_code(properties: Mapping[str, Any], where: str) -> None:
    """Raises ``ValueError`` if properties of data name code to load."""
    for key in _CODE:
        if key in properties:
            raise ValueError(
                f"found '{key}' in {where}, expected none: data name no code to run. Remove the "
                "property if you trust the rest of the table"
            )


def _opened(catalog: Catalog, source: Source) -> catalogs.Catalog:
    """Opens a catalog; its server is asked only if ``--input_root`` allows it."""
    properties = _properties(catalog)
    uri = str(properties.get("uri") or "")
    type_ = str(properties.get("type") or "").lower()
    inferred = None if type_ else catalogs.infer_catalog_type(catalog.name, cast("Any", properties))
    kind = catalogs.CatalogType(type_) if inferred is None else inferred
    if database := sqlite_path(uri):
        if not files.exists(database):
            message = f"there is no file {database}. Check the path of the catalog."
            raise RecipeProblems([problem(source, "catalog", message)])
    else:
        # Parameters of a URI can name another server; Hive takes several.
        scheme = f"{uri.partition('://')[0] or kind.value}://"
        for each in [scheme] if "?" in uri or not uri else uri.split(","):
            input_roots.check(each)
    if kind is catalogs.CatalogType.REST:
        return _RestCatalog(catalog.name, **properties)
    opened = catalogs.AVAILABLE_CATALOGS[kind](catalog.name, properties)
    opened._load_file_io = lambda *_, **__: TableFiles()  # type: ignore[method-assign]  # noqa: SLF001
    return opened


def _properties(catalog: Catalog) -> dict[str, Any]:
    """Returns the properties of a catalog: those of the user's configuration.

    Ours.
    """
    _check_configuration()
    configured = catalogs._ENV_CONFIG.get_catalog_config(catalog.name) or {}  # noqa: SLF001
    own = {"init_catalog_tables": "false", "py-io-impl": f"{__name__}.{TableFiles.__name__}"}
    given = own if catalog.uri is None else own | {"uri": catalog.uri}
    return dict(merge_config(configured, cast("Any", given)))


def _check_configuration() -> None:
    """Raises ``ValueError`` if the configuration is that of the current folder.

    It may have come with the data, and can name classes and servers.
    """
    trusted = [os.environ.get("PYICEBERG_HOME") or "", os.path.expanduser("~")]
    if any(each and os.path.isfile(os.path.join(each, _CONFIGURATION)) for each in trusted):
        return
    if os.path.isfile(_CONFIGURATION):
        raise ValueError(
            f"found {_CONFIGURATION} in the current folder, expected it in your home folder or in "
            "that of PYICEBERG_HOME: a file that comes with data configures nothing. Move it, or "
            'set PYICEBERG_HOME="$PWD" if you wrote it'
        )


class _RestCatalog(RestCatalog):
    """A catalog whose server says where its tables are, and no more."""

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.hooks["response"] += [_check_redirect, _read_answer]
        session.headers["Accept-Encoding"] = "identity"
        asks = session.request
        session.request = lambda *args, **more: asks(*args, **{"timeout": ANSWER_SECS, **more})  # type: ignore[method-assign]
        return session

    def _fetch_config(self) -> None:
        own, server = self.properties, self.uri
        super()._fetch_config()
        # Our own names a class, too.
        said = {key: value for key, value in self.properties.items() if own.get(key) != value}
        refuse_code(said, "the configuration that the catalog's server sent")
        if _origin(self.uri) != _origin(server):
            raise ValueError(
                f"the catalog's server names another one, {_origin(self.uri)}, expected "
                f"{_origin(server)}. Name the other in 'catalog' if you trust it"
            )
        input_roots.check(self.uri)
        self.properties = own | {key: said[key] for key in _OF_SERVERS if key in said}

    def _load_file_io(
        self,
        properties: Mapping[str, Any] = {},
        location: str | None = None,
    ) -> FileIO:
        refuse_code(properties, "the answer of the catalog's server")
        return TableFiles()


def _check_redirect(response: requests.Response, **_: Any) -> None:
    if response.is_redirect:
        input_roots.check(urllib.parse.urljoin(response.url, response.headers["location"]))


def _read_answer(response: requests.Response, **_: Any) -> None:
    """Reads a bounded answer, before requests reads it."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ValueError("the catalog's server sent a compressed answer, which was not asked for")
    length = response.raw.length_remaining
    response._content = read_answer(response.raw.read1, length, _MOST_METADATA_BYTES)  # noqa: SLF001
    response._content_consumed = True  # noqa: SLF001


def _origin(url: str) -> str:
    return "://".join(urllib.parse.urlsplit(url)[:2])
