"""Delta Lake: the files of a version, by the package ``deltalake``."""

from __future__ import annotations

import re
import urllib.parse

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from beam_pipelines.core.errors import DataError, RecipeProblems, mask
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import problem
from beam_pipelines_plugins.lakehouses import snapshots
from beam_pipelines_plugins.lakehouses.delta_vectors import read_vectors
from beam_pipelines_plugins.lakehouses.options import DeltaOptions

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
# What files call a field, in the mode of column mapping that is read.
_MODES, _FILE_NAME = ("none", "name"), b"delta.columnMapping.physicalName"


def snapshot_of(source: Source) -> snapshots.TableSnapshot:
    """Returns a table at its source's version, or the latest.

    Raises:
      RecipeProblems: there is no such version.
      DataError: the log cannot be read, or the table needs what is not supported.
    """
    (path,) = source.path
    try:
        return _snapshot(_opened(source, path), path)
    except (DeltaError, OSError, ValueError) as error:
        words = " ".join(_DRAWN.sub("", mask(str(error))).split())
        message = (
            f"{path}: the Delta table cannot be read: {words}. Check 'path' and 'version', and "
            "that its log is whole; a version whose log was cleaned up is gone."
        )
        if "version" in source.options:
            raise RecipeProblems([problem(source, "version", message)]) from error
        raise DataError(message) from error


def _opened(source: Source, path: str) -> DeltaTable:
    """Opens a table at its source's version."""
    if input_roots.is_restricted():
        # The package opens deletion vectors and parts of checkpoints wherever the log says.
        raise DataError(
            f"{path}: found a Delta table with --input_root, expected files alone: its log may "
            "name files outside, which its reader opens. Have the rows written to Parquet, or "
            "leave --input_root out if you trust the table."
        )
    return DeltaTable(path, version=source.options_of(DeltaOptions).version)


def _snapshot(table: DeltaTable, path: str) -> snapshots.TableSnapshot:
    metadata, version, history = table.metadata(), table.version(), table.history(1)
    features = set(table.protocol().reader_features or ())
    mode = metadata.configuration.get("delta.columnMapping.mode") or "none"
    unknown = sorted(features - _KNOWN_FEATURES) + [f"mapping '{mode}'"] * (mode not in _MODES)
    if unknown:
        raise DataError(
            f"{path}: found a Delta table that needs {', '.join(unknown)}, expected nothing but "
            f"{', '.join(sorted(_KNOWN_FEATURES))}. Have its engine write the rows to a table "
            "without it, or drop the feature: ALTER TABLE … DROP FEATURE."
        )
    found = pa.table(table.get_add_actions())
    wanted = [name for name in found.column_names if name not in ("null_count", "min", "max")]
    actions = found.select(wanted).to_pylist()
    actions.sort(key=lambda action: (action["modification_time"], action["path"]))
    deleted = {}
    if "deletionVectors" in features:
        rows = [action["num_records"] for action in actions]
        deleted = read_vectors(path, version, None if None in rows else sum(rows))
    # Both name files within the table, the log with escapes.
    names = [urllib.parse.unquote(action["path"]) for action in actions]
    if unknown := sorted(deleted.keys() - set(names)):
        raise DataError(
            f"{path}: found a deletion vector of {unknown[0]}, expected one of a file of the "
            "table. Report it."
        )
    millis = history[0].get("timestamp") if history else None
    schema = pa.schema(table.schema().to_arrow())

    def key_of(field: pa.Field, path: str) -> str:
        if path in metadata.partition_columns:  # the log has the values, even if files do, too
            return ""
        known = (field.metadata or {}).get(_FILE_NAME, b"") if mode == "name" else b""
        return bytes(known).decode() or snapshots.own_name(field)

    return snapshots.TableSnapshot(
        f"Delta table {mask(path)}",
        str(version),
        "" if millis is None else snapshots.utc(millis),
        snapshots.plain(schema, snapshots.own_name),
        snapshots.plain(schema, key_of),
        None,
        [
            snapshots.DataFile(
                _absolute(path, name),
                action["size_bytes"],
                action["num_records"],
                action.get("partition") or {},
                deleted.get(name, snapshots.NOTHING),
            )
            for name, action in zip(names, actions, strict=True)
        ],
        str(metadata.id),
        path,
    )


def _absolute(table: str, path: str) -> str:
    """Returns the path of a file that a log names."""
    found = path.removeprefix("file://")
    return found if "://" in found or found.startswith("/") else files.join(table, found)
