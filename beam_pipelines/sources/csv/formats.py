"""Turns formatted cells into the plain texts that Arrow reads.

``1.234,50 €`` becomes ``1234.50``, ``31/01/2024`` becomes ``2024-01-31``, ``yes`` becomes ``true``.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.formatting import MINUS
from beam_pipelines.recipe import cell_formats
from beam_pipelines.sources.csv.sniffer import MONTHS, WEEKDAYS, names_pattern
from beam_pipelines.sources.exact_cast import exact_cast

_BLANK = f"[{cell_formats.BLANKS}\t]"
# More digits than float64 keeps: such a number of a float column would be rounded.
_MOST_DIGITS = 15
# Letter of a part -> its digits. Days and months may lack a leading zero, seconds have a fraction.
_DIGITS = {
    "d": "[0-9]{1,2}",
    "m": "[0-9]{1,2}",
    "b": "[A-Za-z]{3,9}",
    "B": "[A-Za-z]{3,9}",
    "a": "[A-Za-z]{3,9}",
    "A": "[A-Za-z]{3,9}",
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "H": "(?:[01]?[0-9]|2[0-3])",
    "I": "(?:0?[1-9]|1[0-2])",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9](?:[.,][0-9]{1,6})?",
    "p": "[AaPp][Mm]",
    "z": "(?:Z|UTC|GMT|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])",
}
_CLOCKS = (
    "", " %H:%M", " %H:%M:%S", " %H:%M:%S UTC", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S",
    " at %I:%M %p", ", %H:%M", ", %H:%M:%S", ", %I:%M %p", ", %I:%M:%S %p",
)  # fmt: skip
_ORDERS = (
    "%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d",
)  # fmt: skip
_NAMED_ORDERS = (
    "%d{0}%b{0}%Y", "%d{0}%b{0}%y", "%d{0}%b,{0}%Y", "%b{0}%d{0}%Y", "%b{0}%d,{0}%Y",
    "%Y{0}%b{0}%d",
)  # fmt: skip
_HALF_DAYS = ("%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p")
_SEPARATOR, _MONTH = re.compile(r"[0-9A-Za-z]([-/. ])"), re.compile(names_pattern(MONTHS))


def to_plain(texts: pa.Array, format_: cell_formats.CellFormat) -> pa.Array:
    """Returns cells as plain texts.

    Args:
      texts: string array of n cells, with nulls.
      format_: the format.

    Returns:
      String array of n cells; null where a cell is null, or is not in the format.
    """
    texts = pc.utf8_trim(texts, characters=cell_formats.WHITE_SPACE)
    if isinstance(format_, cell_formats.NumberFormat):
        return _plain_numbers(texts, format_)
    if isinstance(format_, cell_formats.DateFormat):
        return _plain_dates(texts, format_)
    folded = pc.utf8_lower(texts)
    words = pc.index_in(folded, value_set=pa.array([format_.true, format_.false]))
    return pa.array(["true", "false"]).take(words)


def plain_integers(texts: pa.Array) -> pa.Array:
    """Returns texts as Arrow's integers take them: ``+5`` and ``5.00`` become ``5``."""
    return pc.replace_substring_regex(
        pc.replace_substring_regex(texts, r"^[ \t]*\+([0-9])", r"\1"),
        r"^(-?[0-9]+)\.0+([ \t]*)$",
        r"\1\2",
    )


