"""Finds how cells are written: as numbers, dates, booleans or text.

A sample's cells are counted by their shape: every digit becomes 1, except a leading zero. A column
has millions of numbers, but few shapes of them. So the choice costs little, and is plain Python.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.formatting import MINUS
from beam_pipelines.recipe import cell_formats
from beam_pipelines.sources.csv.formats import count_dates, to_plain
from beam_pipelines.sources.csv.sniffer import CURRENCIES, KNOWN_WORDS, WORDS, kind

# A few values that do not fit make a column nearly numeric: this share, and so many.
NEARLY_SHARE, NEARLY_MOST = 0.01, 300
# Cells that decide whether a column is text, and the share of them that may be none.
LOOKED_AT, _LEAST_FORMATTED = 500, 0.9
# Distinct cells of one form, among which a null text looks like one of them.
_LEAST_OTHERS = 2
# More shapes than these are text.
_MOST_SHAPES = 2_000
# Texts that mean null to other programs.
_NULL_TEXTS = pa.array(
    [
        *("NA", "N/A", "n/a", "na", "N.A.", "n.a.", "#N/A", "<NA>", "(null)", "[null]", "NaN"),
        *("nan", "NAN", "null", "Null", "NULL", "none", "None", "NONE", "nil", "undefined"),
        *("-", "--", "---", "?", "??", ".", "..", ":", "\\N", "No data"),
    ]
)
_WORD_FORMATS = [cell_formats.WordsFormat(*text.split("/")) for text in WORDS]
# Cells that fit, a word for the values, and the formats that fit as many.
_Reading = tuple[int, str, tuple[cell_formats.CellFormat, ...]]
_UNIT = re.compile(r"[$€£¥￥₹₽₩₺円元원%]|zł|kr|Kč|Ft|R\$")
_MARKS = (
    cell_formats.NumberFormat("."), cell_formats.NumberFormat(","),
    cell_formats.NumberFormat(".", ","), cell_formats.NumberFormat(",", "."),
    cell_formats.NumberFormat(".", "'"), cell_formats.NumberFormat(",", "'"),
    cell_formats.NumberFormat(",", " "), cell_formats.NumberFormat(".", " "),
    cell_formats.NumberFormat(".", ",", is_indian=True),
)  # fmt: skip
# Days without separators, and the numbers that may be some.
COMPACT, COMPACT_DAYS = "%Y%m%d", (1900_01_01, 2100_12_31)
# Arrow's own readers take these, and no other reading may contradict them.
EXPONENT = re.compile(r"[+-]?(1+(\.1*)?|\.1+|0\.?1*)[eE][+-]?[01]+")
IDENTIFIER = re.compile(r"[+-]?0[01xX]\w*")
# Digits, E and digits alone: codes if a column has nothing else.
_CODE = re.compile(r"[01]+[eE][01]+")
_PHONE = re.compile(r"\+(?:[ \u00a0]?[01]){7,15}")
_ZERO = "\u00a7"


@dataclasses.dataclass
class Evidence:
    """Shapes of a column's cells, counted.

    Attributes:
      shapes: shape -> cells of it; ``<double>`` counts cells of a part that Arrow read as such.
      dates: pattern of a date -> cells that fit it.
      texts: cells of parts that are text.
      example: a cell.
      some: cells of parts that are text, a sample.
      blank: cells with white space around them, and one of them.
      nulls: cells that may mean null, counted.
      like_others: cells of null texts that look like all others, such as NA among DE and FR.
      lost: what numbers lose of their cells, in words, and what keeps it.
    """

    shapes: Counter[str] = dataclasses.field(default_factory=Counter)
    dates: Counter[str] = dataclasses.field(default_factory=Counter)
    texts: int = 0
    example: str = ""
    some: tuple[str, ...] = ()
    blank: tuple[int, str] = (0, "")
    nulls: Counter[str] = dataclasses.field(default_factory=Counter)
    like_others: Counter[str] = dataclasses.field(default_factory=Counter)
    lost: str = ""

    @property
    def total(self) -> int:
        """All cells that are not null."""
        return sum(self.shapes.values()) + self.texts

    def add(self, other: Evidence) -> None:
        """Adds the cells of another part of the column."""
        self.example = self.example or other.example
        self.some += other.some
        self.shapes += other.shapes
        self.dates += other.dates
        self.texts += other.texts
        self.blank = self.blank[0] + other.blank[0], self.blank[1] or other.blank[1]
        self.nulls += other.nulls
        self.like_others += other.like_others
        if len(self.shapes) > _MOST_SHAPES:
            self.texts, self.shapes = self.total, Counter()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How a column is read.

    Attributes:
      readings: formats that fit; several: as likely as each other; none: as Arrow reads it.
      misfits: how many cells fit none of them.
      word: for the values, in messages: ``numbers``, ``dates`` or ``booleans``; empty: texts.
    """

    readings: tuple[cell_formats.CellFormat, ...] = ()
    misfits: int = 0
    word: str = ""


