"""Lists input files: links are followed, nothing is passed over.

Patterns are Beam's, for every storage. Local folders are walked here, because Beam passes over
linked folders, links to nothing, and folders that it may not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
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


def is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file or a marker.

    As in Spark, ``_x=1`` is the folder of a partition. ``lost+found`` belongs to a file system.
    """
    is_marker = name.startswith("_") and "=" not in name
    return is_marker or name == "lost+found" or (name.startswith(".") and name not in (".", ".."))


def list_files(pattern: str, with_hidden: bool = False) -> list[Listed]:
    """Returns the files that match an input's pattern, ordered by path.

    As ``files.list_files``, and links to folders are followed. A wildcard matches no hidden name: a
    pattern names it as it is, or begins like it in the same place.

    Args:
      pattern: a path or a pattern.
      with_hidden: a wildcard matches hidden names, too.

    Raises:
      DataError: as ``files.list_files``; a link that the pattern matches leads to nothing; a folder
        is found by two names; something that matches is no regular file.
    """
    files.check_folder(pattern)
    if not files.is_local(pattern):
        return [
            listed
            for listed in files.list_files(pattern)
            if with_hidden or listed.path == pattern or _is_shown(listed.path, pattern)
        ]
    found = []
    if os.path.lexists(pattern) and not os.path.isdir(pattern):
        input_roots.check(pattern)
        with contextlib.suppress(FileNotFoundError):  # removed just now
            found = [_regular(pattern, _status_of(pattern))]
    elif files.has_wildcard(pattern):
        found = sorted(_walk(*_top_and_rest(pattern), with_hidden))
    files.check_names(found)
    return found


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


def _walk(top: str, rest: str, with_hidden: bool) -> Iterator[Listed]:
    """Yields the files below a folder that match a pattern.

    Enters only folders in which something can match, so a link to ``/`` does no harm.
    """
    judge = _judge(rest, with_hidden)
    entered: dict[str, str] = {}  # path without links -> path
    waiting = deque([("", os.path.realpath(top or os.curdir))])
    while waiting:
        folder, real = waiting.popleft()
        path = os.path.join(top, folder)
        if entered.setdefault(real, path) != path:
            raise _twice(path, entered[real])
        for entry in _entries(path):
            inner = folder + entry.name
            is_match, may_hold = judge(inner)
            if not (is_match or may_hold):
                continue
            place, is_link = os.path.join(top, inner), entry.is_symlink()
            if is_link:
                input_roots.check(place)
            try:
                status = _status_of(place)
            except FileNotFoundError:  # removed since the folder was read
                continue
            if not stat.S_ISDIR(status.st_mode):
                if is_match:
                    yield _regular(place, status)
            elif may_hold:
                inner_real = os.path.realpath(place) if is_link else f"{real}/{entry.name}"
                waiting.append((f"{inner}/", inner_real))


def _judge(rest: str, with_hidden: bool) -> Callable[[str], tuple[bool, bool]]:
    """Returns a function of a path in a walked folder.

    It returns whether a file of this path matches, and whether one may that is in a folder of this
    path.
    """
    pattern = _compiled(rest)
    beginnings = [_compiled(beginning) for beginning in _beginnings(rest)]

    def judge(inner: str) -> tuple[bool, bool]:
        if not with_hidden and is_hidden(posixpath.basename(inner)) and not _is_asked(inner, rest):
            return False, False
        return bool(pattern.match(inner)), any(one.match(f"{inner}/") for one in beginnings)

    return judge


def _is_asked(inner: str, rest: str) -> bool:
    """Whether a pattern begins like a path's last name in its place."""
    depth, name = inner.count("/"), posixpath.basename(inner)
    parts = rest.split("/")
    wide = next((place for place, part in enumerate(parts) if "**" in part), len(parts))
    places = parts[depth : depth + 1] if depth < wide else parts[wide:]
    return any(part.startswith(name[0]) for part in places)


def _is_shown(path: str, pattern: str) -> bool:
    """Whether no wildcard stands for a hidden name of a listed path."""
    start = files.before_wildcard(pattern).rfind("/") + 1
    names = path[start:].split("/")
    return all(
        not is_hidden(name) or _is_asked("/".join(names[: place + 1]), pattern[start:])
        for place, name in enumerate(names)
    )


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


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(FileSystem.translate_pattern(pattern))


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
