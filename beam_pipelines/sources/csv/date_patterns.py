"""Patterns of dates and times, found in cells."""

from __future__ import annotations

import re
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.recipe.cell_formats import CellFormat, DateFormat, parse_format
from beam_pipelines.sources.csv.cells import MONTHS, WEEKDAYS, names_pattern
from beam_pipelines.sources.csv.formats import to_plain

# Cells that tell the patterns of dates with names of months; letters of a short name; characters
# of a date at most, as documents in cells would take seconds.
_TOLD_BY, _SHORT, _LONGEST = 20, 3, 200
_CLOCKS = (
    "", " %H:%M", " %H:%M:%S", " %H:%M:%S UTC", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S",
    ", %H:%M", ", %H:%M:%S", ", %I:%M %p", ", %I:%M:%S %p",
)  # fmt: skip
_ORDERS = (
    "Y{0}m{0}d", "d{0}m{0}Y", "m{0}d{0}Y", "d{0}m{0}y", "m{0}d{0}y", "y{0}m{0}d",
)  # fmt: skip
# Parts of a date with the name of its month, or of a time of twelve hours.
_PART = re.compile(
    rf"(?P<month>{names_pattern(MONTHS)})(?![A-Za-z])"
    rf"|(?P<weekday>{names_pattern(WEEKDAYS)})(?![A-Za-z])"
    r"|(?P<clock>[0-9]{1,2}:[0-9]{2})(?P<seconds>:[0-9]{2})?(?P<half>\s?[AaPp][Mm])?"
    r"|(?P<number>[0-9]+)|(?P<word>[A-Za-z%]+)"
)


def count_dates(values: pa.Array, counts: pa.Array, some: list[str], least: float) -> Counter[str]:
    """Returns how many cells fit each pattern that is likely."""
    separators = {match[1] for cell in some if (match := re.match(r"\s*[0-9]+([-/. ])", cell))}
    patterns = [
        re.sub("([dmyY])", r"%\1", order.format(separator)) + clock
        for separator in sorted(separators)
        for order in _ORDERS
        for clock in _CLOCKS
    ]
    patterns += sorted(_named_patterns(some[:_TOLD_BY]))
    some_cells = pa.array(some, pa.string())
    found: Counter[str] = Counter()
    for pattern in patterns:
        format_ = DateFormat(pattern)
        if to_plain(some_cells, format_).null_count > (1 - least) * len(some):
            continue
        fits = to_plain(values, format_).is_valid()
        found[pattern] = pc.sum(counts.filter(fits)).as_py() or 0
    return found


def _named_patterns(cells: list[str]) -> set[str]:
    """Returns the patterns of cells with months' names, AM or PM.

    A name in full tells more than ``May``, which is short, too.
    """
    found = {pattern for cell in cells if (pattern := named_pattern(cell))}
    for long, short in (("%B", "%b"), ("%A", "%a")):
        found -= {one.replace(long, short) for one in found if long in one}
    return found


def named_pattern(cell: str) -> str:
    """Returns the pattern of a cell with a month, AM or PM.

    Nothing for any other cell.
    """
    cell, text, end = cell.strip(), "", 0
    if len(cell) > _LONGEST:
        return ""
    for match in _PART.finditer(cell):
        text += cell[end : match.start()] + _part(match, text)
        end = match.end()
    text += cell[end:]
    for pattern in (text, text.replace("%d", "%y")):  # Mar-24 is a month of a year
        if re.search("%[bBp]", text) and isinstance(_format_or_none(pattern), DateFormat):
            return pattern
    return ""


def _part(match: re.Match[str], text: str) -> str:
    """Returns the pattern of a part of a date."""
    if match["month"]:
        return "%B" if len(match["month"]) > _SHORT else "%b"
    if match["weekday"]:
        return "%A" if len(match["weekday"]) > _SHORT else "%a"
    if match["clock"]:
        half = match["half"] or ""
        return f"{'%I' if half else '%H'}:%M{':%S' if match['seconds'] else ''}{half[:-2]}" + (
            "%p" if half else ""
        )
    if match["number"]:
        if len(match["number"]) == len("2024"):
            return "%Y"
        is_day = len(match["number"]) < _SHORT and "%d" not in text
        return "%d" if is_day else "%y"
    return match["word"]


def _format_or_none(text: str) -> CellFormat | None:
    try:
        return parse_format(text)
    except ValueError:
        return None
