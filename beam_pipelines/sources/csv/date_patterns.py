"""Patterns of dates and times in cells, and remarks on them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.recipe.cell_formats import CellFormat, DateFormat, parse_format
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.csv.cells import MONTHS, WEEKDAYS, names_pattern
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sql.database import identifier

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
# The share of cells that a remark must fit.
LEAST_ALIKE = 0.95
# Texts of dates that no format reads: 1st March 2024, 06/Jan/2024:10:00:00 +0000.
_DATED = re.compile(
    rf"(?=.*[0-9]{{4}})(?=.*{names_pattern(MONTHS)}(?![A-Za-z]))"
    rf"(?:{names_pattern(MONTHS)}(?![A-Za-z])|{names_pattern(WEEKDAYS)}(?![A-Za-z])"
    r"|[0-9]+(?:st|nd|rd|th)?\b|(?:of|at|the|UTC|GMT|AM|PM|am|pm|Z|T)\b|[-+/.,:\s])+"
)
# Names of zones that mean one offset nearly everywhere.
_OFFSETS = {
    "UTC": "+00", "GMT": "+00", "WET": "+00", "WEST": "+01", "CET": "+01", "CEST": "+02",
    "EET": "+02", "EEST": "+03", "JST": "+09", "EST": "-05", "EDT": "-04", "CST": "-06",
    "CDT": "-05", "MST": "-07", "MDT": "-06", "PST": "-08", "PDT": "-07",
}  # fmt: skip
# Arrow reads no blank before the offset from UTC, and no name.
_ZONED = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    rf"(?P<zone>Z| ?[-+][0-9]{{2}}(?::?[0-9]{{2}})?| (?:{'|'.join(_OFFSETS)}))?"
)
_MOST_PATTERNS = 3
_DURATION = re.compile(r"[0-9]+:[0-5][0-9](?::[0-5][0-9])?")
# Times of day and months that Arrow does not read.
_PATTERNS = ("%H:%M", "%H:%M:%S", "%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%Hh%M")


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


class Remark(NamedTuple):
    """A kind of texts that a column has.

    Attributes:
      likeness: the words for it.
      fits: whether each cell is of that kind.
      cure: the lines of a recipe that read it.
    """

    likeness: str
    fits: list[bool]
    cure: str


def listed(name: str, formats: Iterable[str]) -> str:
    """Returns the formats as values of a recipe."""
    shown = (f"{{{yaml_text(name)}: {yaml_text(one)}}}" for one in formats)
    return f"formats: {' or '.join(shown)}"


def derived(expressions: Mapping[str, str]) -> str:
    """Returns the key of a recipe that makes columns."""
    shown = (f"{yaml_text(name)}: {yaml_text(sql)}" for name, sql in expressions.items())
    return f"derive: {{{', '.join(shown)}}}"


def alike(
    cells: list[str], pattern: str | re.Pattern[str], likeness: str, cure: str
) -> list[Remark]:
    """Returns a remark if nearly all cells match a pattern."""
    fits = [re.fullmatch(pattern, cell) is not None for cell in cells]
    return [Remark(likeness, fits, cure)] * (sum(fits) >= LEAST_ALIKE * len(cells))


def remark_of_dates(name: str, cells: list[str]) -> Remark | None:
    """Returns what is worth saying of months, times of day and durations."""
    # All of them have a digit in nearly all cells; to look for each takes long.
    if sum(re.search("[0-9]", cell) is not None for cell in cells) < LEAST_ALIKE * len(cells):
        return None
    found = (
        *_of_one_format(name, cells),
        *alike(cells, _DURATION, "durations", _seconds(name, cells)),
        *_zoned(name, cells),
        *_in_formats(name, cells),
        *alike(cells, _DATED, "dates that no format reads", "strptime in 'derive' may read them"),
    )
    return next(iter(found), None)


def _zoned(name: str, cells: list[str]) -> list[Remark]:
    """Returns what is worth saying of times with odd zones."""
    zones = {match["zone"] for cell in cells if (match := _ZONED.fullmatch(cell))}
    sql = key = identifier(name)
    for zone in sorted(filter(None, zones), key=len, reverse=True):
        if zone.strip() in _OFFSETS:
            sql = f"replace({sql}, '{zone}', '{_OFFSETS[zone.strip()]}')"
    if any(zone and re.match(" [-+]", zone) for zone in zones):
        sql = f"regexp_replace({sql}, ' ([-+])', '\\1')"
    line = derived({f"{name}_utc": f"{sql}::TIMESTAMPTZ"})
    if None not in zones:
        found = alike(cells, _ZONED, "times with a zone", f"{line} reads them")
        return found if sql != key else []
    found = alike(cells, _ZONED, "times, some with a zone", f"{line} takes the others as UTC")
    return found if len(zones) > 1 else []


def _of_one_format(name: str, cells: list[str]) -> Iterator[Remark]:
    named = Counter(pattern for cell in cells if (pattern := _pattern_of_month(cell)))
    texts = pa.array(cells, pa.string())
    for pattern in (*_PATTERNS, *(pattern for pattern, _ in named.most_common(1))):
        format_ = DateFormat(pattern)
        fits = to_plain(texts, format_).is_valid().to_pylist()
        if sum(fits) >= LEAST_ALIKE * len(cells):
            kind = "months" if format_.has_day else "perhaps times of day"
            read = "reads the first day of each" if format_.has_day else "reads them"
            yield Remark(kind, fits, f"{listed(name, [pattern])} {read}")


def _in_formats(name: str, cells: list[str]) -> list[Remark]:
    """Returns what is worth saying of days in several formats."""
    rest, patterns = cells, list[str]()
    while rest and len(patterns) < _MOST_PATTERNS:
        counts = count_dates(pa.array(rest), pa.array([1] * len(rest)), rest, 0.1)
        most = max(counts.values(), default=0)
        likely = [pattern for pattern, count in counts.items() if count == most > 0]
        fits = [to_plain(pa.array(rest), DateFormat(one)).is_valid() for one in likely]
        if not fits or any(pc.any(pc.and_(fits[0], other)).as_py() for other in fits[1:]):
            return []
        patterns.append(likely[0])
        rest = list(itertools.compress(rest, pc.invert(fits[0]).to_pylist()))
    words = re.sub("T?%[a-zA-Z]| UTC", "", " ".join(patterns))
    if rest or len(patterns) < 2 or re.search("[^\\W\\d_]", words):  # 1st March; prose
        return []
    has_clock = any(DateFormat(pattern).has_clock for pattern in patterns)
    sql = f"try_strptime({identifier(name)}, {patterns}){'' if has_clock else '::DATE'}"
    line = derived({f"{name}_{'time' if has_clock else 'date'}": sql})
    likeness = f"dates in {len(patterns)} formats"
    return [Remark(likeness, [True] * len(cells), f"{line} reads them")]


def _pattern_of_month(cell: str) -> str:
    """Returns the pattern of a month and its year: ``Mar-24``."""
    pattern = named_pattern(cell)
    return pattern if "%d" not in pattern else ""


def _seconds(name: str, cells: list[str]) -> str:
    """Returns the line that makes seconds of durations."""
    numbers = {cell.count(":") + 1 for cell in cells}
    parts, sql = max(numbers), identifier(name)
    if len(numbers) > 1:
        return "split_part in 'derive' makes numbers"
    terms = (
        f"split_part({sql}, ':', {place + 1})::BIGINT * {60 ** (parts - 1 - place)}"
        for place in range(parts)
    )
    return f"{derived({f'{name}_seconds': ' + '.join(terms)})} makes seconds"
