"""Places that the log of a Delta table names, compared with ``--input_root``.

The package ``deltalake`` opens deletion vectors and parts of checkpoints by itself, wherever the
log says they are. So the log is read here first, if there is a root.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files, input_roots

# The package takes names for URLs, with escapes and backslashes. Writers use plain ones.
_RELATIVE = re.compile(r"(?!/)(?!(.*/)?\.\.(/|$))[\w.=/-]*", re.ASCII)
_ABSOLUTE = re.compile(r"(file://)?(?P<path>(/[\w .=+-]+)+)", re.ASCII)
_UNIQUE_LENGTH = 20  # of a vector's name, behind the folder


def check_log(table: str, log: str) -> None:
    """Checks that a table's log names nothing outside of ``--input_root``.

    Args:
      table: its folder.
      log: the folder of its log.

    Raises:
      OutsideRootError: a file of the log is outside, or one that it names.
      DataError: a place in it has no plain name.
    """
    if not input_roots.is_restricted():
        return
    for path in list(_files(log)):
        input_roots.check(path)
        for place, base in _places(path, table, files.join(log, "_sidecars")):
            if _RELATIVE.fullmatch(place):
                input_roots.check(files.join(base, *place.split("/")) if place else base)
            elif found := _ABSOLUTE.fullmatch(place):
                input_roots.check(found["path"])
            else:
                raise DataError(
                    f"{path}: found the place {place!r}, expected a plain name below the table "
                    "with --input_root. Have the table rewritten by its engine."
                )


def _files(folder: str) -> Iterator[str]:
    if not files.is_local(folder):
        yield from (listed.path for listed in files.list_files(files.join(folder, "**")))
        return
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield os.path.join(parent, name)


def _places(path: str, table: str, sidecars: str) -> Iterator[tuple[str, str]]:
    """Yields what a file of the log names.

    The folder where it starts.
    """
    for action in _actions(path):
        for kind in ("add", "remove"):
            vector = (action.get(kind) or {}).get("deletionVector") or {}
            place = str(vector.get("pathOrInlineDv") or "")
            if vector.get("storageType") == "u":
                yield place[:-_UNIQUE_LENGTH], table
            elif vector.get("storageType") == "p":
                yield place, table
        sidecar = (action.get("sidecar") or {}).get("path")
        if sidecar is not None:
            yield str(sidecar), sidecars


def _actions(path: str) -> Iterator[dict[str, Any]]:
    """Yields the actions of a commit or a checkpoint.

    Damaged ones have none.
    """
    if path.endswith(".json"):
        for line in files.read_bytes(path).splitlines():
            try:
                action = json.loads(line)
            except ValueError:
                continue
            if isinstance(action, dict):
                yield {key: value for key, value in action.items() if isinstance(value, dict)}
    elif path.endswith(".parquet"):
        wanted = [f"{kind}.deletionVector" for kind in ("add", "remove")]
        with files.open_read(path) as file, files.reading(path):
            try:
                parquet = pq.ParquetFile(file)
                for batch in parquet.iter_batches(columns=[*wanted, "sidecar"]):
                    yield from batch.to_pylist()
            except (pa.ArrowException, OSError, ValueError) as error:
                raise DataError(
                    f"{path}: found no whole checkpoint ({error}), expected one. Restore the log."
                ) from error
