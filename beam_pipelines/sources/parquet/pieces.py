"""Cuts the row groups of a file into pieces for ranges.

A row group is the least that Parquet's reader can find. It decodes a group from its first row on,
so to read the second half of a group, it decodes the first half too: a twentieth of the CPU time of
a conversion. A file that pandas writes has one group for a million rows, which one worker would
read alone. So the large groups of a source with few of them are cut in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from beam_pipelines.sources.plan import RANGE_BYTES

# A source with more row groups keeps enough workers busy.
_FEW_GROUPS = 3


class Piece(NamedTuple):
    """Consecutive rows of a row group.

    Attributes:
      first_byte: in the file; the range that has it reads the rows.
      group: number of the row group.
      start, stop: the rows within the group, from 0, ``stop`` not included.
    """

    first_byte: int
    group: int
    start: int
    stop: int


def pieces_of(metadata: Any, files: int = 0) -> Iterator[Piece]:
    """Yields the pieces of a file, in order.

    Args:
      metadata: of the file.
      files: number of files in the source; 0: no group is cut.
    """
    cuts = 0 < files * metadata.num_row_groups <= _FEW_GROUPS
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        first, rows = first_byte(group), group.num_rows
        size = _compressed_bytes(group) if cuts else 0
        if size < 2 * RANGE_BYTES or rows < 2:
            yield Piece(first, number, 0, rows)
        else:
            yield Piece(first, number, 0, rows // 2)
            yield Piece(first + size // 2, number, rows // 2, rows)


def first_byte(group: Any) -> int:
    """Returns where a row group's first column begins in its file.

    Each range looks at all groups, so only one column is looked at.
    """
    column = group.column(0)
    return int(
        min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    )


def _compressed_bytes(group: Any) -> int:
    columns = map(group.column, range(group.num_columns))
    return int(sum(column.total_compressed_size for column in columns))
