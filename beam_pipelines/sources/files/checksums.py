"""The checksum of files that are not read from front to back."""

from __future__ import annotations

from typing import BinaryIO

import google_crc32c

_TAIL_BYTES = 64 * 1024


def tail_crc32c(file: BinaryIO, size_bytes: int) -> int:
    """Returns the CRC-32C of a file's last 64 KiB and its size.

    They contain the footer of a Parquet or Arrow file, or its end.
    """
    file.seek(max(0, size_bytes - _TAIL_BYTES))
    return int(
        google_crc32c.extend(
            google_crc32c.value(file.read(_TAIL_BYTES)), size_bytes.to_bytes(8, "little")
        )
    )
