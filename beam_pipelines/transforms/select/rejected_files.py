"""Files of rejected rows, which keep their number out of memory.

Each chunk has one, which its row counts name. The commit concatenates them by range; within a range
it sorts by file and line, because the reader and the expressions reject separately.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.events import log_event
from beam_pipelines.files.beam import files

_NUMBER = re.compile(r"[0-9]+$")
# Files of stored rows, range by range, in order of the ranges.
StoredRows = Sequence[Sequence[str]]


def store_rejected(chunk: Chunk, folder: str) -> str:
    """Writes a chunk's rejected rows to a file named by its address.

    So a retry replaces the file.

    Returns:
      The file's path; ``""`` if there are none.
    """
    if not chunk.rejected:
        return ""
    path = files.join(folder, f"{chunk.range_number}_{chunk.part}")
    with files.replace(path) as file:
        file.write(to_json_lines(chunk.rejected))
    for name, rows in Counter(row.file for row in chunk.rejected).items():
        log_event("rejected", file=name, range=chunk.range_number, rows=rows)
    return path


def to_json_lines(rows: Iterable[Rejected]) -> bytes:
    """Returns one JSON object a line."""
    # A file name that is not UTF-8 becomes an escape of JSON.
    lines = (
        json.dumps(row._asdict(), ensure_ascii=False).encode("utf-8", "backslashreplace")
        for row in rows
    )
    return b"".join(line + b"\n" for line in lines)


def read_stored(stored: StoredRows, places: Mapping[str, int]) -> Iterator[Sequence[Rejected]]:
    """Yields the rejected rows of each range that has any.

    They are sorted by file and position; rows of one position keep their order.

    Args:
      stored: files of the ranges.
      places: file -> its number in the source; a missing file has number 0.

    Raises:
      DataError: a file cannot be read.
    """
    for paths in stored:
        rows = [_row(path, line) for path in paths for line in files.read_bytes(path).splitlines()]
        if rows:
            yield sorted(rows, key=lambda row: (places.get(row.file, 0), _number(row.position)))


def write_rejected(path: str, stored: StoredRows, places: Mapping[str, int]) -> None:
    """Writes all rows to one file, one range in memory.

    Args:
      path: the file. If it exists and the stored files do not, an earlier attempt wrote it.
      stored, places: as in ``read_stored``.
    """
    if files.exists(path) and not files.exists(stored[0][0]):
        return
    with files.replace(path) as file:
        for rows in read_stored(stored, places):
            file.write(to_json_lines(row._replace(file=mask(row.file)) for row in rows))


def _row(path: str, line: bytes) -> Rejected:
    try:
        return Rejected(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: found {error}. A temporary file was changed during the run: run again."
        ) from error


def _number(position: str) -> int:
    """Returns 1002 of ``line 1002``; 0 if the file is the row."""
    found = _NUMBER.search(position)
    return int(found[0]) if found else 0
