"""Chooses the formats of columns by their cells, or asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe import cell_formats
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sources.csv import evidence as cell_evidence
from beam_pipelines.sources.csv.formats import to_plain
from beam_pipelines.sources.csv.sample import Misfit
from beam_pipelines.sources.csv.text_findings import around, remark
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.source_format import problem

# Lines that a message names, and different values that it proposes as nulls.
_LINES, _NULLS = 3, 10
_GROUPED = cell_formats.NumberFormat(",", ".")
_TEXTS = (pa.string(), pa.binary())


def without_index(names: tuple[str, ...]) -> str:
    """Returns the decision on a nameless column that counts the rows."""
    return (
        f"column 1 has no name and counts the rows: left out  # columns: [{names[0]}, …] reads it"
    )


def choose(
    source: Source,
    find: Callable[[str, cell_formats.CellFormat], Sequence[Misfit]],
    schema: pa.Schema,
    evidence: Mapping[str, cell_evidence.Evidence],
    wanted: tuple[str, ...],
    default: str,
) -> tuple[Source, dict[str, pa.DataType], list[str]]:
    """Decides how the cells of each column are written.

    Args:
      source: with its dialect.
      find: returns the values of a column that are not in a format.
      schema: types as Arrow infers them.
      evidence: column -> shapes of its cells in the sample.
      wanted: columns that are read.
      default: the format's delimiter.

    Returns:
      The source with the formats found, the types of the wanted columns, and a line for each
      decision.

    Raises:
      RecipeProblems: a column has two readings, or a few values that do not fit the others.
    """
    types = {name: schema.field(name).type for name in wanted}
    given = source.options_of(CsvOptions).formats
    formats = {
        name: cell_formats.parse_format(text) for name, text in given.items() if name in wanted
    }
    open_ = [name for name in wanted if name not in formats]
    verdicts, decimal = _judge_all(source, types, evidence, open_, default)
    problems, decisions = [], []
    said = {name for name, verdict in verdicts.items() if verdict.misfits}
    for name, verdict in verdicts.items():
        found, key, cures = "", "", list[str]()
        if len(verdict.readings) > 1:
            found, key, cures = _two_readings(name, verdict, evidence[name])
        elif verdict.readings and verdict.misfits:
            misfits = find(name, verdict.readings[0])
            found, key, cures = _misfits(source, verdict.word, evidence[name].total, misfits)
        text = f"types: {{{yaml_text(name)}: text}}"
        is_open = name not in source.types
        if found and is_open and source.infer == "lenient":
            types[name] = pa.string()
            decisions.append(f"{text}  # {found}; infer: lenient takes texts")
        elif found:
            cures.append(f"'{text}' if they are texts")
            cures += ["'infer: lenient', which makes texts of them"] * is_open
            message = f"column '{name}': found {found}. Set {' or '.join(cures)}."
            problems.append(problem(source, key, message))
        elif verdict.readings:
            formats[name] = verdict.readings[0]
            decisions.append(_decision(name, verdict.readings[0], evidence[name]))
        elif remarks := remark(source, name, evidence[name], decimal):
            decisions += remarks
            said.add(name)
    if problems:
        raise RecipeProblems(problems)
    texts = {name: evidence[name] for name in wanted if pa.types.is_string(types[name])}
    decisions += around(source, texts, source.nulls, said)
    inferred = set(formats) - set(source.types)
    types |= {name: type_of(formats[name], evidence[name]) for name in inferred}
    shown = {name: str(format_) for name, format_ in formats.items()}
    return source.with_options(formats={**given, **shown}), types, decisions


def _judge_all(
    source: Source,
    types: Mapping[str, pa.DataType],
    evidence: Mapping[str, cell_evidence.Evidence],
    names: list[str],
    default: str,
) -> tuple[dict[str, cell_evidence.Verdict], str]:
    """Returns how columns are read, and the file's decimal mark."""
    texts = [name for name in names if _may_have(source, name, types)]
    verdicts = {name: cell_evidence.judge(evidence[name]) for name in texts}
    decimal = _decimal_mark(verdicts, types, evidence)
    verdicts = {name: cell_evidence.judge(evidence[name], decimal) for name in texts}
    # Cells that do not fit a declared type are bad rows.
    verdicts = {n: v for n, v in verdicts.items() if not v.misfits or n not in source.types}
    # Spreadsheets whose decimal mark is a comma write semicolons, and dots between days and months.
    may_be_comma = (source.options_of(CsvOptions).delimiter or default) == ";" or any(
        str(reading).startswith("%d.")
        for verdict in verdicts.values()
        for reading in verdict.readings
    )
    for name in names:
        is_number = types[name] == pa.float64() and name not in source.types
        if is_number and is_grouped(evidence[name]):
            verdicts[name] = _grouped(decimal, may_be_comma)
        elif types[name] == pa.int64() or evidence[name].lost:  # perhaps with a remark
            verdicts[name] = cell_evidence.Verdict()
    return verdicts, decimal


