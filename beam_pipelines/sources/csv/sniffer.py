"""Finds delimiter, quote and header of delimited text, by its cells."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten, show_count
from beam_pipelines.recipe.text.yaml_text import yaml_list
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect

# The text that is looked at.
_HEAD_BYTES = 1 << 17
# Codes of ISO 4217 for common currencies. Other words next to numbers are other units, or names.
_CURRENCIES = (
    "AED|ARS|AUD|BGN|BHD|BRL|CAD|CHF|CLP|CNY|COP|CRC|CZK|DKK|DZD|EGP|EUR|GBP|GEL|GHS|HKD|HUF|IDR|"
    "ILS|INR|ISK|JOD|JPY|KES|KRW|KWD|KZT|LKR|MAD|MXN|MYR|NGN|NOK|NZD|OMR|PEN|PHP|PKR|PLN|QAR|RON|"
    "RSD|RUB|SAR|SEK|SGD|THB|TND|TRY|TWD|UAH|USD|UYU|VND|ZAR"
)
CURRENCIES = frozenset(_CURRENCIES.split("|"))
# In a pattern, all codes would take 2 ms each time. Those below are compiled when first needed.
_CODE = re.compile("[A-Z]{3}")
_BEFORE = rf"(?:[$€£¥￥₹]|R\$|{_CODE.pattern}\s)?\s?"
_DIGITS = r"(?:[0-9](?:[0-9.,'’ \u00a0\u202f]*[0-9])?[.,]?|[.,][0-9]+)"
_AFTER = rf"(?:\s?(?:[%$€£¥￥₹₽₩₺円元원]|zł|kr|Kč|Ft|{_CODE.pattern}))?"
# Accounts write numbers below 0 in brackets, or with the minus behind the digits.
_NUMBER = (
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
_DATE = (
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
    if cell.isalpha() or (cell.isascii() and cell.isdigit()):
        return "text" if cell.isalpha() else "number"
    if re.fullmatch(_DATE, cell):
        return "date"
    is_number = re.fullmatch(_NUMBER, cell) and CURRENCIES.issuperset(_CODE.findall(cell))
    return "number" if is_number else "text"


DELIMITERS = (",", ";", "\t", "|")
_QUOTES = ('"', "'")
# Records that are split into cells.
_RECORDS = 200
# Least share of records with as many cells as the first one, and with cells of one kind.
_LEAST_ALIKE, _LEAST_TYPED = 0.5, 0.95
# Two readings are about as likely if their shares of good cells differ by less.
_CLOSE = 0.05

# Words of true and false.
WORDS = (
    "yes/no", "y/n", "true/false", "t/f", "on/off", "ja/nein", "j/n", "oui/non", "si/no", "sí/no",
    "sì/no", "sim/não", "tak/nie", "ano/ne", "wahr/falsch", "vrai/faux", "ja/nej", "kyllä/ei",
)  # fmt: skip
KNOWN_WORDS = frozenset(word for text in WORDS for word in text.split("/"))
# Not letters and blanks alone, nor a name with a number: A-17, a link.
_MARK = re.compile(r"[^\w\s]")
# Names of columns have fewer words, and no end.
_SENTENCE = re.compile(r"(?:[^\W\d_]\S*\s+){3}\S+\s+\S|(?:\S+\s+){2}\S*[.!]\s*$")


class FileDialect(NamedTuple):
    """How a file of delimited text is written.

    Attributes:
      delimiter: between cells.
      quote: around cells; empty: none.
      header: whether the first record names the columns.
      cells, rows: those of the first record, and of the first ones.
      reasons: key of a recipe -> why it was decided so.
    """

    delimiter: str
    quote: str
    header: bool
    cells: tuple[str, ...]
    reasons: dict[str, str]
    rows: list[list[str]]


class _Reading(NamedTuple):
    """A way to read the text.

    Attributes:
      dialect: delimiter and quote.
      cells: number of cells of the first record.
      usual: number of cells of most other records.
      alike: share of records with as many cells as the first.
      clean: share of cells that look like one value.
      rows: the first records.
      number: how many records there are.
      quoted: cells that the quotes enclose.
    """

    dialect: tuple[str, str]
    cells: int
    usual: int
    alike: float
    clean: float
    rows: list[list[str]]
    number: int
    quoted: int


def sniff(
    head: bytes,
    path: str = "file",
    *,
    delimiter: str | None = None,
    quote: str | None = None,
    header: bool | None = None,
    columns: Sequence[str] = (),
    default: str = ",",
) -> FileDialect:
    """Returns how delimited text is written.

    Args:
      head: beginning of the text, in UTF-8, without a mark; perhaps cut anywhere.
      path: for errors.
      delimiter, quote, header, columns: what the recipe says; it is not doubted.
      default: the delimiter, where nothing tells.

    Raises:
      DataError: two readings are about as likely; the message has the line of a recipe for each.
    """
    text = whole_records(head)
    found = [
        reading
        for some, mark in candidates(text, delimiter, quote, default)
        if (reading := _read(text, some, mark)) is not None
    ]
    if not found:
        return FileDialect(delimiter or default, '"' if quote is None else quote, True, (), {}, [])
    if quote is None:
        found = [one for one in found if one.dialect[1] != "'" or _is_quoted(one)]
    reading = _choose(found, default if delimiter is None else delimiter, path)
    reasons = {}
    if reading.dialect[0] != default and delimiter is None:
        share = "each" if reading.alike == 1 else f"{100 * reading.alike:.0f} %"
        words = f"{reading.cells} cells in {share} of the first {reading.number} lines"
        reasons["delimiter"] = words
    if reading.dialect[1] == "'" and quote is None:
        reasons["quote"] = f"encloses {reading.quoted} of the first cells"
    has_header = header
    if has_header is None:
        has_header, why = _has_header(reading.rows, columns, path)
        if why:
            reasons["names" if has_header else "header"] = why
    return FileDialect(*reading.dialect, has_header, tuple(reading.rows[0]), reasons, reading.rows)


def candidates(
    text: bytes, delimiter: str | None, quote: str | None, default: str
) -> list[tuple[str, str]]:
    """Returns the pairs of delimiter and quote that a text may have."""
    delimiters = [some for some in DELIMITERS if some == default or some.encode() in text]
    marks = _QUOTES if b"'" in text else _QUOTES[:1]
    return [
        (some, mark)
        for some in (delimiters if delimiter is None else [delimiter])
        for mark in (marks if quote is None else (quote,))
        if some != mark
    ]


def _read(text: bytes, delimiter: str, quote: str) -> _Reading | None:
    dialect = Dialect(ord(delimiter), ord(quote) if quote else None)
    toggles = quotes.toggling_quotes(text, OUTSIDE, NEWLINE, dialect)
    starts, ends = quotes.record_spans(text, toggles)
    if len(toggles) % 2 and len(starts) > 1:  # a quoted cell that is cut, or never closed
        starts, ends = starts[:-1], ends[:-1]
    if not len(starts):
        return None
    counts = quotes.count_cells(text, toggles, starts, dialect)[: len(starts)]
    others = counts[1:] if len(counts) > 1 else counts
    end = int(ends[:_RECORDS][-1])
    some = text[:end].decode("utf-8", errors="backslashreplace")
    # Behind a quote that encloses, a cell ends; else it is a mark of texts, as in a spreadsheet.
    behind = np.frombuffer(text + b"\n", np.uint8)[toggles[1::2][toggles[1::2] < end] + 1]
    rows = split_text(some, delimiter, quote)
    return _Reading(
        (delimiter, quote),
        int(counts[0]),
        int(np.bincount(others).argmax()),
        float(np.mean(counts == counts[0])),
        _clean(rows, delimiter),
        rows,
        len(starts),
        int(np.isin(behind, list(f"{delimiter}{quote} \r\n".encode())).sum()),
    )


def _clean(rows: list[list[str]], delimiter: str) -> float:
    """Returns the share of cells that look like one value."""
    others = [other for other in DELIMITERS if other != delimiter]
    cells = [cell for row in rows for cell in row]
    bad = sum(
        1
        for cell in cells
        if any(other in cell for other in others) and kind(cell) not in ("number", "date")
    )
    return 1 - bad / max(1, len(cells))


def _choose(found: list[_Reading], default: str, path: str) -> _Reading:
    plain = next((reading for reading in found if reading.dialect[0] == default), found[0])
    likely = [r for r in found if r.cells > 1 and r.usual == r.cells and r.alike >= _LEAST_ALIKE]
    if not likely:
        others = [
            r
            for r in found
            if r.cells != r.usual > 1 and r.alike < _LEAST_ALIKE and r.dialect != plain.dialect
        ]
        if others and plain.usual == plain.cells == 1 and plain.number > 2:
            raise _preamble(others[0], plain, path)
        return plain
    best = max(
        likely,
        key=lambda r: (round(r.clean, 6), round(r.alike, 6), r.dialect[0] == default, r.cells),
    )
    rivals = [
        r
        for r in likely
        if r.dialect[0] != best.dialect[0] and r.clean * r.alike > best.clean * best.alike - _CLOSE
    ]
    if rivals:
        one, other = json.dumps(best.dialect[0]), json.dumps(rivals[0].dialect[0])
        raise DataError(
            f"{path}: found lines of {best.cells} cells between {one} and of {rivals[0].cells} "
            f"between {other}, such as {shorten(best.rows[-1][0], 40)!r}; expected one delimiter. "
            f"Set 'delimiter: {one}' or 'delimiter: {other}' of the source."
        )
    # With quotes of the same delimiter: the usual one, unless the other one encloses cells.
    same = [r for r in likely if r.dialect[0] == best.dialect[0]]
    return max(same, key=lambda r: (r.dialect[1] == "'", r.clean))


def _is_quoted(reading: _Reading) -> bool:
    """Whether single quotes enclose cells, rather than being apostrophes."""
    cells = [cell for row in reading.rows for cell in row]
    return (
        reading.quoted > 0
        and 2 * reading.quoted >= min(len(cells), 2 * max(len(reading.rows) - 1, 1))
        and not any("'" in cell[:1] or cell.endswith("'") for cell in cells)
    )


def _preamble(other: _Reading, plain: _Reading, path: str) -> DataError:
    mark, one = map(json.dumps, (other.dialect[0], plain.dialect[0]))
    cure = "Set 'skip_lines' to the number of lines above the names of the columns"
    above = [*itertools.takewhile(lambda row: row[0].startswith("#"), plain.rows)]
    # As in logs of servers: '#Fields: date time', where rows may have another delimiter.
    words = (plain.dialect[0].join(row).split()[1:] for row in above)
    if names := next((found for found in words if len(found) == other.usual), None):
        keys = f"'delimiter: {mark}', 'header: false', 'skip_lines: {len(above)}'"
        cure = f"Set {keys} and 'columns: {yaml_list(names)}'"
    return DataError(
        f"{path}, line 1: found {shorten(plain.rows[0][0], 60)!r}, "
        f"{show_count(other.cells, 'cell')} between {mark}, expected {other.usual} as in most "
        f"lines below it. {cure}; or set 'delimiter: {one}' of the source if each line is one cell."
    )


def _has_header(rows: list[list[str]], columns: Sequence[str], path: str) -> tuple[bool, str]:
    """Returns whether the first record names the columns, and why perhaps not.

    A name is a text above numbers or dates. A first record with numbers above numbers, or texts
    that come again below, has no names. If nothing tells, it has.
    """
    first, rest = rows[0], [row for row in rows[1:] if row != rows[0]]
    names = {cell.strip() for cell in first}
    if not rest or (columns and set(columns) <= names):
        return True, ""
    columns_below = [[row[i] for row in rest if i < len(row)] for i in range(len(first))]
    kinds = [_usual_kind(below) for below in columns_below]
    own = [kind(cell) for cell in first]
    parts = list(zip(first, own, kinds, columns_below, strict=True))
    unnamed = [cell for cell, one, usual, _ in parts if one and one == usual != "text"]
    named = sum(one == "text" and usual in ("number", "date") for _, one, usual, _ in parts)
    texts = [(cell, below) for cell, _, usual, below in parts if cell and usual == "text"]
    again = [cell for cell, below in texts if cell in below]
    alike = [cell for cell, below in texts if cell in below or _is_alike(cell, below)]
    numbers = [cell.strip() for cell, one in zip(first, own, strict=True) if one == "number"]
    # pandas counts columns without a name.
    is_counted = numbers == [str(n) for n in range(len(numbers))] and len(numbers) < len(first)
    if len(numbers) > 2 and (are_years(numbers) or (is_counted and not again)):
        named, unnamed = named + len(unnamed), []
    if named and unnamed and max(named, len(unnamed)) < 4 * min(named, len(unnamed)):
        raise _question(path, first)
    if len(unnamed) > named:
        return False, f"the first line has values, such as {shorten(unnamed[0], 40)!r}"
    if not named and 2 * len(alike) > len(first):
        if 2 * len(again) > len(first):
            return False, "values of the first line come again below"
        return False, "the first line is written like those below"
    if not named and 2 * sum(map(bool, map(_SENTENCE.search, first))) >= len(first):
        raise _question(path, first)
    may_be_row = not named and 2 * sum(map(_is_one_of, first, columns_below)) > len(first)
    return True, "nothing tells the first line from a row" if may_be_row else ""


def _question(path: str, first: list[str]) -> DataError:
    columns = yaml_list(f"column{number}" for number in range(1, len(first) + 1))
    return DataError(
        f"{path}, line 1: found {shorten(', '.join(first), 60)}, which may be names of columns or "
        "a row. Set 'header: true' of the source if they are names, else 'header: false' and "
        f"'columns: {columns}'."
    )


def _is_alike(cell: str, below: list[str]) -> bool:
    """Whether a text is a boolean or a code like those below."""
    if cell.strip().casefold() in KNOWN_WORDS:
        return sum(other.strip().casefold() in KNOWN_WORDS for other in below) > len(below) / 2
    shape = _shape(cell)
    alike = sum(_shape(other) == shape for other in below)
    return "1" in shape and bool(_MARK.search(shape)) and alike >= _LEAST_TYPED * len(below)


def _is_one_of(name: str, below: list[str]) -> bool:
    """Whether a name is written like some of the values."""
    others = (cell for cell in below if cell.strip().casefold() not in KNOWN_WORDS)
    shapes = [re.sub("( [aA])+", " a", _shape(cell, "A")) for cell in (name, *others)]
    return bool(name) and shapes.count(shapes[0]) > max(1, len(below) / 10)


def _shape(cell: str, capital: str = "a") -> str:
    words = re.sub(r"[^\W\d_]+", lambda word: capital if word[0][0].isupper() else "a", cell)
    return re.sub("[0-9]+", "1", words)


def _usual_kind(cells: list[str]) -> str:
    """Returns the kind of nearly all cells, else ``text``."""
    kinds = [found for cell in cells if (found := kind(cell))]
    usual = max(sorted(set(kinds)), key=kinds.count, default="")
    return usual if kinds.count(usual) >= _LEAST_TYPED * len(kinds) else "text"
