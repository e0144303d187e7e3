"""Delta Lake: the files of a version, by the package ``deltalake``."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from beam_pipelines.core.errors import DataError, RecipeProblems, mask
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import problem
from beam_pipelines.storage import files, input_roots
from beam_pipelines_plugins.lakehouses.delta_vectors import read_vectors
from beam_pipelines_plugins.lakehouses.options import DeltaOptions
from beam_pipelines_plugins.lakehouses.snapshots import (
    NOTHING,
    DataFile,
    TableSnapshot,
    id_of,
    own_name,
    plain,
    utc,
)

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
# Modes of column mapping -> the key of a field's metadata that says what files call it.
_KEYS = {"none": "", "name": "delta.columnMapping.physicalName", "id": "delta.columnMapping.id"}
# The package takes names for URLs, with escapes and backslashes. Writers use plain ones.
_PLAIN = re.compile(r"(?!/)(?!(.*/)?\.\.(/|$))[\w.=/-]*", re.ASCII)
_UNIQUE_LENGTH = 20  # of a vector's name, behind the folder


def snapshot_of(source: Source) -> TableSnapshot:
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
        if wrong := source.options.keys() & {"version", "as_of"}:
            raise RecipeProblems([problem(source, wrong.pop(), message)]) from error
        raise DataError(message) from error


def _opened(source: Source, path: str) -> DeltaTable:
    """Opens a table at its source's version or time."""
    options = source.options_of(DeltaOptions)
    if input_roots.is_restricted():
        _check_log(path, files.join(path, "_delta_log"))
    if options.as_of is None:
        return DeltaTable(path, version=options.version)
    # The package goes by the dates of the log's files, which a copy loses.
    moment = datetime.datetime.fromisoformat(options.as_of).timestamp() * 1000
    history = DeltaTable(path, without_files=True).history()
    made = sorted((each["timestamp"], each["version"]) for each in history if "timestamp" in each)
    before = [version for millis, version in made if millis <= moment]
    if not before:
        first = f"the first is of {utc(made[0][0])} UTC" if made else "no version says its time"
        raise ValueError(f"found no version of {options.as_of} or before, as {first}")
    return DeltaTable(path, version=max(before))


def _snapshot(table: DeltaTable, path: str) -> TableSnapshot:
    metadata, version, history = table.metadata(), table.version(), table.history(1)
    features = set(table.protocol().reader_features or ())
    mode = metadata.configuration.get("delta.columnMapping.mode") or "none"
    unknown = sorted(features - _KNOWN_FEATURES) + [f"mapping '{mode}'"] * (mode not in _KEYS)
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
    key = _KEYS[mode].encode()

    def key_of(field: pa.Field, path: str) -> str:
        if path in metadata.partition_columns:  # the log has the values, even if files do, too
            return ""
        known = bytes((field.metadata or {}).get(key, b"")).decode()
        return (id_of(field) or known) if mode == "id" else known or own_name(field)

    return TableSnapshot(
        f"Delta table {mask(path)}",
        str(version),
        "" if millis is None else utc(millis),
        plain(schema, own_name),
        plain(schema, key_of),
        {} if mode == "id" else None,
        [
            DataFile(
                _absolute(path, name),
                action["size_bytes"],
                action["num_records"],
                action.get("partition") or {},
                deleted.get(name, NOTHING),
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


def _check_log(table: str, log: str) -> None:
    """Checks that a table's log names nothing outside of ``--input_root``.

    The package opens deletion vectors and parts of checkpoints by itself, wherever the log says
    they are.

    Raises:
      OutsideRootError: a file of the log is outside, or one that it names.
      DataError: a place in it has no plain name.
    """
    for path in list(_files(log)):
        input_roots.check(path)
        for place in _places(path):
            if not _PLAIN.fullmatch(place):
                raise DataError(
                    f"{path}: found the place {place!r}, expected a plain name below the table "
                    "with --input_root. Have the table rewritten by its engine."
                )
            input_roots.check(files.join(table, *place.split("/")) if place else table)


def _files(folder: str) -> Iterator[str]:
    if not files.is_local(folder):
        yield from (listed.path for listed in files.list_files(files.join(folder, "**")))
        return
    for parent, folders, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in (*folders, *names))


def _places(path: str) -> list[str]:
    """Returns parts of checkpoints and folders of vectors that a file names.

    Damaged lines have none.
    """
    found = []

    def note(value: dict[str, Any]) -> dict[str, Any]:
        type_, place = value.get("storageType"), str(value.get("pathOrInlineDv") or "")
        if type_ in ("u", "p"):
            found.append(place[:-_UNIQUE_LENGTH] if type_ == "u" else place)
        if isinstance(part := value.get("sidecar"), dict):
            found.append(str(part.get("path") or ""))
        return value

    for line in _lines(path):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(line, object_hook=note)
    return found


def _lines(path: str) -> Iterator[str | bytes]:
    """Yields the actions of a commit or a checkpoint, as JSON."""
    if path.endswith(".json"):
        yield from files.read_bytes(path).splitlines()
    elif path.endswith(".parquet"):
        wanted = ["add.deletionVector", "remove.deletionVector", "sidecar"]
        with files.open_read(path) as file, files.reading(path):
            for batch in pq.ParquetFile(file).iter_batches(columns=wanted):
                yield from map(json.dumps, batch.to_pylist())
