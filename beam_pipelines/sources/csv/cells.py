"""Splits delimited text into cells, and says what one looks like."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Sequence

# The text that is looked at.
_HEAD_BYTES = 1 << 17
# Codes of ISO 4217 for common currencies. Other words next to numbers are other units, or names.
CURRENCIES = (
    "AED|ARS|AUD|BGN|BHD|BRL|CAD|CHF|CLP|CNY|COP|CRC|CZK|DKK|DZD|EGP|EUR|GBP|GEL|GHS|HKD|HUF|IDR|"
    "ILS|INR|ISK|JOD|JPY|KES|KRW|KWD|KZT|LKR|MAD|MXN|MYR|NGN|NOK|NZD|OMR|PEN|PHP|PKR|PLN|QAR|RON|"
    "RSD|RUB|SAR|SEK|SGD|THB|TND|TRY|TWD|UAH|USD|UYU|VND|ZAR"
)
_BEFORE = rf"(?:[$€£¥￥₹]|R\$|(?:{CURRENCIES})\s)?\s?"
_DIGITS = r"(?:[0-9](?:[0-9.,'’ \u00a0\u202f]*[0-9])?[.,]?|[.,][0-9]+)"
_AFTER = rf"(?:\s?(?:[%$€£¥￥₹₽₩₺円元원]|zł|kr|Kč|Ft|{CURRENCIES}))?"
# Accounts write numbers below 0 in brackets, or with the minus behind the digits.
_NUMBER = re.compile(
    rf"[-+\u2212]?\s?{_BEFORE}[-+\u2212]?{_DIGITS}(?:[eE][+-]?[0-9]+)?{_AFTER}"
    rf"|{_BEFORE}\({_BEFORE}{_DIGITS}{_AFTER}\){_AFTER}|{_BEFORE}{_DIGITS}\s?-{_AFTER}"
)
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def names_pattern(names: tuple[str, ...]) -> str:
    """Returns the pattern of names, whole or shortened to three letters."""
    return f"(?i:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in names)})"


_MONTH = names_pattern(MONTHS)
_CLOCK = r"[0-9]{1,2}:[0-9]{2}\S*(?:\s?[AaPp][Mm])?(?: UTC)?"
_DATE = re.compile(
    rf"[0-9]{{1,4}}([-/.])[0-9]{{1,2}}\1[0-9]{{1,4}}\.?(?:,?[ T]+{_CLOCK})?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:\s?[AaPp][Mm])?"
    rf"|(?:{names_pattern(WEEKDAYS)},? )?"
    rf"(?:[0-9]{{1,2}}([-/. ]){_MONTH},?\2[0-9]{{2,4}}|[0-9]{{4}}([-/. ]){_MONTH}\3[0-9]{{1,2}}"
    rf"|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}})(?:,?(?: at)?[ T]{_CLOCK})?"
)
_NULLS = frozenset(("na", "n/a", "n.a.", "null", "none", "nan", "-", "--", "?", ".", "\\n"))


def are_years(cells: Sequence[str]) -> bool:
    """Whether cells are years with equal steps, such as names of columns."""
    if not all(cell.strip().isascii() and cell.strip().isdigit() for cell in cells):
        return False
    years = [int(cell) for cell in cells]
    steps = {after - before for before, after in itertools.pairwise(years)}
    return steps in ({1}, {-1}, {5}, {-5}, {10}, {-10}) and all(
        1800 <= year <= 2200 for year in years
    )


def whole_records(head: bytes) -> bytes:
    """Returns the text to look at, without a cut line."""
    if len(head) <= _HEAD_BYTES:
        return head
    text = head[:_HEAD_BYTES]
    end = max(text.rfind(b"\n"), text.rfind(b"\r"))
    return text[: end + 1] or text


def split_text(text: str, delimiter: str, quote: str) -> list[list[str]]:
    """Returns the cells of each record that is not empty."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    options = {"quotechar": quote} if quote else {"quotechar": None, "quoting": csv.QUOTE_NONE}
    lines = io.StringIO(text.replace("\0", "\ufffd"), newline="")
    return [row for row in csv.reader(lines, delimiter=delimiter, **options) if row]


def kind(cell: str) -> str:
    """Returns ``number``, ``date``, ``text`` or, of an empty cell, nothing."""
    cell = cell.strip()
    if not cell or cell.casefold() in _NULLS:
        return ""
    if _DATE.fullmatch(cell):
        return "date"
    return "number" if _NUMBER.fullmatch(cell) else "text"
