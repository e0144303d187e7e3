"""Rejected rows on their way to ``rejected/``: each chunk's in a file of its own, so that their
number costs no memory, then in one order.

The row counts of a chunk name its file. The commit puts the files of all ranges one after the
other; within a range it sorts by file and line, because what a reader and what an expression have
rejected are two lists.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_pipelines.core import files
from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.core.errors import DataError, mask

_NUMBER = re.compile(r"[0-9]+$")

# Files of stored rows, range by range, in order of the ranges.
StoredRows = Sequence[Sequence[str]]


def store_rejected(chunk: Chunk, folder: str) -> str:
    """Writes a chunk's rejected rows to a file named by its address, so that a retry replaces it.

    Returns:
      The file's path; ``""`` if there are none.
    """
    if not chunk.rejected:
        return ""
    path = files.join(folder, f"{chunk.range_number}_{chunk.part}")
    with files.replace(path) as file:
        file.write(to_json_lines(chunk.rejected))
    return path


def to_json_lines(rows: Iterable[Rejected]) -> bytes:
    """Returns one JSON object a line."""
    # What a name of a file has beyond UTF-8 becomes an escape of JSON.
    lines = (
        json.dumps(row._asdict(), ensure_ascii=False).encode("utf-8", "backslashreplace")
        for row in rows
    )
    return b"".join(line + b"\n" for line in lines)


def read_stored(stored: StoredRows, places: Mapping[str, int]) -> Iterator[Sequence[Rejected]]:
    """Yields the rows of each range that has any, by file and place in it; those of one place in
    the order in which they were rejected.

    Args:
      stored: files of the ranges.
      places: file of the source -> its place among them. One that is not in it counts as the first.

    Raises:
      DataError: a file cannot be read.
    """
    for paths in stored:
        rows = [_row(path, line) for path in paths for line in files.read_bytes(path).splitlines()]
        if rows:
            yield sorted(rows, key=lambda row: (places.get(row.file, 0), _number(row.position)))


def first_stored(stored: StoredRows, places: Mapping[str, int], most: int) -> tuple[Rejected, ...]:
    """Returns the first rows, ``most`` at most, of those that ``read_stored`` yields."""
    return tuple(itertools.islice(itertools.chain.from_iterable(read_stored(stored, places)), most))


def write_rejected(path: str, stored: StoredRows, places: Mapping[str, int]) -> None:
    """Writes all rows to one file, with those of one range in memory at a time.

    Args:
      path: what to write. If the stored files are gone and it is there, an earlier attempt has
        written it.
      stored, places: as of ``read_stored``.
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
    """Returns 1002 of ``line 1002``; 0 where the file is the row."""
    found = _NUMBER.search(position)
    return int(found[0]) if found else 0