def evidence_of(texts: pa.ChunkedArray | pa.Array, are_codes: bool = False) -> Evidence:
    """Returns the shapes of a column's cells.

    Args:
      texts: as Arrow inferred the column: string if it found no other type.
      are_codes: whether cells stay texts, whatever they look like.
    """
    column = columns.only_chunk(texts) if isinstance(texts, pa.ChunkedArray) else texts
    number = len(column) - column.null_count
    if are_codes and not pa.types.is_string(column.type):  # bytes that are not UTF-8
        return Evidence(texts=number)
    if not pa.types.is_string(column.type):
        shapes = Counter({f"<{column.type}>": number} if number else {})
        days = _compact_days(column)
        return Evidence(shapes, days, example=str(column.drop_null()[0]) if days else "")
    column = column.drop_null()
    some = column.take(
        pa.array(np.linspace(0, len(column) - 1, min(len(column), LOOKED_AT)).astype(np.int64))
    ).to_pylist()
    formatted = [cell for cell in some if is_formatted(cell)]
    found = Evidence(texts=number)
    if some and not are_codes and len(formatted) >= _LEAST_FORMATTED * len(some):
        found = formatted_as(column, formatted, _LEAST_FORMATTED)
    return dataclasses.replace(found, some=tuple(some), **_noted(column))


def form_of(text: str) -> str:
    """Returns a text with one letter for all of a kind: ``Aa1``."""
    return re.sub("[0-9]", "1", re.sub("[a-z]", "a", re.sub("[A-Z]", "A", text)))


def null_texts_like(evidence: Evidence, nulls: Sequence[str]) -> list[str]:
    """Returns the null texts that have the form of all other cells."""
    forms = {form_of(cell) for cell in evidence.some}
    if len(forms) != 1 or len(set(evidence.some)) < _LEAST_OTHERS:
        return []
    return [text for text in nulls if form_of(text) in forms]


def _noted(texts: pa.Array) -> dict[str, Any]:
    """Returns what is noted of all texts, none of them null."""
    # A text of several lines may end with one.
    texts = texts.filter(pc.invert(pc.match_substring(texts, "\n")))
    trimmed = pc.utf8_trim(texts, characters=cell_formats.WHITE_SPACE)
    is_blank = pc.and_(
        pc.not_equal(pc.binary_length(trimmed), pc.binary_length(texts)),
        pc.greater(pc.binary_length(trimmed), 0),
    )
    number = pc.sum(is_blank).as_py() or 0
    first = texts[pc.index(is_blank, True).as_py()].as_py() if number else ""
    found = texts.filter(pc.is_in(trimmed, value_set=_NULL_TEXTS)).value_counts()
    counts = zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
    return {"blank": (number, first), "nulls": Counter(dict(counts))}


