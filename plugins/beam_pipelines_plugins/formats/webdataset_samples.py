"""The rows of a tar archive: runs of files with one name.

``n01/17.jpg`` and ``n01/17.cls`` are the members ``jpg`` and ``cls`` of the row ``n01/17``, as in
https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives.archives import tar_compression
from beam_pipelines.sources.archives.tar import explained, read_tar

# The part up to the first point behind the last slash, and the part behind the point.
_PARTS = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
# Names that WebDataset keeps for itself.
_OWN = re.compile(r"__[^/]*__($|/)")
# Names that begin with a point, and those of macOS.
_HIDDEN = re.compile(r"(^|/)(\.[^/]*$|__MACOSX/)")


class Member(NamedTuple):
    """A file of a row.

    Attributes:
      name: in the archive.
      data: its content.
    """

    name: str
    data: bytes


class Sample(NamedTuple):
    """The files of one name.

    Attributes:
      key: the name.
      members: extension in lower case -> file, in order.
    """

    key: str
    members: dict[str, Member]

    @property
    def first(self) -> Member:
        """The first file."""
        return next(iter(self.members.values()))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(len(member.data) for member in self.members.values())


def name_parts(name: str) -> tuple[str, str] | None:
    """Returns key and extension; ``None`` of a file of no row.

    Such a file is hidden, has no extension, or is WebDataset's own.
    """
    match = _PARTS.match(name)
    if match is None or _OWN.match(name) or _HIDDEN.search(name):
        return None
    return match[1], match[2].lower()


def read_samples(source: Source, path: str) -> Iterator[Sample]:
    """Yields the rows of an archive, in order.

    Raises:
      DataError: the archive is damaged, has a link or a device, the same key in two places, two
        files of an extension in a row, or is beyond a limit.
    """
    sample: Sample | None = None
    keys: set[str] = set()
    for member in _files(source, path):
        parts = name_parts(member.name)
        if parts is None:
            continue
        key, extension = parts
        if sample is not None and key != sample.key:
            yield sample
            sample = None
        if sample is None:
            sample = Sample(key, {})
        if key in keys and not sample.members:
            raise DataError(
                f"{path}, {member.name}: found the key '{key}' again, expected all files of a row "
                "one after the other. Make the archive again, sorted by name: 'tar --sort=name'."
            )
        if extension in sample.members:
            raise DataError(
                f"{path}, {member.name}: found a second file of that extension in the row "
                f"'{key}', expected one. Make the archive again."
            )
        keys.add(key)
        sample.members[extension] = member
    if sample is not None:
        yield sample


def _files(source: Source, path: str) -> Iterator[Member]:
    limits = source.limits
    for one in read_tar(path, tar_compression(source, path), limits):
        name = one.path.removeprefix(f"{path}/")
        if not name.isascii() and name != name.encode(errors="replace").decode():
            raise DataError(f"{path}: found the name {name!r}, expected UTF-8. Rename the file.")
        if one.size_bytes > limits.cell_bytes:
            found = f"a file of {one.size_bytes:,} bytes"
            raise DataError(f"{path}, {name}: {exceeded(limits, 'cell_bytes', found)}")
        with explained(path):
            yield Member(name, one.content.read())
