"""Splits delimited text into cells, and says what one looks like."""

from __future__ import annotations

import csv
import io
import re

# The text that is looked at.
_HEAD_BYTES = 1 << 17
_NUMBER = re.compile(
    r"[+-]?\s?(?:[$€£¥₹]|R\$|[A-Z]{3}\s)?\s?[+-]?"
    r"(?:[0-9](?:[0-9.,'’ \u00a0\u202f]*[0-9])?[.,]?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"(?:\s?(?:[%$€£¥₹₽₩₺]|zł|kr|Kč|Ft|[A-Z]{3}))?"
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
_CLOCK = r"[0-9]{1,2}:[0-9]{2}\S*(?:\s?[AaPp][Mm])?"
_DATE = re.compile(
    rf"[0-9]{{1,4}}([-/.])[0-9]{{1,2}}\1[0-9]{{1,4}}\.?(?:,?[ T]+{_CLOCK})?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:\s?[AaPp][Mm])?"
    rf"|(?:{names_pattern(WEEKDAYS)},? )?"
    rf"(?:[0-9]{{1,2}}([-/. ]){_MONTH},?\2[0-9]{{2,4}}|[0-9]{{4}}([-/. ]){_MONTH}\3[0-9]{{1,2}}"
    rf"|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}})(?:,?(?: at)?[ T]{_CLOCK})?"
)
_NULLS = frozenset(("na", "n/a", "n.a.", "null", "none", "nan", "-", "--", "?", ".", "\\n"))


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
