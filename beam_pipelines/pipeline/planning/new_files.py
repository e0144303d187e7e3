"""Compares a source's files with those of a dataset, for an append."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.dataset.manifest import Manifest
from beam_pipelines.sources.file_list import files_from_bytes
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.planner import with_files
from beam_pipelines.storage import files
from beam_pipelines.transforms.read import fingerprint_files

_SHOWN = 5
_CURE = "Put it back, or convert everything anew with --overwrite."


class Known(NamedTuple):
    """Files of a dataset that have one fingerprint.

    They are one file, or small files that were read together.

    Attributes:
      generation: number of the generation that read them.
      fingerprint: of their content.
      files: their sizes and dates then, by ``file_key``.
    """

    generation: int
    fingerprint: str
    files: Mapping[str, FileInfo]


def new_files(
    dataset: str, manifest: Manifest, plan: SourcePlan, directory: str
) -> tuple[FileInfo, ...]:
    """Returns the files of a source that a dataset lacks, in order.

    A file of the same size and date counts as the same. A file with another date is read and
    compared by its fingerprint.

    Args:
      dataset: its folder.
      manifest: of the dataset.
      plan: the source with all its files now.
      directory: where the recipe's relative paths start.

    Raises:
      DataError: a file of the dataset has changed or is missing; lists the first ones.
    """
    now = {file_key(file.path, directory): file for file in plan.files}
    known = list(known_files(dataset, manifest, plan.source.name))
    wrong: list[str] = []
    for group in known:
        problems = [
            problem
            for key, file in group.files.items()
            if (problem := _difference(file, now.get(key)))
        ]
        if not problems:
            problems = _changed_contents(group, now, plan)
        wrong += problems
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"{dataset}: {len(wrong):,} file(s) of source '{plan.source.name}' are not as when "
            "they were converted, expected that files "
            f"are only added with 'append'. {_CURE}\n"
            + "\n".join(f"  {line}" for line in wrong[:_SHOWN])
            + more
        )
    there = {key for group in known for key in group.files}
    return tuple(file for key, file in now.items() if key not in there)


def file_key(path: str, directory: str) -> str:
    """Returns a file's path relative to the recipe's folder, its key.

    So a dataset and its recipe can move together. A file that the recipe names by an absolute path
    or a URL keeps it.
    """
    if not files.is_local(path):
        path, directory = mask(path), mask(directory)  # as in the manifest
        return (
            files.relative(path, directory)
            if directory and path.startswith(directory.rstrip("/") + "/")
            else path
        )
    here = os.path.abspath(directory or os.curdir)
    there = os.path.abspath(path)
    is_relative = not os.path.isabs(path) or (
        directory and path.startswith(os.path.join(directory, ""))
    )
    return (
        os.path.relpath(there, here)
        if is_relative or there.startswith(os.path.join(here, ""))
        else there
    )


def known_files(dataset: str, manifest: Manifest, source: str) -> Iterator[Known]:
    """Yields the files of a source that a dataset was made of.

    Raises:
      DataError: a list of files is missing or damaged.
    """
    for generation in manifest["generations"]:
        number, listed = generation["number"], generation["sources"][source].get("list")
        entries = [
            entry for entry in manifest["sources"][source]["files"] if entry["generation"] == number
        ]
        found = [_listed(entry) for entry in entries if "modified" in entry]
        if listed is not None:
            path = files.within(dataset, listed)
            found = list(files_from_bytes(files.read_bytes(path), path))
        start = 0
        for entry in entries:
            own = found[start : start + entry.get("files", 1)]
            start += len(own)
            yield Known(
                number,
                entry["fingerprint"],
                {file_key(file.path, generation["directory"]): file for file in own},
            )


def _listed(entry: Mapping[str, Any]) -> FileInfo:
    return FileInfo(entry["path"], entry["bytes"], entry["modified"])


def _difference(before: FileInfo, now: FileInfo | None) -> str:
    """Returns how a file's size differs, or an empty text."""
    if now is None:
        return f"{before.path}: found nothing, expected {before.size_bytes:,} bytes"
    if now.size_bytes != before.size_bytes:
        return f"{now.path}: found {now.size_bytes:,} bytes, expected {before.size_bytes:,}"
    return ""


def _changed_contents(group: Known, now: Mapping[str, FileInfo], plan: SourcePlan) -> list[str]:
    """Reads files with another date, and returns their differences."""
    written = [
        now[key].path
        for key, file in group.files.items()
        if now[key].modified_secs != file.modified_secs
    ]
    if not written:
        return []
    chosen: Sequence[FileInfo] = [now[key] for key in group.files]
    found = fingerprint_files(with_files(plan, chosen, together=len(chosen) > 1)).get(
        chosen[0].path, ""
    )
    if found == group.fingerprint:
        return []
    shown = " or ".join(written[:_SHOWN]) + (" or another" if len(written) > _SHOWN else "")
    return [f"{shown}: found other content than then ({found}, expected {group.fingerprint})"]