def _compact_days(column: pa.Array) -> Counter[str]:
    """Returns how many numbers are days without separators: 20240131."""
    if not pa.types.is_int64(column.type) or column.null_count == len(column):
        return Counter()
    ends = pc.min_max(column)
    if ends["min"].as_py() < COMPACT_DAYS[0] or ends["max"].as_py() > COMPACT_DAYS[1]:
        return Counter()
    plain = to_plain(column.drop_null().cast(pa.string()), cell_formats.DateFormat(COMPACT))
    return Counter({COMPACT: len(plain) - plain.null_count})


def formatted_as(column: pa.Array, formatted: list[str], least: float) -> Evidence:
    """Returns the shapes of a column of texts.

    Args:
      column: strings without nulls.
      formatted: some cells that look like numbers, dates or booleans.
      least: share of them that a pattern of dates fits.
    """
    counted = column.value_counts()
    values, counts = counted.field("values"), counted.field("counts")
    shapes = _shapes(values, counts)
    dates: Counter[str] = Counter()
    if any(kind(cell) == "date" for cell in formatted):
        dates = count_dates(values, counts, formatted, least)
    return Evidence(shapes, dates, example=max(formatted[:20], key=len))


def is_formatted(cell: str) -> bool:
    """Whether a cell looks like a number, a date or a boolean."""
    return kind(cell) in ("number", "date") or cell.strip().casefold() in KNOWN_WORDS


def _shapes(values: pa.Array, counts: pa.Array) -> Counter[str]:
    marked = pc.replace_substring_regex(
        values, pattern=r"^([^0-9]*)0([0-9.,xX])", replacement=rf"\1{_ZERO}\2"
    )
    shapes = pc.replace_substring_regex(marked, pattern="[0-9]", replacement="1")
    shapes = pc.replace_substring(shapes, _ZERO, "0")
    grouped = pa.table({"shape": shapes, "count": counts}).group_by("shape")
    table = grouped.aggregate([("count", "sum")])
    if table.num_rows > _MOST_SHAPES:
        return Counter({"text": pc.sum(counts).as_py()})
    return Counter(
        dict(zip(table["shape"].to_pylist(), table["count_sum"].to_pylist(), strict=True))
    )


def judge(evidence: Evidence, decimal: str = "") -> Verdict:
    """Returns how a column is read.

    Args:
      evidence: of its cells.
      decimal: the decimal mark of other columns of the file, if they tell.
    """
    total = evidence.total
    fits, word, formats = best_reading(evidence, decimal)
    misfits = total - fits
    if not fits or evidence.texts > misfits or misfits > min(NEARLY_MOST, NEARLY_SHARE * total):
        return Verdict()
    codes = sum(n for shape, n in evidence.shapes.items() if _CODE.fullmatch(shape))
    has_names = any(IDENTIFIER.fullmatch(shape) for shape in evidence.shapes)
    are_phones = all(_PHONE.fullmatch(shape) for shape in evidence.shapes)
    are_codes = are_phones or (misfits and (has_names or codes == fits))
    return Verdict() if are_codes else Verdict(formats, misfits, word)


def best_reading(evidence: Evidence, decimal: str = "") -> _Reading:
    """Returns the best reading, after the number of cells that it fits."""
    readings = _judge_numbers(evidence, decimal), _judge_words(evidence), _judge_dates(evidence)
    return max(readings, key=lambda reading: reading[0])


def _judge_numbers(evidence: Evidence, decimal: str) -> _Reading:
    shapes = list(evidence.shapes)
    counts = np.array(list(evidence.shapes.values()), np.int64)
    units = dict.fromkeys(map(_units, shapes))
    is_number = np.array(
        [shape == "<int64>" or bool(EXPONENT.fullmatch(shape)) for shape in shapes], bool
    )
    is_double = np.array([shape == "<double>" for shape in shapes], bool)
    array = pa.array(shapes, pa.string())
    fits: dict[cell_formats.NumberFormat, int] = {}
    for (before, after), marks in itertools.product(units, _MARKS):
        format_ = dataclasses.replace(marks, before=before, after=after)
        flags = to_plain(array, format_).is_valid().to_numpy(zero_copy_only=False)
        flags = flags | (is_number & (not format_.is_percent))
        flags |= is_double & (marks.decimal == ".") & (not format_.is_percent)
        fits[format_] = int(counts[flags].sum())
    most = max(fits.values(), default=0)
    best = [format_ for format_, number in fits.items() if number == most]
    if not most:
        return 0, "", ()
    return most, "numbers", _likely(best, shapes, decimal)


