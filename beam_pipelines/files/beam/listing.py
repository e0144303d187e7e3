"""Lists files: links are followed, nothing that matches is passed over.

Patterns are Beam's, for every storage. Local folders are walked here, because Beam passes over
linked folders, links to nothing, and folders that it may not read.
"""

from __future__ import annotations

import bisect
import errno
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process import regular_files
from beam_pipelines.files.beam import files, input_roots, path_patterns
from beam_pipelines.files.beam.path_patterns import PathPattern, Stage

# The name of a file. A link of such a name to nothing led to a file, not to a folder of files.
_FILE_NAME = re.compile(r"\.[A-Za-z][A-Za-z0-9]*$")


class Listed(NamedTuple):
    """The path, size and modification time of a listed file.

    The size is in bytes, the time in seconds since 1970.
    """

    path: str
    size_bytes: int
    modified_secs: float


class _Entry(NamedTuple):
    """A name in a folder; ``is_folder`` is false for a link."""

    name: str
    is_link: bool
    is_folder: bool


class _Visit(NamedTuple):
    """A folder without links, and what decides which paths in it match."""

    real: str
    stage: Stage


def list_files(
    pattern: str, with_hidden: bool = False, suffixes: tuple[str, ...] = ()
) -> list[Listed]:
    """Returns the files that match a pattern, ordered by path.

    Links to folders are followed. A wildcard matches no hidden name: a pattern names it as it is,
    or begins like it in the same place. Brackets and stars in the name of an existing local file,
    or of an existing folder before the last component, are not wildcards.

    Args:
      pattern: a path or a pattern.
      with_hidden: a wildcard matches hidden names, too.
      suffixes: of the files that match, in any case; none: every file matches.

    Raises:
      DataError: the files cannot be listed, or one of them is outside of ``--input_root`` or has no
        name of text; a link leads to nothing that the pattern matches, or that
        may have led to a folder of files that match; a file is found by two names of its folder;
        something that matches is no regular file.
    """
    fixed = path_patterns.before_wildcard(pattern)
    # The folder of a pattern is listed.
    input_roots.check(pattern if fixed == pattern else fixed.rpartition("/")[0] or os.curdir)
    found = []
    if not files.is_local(pattern):
        found = [
            listed
            for listed in _list_remote(pattern)
            if with_hidden or listed.path == pattern or path_patterns.is_shown(listed.path, pattern)
            if not suffixes or listed.path.lower().endswith(suffixes)
        ]
    elif os.path.lexists(pattern) and not os.path.isdir(pattern):
        input_roots.check(pattern)
        status = _status_of(pattern)
        found = [_regular(pattern, status)] if status else []
    elif path_patterns.has_wildcard(pattern):
        top, rest = _top_and_rest(pattern)
        found = sorted(_FolderWalk(top, PathPattern(rest, with_hidden), suffixes).files())
    _check_names(found)
    return found


def files_below(folder: str) -> list[Listed]:
    """Returns all files below a folder, hidden ones too; raises as ``list_files``."""
    name = folder if files.is_local(folder) else escaped(folder)
    return list_files(files.join(name, "**"), with_hidden=True)


def escaped(path: str) -> str:
    """Returns the Beam pattern that matches exactly one path.

    The path may have brackets, stars or question marks in it.
    """
    return re.sub(r"([*?[])", r"[\1]", path)


def _list_remote(pattern: str) -> list[Listed]:
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except Exception as error:  # Beam wraps the storage's errors in several classes
        raise DataError(
            f"{pattern}: cannot be listed: {files.reason(error)}. Check the address, the network "
            "and your permissions."
        ) from error
    return sorted(Listed(one.path, one.size_in_bytes, one.last_updated_in_seconds) for one in found)


def _check_names(found: Sequence[Listed]) -> None:
    """Checks that listed files may be read and have names of text.

    Raises:
      DataError: one may not, or has no such name.
    """
    for listed in found:
        input_roots.check(listed.path)
        if not _is_text(listed.path):
            shown = listed.path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise DataError(
                f"{shown}: found bytes in the file's name that are not UTF-8, expected text. "
                "Rename the file."
            )


def _is_text(path: str) -> bool:
    """Whether a path is UTF-8; Python keeps other bytes as lone surrogates."""
    try:
        return path.isascii() or bool(path.encode())
    except UnicodeEncodeError:
        return False


def names_in(folder: str) -> list[str]:
    """Returns the sorted names of a folder's files and folders.

    An object store has no folders without files.
    """
    if files.is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return sorted({files.relative(one.path, folder).split("/")[0] for one in files_below(folder)})


def exists(path: str) -> bool:
    """Whether a file exists that may as well be absent.

    Raises:
      DataError: there is a link that leads to nothing.
    """
    if files.exists(path):
        return True
    if files.is_local(path) and os.path.islink(path):
        raise _dangling(path)
    return False


def _top_and_rest(pattern: str) -> tuple[str, str]:
    """Returns the folder to walk, and the pattern of paths in it."""
    folder, name = os.path.split(pattern)
    if not os.path.isdir(folder):  # an existing folder may have brackets in its name
        fixed = path_patterns.before_wildcard(pattern)
        folder = fixed[: fixed.rfind("/") + 1]
        name = pattern[len(folder) :]
    return folder, f"{name}*" if name.endswith("/") else name