def _may_have(source: Source, name: str, types: Mapping[str, pa.DataType]) -> bool:
    """Whether a column is text to Arrow, but not to the recipe."""
    is_open = name not in source.types or parse_type(source.types[name]) not in _TEXTS
    return is_open and bool(pa.types.is_string(types[name]))


def _decimal_mark(
    verdicts: Mapping[str, cell_evidence.Verdict],
    types: Mapping[str, pa.DataType],
    evidence: Mapping[str, cell_evidence.Evidence],
) -> str:
    """Returns the decimal mark that the columns agree on; else nothing."""
    marks = {
        "."
        for name, type_ in types.items()
        if type_ == pa.float64() and not is_grouped(evidence[name])
    }
    for name, verdict in verdicts.items():
        is_certain = len(verdict.readings) == 1 and not verdict.misfits
        for format_ in verdict.readings if is_certain else ():
            if isinstance(format_, cell_formats.NumberFormat):
                # Else it was not chosen for its separators.
                has_mark = any(format_.decimal in shape for shape in evidence[name].shapes)
                marks |= {format_.decimal} if format_.thousands or has_mark else set()
    return marks.pop() if len(marks) == 1 else ""


def _grouped(decimal: str, may_be_comma: bool) -> cell_evidence.Verdict:
    """Returns how numbers are read that all look like 1.234."""
    if decimal == ",":
        return cell_evidence.Verdict((_GROUPED,), word="numbers")
    if may_be_comma and not decimal:
        return cell_evidence.Verdict((cell_formats.NumberFormat("."), _GROUPED), word="numbers")
    return cell_evidence.Verdict()


def _two_readings(
    name: str, verdict: cell_evidence.Verdict, evidence: cell_evidence.Evidence
) -> tuple[str, str, list[str]]:
    """Returns what is asked of cells with two readings: words, key, remedies."""
    key = yaml_text(name)
    cures = [f"'formats: {{{key}: {yaml_text(str(format_))}}}'" for format_ in verdict.readings]
    kinds = {"numbers": "numbers", "dates": "days"}[verdict.word]
    shown = " and as ".join(str(format_) for format_ in verdict.readings)
    example = shorten(evidence.example, 40)
    return f"{example!r} and the like, which are different {kinds} as {shown}", "formats", cures


def _misfits(
    source: Source, word: str, total: int, misfits: Sequence[Misfit]
) -> tuple[str, str, list[str]]:
    """Returns what is asked of a few other values, as ``_two_readings`` does."""
    shown = ", ".join(
        f"{shorten(one.text, 40)!r} ({one.file}, line {one.line})" for one in misfits[:_LINES]
    )
    more = f" and {len(misfits) - _LINES} more" if len(misfits) > _LINES else ""
    texts = list(dict.fromkeys(one.text for one in misfits))
    nulls = f"'nulls: {yaml_list([*source.nulls, *texts])}' if they mean null"
    found = f"{shown}{more} among {total - len(misfits):,} {word}, expected {word} only"
    return found, "types", [nulls] * (len(texts) <= _NULLS)


def _decision(name: str, format_: cell_formats.CellFormat, evidence: cell_evidence.Evidence) -> str:
    example = shorten(evidence.example, 40)
    years = "; years of two digits are 1969 to 2068" if "%y" in str(format_) else ""
    return (
        f"formats: {{{yaml_text(name)}: {yaml_text(str(format_))}}}  # such as {example!r}{years}"
    )


def type_of(format_: cell_formats.CellFormat, evidence: cell_evidence.Evidence) -> pa.DataType:
    """Returns the type of a column's values.

    Numbers without a fraction in the sample are int64.
    """
    if isinstance(format_, cell_formats.WordsFormat):
        return pa.bool_()
    if isinstance(format_, cell_formats.DateFormat):
        if not format_.has_day:
            return pa.time64("us")
        zone = "UTC" if "%z" in str(format_) else None
        return pa.timestamp("us", zone) if format_.has_clock else pa.date32()
    shapes = pa.array([s for s in evidence.shapes if not s.startswith("<")], pa.string())
    plain = [text for text in to_plain(shapes, format_).to_pylist() if text is not None]
    has_parts = (
        format_.is_percent
        or any("." in text for text in plain)
        or "<double>" in evidence.shapes
        or any(cell_evidence.EXPONENT.fullmatch(shape) for shape in evidence.shapes)
    )
    return pa.float64() if has_parts or not plain else pa.int64()


def may_be_grouped(texts: pa.ChunkedArray) -> bool:
    """Whether numbers that Arrow reads as fractions may have dots between thousands.

    Looks at the first cells only.
    """
    some = texts.slice(0, cell_evidence.LOOKED_AT).combine_chunks().drop_null()
    return bool(to_plain(some, _GROUPED).null_count == 0)


def is_grouped(evidence: cell_evidence.Evidence) -> bool:
    """Whether all numbers may have dots between thousands, and some have."""
    shapes = pa.array([shape for shape in evidence.shapes if shape != "<int64>"], pa.string())
    has_dots = any("." in shape for shape in evidence.shapes)
    return not evidence.texts and has_dots and not to_plain(shapes, _GROUPED).null_count
