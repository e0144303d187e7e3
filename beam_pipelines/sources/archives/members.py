"""Files in an archive, whose names are never used as paths."""

from __future__ import annotations

from typing import IO, NamedTuple

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeded


class ArchiveMember(NamedTuple):
    """A plain file in an archive, valid until the next one.

    Attributes:
      path: the archive's path, ``/``, and the name in it.
      size_bytes: of its content.
      content: the open file; ``archives.read_member`` reads it.
      archive: path of the archive.
    """

    path: str
    size_bytes: int
    content: IO[bytes]
    archive: str


class Names:
    """Names of an archive's files; refuses repeated ones and too many.

    Attributes:
      archive: path of the archive.
      limits: of the recipe.
    """

    def __init__(self, archive: str, limits: Limits) -> None:
        self.archive = archive
        self.limits = limits
        self._names: set[str] = set()

    def add(self, name: str) -> None:
        """Notes a name.

        Raises:
          DataError: it was there before, or it is one too many.
        """
        if name in self._names:
            raise self.refused(name, "a second file of that name")
        self._names.add(name)
        if len(self._names) > self.limits.archive_files:
            raise DataError(
                f"{self.archive}: "
                f"{exceeded(self.limits, 'archive_files', f'{len(self._names):,} files')}"
            )

    def refused(self, name: str, what: str) -> DataError:
        """Returns the error for an entry that is not allowed."""
        return DataError(
            f"{self.archive}/{name}: found {what}, expected plain files of different names. Make "
            "the archive again."
        )
