"""Findings of columns of texts, and what may read them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import BLANKS, WHITE_SPACE, DateFormat
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sources import inference
from beam_pipelines.sources.csv import evidence as cell_evidence
from beam_pipelines.sources.csv.codes import DIGITS, example_of
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sql.database import identifier

# Cells that make a finding, and the share of them that it must fit.
_LEAST, _LEAST_ALIKE = 10, 0.95
# Patterns that programs log and mail, that may be something else, or that no mark divides.
_PATTERNS = {
    "times": (
        *("%Y-%m-%d %H:%M:%S %z", "%d/%b/%Y:%H:%M:%S %z"),
        *("%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z"),
    ),
    "perhaps times of day": ("%H:%M", "%H:%M:%S", "%Hh%M"),
    "months": ["%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%b %Y", "%b-%Y", "%b %y", "%b-%y", "%Y年%m月"],
    "days": ("%Y年%m月%d日", "%Y년 %m월 %d일", "%d%b%Y", "%m %d, %Y"),
}
_NUMBER = r"[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?[0-9]+)?(?:[\s,;]+|(?=[\])]|$))"
_TEXT = r"""(?:'[^']*'|"[^"]*")"""
_WHOLE = "[-+]?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)"
# Marks, a second number, a flag of Eurostat, or what is in brackets.
_AROUND = r"(?: ?[+*†‡]+| ?/ ?[0-9]+| [bcdefnprsuz]| ?[\[(±].*)?"
# What texts may be -> their pattern, and SQL of its values.
_DERIVED = {
    "texts in Excel's formulas": ('="[^"]*"', "regexp_extract({0}, '=\"(.*)\"', 1)"),
    "texts behind an apostrophe": ("'[^']+", "ltrim({0}, '''')"),
    "durations": (
        "(?:[0-9]+ days? )?[0-9]+(?::[0-5][0-9]){2}(?:[.][0-9]+)?",
        "epoch({0}::INTERVAL)",
    ),
    "durations of ISO 8601": ("PT(?:[0-9]+[HMS])+", "epoch(ltrim({0}, 'PT')::INTERVAL)"),
    "times of forms": (
        "[0-9]{4}(?:/[0-9]{2}){2} [0-9:]{7,8} [AP]M GMT[+-][0-9:]{1,5}",
        r"try_strptime(regexp_replace({0}, 'T(.)(.:|.$)', 'T\10\2'), '%Y/%m/%d %I:%M:%S %p GMT%z')",
    ),
    "weeks": ("[0-9]{4}-W[0-5][0-9]", "strptime({0} || '-1', '%G-W%V-%u')::DATE"),
    "quarters": ("[0-9]{4}-?Q[1-4]", "make_date(left({0}, 4)::INT, right({0}, 1)::INT * 3 - 2, 1)"),
    "numbers with K, M or B": (
        "[0-9]+(?:[.][0-9]+)?[kKMB]",
        "left({0}, -1)::DOUBLE * 1000 ** strpos('KMB', upper(right({0}, 1)))",
    ),
    "several numbers": (
        rf"(?:POINT ?)?[\[(]\s*(?:{_NUMBER})*[\])]|(?:{_NUMBER}){{8,}}",
        "regexp_extract_all({0}, '[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?')::DOUBLE[]",
    ),
    "lists": (rf"\[(?:{_TEXT}(?:, ?|(?=\])))*\]", "{0}::VARCHAR[]"),
    "JSON": (r'(?s:\{\s*"(\w+)":.*\})', "{0} ->> '$.{1}'"),
    "numbers with more around": (
        rf"(?:[<>≤≥~≈]=? ?)?{_WHOLE}(?:\.[0-9]+)?{_AROUND}",
        "replace(regexp_extract({0}, '[-+]?[0-9][0-9.,]*'), ',', '')::DOUBLE",
    ),
}
# All of them have a digit, or begin so; to look for each takes long.
_LIKELY = re.compile(r"[0-9]|^[=\[{]")
# A unit of one letter has a blank before it: 5A is a code, 5th an ordinal.
_MEASURED = re.compile(
    rf"(?P<before>[$€£¥₹₽₩₺]?)[{BLANKS}]*(?P<number>[+-]?[0-9](?:[0-9.,'\u2019{BLANKS}]*[0-9])?)"
    rf"[{BLANKS}]*(?P<unit>(?:(?<=[{BLANKS}])|(?=[°\"'′″]|[^\W\d_]{{2}}))(?!(?:st|nd|rd|th)$)"
    r"(?:[^\W\d_]|[°\"'′″])[^\s\d.,:;()_]{0,11})?"
)


