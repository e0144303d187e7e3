"""Checks a dataset's small files against the manifest.

Adds some to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from beam_pipelines.core.checked_files import changed_file
from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.manifest_reader import CheckedFile, read_form
from beam_pipelines.dataset.manifest import Manifest, manifest_to_text, read_manifest
from beam_pipelines.storage import file_checksums, files


def changed_files(folder: str, manifest: Manifest, *parts: str) -> Iterator[tuple[str, DataError]]:
    """Yields path and error of files that the manifest does not have.

    Args:
      folder: of the dataset.
      manifest: of the dataset. If it is of an earlier version, no file is checked.
      parts: starts of the paths that are checked; default: all.
    """
    wanted = {
        path: files.within(folder, path)
        for path in manifest.get("files", ())
        if not parts or path.startswith(parts)
    }
    there = {path: full for path, full in wanted.items() if files.exists(full)}
    found = file_checksums.entries_of(there)
    for path, full in wanted.items():
        expected = read_form(CheckedFile, manifest["files"][path])
        read = CheckedFile(**found[path]) if path in found else None
        if read != expected:
            yield path, changed_file(full, read, expected)


def check_files(folder: str, manifest: Manifest, *parts: str) -> None:
    """Checks parts of a dataset; arguments are those of ``changed_files``.

    Raises:
      DataError: the first file that is not that of the manifest, or is a link to elsewhere that the
        manifest does not have: what a run copies must not be another's secret.
    """
    for _, error in changed_files(folder, manifest, *parts):
        raise error
    top = os.path.join(os.path.realpath(folder), "")
    for part in parts if files.is_local(folder) else ():
        for file in files.list_files(files.within(folder, f"{part}/**")):
            path, real = file.path, os.path.realpath(file.path)
            inner = files.relative(path, folder)
            if not real.startswith(top) and inner not in manifest.get("files", ()):
                raise DataError(
                    f"{path}: found a link to {real} without a checksum in the manifest, "
                    "expected a file of the dataset. Remove the link, or put the file in its place."
                )


def add_files(folder: str, paths: Iterable[str]) -> None:
    """Adds checksums of later files to the manifest of a dataset.

    Args:
      folder: of the dataset.
      paths: of the files, within the dataset.
    """
    manifest = read_manifest(folder)
    entries = file_checksums.entries_of({path: files.within(folder, path) for path in paths})
    total = dict(sorted({**manifest.get("files", {}), **entries}.items()))
    if total != manifest.get("files"):
        with files.replace(files.join(folder, MANIFEST)) as file:
            file.write(manifest_to_text(manifest | {"files": total}).encode())