class _FolderWalk:
    """Finds the files below a folder that match a pattern.

    Enters only folders in which something can match, so a link to ``/`` does no harm. A folder that
    has several names is read once, unless the pattern matches other files under another name.
    """

    def __init__(self, top: str, pattern: PathPattern, suffixes: tuple[str, ...]) -> None:
        self._top, self._pattern, self._suffixes = top, pattern, suffixes
        start = _Visit(os.path.realpath(top or os.curdir), pattern.start)
        self._name_of = {start: ""}  # the first name, with a slash at its end
        self._waiting = deque([start])
        self._again: list[tuple[str, _Visit]] = []  # other names
        self._found: dict[_Visit, list[Listed]] = {}

    def files(self) -> list[Listed]:
        """Returns the files.

        Raises:
          DataError: see ``list_files``.
        """
        while self._waiting:
            visit = self._waiting.popleft()
            if found := list(self._matches_in(visit)):
                self._found[visit] = found
        self._check_names()
        return [listed for found in self._found.values() for listed in found]

    def _matches_in(self, visit: _Visit) -> Iterator[Listed]:
        """Yields the files that match in a folder; notes its folders."""
        folder = self._name_of[visit]
        for entry in _entries(os.path.join(self._top, folder)):
            name = folder + entry.name
            if self._pattern.leaves_out(name):
                continue
            is_file = not self._suffixes or name.lower().endswith(self._suffixes)
            is_match = is_file and self._pattern.matches(name)
            may_dangle = not is_match and _FILE_NAME.search(entry.name) is not None
            may_hold = entry.is_link or entry.is_folder
            stage = self._pattern.stage_of(name) if may_hold else None
            if stage and entry.is_folder:
                self._enter(f"{name}/", _Visit(os.path.join(visit.real, entry.name), stage))
            elif not entry.is_folder and (is_match or stage):
                path = os.path.join(self._top, name)
                if entry.is_link and is_match:
                    input_roots.check(path)
                status = _status_of(path, may_dangle=may_dangle)
                if status and stat.S_ISDIR(status.st_mode):
                    if stage:
                        input_roots.check(path)
                        self._enter(f"{name}/", _Visit(os.path.realpath(path), stage))
                elif status and is_match:
                    yield _regular(path, status)

    def _enter(self, name: str, visit: _Visit) -> None:
        if visit in self._name_of:
            self._again.append((name, visit))
        else:
            self._name_of[visit] = name
            self._waiting.append(visit)

    def _check_names(self) -> None:
        """Checks that no file matches under two names of its folder.

        Below two names of one visit the same paths match, so a match there has two names.
        """
        visits = Counter(visit.real for visit in self._found)
        seen: dict[tuple[str, str], str] = {}
        for visit, found in self._found.items():
            name = self._name_of[visit]
            for listed in found if visits[visit.real] > 1 else ():
                file = os.path.basename(listed.path)
                other = seen.setdefault((visit.real, file), name)
                if other != name:
                    raise self._twice(name, other, listed.path)
        paths = sorted(one.path for found in self._found.values() for one in found)
        for name, visit in self._again:
            first = os.path.join(self._top, self._name_of[visit])
            place = bisect.bisect_left(paths, first)
            if place < len(paths) and paths[place].startswith(first):
                raise self._twice(name, self._name_of[visit], paths[place])

    def _twice(self, name: str, other: str, match: str) -> DataError:
        """Returns the error of a folder with two names.

        It names the link rather than a folder below it.
        """
        name, other = name.rstrip("/"), other.rstrip("/")
        while os.path.basename(name) == os.path.basename(other):
            above = [os.path.join(self._top, os.path.dirname(one)) for one in (name, other)]
            if os.path.realpath(above[0]) != os.path.realpath(above[1]):
                break
            name, other = os.path.dirname(name), os.path.dirname(other)
        path, first = (
            os.path.join(self._top, one).rstrip("/") or os.curdir for one in (name, other)
        )
        if os.path.islink(first) and not os.path.islink(path):
            path, first = first, path
        return DataError(
            f"{path}: found the folder {first} again, through a link, expected every file that "
            f"matches once, as {match} would be read twice. Remove the link, or write a pattern "
            "that matches one of the two."
        )


def _entries(folder: str) -> list[_Entry]:
    """Returns a folder's entries by name; none if it does not exist.

    Raises:
      DataError: the folder cannot be read, or is a link to nothing.
    """
    try:
        with os.scandir(folder or os.curdir) as found:
            return sorted(
                _Entry(entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False))
                for entry in found
            )
    except (FileNotFoundError, NotADirectoryError):
        name = folder.rstrip("/")
        if os.path.islink(name) and not os.path.exists(name):
            raise _dangling(name) from None
        return []
    except (OSError, ValueError) as error:
        raise _unlisted(folder, error) from error


def _status_of(path: str, may_dangle: bool = False) -> os.stat_result | None:
    """Returns the status of what a path leads to.

    ``None`` if nothing is there, as it was removed just now, or if it may be a link to nothing. Of
    a link out of ``--input_root`` no error tells whether there is something.

    Raises:
      DataError: the path is a link to nothing, or its status cannot be read.
    """
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            raise _unlisted(path, error) from error
        if may_dangle or not os.path.islink(path) or not input_roots.allows(path):
            return None
        raise _dangling(path) from error


def _regular(path: str, status: os.stat_result) -> Listed:
    regular_files.check_status(path, status)
    return Listed(path, status.st_size, status.st_mtime)


def _dangling(path: str) -> DataError:
    try:
        target = os.readlink(path)
    except OSError:
        target = "nothing"
    return DataError(
        f"{path}: found a link to {target}, which leads to nothing, expected a file or a folder. "
        "Mend the link, or remove it."
    )


def _unlisted(path: str, error: Exception) -> DataError:
    return DataError(
        f"{path}: cannot be listed: {getattr(error, 'strerror', None) or error}. Check its "
        "permissions, or write a pattern that leaves it out."
    )
