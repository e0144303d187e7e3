"""Delta Lake: files or rows of a version, by the package ``deltalake``."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from beam_pipelines.core.errors import DataError, RecipeProblems, mask
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.source_format import problem
from beam_pipelines_plugins.lakehouses import snapshots
from beam_pipelines_plugins.lakehouses.options import DeltaOptions

# Colours and arrows in errors of the package.
_DRAWN = re.compile(r"\x1b\[[0-9;]*m|↳")
# Reader features that leave files as they are: Parquet with the table's columns, by their names.
_PLAIN = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}


def snapshot_of(source: Source) -> snapshots.TableSnapshot:
    """Returns a table at its source's version, or the latest.

    Raises:
      RecipeProblems: there is no such version.
      DataError: the log cannot be read.
    """
    with _explained(source):
        return _snapshot(source, _opened(source))


def batches_of(source: Source, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a table, in any order.

    Args:
      source: with the version.
      columns: to read.

    Raises:
      DataError: the table cannot be read, or needs what the package does not know.
    """
    with _explained(source):
        found = _opened(source).scan(columns=columns.names)
        for batch in pa.RecordBatchReader.from_stream(found):
            yield batch.select(columns.names).cast(columns)


@contextlib.contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Turns errors of the package into ours."""
    try:
        yield
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        words = " ".join(_DRAWN.sub("", mask(str(error))).split())
        message = (
            f"{source.path[0]}: the Delta table cannot be read: {words}. Check 'path' and "
            "'version', and that its log is whole; a version whose log was cleaned up is gone."
        )
        if "version" in source.options:
            raise RecipeProblems([problem(source, "version", message)]) from error
        raise DataError(message) from error


def _opened(source: Source) -> DeltaTable:
    """Opens a table at its source's version."""
    path = source.path[0]
    if input_roots.is_restricted():
        # The package opens deletion vectors and parts of checkpoints wherever the log says.
        raise DataError(
            f"{path}: found a Delta table with --input_root, expected files alone: its log may "
            "name files outside, which its reader opens. Have the rows written to Parquet, or "
            "leave --input_root out if you trust the table."
        )
    return DeltaTable(path, version=source.options_of(DeltaOptions).version)


def _snapshot(source: Source, table: DeltaTable) -> snapshots.TableSnapshot:
    path, metadata, history = source.path[0], table.metadata(), table.history(1)
    found = pa.table(table.get_add_actions())
    wanted = [name for name in found.column_names if name not in ("null_count", "min", "max")]
    actions = found.select(wanted).to_pylist()
    actions.sort(key=lambda action: (action["modification_time"], action["path"]))
    millis = history[0].get("timestamp") if history else None
    return snapshots.TableSnapshot(
        f"Delta table {mask(path)}",
        str(table.version()),
        "" if millis is None else snapshots.utc(millis),
        snapshots.plain(pa.schema(table.schema().to_arrow())),
        [
            snapshots.DataFile(
                # Files within the table are named with escapes.
                _absolute(path, urllib.parse.unquote(action["path"])),
                action["size_bytes"],
                action["num_records"],
                action.get("partition") or {},
            )
            for action in actions
        ],
        str(metadata.id),
        source.with_options(version=table.version()),
        _needs(table),
    )


def _needs(table: DeltaTable) -> str:
    """Returns what only the package can read of a table, or ""."""
    features = set(table.protocol().reader_features or ())
    needs = sorted(features - _PLAIN)
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        needs.append("a column mapping")
    if "deletionVectors" in features:
        vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors())
        needs += ["deletion vectors"] if any(batch.num_rows for batch in vectors) else []
    return ", ".join(needs)


def _absolute(table: str, path: str) -> str:
    """Returns the path of a file that a log names."""
    found = path.removeprefix("file://")
    return found if "://" in found or found.startswith("/") else files.join(table, found)
