"""Opens files that are read from several places, also those in archives."""

from __future__ import annotations

import io
from typing import BinaryIO

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines.storage import files
from beam_pipelines.storage.zip_members import member_path

# A file in an archive is decompressed from its beginning, so it is held in memory.
MOST_BYTES = 256 * MIB


def open_whole(path: str) -> BinaryIO:
    """Opens a file for reading from any place.

    Raises:
      DataError: it cannot be opened, or is in an archive and too large to be held in memory.
    """
    if member_path(path) is None:
        return files.open_read(path)
    data = files.read_at_most(path, MOST_BYTES)
    if data is None:
        raise DataError(
            f"{path}: found more than {MOST_BYTES:,} bytes in an archive, expected at most as many "
            "of a format that is read from several places. Unpack the archive."
        )
    return io.BytesIO(data)