def of_texts(source: Source, evidence: Mapping[str, cell_evidence.Evidence]) -> list[str]:
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
    evidence: Mapping[str, cell_evidence.Evidence],
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


def _and_others(some: Mapping[str, object]) -> str:
    number = len(some) - 1
    return f" and of {number} other column{'' if number == 1 else 's'}" if number else ""


def _null_text(evidence: cell_evidence.Evidence, known: Collection[str]) -> str:
    """Returns the most frequent text for null, unless others look alike."""
    others = {cell.strip(WHITE_SPACE) for cell in evidence.some} - set(evidence.nulls)
    forms = {cell_evidence.form_of(other) for other in others}
    for text, _ in evidence.nulls.most_common():
        if text not in known and forms != {cell_evidence.form_of(text)}:
            return text
    return ""


def _as_values(name: str, evidence: cell_evidence.Evidence) -> list[str]:
    """Returns the finding of texts that are all times, numbers or booleans."""
    texts = pa.array(evidence.some, pa.string())
    key = yaml_text(name)
    cut = pc.replace_substring_regex(texts, r"([.][0-9]{6})[0-9]{1,3}", r"\1")
    if (type_ := inference.time_type(cut)) is not None:
        words, sql = "times", f"{identifier(name)}::{type_name(type_).upper()}"
        cure = f"types: {{{key}: {type_name(type_)}}} reads them"
        if inference.time_type(texts) is None:
            words = "times with fractions of a microsecond"
            cure = f"derive: {{{yaml_text(f'{name}_us')}: {yaml_text(sql)}}} cuts them off"
        return [f"types: {{{key}: text}}  # {words}, such as {evidence.some[0]!r}; {cure}"]
    verdict = cell_evidence.judge(evidence)
    if not verdict.readings or verdict.misfits or all(map(DIGITS.fullmatch, evidence.some)):
        return []
    has_exponents = any(map(cell_evidence.EXPONENT.fullmatch, evidence.shapes))
    formats = _formats(name, map(str, verdict.readings))
    cure = f"types: {{{key}: float64}}" if has_exponents else formats
    words = f"{verdict.word}, such as {shorten(evidence.example, 40)!r}; {cure} reads them"
    return [f"types: {{{key}: text}}  # {words}"]


def remark(source: Source, name: str, evidence: cell_evidence.Evidence, decimal: str) -> list[str]:
    """Returns the findings of a column of texts: one, or none.

    Args:
      source: with the types that the recipe declares.
      name: of the column.
      evidence: of its cells.
      decimal: the decimal mark of other columns of the file, if they tell.
    """
    key = yaml_text(name)
    if name in source.types:
        return []
    if evidence.lost:
        return [f"types: {{{key}: float64}}  # {evidence.lost}"]
    if evidence.dates[cell_evidence.COMPACT]:
        formats = _formats(name, [cell_evidence.COMPACT])
        words = f"perhaps days, such as {evidence.example}; {formats} reads them"
        are_days = _LEAST <= evidence.total == evidence.dates[cell_evidence.COMPACT]
        return [f"types: {{{key}: int64}}  # {words}"] * are_days
    cells = [cell.strip(WHITE_SPACE) for cell in evidence.some]
    example = example_of(name, cells)
    if example:
        words = f"codes, such as {shorten(example, 40)!r}; types: {{{key}: float64}} reads numbers"
        return [f"types: {{{key}: text}}  # {words}"]
    cells = [cell for cell in cells if cell]
    are_likely = _are_alike([bool(_LIKELY.search(c)) for c in cells])
    is_enough = len(cells) >= _LEAST or (len(cells) > 2 and len({*cells}) > 1)
    is_enough &= 2 * sum(map(bool, map(DIGITS.fullmatch, cells))) <= len(cells)
    kinds = _kinds(name, cells, decimal) if are_likely and is_enough else iter(())
    found = next((one for one in kinds if _are_alike(one[1])), None)
    if found is None or not all(found[1]):
        words = _most_values(evidence)
        if words or found is None:
            return [f"types: {{{key}: text}}  # {words}"] if words else []
    likeness, fits, cure = found
    others = list(dict.fromkeys(itertools.compress(cells, (not fit for fit in fits))))
    but = f", but not {shorten(others[0], 40)!r}" if others else ""
    example = shorten(next(itertools.compress(cells, fits)), 40)
    words = f"{likeness}, such as {example!r}{but}; {cure}{_nulls(others)}"
    return [f"types: {{{key}: text}}  # {words}"]


