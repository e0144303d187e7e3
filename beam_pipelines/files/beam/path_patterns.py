"""Matches relative paths with Beam's patterns; wildcards match no hidden names.

Of a missing file it proposes the nearest name.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from typing import TypeAlias

from apache_beam.io.filesystem import FileSystem
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import nearest
from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA
from beam_pipelines.files.beam import input_roots

# What decides which paths in a folder match: see ``PathPattern.stage_of``.
Stage: TypeAlias = tuple[int, tuple[int, ...]]

_BEFORE_WILDCARD = re.compile(r"[^[*?]*")
# One sign of a pattern: a wildcard, or a letter that stands for itself.
_SIGN = re.compile(r"\*\*|\[!?\]?[^\]]*\]|.", re.DOTALL)


def has_wildcard(path: str) -> bool:
    """Whether a path has wildcards."""
    return before_wildcard(path) != path


def before_wildcard(pattern: str) -> str:
    """Returns a pattern up to its first wildcard."""
    return _BEFORE_WILDCARD.match(pattern)[0]  # type: ignore[index]


class PathPattern:
    """A pattern of paths relative to a folder.

    A wildcard matches no hidden name. A pattern names it as it is, or begins like it in the same
    place.
    """

    start: Stage = (0, ())

    def __init__(self, text: str, with_hidden: bool) -> None:
        self._with_hidden = with_hidden
        self._whole = _compiled(text)
        self._beginnings = [_compiled(beginning) for beginning in _beginnings(text)]
        self._parts = text.split("/")
        self._narrow = _narrow(self._parts)

    def leaves_out(self, path: str) -> bool:
        """Whether a path's last name is hidden, and not asked for."""
        name = posixpath.basename(path)
        return not self._with_hidden and is_hidden(name) and not _is_asked(path, self._parts)

    def matches(self, path: str) -> bool:
        """Whether a file of this path matches."""
        return bool(self._whole.match(path))

    def stage_of(self, folder: str) -> Stage | None:
        """Returns what decides which paths in a folder match.

        ``None`` if none can. In two folders of one stage the same relative paths match. It is the
        depth, up to the first part with ``**``, and the numbers of the pattern's beginnings that
        match the folder.
        """
        path = f"{folder}/"
        ends = tuple(at for at, one in enumerate(self._beginnings) if one.match(path))
        return (min(path.count("/"), self._narrow), ends) if ends else None


def is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file or a marker.

    As in Spark, ``_x=1`` is the folder of a partition. ``lost+found`` belongs to a file system,
    and the schema of recipes to a recipe next to the data.
    """
    is_marker = name.startswith("_") and "=" not in name
    is_own = name in ("lost+found", RECIPE_SCHEMA)
    return is_marker or is_own or (name.startswith(".") and name not in (".", ".."))


def is_shown(path: str, pattern: str) -> bool:
    """Whether a path that matches has no hidden name for a wildcard."""
    start = before_wildcard(pattern).rfind("/") + 1
    names, parts = path[start:].split("/"), pattern[start:].split("/")
    return all(
        not is_hidden(name) or _is_asked("/".join(names[: place + 1]), parts)
        for place, name in enumerate(names)
    )


def _is_asked(path: str, parts: list[str]) -> bool:
    """Whether a pattern begins like a path's last name in its place."""
    depth, name = path.count("/"), posixpath.basename(path)
    narrow = _narrow(parts)
    places = parts[depth : depth + 1] if depth < narrow else parts[narrow:]
    return any(part.startswith(name[0]) for part in places)


def _narrow(parts: list[str]) -> int:
    """Returns the number of parts before the first one with ``**``."""
    return next((place for place, part in enumerate(parts) if "**" in part), len(parts))


def _beginnings(pattern: str) -> Iterator[str]:
    """Yields the beginnings of a pattern that match folders.

    A folder's path ends in a slash here, and a beginning in a sign that can stand for one.
    """
    for sign in _SIGN.finditer(pattern):
        if sign[0] in ("/", "?", "**") or (sign[0][0] == "[" and len(sign[0]) > 1):
            yield pattern[: sign.end()]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(FileSystem.translate_pattern(pattern))


def nearest_file(path: str) -> str:
    """Returns a hint at the nearest name; ``""`` if none is near.

    Only local folders are listed.
    """
    folder, name = os.path.split(path.rstrip("/"))
    if has_wildcard(path) or FileSystems.get_scheme(path) or not input_roots.allows(folder):
        return ""
    try:
        names = os.listdir(folder or os.curdir)
    except OSError:
        return ""
    return nearest(name, sorted(one for one in names if not is_hidden(one)))
