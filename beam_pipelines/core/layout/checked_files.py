"""Reads a dataset's small files and checks them against the manifest."""

from __future__ import annotations

from collections.abc import Callable

import google_crc32c

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import MANIFEST, RAW_SCHEMA
from beam_pipelines.core.layout.manifest import CheckedFile, InnerPath, Manifest, parse_manifest


def read_checked(read: Callable[[str], bytes], folder: str, manifest: Manifest, path: str) -> bytes:
    """Reads a file of a dataset and checks it against the manifest.

    A file without an entry in the manifest is not checked. Commands such as ``graph`` replace
    files, so the manifest is read again if they differ.

    Args:
      read: reads a file of the dataset by its path in it.
      folder: of the dataset, for messages.
      manifest: of the dataset.
      path: of the file, within the dataset.

    Raises:
      DataError: the file was changed.
    """
    content = read(path)
    found = CheckedFile(bytes=len(content), crc32c=f"{google_crc32c.value(content):08x}")
    if manifest.files.get(InnerPath(path), found) != found:
        latest = parse_manifest(read(MANIFEST), f"{folder}/{MANIFEST}")
        if latest.splits == manifest.splits:
            manifest = latest
        expected = manifest.files.get(InnerPath(path), found)
        if expected != found:
            raise changed_file(f"{folder.rstrip('/')}/{path}", found, expected)
    return content


def changed_file(path: str, found: CheckedFile | None, expected: CheckedFile) -> DataError:
    """Returns the error of a file that is not the manifest's.

    Args:
      path: of the file, with the dataset's folder.
      found: of the file; ``None``: there is none.
      expected: in the manifest.
    """
    what = f"found {found.bytes:,} bytes with CRC-32C {found.crc32c}" if found else "found no file"
    cure = "Copy the dataset again, or convert again with --overwrite."
    if path.endswith(f"/{RAW_SCHEMA}"):
        cure += (
            " A schema that you correct belongs into a file of yours, which the recipe's 'schema' "
            "names."
        )
    return DataError(
        f"{path}: {what}, expected {expected.bytes:,} bytes with CRC-32C {expected.crc32c} as "
        f"{MANIFEST} says. {cure}"
    )
