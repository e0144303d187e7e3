"""Keys on how cells are written: numbers, dates, booleans, nulls, quotes.

A format is written in a recipe as the number 1234.5 would look in the file (``1.234,5 €``; in India
123456.5 shows more: ``1,23,456.5``), as a pattern of ``strptime`` (``%d/%m/%Y``), or as two words
(``yes/no``). It says how to read cells that are not written as in plain CSV.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Literal

from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import Value, read_mapping, reader

# A blank, a no-break space and a narrow one; all three separate thousands.
BLANKS = " \u00a0\u202f"
# What may be around a cell without being of it: Unicode's white space, and marks without width.
WHITE_SPACE = (
    " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
APOSTROPHES = "'\u2019"
_NUMBER = re.compile(
    rf"(?P<before>[^0-9.,()]*)1(?:(?P<thousands>[.,{BLANKS}{APOSTROPHES}]?)234|(?P<lakh>,23,456))"
    r"(?:(?P<decimal>[.,])5)?(?P<after>[^0-9.,()-]*)"
)
_PARTS = re.compile(r"%(?P<part>[A-Za-z])(?P<text>[^%]*)")
# Without a day it is the first of the month; without all three, a time of day.
_DAYS = (
    set(),
    *(day | {month, year} for day in (set(), {"d"}) for month in "mbB" for year in "Yy"),
)
_CLOCKS: tuple[set[str], ...] = (
    set(),
    {"H", "M"},
    {"H", "M", "S"},
    {"I", "M", "p"},
    {"I", "M", "S", "p"},
)
EXPECTED = (
    "the number 1234.5 as the file writes it, such as '1.234,5 €', a pattern such as '%d/%m/%Y', "
    "or the words of true and false, such as 'yes/no'"
)


@dataclasses.dataclass(frozen=True)
class NumberFormat:
    """A number's separators and unit.

    Attributes:
      decimal: before the fraction, ``.`` or ``,``.
      thousands: between groups of three digits; empty if there is none.
      before, after: units, which a cell may lack; of ``%`` every cell but 0 has it.
      is_indian: whether groups have two digits, and the last one three.
    """

    decimal: Literal[".", ","]
    thousands: str = ""
    before: str = ""
    after: str = ""
    is_indian: bool = False

    def __str__(self) -> str:
        whole = "1,23,456" if self.is_indian else f"1{self.thousands}234"
        gap = " " if self.after and self.after != "%" else ""
        return f"{self.before}{whole}{self.decimal}5{gap}{self.after}"

    @property
    def is_percent(self) -> bool:
        """Whether numbers are hundredths."""
        return "%" in (self.before, self.after)


@dataclasses.dataclass(frozen=True)
class DateFormat:
    """A day, a time of day, or both.

    Attributes:
      pattern: as ``strptime`` takes it, of %d %m %b %B %Y %y %H %I %M %S %p %z %a %A. Names are
        English; as for POSIX, %b is %B, and %a is %A.
    """

    pattern: str

    def __str__(self) -> str:
        return self.pattern

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Letters of the parts, each with the text behind it."""
        return [(match["part"], match["text"]) for match in _PARTS.finditer(self.pattern)]

    @property
    def has_day(self) -> bool:
        """Whether cells have a day, or a month."""
        return any(part in "Yy" for part, _ in self.parts)

    @property
    def has_clock(self) -> bool:
        """Whether cells have a time of day."""
        return any(part in "HI" for part, _ in self.parts)


@dataclasses.dataclass(frozen=True)
class WordsFormat:
    """The words of true and false, in any case."""

    true: str
    false: str

    def __str__(self) -> str:
        return f"{self.true}/{self.false}"


CellFormat = NumberFormat | DateFormat | WordsFormat


def parse_format(text: str) -> CellFormat:
    """Returns the format that a recipe's text describes.

    Raises:
      ValueError: it describes none; the message says what was expected.
    """
    format_ = _number(text) or _date(text) or _words(text)
    if format_ is None:
        raise ValueError(f"found '{text}', expected {EXPECTED}")
    return format_


def _number(text: str) -> NumberFormat | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    thousands = "," if match["lakh"] else match["thousands"]
    if thousands == match["decimal"]:
        return None
    decimal = match["decimal"] or ("," if thousands == "." else ".")
    if thousands in BLANKS:
        thousands = thousands and " "
    elif thousands in APOSTROPHES:
        thousands = "'"
    return NumberFormat(
        "," if decimal == "," else ".",
        thousands,
        match["before"].strip(),
        match["after"].strip(),
        bool(match["lakh"]),
    )


def _date(text: str) -> DateFormat | None:
    format_ = DateFormat(text)
    parts = [part for part, _ in format_.parts]
    of_day = {part for part in parts if part in "dmbByY"}
    of_clock = set(parts) - of_day - {"a", "A", "z"}
    is_known = len(parts) == len(set(parts)) and of_day in _DAYS and of_clock in _CLOCKS
    is_whole = of_day and of_clock if "z" in parts else of_day or of_clock
    return format_ if text.startswith("%") and is_known and is_whole else None


def _words(text: str) -> WordsFormat | None:
    true, _, false = (word.strip().casefold() for word in text.partition("/"))
    is_pair = true and false and "/" not in false and true != false and "%" not in text
    return WordsFormat(true, false) if is_pair else None


@reader(type="string", maxLength=1, minLength=1)
def read_character(value: Value) -> str | None:
    """One character."""
    text = value.tree.text if isinstance(value.tree, Scalar) else ""
    if len(text) == 1:
        return text
    cure = ', as "\\t" in double quotes' if text.startswith("\\") else ""
    if len(set(text) - {'"', "'"}) == 1:
        cure = ". 'format: lines' reads whole lines, which string_split in 'derive' divides"
    value.expected(f"one character{cure}")
    return None


@reader(type="string", maxLength=1)
def read_quote(value: Value) -> str | None:
    """One character, or an empty text."""
    return (
        "" if isinstance(value.tree, Scalar) and value.tree.value == "" else read_character(value)
    )


@reader(**read_mapping.schema)
def read_formats(value: Value) -> dict[str, str] | None:
    """Column -> how its cells are written, as ``cell_formats.parse_format`` reads it."""
    formats = read_mapping(value)
    for column, text in (formats or {}).items():
        try:
            parse_format(text)
        except ValueError as error:
            value.wrong(f"{error}.", column)
    return formats


@reader(type="string")
def read_encoding(value: Value) -> str | None:
    """The name of a codec of Python between bytes and text."""
    name = value.tree.text if isinstance(value.tree, Scalar) else ""
    try:
        "a".encode(name).decode(name)
    except (LookupError, ValueError):
        value.expected("an encoding, such as utf-8, utf-16, latin-1, cp1252 or shift_jis")
        return None
    return name
