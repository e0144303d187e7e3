"""Remarks on columns of texts, with lines of a recipe for them.

They are about numbers with a unit, months, times and durations, which stay texts, and about days
that are whole numbers.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import BLANKS, WHITE_SPACE
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sources import inference
from beam_pipelines.sources.csv.cells import CURRENCIES
from beam_pipelines.sources.csv.codes import DIGITS, example_of
from beam_pipelines.sources.csv.date_patterns import (
    LEAST_ALIKE,
    Remark,
    alike,
    derived,
    listed,
    remark_of_dates,
)
from beam_pipelines.sources.csv.evidence import (
    COMPACT,
    Evidence,
    form_of,
    judge,
    mostly,
    number_formats,
)
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sql.database import identifier

# Cells that make a remark, and the share of them that it must fit.
_LEAST = 10
_MOST_UNITS = 5
_MEASURED = re.compile(
    rf"(?P<before>[$€£¥₹₽₩₺]?)[{BLANKS}]*(?P<number>[+-]?[0-9](?:[0-9.,'\u2019{BLANKS}]*[0-9])?)"
    rf"(?P<gap>[{BLANKS}]*)(?P<unit>(?:[^\W\d_]|[°\"'′″])[^\d.,:;()_]{{0,11}})?"
)
_SIMPLE = frozenset("+-.0123456789")
_CURRENCY = re.compile(rf"[$€£¥₹₽₩₺]|{CURRENCIES}")
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_UNITS = frozenset(
    (
        "mg", "g", "kg", "t", "oz", "lb", "lbs", "mm", "cm", "m", "km", "in", "ft", "yd", "mi",
        "ml", "cl", "l", "L", "s", "sec", "min", "h", "hr", "hrs", "d", "ms", "ns", "us", "Hz",
        "kHz", "MHz", "GHz", "W", "kW", "MW", "V", "mV", "mA", "J", "kJ", "Pa", "kPa", "hPa", "bar",
        "K", "k", "M", "B", "bn", "mn", "KB", "MB", "GB", "TB", "kB", "KiB", "MiB", "GiB", "TiB",
        "B/s", "°C", "°F", "C", "F", "ha", "ac", "kcal", "cal", "px", "pt", "°",
    )
)  # fmt: skip
_KINDS = {"int64": "numbers", "double": "numbers", "bool": "booleans"}
# What a spreadsheet puts around texts that look like numbers, and an expression without it.
_MARKED = {
    "formulas of a spreadsheet": ('="[^"]*"', """'^="(.*)"$', '\\1'"""),
    "texts behind a spreadsheet's apostrophe": ("'[^']+", "'^''', ''"),
}


def of_texts(source: Source, evidence: Mapping[str, Evidence]) -> list[str]:
    """Returns the findings of texts in files with types.

    Args:
      source: with the types that the recipe declares.
      evidence: of the columns of texts.
    """
    formats = source.options_of(TextsOptions).formats
    found = {
        name: _as_values(name, one) or remark(source, name, one, "")
        for name, one in evidence.items()
        if name not in source.types and name not in formats
    }
    said = [name for name, lines in found.items() if lines]
    return [*itertools.chain(*found.values()), *around(source, evidence, (), said)]


def around(
    source: Source,
    evidence: Mapping[str, Evidence],
    nulls: Sequence[str],
    said: Collection[str] = (),
) -> list[str]:
    """Returns findings of white space, and of texts for null.

    Args:
      source: of the recipe.
      evidence: of the columns of texts.
      nulls: texts that mean null by default.
      said: columns whose other findings name such texts.
    """
    found = []
    evidence = {name: one for name, one in evidence.items() if name not in source.types}
    blank = {name: one.blank for name, one in evidence.items() if one.blank[0]}
    if blank and source.options_of(TextsOptions).trim is None:
        name, (number, example) = next(iter(blank.items()))
        values = f"{number:,} value{'' if number == 1 else 's'} of '{name}'{_and_others(blank)}"
        words = f"{values} with white space around, such as {shorten(example, 40)!r}"
        found.append(f"trim: false  # {words}; trim: true takes it off")
    known = nulls if source.nulls == Source.nulls else source.nulls
    texts = {
        name: text
        for name, one in evidence.items()
        if name not in said and (text := _null_text(one, known))
    }
    if texts:
        name, text = next(iter(texts.items()))
        count = f"{evidence[name].nulls[text]:,} of {evidence[name].total:,} values of '{name}'"
        cure = f"nulls: {yaml_list([*known, *dict.fromkeys(texts.values())])} makes nulls of them"
        words = f"{text!r} may mean null: {count}{_and_others(texts)}"
        found.append(f"nulls: {yaml_list(known)}  # {words}; {cure}")
    if own := {name: one.like_others for name, one in evidence.items() if one.like_others}:
        name, counts = next(iter(own.items()))
        text, number = counts.most_common(1)[0]
        words = f"{text!r} is read as null: {number:,} cells of '{name}'{_and_others(own)}"
        kept = [null for null in known if all(null not in one for one in own.values())]
        cure = f"nulls: {yaml_list(kept)} keeps it"
        found.append(f"nulls: {yaml_list(known)}  # {words}, whose others look alike; {cure}")
    return found


def null_texts_in(
    cells: Iterable[pa.ChunkedArray], texts: Sequence[str], trim: bool = False
) -> set[str]:
    """Returns which null texts are cells, or are without white space around."""
    found = set[str]()
    for column in cells:
        is_trimmed = trim and pa.types.is_string(column.type)
        own = pc.utf8_trim(column, characters=WHITE_SPACE) if is_trimmed else column
        same = pc.is_in(pa.array(texts, pa.string()).cast(own.type), value_set=own)
        found.update(itertools.compress(texts, same.to_pylist()))
    return found


def unmatched(source: Source, seen: Collection[str], rows: int) -> list[str]:
    """Returns the finding of null texts that no sampled row has.

    Args:
      source: of the recipe; defaults need not be there.
      seen: null texts that are cells.
      rows: number of sampled ones; 0: no column has texts.
    """
    lacking = [text for text in source.nulls if text not in (*Source.nulls, *seen)]
    if not lacking:
        return []
    shown = " nor ".join(map(repr, lacking)) if len(lacking) < 3 else f"any of {yaml_list(lacking)}"
    none = f"no text of {rows:,} sampled rows is {shown}" if rows else "no column has texts"
    words = f"{none}; write them as whole cells are written, or leave them out"
    return [f"nulls: {yaml_list(source.nulls)}  # {words}"]


def _and_others(some: Mapping[str, object]) -> str:
    number = len(some) - 1
    return f" and of {number} other column{'' if number == 1 else 's'}" if number else ""


def _null_text(evidence: Evidence, known: Collection[str]) -> str:
    """Returns the most frequent text for null, if others look otherwise."""
    others = {cell.strip(WHITE_SPACE) for cell in evidence.some} - set(evidence.nulls)
    for text, _ in evidence.nulls.most_common():
        if text not in known and any(form_of(other) != form_of(text) for other in others):
            return text
    return ""


def _as_values(name: str, evidence: Evidence) -> list[str]:
    """Returns the finding of texts that are all times, numbers or booleans."""
    texts = pa.array(evidence.some, pa.string())
    key = yaml_text(name)
    if (type_ := inference.time_type(texts)) is not None:
        words = (
            f"times, such as {evidence.some[0]!r}; types: {{{key}: {type_name(type_)}}} reads them"
        )
        return [f"types: {{{key}: text}}  # {words}"]
    verdict = judge(evidence)
    if not verdict.readings or verdict.misfits or all(map(DIGITS.fullmatch, evidence.some)):
        return []
    words = f"{verdict.word}, such as {shorten(evidence.example, 40)!r}"
    return [
        f"types: {{{key}: text}}  # {words}; {listed(name, map(str, verdict.readings))} reads them"
    ]


def remark(source: Source, name: str, evidence: Evidence, decimal: str) -> list[str]:
    """Returns the findings of a column of texts: one, or none.

    Args:
      source: with the types that the recipe declares.
      name: of the column.
      evidence: of its cells.
      decimal: the decimal mark of other columns of the file, if they tell.
    """
    if name in source.types:
        return []
    if evidence.lost:
        return [f"types: {{{yaml_text(name)}: float64}}  # {evidence.lost}"]
    if evidence.dates[COMPACT]:
        return _compact_days(name, evidence)
    cells = [cell.strip(WHITE_SPACE) for cell in evidence.some]
    if own := _codes(name, cells):
        return own
    cells = [cell for cell in cells if cell]
    found = None
    if len({*cells}) > 1:
        found = (
            remark_of_dates(name, cells) or _measures(name, cells, decimal) or _marked(name, cells)
        )
    if found is not None and len(cells) < _LEAST and not all(found.fits):
        found = None
    if found is None:
        return _mostly(name, evidence)
    others = list(
        dict.fromkeys(cell for cell, fits in zip(cells, found.fits, strict=True) if not fits)
    )
    but = f", but not {shorten(others[0], 40)!r}" if others else ""
    example = next(cell for cell, fits in zip(cells, found.fits, strict=True) if fits)
    words = f"{found.likeness}, such as {shorten(example, 40)!r}{but}; {found.cure}"
    return [f"types: {{{yaml_text(name)}: text}}  # {words}{_nulls(others)}"]


def _compact_days(name: str, evidence: Evidence) -> list[str]:
    """Returns the finding of whole numbers that may all be days."""
    if not _LEAST <= evidence.total == evidence.dates[COMPACT]:
        return []
    cure = f"{listed(name, [COMPACT])} reads them"
    words = f"perhaps days, such as {evidence.example}; {cure}"
    return [f"types: {{{yaml_text(name)}: int64}}  # {words}"]


def _codes(name: str, cells: Sequence[str]) -> list[str]:
    """Returns the finding of codes that could be numbers."""
    key, example = yaml_text(name), example_of(name, cells)
    words = f"codes, such as {shorten(example, 40)!r}; types: {{{key}: float64}} reads numbers"
    return [f"types: {{{key}: text}}  # {words}"] if example else []


def _mostly(name: str, evidence: Evidence) -> list[str]:
    """Returns the finding of a column with few texts."""
    found = mostly(evidence)
    if found is None:
        return _typed(name, evidence)
    word, one, others = found
    kinds = f"{word}, such as {shorten(one, 40)!r}, but not {shorten(others[0], 40)!r}"
    return [f"types: {{{yaml_text(name)}: text}}  # most values are {kinds}{_nulls(others)}"]


def _typed(name: str, evidence: Evidence) -> list[str]:
    """Returns the finding of files with texts among others with values."""
    kinds = Counter({kind: n for kind, n in evidence.shapes.items() if kind.startswith("<")})
    others = list(dict.fromkeys(evidence.some))
    if not others or 2 * kinds.total() < evidence.total:
        return []
    kind = _KINDS.get(max(kinds, key=lambda one: kinds[one]).strip("<>"), "dates or times")
    words = f"{kinds.total():,} of {evidence.total:,} values, in other files, are {kind}"
    but = f"but not {shorten(others[0], 40)!r}"
    return [f"types: {{{yaml_text(name)}: text}}  # {words}, {but}{_nulls(others)}"]


def _nulls(others: list[str]) -> str:
    if len(others) != 1:
        return ""
    return f"; add {shorten(others[0], 40)!r} to 'nulls' if it means null"


def _measures(name: str, cells: list[str], decimal: str) -> Remark | None:
    """Returns what is worth saying of numbers with units."""
    matches = [_MEASURED.fullmatch(cell) for cell in cells]
    units = Counter(_unit(match) for match in matches if match)
    unit, count = max(units.items(), key=lambda one: one[1], default=("", 0))
    is_before = any(match and match["before"] for match in matches)
    if unit and not is_before and count >= LEAST_ALIKE * len(cells):
        fits = [match is not None and _unit(match) == unit for match in matches]
        texts = [match["number"] for match in matches if match and _unit(match) == unit]
        return _one_unit(name, unit, texts, fits, decimal)
    known = [unit for unit in units if unit in _UNITS or _CURRENCY.fullmatch(unit)]
    fits = [match is not None and _unit(match) in ("", *known) for match in matches]
    if not 0 < len(known) <= _MOST_UNITS or sum(fits) < LEAST_ALIKE * len(cells):
        return None
    shown = " and ".join(map(repr, sorted(known, key=lambda unit: -units[unit])[:2]))
    end = "+" if is_before else "*$"
    cure = "regexp_extract in 'derive' divides them"
    if all(match is None or set(match["number"]) <= _SIMPLE for match in matches):
        cure = derived(
            {
                f"{name}_number": f"regexp_extract({identifier(name)}, '[-0-9.]+')::DOUBLE",
                f"{name}_unit": f"regexp_extract({identifier(name)}, '[^-0-9. ]{end}')",
            }
        )
        cure = f"{cure} divides them"
    return Remark(f"numbers with units, {shown}", fits, cure)


def _unit(match: re.Match[str]) -> str:
    """Returns the unit of a number.

    Nothing if it has none, or a letter that makes it a code.
    """
    unit = match["before"] or match["unit"] or ""
    if _CURRENCY.fullmatch(unit):
        return unit
    is_code = not match["gap"] and len(unit) == 1 and unit.isalpha() and unit not in _UNITS
    return "" if is_code or unit in _ORDINALS else unit


def _one_unit(
    name: str, unit: str, texts: list[str], fits: list[bool], decimal: str
) -> Remark | None:
    formats = number_formats(texts, decimal)
    if not formats:
        return None
    cures = listed(name, [str(dataclasses.replace(one, after=unit)) for one in formats])
    return Remark("numbers with a unit", fits, f"{cures} reads numbers")


def _marked(name: str, cells: list[str]) -> Remark | None:
    """Returns what is worth saying of texts with a spreadsheet's marks."""
    for likeness, (pattern, sql) in _MARKED.items():
        line = derived({f"{name}_text": f"regexp_replace({identifier(name)}, {sql})"})
        for found in alike(cells, pattern, likeness, f"{line} takes the texts"):
            return found
    return None
