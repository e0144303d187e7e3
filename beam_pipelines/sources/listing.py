"""Lists the files of a source, of patterns and folders."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Format, problem
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.storage import files, input_files

# Folders of tables that also list files whose rows are not in the table any more.
_TABLE_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}


class Listing(NamedTuple):
    """The files of a source.

    Attributes:
      files: in the order of the patterns, then by path.
      folders: those among the paths whose files are read by suffix, without ``/`` at the end.
      problems: of paths.
    """

    files: tuple[FileInfo, ...]
    folders: tuple[str, ...]
    problems: list[Problem]


def list_files(
    source: Source,
    directory: str,
    format_: Format | None,
    format_of_path: Callable[[str], str | None],
) -> Listing:
    """Lists the files of all patterns.

    Args:
      source: of the recipe.
      directory: where relative paths start.
      format_: the source's, if the recipe names one.
      format_of_path: returns the name of the format of a file.
    """
    found: dict[str, FileInfo] = {}
    folders: list[str] = []
    problems: list[Problem] = []
    takes_folders = format_ is not None and format_.is_file_a_row
    suffixes = format_.suffixes if format_ is not None and takes_folders else ()
    for pattern in source.path:
        resolved = files.resolve(pattern, directory)
        is_folder = files.is_local(resolved) and os.path.isdir(resolved)
        looked_for = files.join(resolved, "**") if is_folder else resolved
        matches = input_files.list_files(looked_for, suffixes=suffixes if is_folder else ())
        if not matches and not files.is_local(resolved) and not files.has_wildcard(looked_for):
            in_folder = files.join(resolved, "**")
            matches = input_files.list_files(in_folder, suffixes=suffixes)
            if matches or takes_folders:
                looked_for, is_folder = in_folder, True
        if is_folder and not takes_folders:
            folders.append(resolved.rstrip("/"))
            try:
                matches = _of_one_format(source, resolved, matches, format_of_path)
            except ValueError as error:
                problems.append(problem(source, "path", str(error)))
                continue
        if not matches:
            those = f" with {', '.join(suffixes)}" if is_folder and suffixes else ""
            message = f"no file{those} matches '{resolved}'.{_only_hidden(looked_for)}"
            problems.append(problem(source, "path", message))
        for listed in matches:
            if listed.path in found:
                message = f"{listed.path} is matched twice. Let only one pattern match it."
                problems.append(problem(source, "path", message))
            found[listed.path] = FileInfo(*listed)
    return Listing(tuple(found.values()), tuple(folders), problems)


def _of_one_format(
    source: Source,
    folder: str,
    listed: Iterable[files.Listed],
    format_of_path: Callable[[str], str | None],
) -> list[files.Listed]:
    """Returns the files in a folder that are data.

    Raises:
      ValueError: they have several formats, or none.
    """
    for name, kind in _TABLE_LOGS.items():
        if files.is_local(folder) and os.path.isdir(os.path.join(folder, name)):
            raise ValueError(
                f"found a {kind} table in {folder}, whose files also have rows that were removed. "
                "Export its rows, for example to Parquet, and read these."
            )
    of_format: dict[str, list[files.Listed]] = collections.defaultdict(list)
    for file in listed:
        of_format[format_of_path(file.path) or ""].append(file)
    unknown = of_format.pop("", [])
    if source.format is not None:
        return of_format.get(source.format, []) or unknown
    if len(of_format) > 1:
        counts = ", ".join(f"{len(own):,} of {name}" for name, own in of_format.items())
        name = max(of_format, key=lambda name: len(of_format[name]))
        raise ValueError(
            f"found files of several formats in {folder}: {counts}. Say which to read, for "
            f"example 'format: {name}'."
        )
    if not of_format:
        there = f"{unknown[0].path}, whose suffix is of no format" if unknown else "no file"
        raise ValueError(f"found {there} in {folder}, expected files of data. Set 'format'.")
    return next(iter(of_format.values()))


def _only_hidden(pattern: str) -> str:
    """Returns a hint if only hidden files match a pattern."""
    try:
        hidden = input_files.list_files(pattern, with_hidden=True)
    except DataError:  # something else that is hidden: a lock of an editor is a link to nothing
        return ""
    if not hidden:
        return ""
    return (
        f" {hidden[0].path} does, but a name that begins with '.' or '_' is no data, unless the "
        "pattern begins so in its place."
    )
