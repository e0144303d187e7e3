"""Chooses the formats of columns by their cells, or asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.cell_formats import (
    CellFormat,
    NumberFormat,
    parse_format,
)
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.csv import nearly
from beam_pipelines.sources.csv.evidence import (
    Evidence,
    Verdict,
    is_grouped,
    judge,
    type_of,
)
from beam_pipelines.sources.csv.nearly import Misfit
from beam_pipelines.sources.csv.options import CsvOptions
from beam_pipelines.sources.csv.remarks import around, remark
from beam_pipelines.sources.format import problem

_GROUPED = NumberFormat(",", ".")


def without_index(names: tuple[str, ...]) -> str:
    """Returns the decision on a nameless column that counts the rows."""
    return (
        f"column 1 has no name and counts the rows: left out  # columns: [{names[0]}, …] reads it"
    )


def choose(
    source: Source,
    find: Callable[[str, CellFormat], list[Misfit]],
    schema: pa.Schema,
    evidence: Mapping[str, Evidence],
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
    formats = {name: parse_format(text) for name, text in given.items() if name in wanted}
    open_ = [name for name in wanted if name not in formats]
    verdicts, decimal = _judge_all(source, types, evidence, open_, default)
    problems, decisions = [], []
    said = {name for name, verdict in verdicts.items() if verdict.misfits}
    for name, verdict in verdicts.items():
        if len(verdict.readings) > 1 and source.infer == "lenient":
            types[name] = pa.string()
            decisions.append(_undecided(name, verdict, evidence[name]))
        elif len(verdict.readings) > 1:
            problems.append(_ask(source, name, verdict, evidence[name]))
        elif verdict.readings and verdict.misfits:
            total, misfits = evidence[name].total, find(name, verdict.readings[0])
            if source.infer == "lenient":
                decisions.append(nearly.decision(name, verdict.word, total, misfits))
            else:
                text = nearly.message(source, name, verdict.word, total, misfits)
                problems.append(problem(source, "types", text))
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
    evidence: Mapping[str, Evidence],
    names: list[str],
    default: str,
) -> tuple[dict[str, Verdict], str]:
    """Returns how columns are read, and the file's decimal mark."""
    texts = [name for name in names if _may_have(source, name, types)]
    verdicts = {name: judge(evidence[name]) for name in texts}
    decimal = _decimal_mark(verdicts.values(), types, evidence)
    verdicts = {name: judge(evidence[name], decimal) for name in texts}
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
            verdicts[name] = Verdict()
    return verdicts, decimal


def _may_have(source: Source, name: str, types: Mapping[str, pa.DataType]) -> bool:
    """Whether a column is text to Arrow, but not to the recipe."""
    if not pa.types.is_string(types[name]):
        return False
    declared = source.types.get(name)
    return declared is None or not (
        pa.types.is_string(parse_type(declared)) or pa.types.is_binary(parse_type(declared))
    )


def _decimal_mark(
    verdicts: Iterable[Verdict], types: Mapping[str, pa.DataType], evidence: Mapping[str, Evidence]
) -> str:
    """Returns the decimal mark that the columns agree on; else nothing."""
    marks = {
        "."
        for name, type_ in types.items()
        if type_ == pa.float64() and not is_grouped(evidence[name])
    }
    for verdict in verdicts:
        for format_ in verdict.readings[:1]:
            is_certain = len(verdict.readings) == 1 and not verdict.misfits
            if isinstance(format_, NumberFormat) and is_certain and _has_mark(format_):
                marks.add(format_.decimal)
    return marks.pop() if len(marks) == 1 else ""


def _has_mark(format_: NumberFormat) -> bool:
    """Whether the format was chosen for its separators."""
    return format_.decimal + format_.thousands != "."


def _grouped(decimal: str, may_be_comma: bool) -> Verdict:
    """Returns how numbers are read that all look like 1.234."""
    if decimal == ",":
        return Verdict((_GROUPED,), word="numbers")
    if may_be_comma and not decimal:
        return Verdict((NumberFormat("."), _GROUPED), word="numbers")
    return Verdict()


def _ask(source: Source, name: str, verdict: Verdict, evidence: Evidence) -> Problem:
    key = yaml_text(name)
    cures = [f"'formats: {{{key}: {yaml_text(str(format_))}}}'" for format_ in verdict.readings]
    kinds = {"numbers": "numbers", "dates": "days"}[verdict.word]
    shown = " and as ".join(str(format_) for format_ in verdict.readings)
    return problem(
        source,
        "formats",
        f"column '{name}': found {shorten(evidence.example, 40)!r} and the like, which are "
        f"different {kinds} as {shown}. Set "
        f"{' or '.join(cures)}, or 'types: {{{key}: text}}'.",
    )


def _undecided(name: str, verdict: Verdict, evidence: Evidence) -> str:
    example = shorten(evidence.example, 40)
    key = yaml_text(name)
    cures = " or ".join(f"{{{key}: {yaml_text(str(format_))}}}" for format_ in verdict.readings)
    return (
        f"types: {{{key}: text}}  # {example!r} has two readings, formats: {cures}; infer: lenient "
        "takes texts"
    )


def _decision(name: str, format_: CellFormat, evidence: Evidence) -> str:
    example = shorten(evidence.example, 40)
    below = ""
    if isinstance(format_, NumberFormat) and format_.negative:
        marked = "in brackets" if format_.negative == "()" else "with a minus behind it"
        below = f"; a number {marked} is below 0"
    return (
        f"formats: {{{yaml_text(name)}: {yaml_text(str(format_))}}}  # such as {example!r}{below}"
    )
