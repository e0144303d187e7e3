"""Lists the files of a source, of patterns and folders."""

from __future__ import annotations

import collections
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from beam_pipelines.core.errors import DataError, Problem, nearest
from beam_pipelines.core.layout.dataset_layout import MANIFEST, RAW_SCHEMA
from beam_pipelines.files.beam import files, listing, path_patterns, zip_members
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import planner_of
from beam_pipelines.sources.files.archives import is_archive, list_zip
from beam_pipelines.sources.files.compression import check_readable
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.source_format import Format, problem

# Logs of tables, whose folders also have files with rows that are not in the table any more.
_TABLES = {
    "_delta_log/*": ("Delta Lake", "Set 'format: delta'."),
    "metadata/*.metadata.json": (
        "Iceberg",
        "Set 'format: iceberg', and as 'path' the metadata.json that a catalog has of it.",
    ),
    ".hoodie/*": ("Hudi", "Export its rows, for example to Parquet, and read these."),
}

_DOCUMENT = re.compile(
    r"(?:.*readme|license|licence|changelog|notes?|requirements|citation|authors)\b[^.]*"
    r"(?:\.(?:txt|md|rst|html?|pdf|docx?|bib|cff))?",
    re.IGNORECASE,
)

# What Git LFS leaves in place of a file that it has not got, in fewer bytes.
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024
_POINTERS_LOOKED_AT = 8


