"""Delta Lake: the files of a version.

The log is read by the package ``deltalake``.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, mask
from beam_pipelines.recipe.model import Source
from beam_pipelines.storage import files
from beam_pipelines_plugins.lakehouses import delta_places
from beam_pipelines_plugins.lakehouses.delta_vectors import read_vectors
from beam_pipelines_plugins.lakehouses.options import DeltaOptions
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
    from deltalake import DeltaTable

LOG = "_delta_log"
# Colours and arrows in errors of the package.
_DRAWN = re.compile(r"\x1b\[[0-9;]*m|↳")
# Reader features of the protocol that change nothing here, or that are honoured here.
_KNOWN_FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}


def snapshot_of(source: Source) -> TableSnapshot:
    """Returns a table at its source's version, or the latest.

    Raises:
      RecipeProblems: there is no such table or version.
      DataError: the log cannot be read, or the table needs what is not supported.
    """
    (path,) = source.path
    return _snapshot(_opened(source), path)


def _opened(source: Source) -> DeltaTable:
    """Opens a table; names the key of the recipe that is wrong."""
    try:
        return _version(source, source.options_of(DeltaOptions).version)
    except DataError as error:
        for key in ("version", "as_of"):
            if key in source.options:
                where = ("sources", source.name, key)
                raise RecipeProblems([Problem(where, str(error))]) from error
        raise


def _version(source: Source, version: int | None) -> DeltaTable:
    """Opens a table at a version, or at its source's time."""
    try:
        import deltalake
    except ImportError as error:
        raise missing_package("deltalake", error) from error
    (path,) = source.path
    with _explained(path):
        if not deltalake.DeltaTable.is_deltatable(path):
            raise DataError(
                f"{path}: found no Delta table, expected a folder with {LOG}. Check 'path' of "
                f"source '{source.name}'."
            )
        delta_places.check_log(path, files.join(path, LOG))
        if version is None and source.options_of(DeltaOptions).as_of is None:
            return deltalake.DeltaTable(path)
        latest = deltalake.DeltaTable(path, without_files=True)
        newest = latest.version()
        if version is None:
            version = _version_at(latest, path, source.options_of(DeltaOptions).as_of or "")
        if version > newest:
            raise DataError(f"{path}: found no version {version}, expected one up to {newest}.")
        return deltalake.DeltaTable(path, version=version)


def _version_at(table: DeltaTable, path: str, as_of: str) -> int:
    """Returns the last version that was made at a time or before."""
    moment = int(datetime.datetime.fromisoformat(as_of).timestamp() * 1000)
    made = [(each["timestamp"], each["version"]) for each in table.history() if "timestamp" in each]
    before = [version for millis, version in made if millis <= moment]
    if not before:
        first = f"the first is of {utc(min(made)[0])} UTC" if made else "no version says its time"
        raise DataError(f"{path}: found no version of {as_of} or before: {first}.")
    return int(max(before))


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turns errors of the package into ``DataError``."""
    from deltalake import exceptions

    try:
        yield
    except DataError:
        raise
    except (exceptions.DeltaError, OSError, ValueError) as error:
        words = " ".join(_DRAWN.sub("", mask(str(error))).split())
        raise DataError(
            f"{path}: the Delta table cannot be read: {words}. Check 'path', and that its log is "
            "whole; a version whose log was cleaned up is gone."
        ) from error


def _snapshot(table: DeltaTable, path: str) -> TableSnapshot:
    _check_features(table, path)
    with _explained(path):
        actions = pa.table(table.get_add_actions())
        metadata = table.metadata()
        mode = metadata.configuration.get("delta.columnMapping.mode") or "none"
        if mode not in ("none", "name", "id"):
            raise DataError(
                f"{path}: found 'delta.columnMapping.mode' = '{mode}', expected none, name or id. "
                "Restore the table's log."
            )
        schema = plain_schema(pa.schema(table.schema().to_arrow()), mode != "none")
        deleted = _deleted(table, path, actions)
        version = table.version()
        history = table.history(1)
    millis = history[0].get("timestamp") if history else None
    order = np.lexsort(
        (
            np.array(actions["path"].to_pylist(), str),
            actions["modification_time"].to_numpy(zero_copy_only=False),
        )
    )
    return TableSnapshot(
        f"Delta table {mask(path)}",
        str(version),
        "" if millis is None else utc(millis),
        schema,
        "id" if mode == "id" else "name",
        "",
        [_data_file(row, path, deleted) for row in actions.take(order).to_pylist()],
        str(metadata.id),
        path,
    )


def _data_file(row: Mapping[str, Any], path: str, deleted: Mapping[str, Positions]) -> DataFile:
    own = _absolute(path, urllib.parse.unquote(row["path"]))
    constants = row.get("partition") or {}
    return DataFile(
        own, row["size_bytes"], row["num_records"], constants, deleted.get(own, NOTHING)
    )


def _check_features(table: DeltaTable, path: str) -> None:
    """Raises ``DataError`` if the table needs what is not supported."""
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - _KNOWN_FEATURES)
    if protocol.min_reader_version > 3 or unknown:
        found = ", ".join(unknown) or f"reader version {protocol.min_reader_version}"
        raise DataError(
            f"{path}: found a Delta table that needs {found}, expected nothing but "
            f"{', '.join(sorted(_KNOWN_FEATURES))}. Have its engine write the rows to a table "
            "without it, or drop the feature: ALTER TABLE … DROP FEATURE."
        )


def _deleted(table: DeltaTable, path: str, actions: pa.Table) -> dict[str, Positions]:
    """Returns path -> the deleted rows of files with deletion vectors.

    Args:
      table: at the version to read.
      path: of the table.
      actions: that added its files.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    # Both name files within the table, the log with escapes.
    known = {urllib.parse.unquote(each) for each in actions["path"].to_pylist()}
    numbers = actions["num_records"]
    rows = None if numbers.null_count else pc.sum(numbers, min_count=0).as_py()
    found: dict[str, Positions] = {}
    for name, deleted in read_vectors(path, table.version(), rows).items():
        if name not in known:
            raise DataError(
                f"{path}: found a deletion vector of {name}, expected one of a file of the "
                "table. Report it."
            )
        found[_absolute(path, name)] = deleted
    return found


def _absolute(table: str, path: str) -> str:
    """Returns the path of a file that a log names."""
    found = path.removeprefix("file://")
    return found if "://" in found or found.startswith("/") else files.join(table, found)