def typed(plain: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns plain texts as values.

    Raises:
      pa.ArrowInvalid: one of them is none of the type.
    """
    return exact_cast(plain_integers(plain) if pa.types.is_integer(type_) else plain, type_)


def number_pattern(format_: cell_formats.NumberFormat) -> str:
    """Returns the regular expression of a number, for RE2 and Python.

    Its groups are the sign before the unit, the sign behind it, the whole number, the fraction,
    and the minus that accounts write behind the number.
    """
    before = f"(?:{re.escape(format_.before)}{_BLANK}*)" if format_.before else ""
    after = f"(?:{_BLANK}*{re.escape(format_.after)})" if format_.after else ""
    optional = "" if format_.is_percent else "?"
    group = _any_of(format_.thousands)
    grouped = f"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+|" if group else ""
    if format_.is_indian:
        grouped = f"[1-9][0-9]?(?:{group}[0-9]{{2}})*{group}[0-9]{{3}}|"
    return (
        f"^(?P<sign>[+-]?){before + optional if before else ''}(?P<inner>[+-]?)"
        f"(?P<whole>{grouped}0|[1-9][0-9]*|)(?:{re.escape(format_.decimal)}(?P<fraction>[0-9]*))?"
        f"(?P<last>-?){after + optional if after else ''}$"
    )


def _any_of(thousands: str) -> str:
    """Returns the pattern of a separator of thousands and its relatives."""
    for relatives in (cell_formats.BLANKS, cell_formats.APOSTROPHES):
        if thousands and thousands in relatives:
            return f"[{relatives}]"
    return re.escape(thousands)


def _plain_numbers(texts: pa.Array, format_: cell_formats.NumberFormat) -> pa.Array:
    texts = pc.replace_substring(texts, MINUS, "-")
    found = pc.extract_regex(texts, pattern=number_pattern(format_))
    sign, inner, whole, fraction, last = found.flatten()
    if format_.thousands:
        whole = pc.replace_substring_regex(whole, "[^0-9]", "")
    digits = pc.add(pc.utf8_length(whole), pc.utf8_length(fraction))
    signs = pc.binary_join_element_wise(sign, inner, last, "")
    is_number = pc.and_(pc.greater(digits, 0), pc.less(pc.utf8_length(signs), 2))
    # A whole number that float64 rounds is no number here; one of int64 is one.
    has_part = pc.greater(pc.utf8_length(fraction), 0)
    is_exact = pc.or_(pc.less_equal(pc.utf8_length(whole), _MOST_DIGITS), pc.invert(has_part))
    sign = pc.replace_substring(signs, "+", "")
    whole = pc.if_else(pc.equal(whole, ""), "0", whole)
    plain = pc.binary_join_element_wise(sign, whole, "")
    plain = pc.if_else(has_part, pc.binary_join_element_wise(plain, fraction, "."), plain)
    if format_.is_percent:
        plain = pc.binary_join_element_wise(plain, "e-2", "")
    return pc.if_else(pc.and_(is_number, is_exact), plain, pa.scalar(None, pa.string()))


def date_pattern(format_: cell_formats.DateFormat) -> str:
    """Returns the regular expression of a date, a group each part."""
    parts = (f"(?P<{part}>{_DIGITS[part]}){re.escape(text)}" for part, text in format_.parts)
    return f"^{''.join(parts)}$"


def _plain_dates(texts: pa.Array, format_: cell_formats.DateFormat) -> pa.Array:
    found = pc.extract_regex(texts, pattern=date_pattern(format_))
    part = {letter: pc.struct_field(found, letter) for letter, _ in format_.parts}
    plain, is_good = pc.if_else(found.is_valid(), "", None), found.is_valid()
    if format_.has_day:
        plain, is_good = _plain_days(part, plain)
    for letter in "aA":
        if letter in part:
            is_good = pc.and_(is_good, _index(part[letter], WEEKDAYS).is_valid())
    if format_.has_clock:
        seconds = part["S"] if "S" in part else pc.if_else(plain.is_valid(), "00", None)
        seconds = pc.replace_substring(seconds, ",", ".")
        clock = pc.binary_join_element_wise(_hour(part), part["M"], seconds, ":")
        gap = " " if format_.has_day else ""
        plain = pc.binary_join_element_wise(plain, clock, gap)
    if "z" in part:
        zone = pc.replace_substring_regex(part["z"], "UTC|GMT", "Z")
        plain = pc.binary_join_element_wise(plain, zone, "")
    return pc.if_else(is_good, plain, pa.scalar(None, pa.string()))


def _plain_days(part: dict[str, pa.Array], empty: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Returns days as ``2024-01-31``, and which of them are of the calendar.

    Args:
      part: letter of the pattern -> texts.
      empty: an empty text for each cell that fits the pattern.
    """
    if "y" in part:  # as POSIX reads it
        century = pc.if_else(pc.greater_equal(part["y"], "69"), "19", "20")
        part["Y"] = pc.binary_join_element_wise(century, part["y"], "")
    for letter in "bB":
        if letter in part:
            part["m"] = pc.add(_index(part[letter], MONTHS), 1).cast(pa.string())
    days = part.get("d", pc.binary_join_element_wise(empty, "1", ""))
    day, month = (pc.utf8_lpad(some, 2, padding="0") for some in (days, part["m"]))
    plain = pc.binary_join_element_wise(part["Y"], month, day, "-")
    return plain, _is_day(part["Y"], month, day)


def _index(words: pa.Array, names: tuple[str, ...]) -> pa.Array:
    """Returns the numbers of names, whole or shortened to three letters."""
    folded = pc.utf8_lower(words)
    short = pa.array([name[:3] for name in names])
    number = pc.index_in(folded, value_set=pa.array(names))
    return pc.coalesce(number, pc.index_in(folded, value_set=short))


def _hour(part: dict[str, pa.Array]) -> pa.Array:
    """Returns the hours from 00 to 23."""
    if "I" not in part:
        return pc.utf8_lpad(part["H"], 2, padding="0")
    hours = pc.cast(part["I"], pa.int64())
    hours = pc.if_else(pc.equal(hours, 12), 0, hours)
    hours = pc.if_else(pc.starts_with(pc.utf8_lower(part["p"]), "p"), pc.add(hours, 12), hours)
    return pc.utf8_lpad(hours.cast(pa.string()), 2, padding="0")


def _is_day(year: pa.Array, month: pa.Array, day: pa.Array) -> pa.Array:
    """Returns which days are of the calendar; 31 February matches the pattern."""
    years, months, days = (
        np.asarray(pc.fill_null(part.cast(pa.int64()), 0)) for part in (year, month, day)
    )
    first = (12 * (years - 1970) + months - 1).astype("datetime64[M]")
    lengths = (first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")
    is_month = (months > 0) & (months < 13)
    return pa.array(is_month & (days > 0) & (days <= lengths.astype(np.int64)))


def count_dates(values: pa.Array, counts: pa.Array, some: list[str], least: float) -> Counter[str]:
    """Returns how many cells fit each pattern that is likely."""
    separators = {match[1] for cell in some if (match := _SEPARATOR.search(cell))}
    orders = list(_ORDERS)
    if any(map(_MONTH.search, some)):
        orders = [weekday + one for weekday in ("", "%a, ", "%a ") for one in _NAMED_ORDERS]
    days = [order.format(separator) for separator in sorted(separators) for order in orders]
    patterns = [*_HALF_DAYS, *(day + clock for day in days for clock in _CLOCKS)]
    cells = [cell.strip() for cell in some]
    found: Counter[str] = Counter()
    for pattern in patterns:
        format_ = cell_formats.DateFormat(pattern)
        # Python is quicker for few cells, and most patterns fit none.
        matches = map(re.compile(date_pattern(format_)).match, cells)
        if sum(map(bool, matches)) >= least * len(cells):
            fits = to_plain(values, format_).is_valid()
            found[pattern] = pc.sum(counts.filter(fits)).as_py() or 0
    return found