class Listing(NamedTuple):
    """The files of a source.

    Attributes:
      files: in the order of the patterns, then by path.
      folders: those among the paths whose files are read by suffix, without ``/`` at the end.
      archives: zip archives that have files.
      others: names of files in folders and archives that are left out, as they are about data or
        of no format, and of datasets.
      problems: of paths.
    """

    files: tuple[FileInfo, ...]
    folders: tuple[str, ...]
    archives: tuple[str, ...]
    others: tuple[str, ...]
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

    Raises:
      DataError: files cannot be listed, or an archive cannot be read.
    """
    lister = _Lister(source, format_, format_of_path)
    for pattern in source.path:
        try:
            lister.add(lister.matches(files.resolve(pattern, directory)))
        except ValueError as error:
            lister.complain(str(error))
    found = tuple(lister.found.values())
    _check_pointers(found)
    archives = dict.fromkeys(file.archive for file in found if file.archive)
    others = tuple(dict.fromkeys(lister.others))
    return Listing(found, tuple(lister.folders), tuple(archives), others, lister.problems)


def _check_pointers(found: Sequence[FileInfo]) -> None:
    """Checks that the first small files are no pointers of Git LFS.

    Source: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md, the pointer.
    """
    small = (file.path for file in found if file.size_bytes < _POINTER_BYTES and not file.archive)
    for path in itertools.islice(small, _POINTERS_LOOKED_AT):
        if files.read_bytes(path).startswith(_POINTER):
            raise DataError(
                f"{path}: found a pointer of Git LFS, expected the data that it stands for. Get "
                "them: 'git lfs pull' in their repository."
            )


def is_document(path: str) -> bool:
    """Whether a file such as ``README.txt`` is about data."""
    return bool(_DOCUMENT.fullmatch(files.name_of(path)))


class _Lister:
    """Lists the files of one source.

    Attributes:
      found: path -> file.
      folders, others, problems: as in ``Listing``.
    """

    def __init__(
        self, source: Source, format_: Format | None, format_of_path: Callable[[str], str | None]
    ) -> None:
        self._source, self._format, self._format_of_path = source, format_, format_of_path
        self._takes_folders = format_ is not None and format_.is_file_a_row
        self._reads_archives = format_ is not None and format_.reads_archives
        self.found: dict[str, FileInfo] = {}
        self.folders: list[str] = []
        self.others: list[str] = []
        self.problems: list[Problem] = []

    def complain(self, message: str) -> None:
        """Notes a problem of the path."""
        self.problems.append(problem(self._source, "path", message))

    def add(self, matches: Iterable[FileInfo]) -> None:
        """Adds the files of a pattern, each once."""
        for file in matches:
            if file.path in self.found:
                self.complain(f"{file.path} is matched twice. Let only one pattern match it.")
            self.found[file.path] = file

    def matches(self, pattern: str) -> Iterator[FileInfo]:
        """Yields the files of a pattern, with those in folders and archives.

        Raises:
          ValueError: there are none, or their format is not clear.
        """
        member = zip_members.member_path(pattern)
        if member is not None:
            yield from self._matching_members(member)
            return
        suffixes = self._format.suffixes if self._format and self._takes_folders else ()
        is_folder = files.is_local(pattern) and os.path.isdir(pattern)
        looked_for = files.join(pattern, "**") if is_folder else pattern
        listed = listing.list_files(looked_for, suffixes=suffixes if is_folder else ())
        if not listed and not files.is_local(pattern) and not path_patterns.has_wildcard(pattern):
            in_folder = files.join(pattern, "**")
            listed = listing.list_files(in_folder, suffixes=suffixes)
            if listed or self._takes_folders:
                looked_for, is_folder = in_folder, True
        if is_folder and not self._takes_folders:
            self.folders.append(pattern.rstrip("/"))
            _check_table(pattern)
            listed = self._of_one_format(pattern, self._without_datasets(pattern, listed))
        if not listed:
            those = f" with {', '.join(suffixes)}" if is_folder and suffixes else ""
            own = suffixes if is_folder else ()
            hint = _only_hidden(looked_for, own) or _other_suffix(looked_for, own)
            if pattern == "-":
                hint = " Standard input is not read: save it ('cat > FILE'), and name the file."
            hint = hint or path_patterns.nearest_file(pattern)
            raise ValueError(f"no file{those} matches '{pattern}'.{hint}")
        for file in listed:
            is_zip = zip_members.is_zip(file.path) and self._format_of_path(file.path) is None
            if is_zip and not self._reads_archives:
                yield from self._members(file)
            else:
                yield FileInfo(*file)

    def _without_datasets(
        self, folder: str, listed: Sequence[listing.Listed]
    ) -> Sequence[listing.Listed]:
        """Leaves out datasets of this package, such as earlier outputs."""
        own = datasets_in(folder.rstrip("/"), {file.path for file in listed})
        rest = [file for file in listed if not file.path.startswith(own)]
        formats = {self._format_of_path(file.path) for file in rest} - {None}
        if not own or not formats & {self._source.format or next(iter(formats), "")}:
            return listed  # datasets alone are data
        self.others += sorted(files.name_of(root.rstrip("/")) for root in own)
        return rest

    def _of_one_format(self, folder: str, listed: Sequence[listing.Listed]) -> list[listing.Listed]:
        """Returns the files in a folder or an archive that are data.

        Raises:
          ValueError: they have several formats, or none.
        """
        format_ = self._source.format
        if format_ is None:
            _check_zarr(folder, listed)
            documents = [file for file in listed if is_document(file.path)]
            if len(documents) < len(listed):
                listed = [file for file in listed if file not in documents]
                self.others += (files.name_of(file.path) for file in documents)
        if format_ is not None and (self._format is None or not self._format.suffixes):
            return list(listed)
        of_format: dict[str, list[listing.Listed]] = collections.defaultdict(list)
        for file in listed:
            name = self._format_of_path(file.path) or ""
            of_format[name if format_ in (None, name) else ""].append(file)
        unknown = of_format.pop("", [])
        if len(of_format) > 1:
            counts = ", ".join(f"{len(own):,} of {name}" for name, own in of_format.items())
            name = max(of_format, key=lambda name: len(of_format[name]))
            raise ValueError(
                f"found files of several formats in {folder}: {counts}. Say which to read, for "
                f"example 'format: {name}'."
            )
        if not of_format and format_ is None:
            if unknown:
                check_readable(unknown[0].path)
                if planner_of(name := files.name_of(unknown[0].path)) is not None:
                    is_zip = zip_members.is_zip(folder)
                    raise ValueError(
                        f"found the database {name} in {folder}, expected files of data. "
                        f"{'Unpack it, and name' if is_zip else 'Name'} its path and a table: "
                        f"'{name}#table'."
                    )
            if not unknown:
                raise ValueError(f"found no file in {folder}, expected files of data.")
            raise ValueError(
                f"found {unknown[0].path}, whose suffix is of no format, in {folder}, expected "
                "files of data. Set 'format' if they are of one. For a row a file of other kinds, "
                f"such as sounds, pack them: 'tar cf files.tar -C {folder} .'; 'format: "
                "webdataset' reads their bytes. Pictures are read as JPEG, PNG, BMP, GIF and WebP."
            )
        self.others += (files.name_of(file.path) for file in unknown)
        return next(iter(of_format.values()), [])

    def _members(self, archive: listing.Listed) -> Iterator[FileInfo]:
        """Yields the files of one format in an archive."""
        shown = [
            file for file, name in self._files_in(archive) if path_patterns.is_shown(name, "**")
        ]
        for file in self._of_one_format(archive.path, shown):
            yield FileInfo(*file, archive=archive.path)

    def _matching_members(self, member: zip_members.MemberPath) -> Iterator[FileInfo]:
        """Yields the files in archives that a pattern such as ``a.zip/*.csv`` matches."""
        pattern = path_patterns.PathPattern(member.name, with_hidden=False)
        found = [
            FileInfo(*file, archive=archive.path)
            for archive in listing.list_files(member.archive)
            for file, name in self._files_in(archive)
            if pattern.matches(name) and path_patterns.is_shown(name, member.name)
        ]
        if not found:
            names = [
                name
                for archive in listing.list_files(member.archive)
                for _, name in self._files_in(archive)
            ]
            hint = nearest(member.name, names)
            raise ValueError(f"no file in {member.archive} matches '{member.name}'.{hint}")
        yield from found

    def _files_in(self, archive: listing.Listed) -> Iterator[tuple[listing.Listed, str]]:
        """Yields files of an archive by path, and their names."""
        infos = list_zip(archive.path, self._source.limits)
        for info in sorted(infos, key=lambda info: info.filename):
            path = f"{archive.path}/{info.filename}"
            if is_archive(info.filename):
                raise DataError(
                    f"{path}: found an archive in an archive, expected plain files. Unpack the "
                    "outer one."
                )
            yield listing.Listed(path, info.file_size, archive.modified_secs), info.filename


def datasets_in(folder: str, paths: Collection[str]) -> tuple[str, ...]:
    """Returns datasets of this package below a folder, each with ``/``."""
    roots = {path.removesuffix(MANIFEST) for path in paths if path.endswith(f"/{MANIFEST}")}
    return tuple(root for root in roots - {f"{folder}/"} if root + RAW_SCHEMA in paths)


def has_table_log(folder: str) -> bool:
    """Whether a folder has the files of a lakehouse table's log."""
    logs = (*_TABLES, "metadata/version-hint.text")
    return any(
        os.path.isdir(os.path.dirname(pattern))
        and bool(listing.list_files(pattern, with_hidden=True))
        for pattern in (files.join(folder, log) for log in logs)
    )


def _check_table(folder: str) -> None:
    """Raises ``ValueError`` if a folder's files have removed rows, too."""
    for log, (kind, cure) in _TABLES.items():
        pattern = files.join(folder, log)
        if files.is_local(folder) and not os.path.isdir(os.path.dirname(pattern)):
            continue
        if listing.list_files(pattern, with_hidden=True):
            raise ValueError(
                f"found a table of {kind} in {folder}, whose files also have rows that were "
                f"removed. {cure}"
            )


def _check_zarr(folder: str, listed: Sequence[listing.Listed]) -> None:
    """Raises ``ValueError`` for a Zarr store, whose JSON has no rows.

    The names of version 2 are hidden.
    """
    name = files.name_of(folder.rstrip("/"))
    stem = name.removesuffix(".zip").removesuffix(".zarr")
    if name in (stem, f"{stem}.zip") and all(
        files.name_of(file.path) != "zarr.json" for file in listed
    ):
        return
    raise ValueError(
        f"found a Zarr store in {folder}, which is not read. Save its arrays as npz, for example "
        f"with the package zarr, and read these: numpy.savez('{stem}.npz', "
        f"**dict(zarr.open('{name}').arrays())); of a single array, "
        f"numpy.save('{stem}.npy', zarr.open('{name}'))"
    )


def _other_suffix(pattern: str, suffixes: tuple[str, ...]) -> str:
    """Returns a hint if a folder has only files of other suffixes."""
    others = listing.list_files(pattern) if suffixes else []
    return f" It has {others[0].path}, which is not read as such: convert it." if others else ""


def _only_hidden(pattern: str, suffixes: tuple[str, ...] = ()) -> str:
    """Returns a hint if only hidden files match a pattern."""
    try:
        hidden = listing.list_files(pattern, with_hidden=True, suffixes=suffixes)
    except DataError:  # something else that is hidden: a lock of an editor is a link to nothing
        return ""
    if not hidden:
        return ""
    return (
        f" {hidden[0].path} does, but a name that begins with '.' or '_' is no data, unless the "
        "pattern begins so in its place."
    )
