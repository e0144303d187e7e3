"""Lists input files: links are followed, nothing is passed over.

Patterns are Beam's, for every storage. Local folders are walked here, because Beam passes over
linked folders, links to nothing, and folders that it may not read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator

from apache_beam.io.filesystem import FileSystem

from beam_pipelines.core import files, input_roots, regular_files
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.files import Listed

# One sign of a pattern: a wildcard, or a letter that stands for itself.
_SIGN = re.compile(r"\*\*|\[!?\]?[^\]]*\]|.", re.DOTALL)


def list_files(pattern: str) -> list[Listed]:
    """Returns the files that match an input's pattern, ordered by path.

    As ``files.list_files``, and links to folders are followed.

    Raises:
      DataError: as ``files.list_files``; a link that the pattern matches leads to nothing; a folder
        is found by two names; something that matches is no regular file.
    """
    files.check_folder(pattern)
    if not files.is_local(pattern):
        return files.list_files(pattern)
    if os.path.lexists(pattern) and not os.path.isdir(pattern):
        input_roots.check(pattern)
        found = [_regular(pattern, _status_of(pattern))]
    else:
        found = sorted(_walk(*_top_and_rest(pattern))) if files.has_wildcard(pattern) else []
    files.check_names(found)
    return found


def list_folder(folder: str) -> list[Listed]:
    """Returns all files below a folder, as ``list_files``."""
    return list_files(files.join(folder, "**"))


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
        fixed = files.before_wildcard(pattern)
        folder = fixed[: fixed.rfind("/") + 1]
        name = pattern[len(folder) :]
    return folder, f"{name}*" if name.endswith("/") else name


def _walk(top: str, rest: str) -> Iterator[Listed]:
    """Yields the files below a folder that match a pattern.

    Enters only folders in which something can match, so a link to ``/`` does no harm.
    """
    is_match = _matcher(rest)
    beginnings = [_matcher(beginning) for beginning in _beginnings(rest)]
    entered: dict[str, str] = {}  # path without links -> path
    waiting = deque([("", os.path.realpath(top or os.curdir))])
    while waiting:
        folder, real = waiting.popleft()
        path = os.path.join(top, folder)
        if entered.setdefault(real, path) != path:
            raise _twice(path, entered[real])
        for entry in _entries(path):
            inner = folder + entry.name
            may_hold = any(matcher(f"{inner}/") for matcher in beginnings)
            if not (may_hold or is_match(inner)):
                continue
            place = os.path.join(top, inner)
            is_link = entry.is_symlink()
            if is_link:
                input_roots.check(place)
            try:
                status = _status_of(place)
            except FileNotFoundError:  # removed since the folder was read
                continue
            if stat.S_ISDIR(status.st_mode):
                if may_hold:
                    inner_real = os.path.realpath(place) if is_link else f"{real}/{entry.name}"
                    waiting.append((f"{inner}/", inner_real))
            elif is_match(inner):
                yield _regular(place, status)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Returns a folder's entries by name; none if it does not exist.

    Raises:
      DataError: the folder cannot be read, or is a link to nothing.
    """
    try:
        with os.scandir(folder or os.curdir) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        name = folder.rstrip("/")
        if os.path.islink(name) and not os.path.exists(name):
            raise _dangling(name) from None
        return []
    except (OSError, ValueError) as error:
        raise _unlisted(folder, error) from error


def _status_of(path: str) -> os.stat_result:
    """Returns the status of what a path leads to.

    Raises:
      DataError: the path is a link to nothing, or its status cannot be read.
      FileNotFoundError: nothing is there, not even a link, so it was removed just now.
    """
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            if os.path.islink(path):
                raise _dangling(path) from error
            raise FileNotFoundError(error.errno, error.strerror, path) from error
        raise _unlisted(path, error) from error


def _regular(path: str, status: os.stat_result) -> Listed:
    regular_files.check_mode(path, status.st_mode)
    return Listed(path, status.st_size, status.st_mtime)


def _beginnings(pattern: str) -> Iterator[str]:
    """Yields the beginnings of a pattern that match folders.

    A folder's path ends in a slash here, and a beginning in a sign that can stand for one.
    """
    for sign in _SIGN.finditer(pattern):
        if sign[0] in ("/", "?", "**") or (sign[0][0] == "[" and len(sign[0]) > 1):
            yield pattern[: sign.end()]


def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(FileSystem.translate_pattern(pattern)).match


def _dangling(path: str) -> DataError:
    try:
        target = os.readlink(path)
    except OSError:
        target = "nothing"
    return DataError(
        f"{path}: found a link to {target}, which leads to nothing, expected a file or a folder. "
        "Mend the link, or remove it."
    )


def _twice(path: str, other: str) -> DataError:
    path, other = (name.rstrip("/") or os.curdir for name in (path, other))
    return DataError(
        f"{path}: found the folder {other} again, through a link, expected every folder once, as "
        "its files would be read twice. Remove the link, or write a pattern that matches one of "
        "the two."
    )


def _unlisted(path: str, error: Exception) -> DataError:
    return DataError(
        f"{path}: cannot be listed: {getattr(error, 'strerror', None) or error}. Check its "
        "permissions, or write a pattern that leaves it out."
    )