def number_formats(texts: list[str], decimal: str) -> list[cell_formats.NumberFormat]:
    """Returns how texts are written that are all numbers.

    Several formats are as likely as each other.
    """
    shapes = _shapes(pa.array(texts), pa.array(np.ones(len(texts), np.int64)))
    fits, _, formats = _judge_numbers(Evidence(shapes), decimal)
    is_name = any(IDENTIFIER.fullmatch(shape) for shape in shapes)
    if fits < len(texts) or is_name:
        return []
    return [one for one in formats if isinstance(one, cell_formats.NumberFormat)]


def _units(shape: str) -> tuple[str, str]:
    """Returns the units before and behind a number."""
    shape = shape.replace(MINUS, "-")
    before = re.match(r"[^0-9.,]*", shape.lstrip("+-"))
    after = re.search(r"[^0-9.,]*$", shape)
    units = [(found[0] if found else "").strip(" \u00a0\u202f+-()") for found in (before, after)]
    known = [unit if unit in CURRENCIES or _UNIT.fullmatch(unit) else "" for unit in units]
    return known[0], "" if shape and not re.search("[0-9]", shape) else known[1]


def _likely(
    best: list[cell_formats.NumberFormat], shapes: list[str], decimal: str
) -> tuple[cell_formats.NumberFormat, ...]:
    """Returns the likely ones of formats that fit equally many cells.

    Two are as likely as each other if they read a cell as different numbers: 1,234.
    """
    simple = min(best, key=lambda f: (f.before + f.after != "", _rank(f)))
    best = [f for f in best if (f.before, f.after) == (simple.before, simple.after)]
    array = pa.array([shape for shape in shapes if not shape.startswith("<")], pa.string())
    values: dict[tuple[object, ...], cell_formats.NumberFormat] = {}
    for format_ in sorted(best, key=_rank):
        plain = to_plain(array, format_).to_pylist()
        values.setdefault(tuple(text and float(text) for text in plain), format_)
    different = list(values.values())
    if len(different) > 1 and decimal:
        different = [f for f in different if f.decimal == decimal] or different
    return tuple(different[:2])


def _rank(format_: cell_formats.NumberFormat) -> int:
    return _MARKS.index(dataclasses.replace(format_, before="", after=""))


def _judge_words(evidence: Evidence) -> _Reading:
    folded = Counter[str]()
    for shape, count in evidence.shapes.items():
        folded["true" if shape == "<bool>" else shape.strip().casefold()] += count
    if evidence.shapes["<bool>"]:
        folded["false"] += 0
    best: _Reading = (0, "", ())
    for format_ in _WORD_FORMATS:
        fits = folded[format_.true] + folded[format_.false]
        if {format_.true, format_.false} <= folded.keys() and fits > best[0]:
            best = fits, "booleans", (format_,)
    return best


def _judge_dates(evidence: Evidence) -> _Reading:
    moments = ("<date", "<timestamp")
    plain = sum(count for shape, count in evidence.shapes.items() if shape.startswith(moments))
    if not evidence.dates:
        return (plain, "dates", ()) if plain else (0, "", ())
    most = max(evidence.dates.values())
    patterns = [pattern for pattern, fits in evidence.dates.items() if fits == most]
    # Of days with dots the day comes first, everywhere.
    if len(patterns) > 1 and all("." in pattern for pattern in patterns):
        patterns = [p for p in patterns if p.startswith("%d")] or patterns
    iso = [pattern for pattern in patterns if pattern.startswith("%Y-")]
    formats = tuple(cell_formats.DateFormat(pattern) for pattern in (iso or patterns))
    return most + (plain if iso else 0), "dates", formats
