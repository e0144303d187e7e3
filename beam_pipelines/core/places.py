"""Places of selected rows, and pairs of rows that met."""

from __future__ import annotations

from typing import NamedTuple

# Places of rows that a chunk or partition notes, and that are shown.
MOST_PLACES = 10


class Place(NamedTuple):
    """The range, chunk and number of a selected row."""

    range_number: int
    part: int
    row: int


class Repeats(NamedTuple):
    """Rows with values that an earlier row has.

    Attributes:
      rows: their number.
      pairs: of the first of them, the earlier row and the row itself.
    """

    rows: int = 0
    pairs: tuple[tuple[Place, Place], ...] = ()


class Pair(NamedTuple):
    """An earlier row and a later one like it, in files.

    Attributes:
      first, row: the file's name and the place in it, of each.
      file, place: of the later row.
      text, first_text: of both rows as found.
    """

    first: str
    row: str
    file: str
    place: str
    text: str
    first_text: str
