"""Reads ``dataset.json``, the manifest of a dataset."""

from __future__ import annotations

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import DESCRIPTION, MANIFEST
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.storage import files


def read_manifest(folder: str, name: str = MANIFEST) -> Manifest:
    """Reads the manifest of a dataset or of a description.

    Raises:
      DataError: there is none, or this version cannot read it.
    """
    path = files.join(folder, name)
    if not files.exists(path):
        raise DataError(
            f"{folder}: found no {name}, so there is no dataset, or none that was finished."
        )
    return parse_manifest(files.read_bytes(path), path, name == DESCRIPTION)


def find_manifest(path: str) -> Manifest | None:
    """Reads the manifest of a dataset or description, if any.

    Args:
      path: a folder, or a file of statistics, which has none.

    Raises:
      DataError: this version cannot read it.
    """
    if path.endswith(".pb"):
        return None
    found = (name for name in (MANIFEST, DESCRIPTION) if files.exists(files.join(path, name)))
    name = next(found, None)
    return None if name is None else read_manifest(path, name)