def _are_alike(fits: Sequence[bool]) -> bool:
    return sum(fits) >= (_LEAST_ALIKE if len(fits) >= _LEAST else 1) * len(fits)


def _kinds(name: str, cells: list[str], decimal: str) -> Iterator[tuple[str, list[bool], str]]:
    """Yields what texts may be, which of them are, and a remedy."""
    texts = pa.array(cells, pa.string())
    for likeness, patterns in _PATTERNS.items():
        read = "reads the first day of each" if likeness == "months" else "reads them"
        for pattern in patterns:
            fits = to_plain(texts, DateFormat(pattern)).is_valid().to_pylist()
            yield likeness, fits, f"{_formats(name, [pattern])} {read}"
    matches = [_MEASURED.fullmatch(cell) for cell in cells]
    units = Counter(match["before"] or match["unit"] for match in matches if match)
    units.pop(None, None)
    unit = max(units, key=lambda one: units[one], default="")
    fits = [match is not None and match["unit"] == unit for match in matches]
    if unit and _are_alike(fits):
        numbers = [match["number"] for match in matches if match and match["unit"] == unit]
        shown = [
            str(dataclasses.replace(f, after=unit))
            for f in cell_evidence.number_formats(numbers, decimal)
        ]
        if shown:  # 007 kg is no number
            yield "numbers with a unit", fits, f"{_formats(name, shown)} reads numbers"
    for likeness, (pattern, sql) in _DERIVED.items():
        # A few cells tell of most patterns that they do not fit.
        likely = filter(None, (re.fullmatch(pattern, c) for c in cells[:: len(cells) // 5 + 1]))
        if match := next(likely, None):
            fits = [bool(re.fullmatch(pattern, cell)) for cell in cells]
            value = sql.format(identifier(name), *match.groups())
            value = yaml_text(value if all(fits) else f"TRY({value})")
            yield likeness, fits, f"derive: {{{yaml_text(f'{name}_value')}: {value}}} reads them"


def _formats(name: str, formats: Iterable[str]) -> str:
    """Returns formats as a recipe has them."""
    shown = (f"{{{yaml_text(name)}: {yaml_text(one)}}}" for one in formats)
    return f"formats: {' or '.join(shown)}"


def _most_values(evidence: cell_evidence.Evidence) -> str:
    """Returns what at least half of a column's texts are.

    It is nothing if most are texts, or all are numbers, dates or booleans.
    """
    some = pa.array(evidence.some, pa.string())
    formatted = [cell for cell in evidence.some if cell_evidence.is_formatted(cell)]
    if len(formatted) < _LEAST or 2 * len(formatted) < len(some):
        return ""
    found = cell_evidence.formatted_as(some, formatted, 0.5)
    fits, word, formats = cell_evidence.best_reading(found)
    are_codes = any(cell_evidence.IDENTIFIER.fullmatch(shape) for shape in found.shapes)
    if are_codes or fits < _LEAST or 2 * fits < len(some):
        return ""
    is_one = to_plain(some, formats[0]).is_valid() if formats else pc.is_valid(some)
    good, bad = (some.filter(flags).to_pylist() for flags in (is_one, pc.invert(is_one)))
    if not good or not bad:
        return ""
    one, other = (shorten(some[0], 40) for some in (good, bad))
    null = _nulls(list(dict.fromkeys(bad)))
    return f"most values are {word}, such as {one!r}, but not {other!r}{null}"


def _nulls(others: list[str]) -> str:
    if len(others) != 1:
        return ""
    return f"; add {shorten(others[0], 40)!r} to 'nulls' if it means null"
