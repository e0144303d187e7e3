"""Reads ``dataset.json``, and checks other files of a dataset by it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.checked_files import changed_file
from beam_pipelines.core.layout.dataset_layout import DESCRIPTION, MANIFEST
from beam_pipelines.core.layout.manifest import InnerPath, Manifest, parse_manifest, to_text
from beam_pipelines.core.layout.shard_formats import SHARD_FOLDERS
from beam_pipelines.files.beam import file_checksums, files, listing


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


def listed_files(folder: str, parts: Iterable[str]) -> dict[str, listing.Listed]:
    """Returns path -> file, of all files in parts of a folder."""
    listed = (listing.files_below(files.join(folder, part)) for part in parts)
    return {
        files.relative(file.path, folder): file for file in itertools.chain.from_iterable(listed)
    }


def listed_shards(folder: str) -> dict[str, listing.Listed]:
    """Returns the files in the folders of shards, also of others.

    Args:
      folder: of a dataset, or of shards that are not committed yet.

    Returns:
      Path in the folder -> file.
    """
    return listed_files(folder, SHARD_FOLDERS)


def changed_files(folder: str, manifest: Manifest, *parts: str) -> Iterator[tuple[str, DataError]]:
    """Yields path and error of files that the manifest does not have.

    Args:
      folder: of the dataset.
      manifest: of the dataset. If it is of an earlier version, no file is checked.
      parts: starts of the paths that are checked; default: all.
    """
    wanted = {
        path: files.within(folder, path)
        for path in manifest.files
        if not parts or path.startswith(parts)
    }
    there = {path: full for path, full in wanted.items() if files.exists(full)}
    found = file_checksums.entries_of(there)
    for path, full in wanted.items():
        if found.get(path) != manifest.files[path]:
            yield path, changed_file(full, found.get(path), manifest.files[path])


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
        for file in listing.files_below(files.within(folder, part)):
            path, real = file.path, os.path.realpath(file.path)
            inner = files.relative(path, folder)
            if not real.startswith(top) and inner not in manifest.files:
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
    before = read_manifest(folder).files
    inner = {InnerPath(path): files.within(folder, path) for path in paths}
    total = dict(sorted({**before, **file_checksums.entries_of(inner)}.items()))
    if total != before:
        path = files.join(folder, MANIFEST)
        document = json.loads(files.read_bytes(path))  # with keys of other versions
        files.write_bytes(path, to_text(document | {"files": total}).encode())
