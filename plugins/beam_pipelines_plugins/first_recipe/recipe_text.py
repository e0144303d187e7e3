"""Writes a first recipe as YAML, with a reason for each line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.process.plugins import FORMATS, KNOWN, PLANNERS
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import PLACES, scheme_of
from beam_pipelines.recipe.text.yaml_text import escaped, yaml_list, yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.wrapping.unions import UnionFormat
from beam_pipelines.sql.database import identifier
from beam_pipelines_plugins.first_recipe.draft import Draft, DraftedJoin
from beam_pipelines_plugins.first_recipe.draft_sources import FoundTables
from beam_pipelines_plugins.first_recipe.encodings import Proposal
from beam_pipelines_plugins.first_recipe.splits import SplitProposal

# The comments of a block begin in one column, but not further right.
_WIDTH = 58
# A key of the recipe, and the one of encodings.
_KEY = re.compile(r"[^\s#{}\[\]-]")
_ENCODE = re.compile(r"""(["']?)encode\1\s*:""")
# Options of a source that say where it is.
_PARTS = {known.part for group in (FORMATS, PLANNERS) for known in KNOWN[group].values()}
# Names that a line lists.
_NAMED = 10
_LABELS = 5
# Encodings that are none of a label.
_SCALES = re.compile("z_score|quantile_normal")


def recipe_text(
    tables: FoundTables,
    draft: Draft,
    folder: str,
    questions: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Returns the recipe as YAML with comments.

    Args:
      tables: the sources; the first one is the base.
      draft: what it says beyond them.
      folder: of the recipe; paths are written relative to it.
      questions: source -> questions on its columns, which are texts until then.
    """
    plans, base = tables.plans, tables.plans[0]
    lines = [
        "# docs/recipe.md explains every key. Lines with '# choose:' are decisions of yours.",
        f"name: {yaml_text(base.source.name)}",
        "",
        "sources:",
    ]
    keys = {
        join.source: [right for _, right in join.found.on]
        for join in draft.joins
        if join.found and join.is_key
    }
    asked = questions or {}
    for plan in plans:
        members = plan.reader.members if isinstance(plan.reader, UnionFormat) else ()
        for source in (*members, plan):
            name = source.source.name
            lines += _source_lines(source, folder, keys.get(name, ()), asked.get(name, ()))
    for one in tables.left_out:
        place = _comment(_relative(one.path, folder))
        lines.append(f"  # left out: {place}: {_comment(one.reason)}")
    note = f"# its rows become examples{tables.base_note}"
    lines.append(f"from: {yaml_text(base.source.name)}  {note}")
    if tables.other_base:
        lines.append("# choose: the other source whose rows may be examples, with its own joins:")
        lines.append(f"# from: {yaml_text(tables.other_base)}")
    lines.append("")
    lines += _join_lines(draft.joins)
    lines += _filter_lines(draft)
    lines += _label_lines(draft)
    lines += _split_lines(draft)
    lines += _sequence_lines(base)
    lines += _encode_lines(draft.encodings)
    lines += _unread_lines(draft)
    lines += [
        "# A row that cannot be read stops the run. To allow some, which go to rejected/:",
        f"# on_error: {{reject: {sum(number for number, _ in draft.unread) or '0.1%'}}}",
    ]
    return "\n".join(lines) + "\n"


def _unread_lines(draft: Draft) -> Iterator[str]:
    """Yields what keeps the recipe from running as it is."""
    for choice in draft.choices:
        yield f"# choose: {_comment(choice)}"
    for number, errors in draft.unread:
        rows = "1 row" if number == 1 else f"{number:,} rows"
        some = "" if number == 1 else ", the first one here" if len(errors) == 1 else ", such as"
        yield f"# choose: {rows} of those that init has read cannot be read{some}:"
        yield from (f"#   {' '.join(error.split())}" for error in errors)


def _source_lines(
    plan: SourcePlan, folder: str, keys: Sequence[str], questions: Sequence[str]
) -> Iterator[str]:
    source = plan.source
    yield f"  {yaml_text(source.name)}:"
    yield from _place_lines(source, folder)
    yield from _key_lines(source, plan.decisions)
    number = f"{len(plan.files)} file{'' if len(plan.files) == 1 else 's'},"
    if not format_of(plan).has_files:
        number = "about"
    found = f"{plan.format}, {number} {plan.size_bytes:,} bytes"
    yield f"    # {found}. To change a type: 'types: {{column: text}}'."
    if source.infer == "lenient":
        yield "    infer: lenient  # some columns need a decision and are texts until then:"
    yield from (f"    # choose: {_comment(question)}" for question in questions)
    for decision in () if source.union else plan.decisions:  # its sources have them
        yield f"    # Found: {decision}"
    width = max(len(yaml_text(name)) for name in plan.schema.names)
    for field in plan.schema:
        nothing = "  (nothing but nulls in the sample)" if field.name in plan.null_columns else ""
        yield f"    #   {yaml_text(field.name):<{width}}  {type_name(field.type)}{nothing}"
    if keys:
        yield f"    key: {yaml_list(keys)}  # unique in all rows; the join checks it"


def _key_lines(source: Source, found: Sequence[str]) -> Iterator[str]:
    """Yields the keys of a source that planning has not found."""
    if source.format:
        yield f"    format: {source.format}"
    if source.columns:
        yield f"    columns: {yaml_list(source.columns)}"
    if source.types:
        yield f"    types: {_flow(source.types.items())}"
    plain = Source("")
    given = {key: getattr(source, key) for key in ("compression", "nulls")}
    given = {key: value for key, value in given.items() if value != getattr(plain, key)}
    for key, value in {**source.options, **given}.items():
        is_found = any(f"{key}:" in line for line in found)
        if not is_found and key not in (*PLACES, *_PARTS) and not dataclasses.is_dataclass(value):
            yield f"    {key}: {json.dumps(value, ensure_ascii=False)}"


def _place_lines(source: Source, folder: str) -> Iterator[str]:
    """Yields where a source is: its paths, its table or its sources."""
    if source.union is not None:
        yield f"    union: {yaml_list(source.union.union)}"
        yield f"    missing: {source.union.missing}  # a column that a source lacks is null there"
        return
    paths = [yaml_text(_relative(path, folder)) for path in source.path]
    if len(paths) == 1:
        yield f"    path: {paths[0]}"
    elif paths:
        yield "    path:"
        yield from (f"      - {path}" for path in paths)
    for key, value in source.options.items():
        if key in PLACES and not scheme_of(value):
            yield f"    {key}: {yaml_text(_relative(value, folder))}"
        elif key in (*PLACES, *_PARTS):
            yield f"    {key}: {value if isinstance(value, int) else yaml_text(value)}"


def _join_lines(joins: Sequence[DraftedJoin]) -> Iterator[str]:
    if any(join.found for join in joins):
        yield "join:"
    for join in joins:
        if join.found is None:
            continue
        pairs = join.found.on
        yield f"  # {join.found.reason}"
        prefix = f", prefix: {yaml_text(join.prefix)}" if join.prefix else ""
        on = _on(pairs)
        yield f"  - {{source: {yaml_text(join.source)}, on: {on}, how: {join.how}{prefix}}}"
    for join in joins:
        if join.found is None:
            near = join.near
            reason = near.reason if near else f"no join found for '{join.source}'; to add one:"
            yield f"# choose: {_comment(reason)}"
            yield (
                f"# join: [{{source: {yaml_text(join.source)}, on: "
                f"{_on(near.on) if near else '{left_column: right_column}'}, "
                f"prefix: {yaml_text(join.prefix)}}}]"
            )
    if joins:
        yield ""


def _on(pairs: Sequence[tuple[str, str]]) -> str:
    names = [yaml_text(left) for left, right in pairs if left == right]
    if len(names) == len(pairs):
        return f"[{', '.join(names)}]"
    return _flow(pairs)


def _flow(pairs: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{yaml_text(a)}: {yaml_text(b)}' for a, b in pairs)}}}"


def _filter_lines(draft: Draft) -> Iterator[str]:
    if draft.not_null:
        condition = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in draft.not_null)
        yield f"filter: {_sql_text(condition)}  # the label and the split need a value"
    if draft.times:
        yield "derive:"
        for time in draft.times:
            text = f"{yaml_text(time.name)}: {_sql_text(time.sql)}"
            yield f"  {text}  # {_comment(time.number)} has {time.reason}"
        yield f"drop: {yaml_list(time.number for time in draft.times)}  # the times stay"
    if draft.not_null or draft.times:
        yield ""


def _label_lines(draft: Draft) -> Iterator[str]:
    label = draft.label
    if label is not None:
        yield f"label: {yaml_text(label)}  # {draft.labels[0].reason}"
    others = [found for found in draft.labels if found.name != label]
    if others:
        what = "another label" if label else "a label, or none"
        yield f"# choose: {what}; rows without a value would be left out by a filter:"
        scaled = {found.name for found in draft.encodings if _SCALES.search(found.encoding)}
        for found in others[:_LABELS]:
            scale = "; delete its line of 'encode', which scales it"
            shown = f"{found.reason}{scale if found.name in scaled else ''}"
            yield f"# label: {yaml_text(found.name)}  # {shown}"
        if len(others) > _LABELS:
            names = ", ".join(_comment(found.name) for found in others[_LABELS:][:_NAMED])
            yield f"# or one of {len(others) - _LABELS} more, such as {names}"
    elif label is None:
        yield "# choose: no column looks like a label:"
        yield "# label: column"
    yield ""


def _split_lines(draft: Draft) -> Iterator[str]:
    best, *others = draft.splits
    if draft.is_split:
        yield f"# {best.reason}"
        yield f"split: {_split(best)}"
    else:
        yield "# choose: there are too few rows to divide; all are in the split train:"
        others = [best, *others]
    for other in others:
        yield f"# choose: {other.reason}" if draft.is_split else f"# {other.reason}"
        yield f"# split: {_split(other)}"
    yield ""


def _split(split: SplitProposal) -> str:
    if split.before:
        moment = yaml_text(split.before) if "T" in split.before else split.before
        return (
            f"{{column: {yaml_text(split.column)}, train: {{before: {moment}}}, "
            f"eval: {{after: {moment}}}}}"
        )
    if split.files:
        patterns = (
            f"{yaml_text(name)}: {{files: {yaml_text(files)}}}" for name, files in split.files
        )
        return f"{{{', '.join(patterns)}}}"
    by = f", by: [{yaml_text(split.column)}]" if split.column else ""
    by += f", stratify: {yaml_text(split.stratify)}" if split.stratify else ""
    return f"{{train: 0.8, eval: 0.2{by}}}"


def _sequence_lines(base: SourcePlan) -> Iterator[str]:
    if base.steps:
        yield "# The records are tf.SequenceExamples again, with these feature lists."
        yield f"sequence: {{features: {yaml_list(base.steps)}}}"
        yield ""


def with_encodings(text: str, path: str, proposals: Sequence[Proposal]) -> str:
    """Returns a recipe's text with encodings for more columns, behind its own.

    Raises:
      RecipeError: the recipe, or its encodings, are on one line.
    """
    lines = text.rstrip().split("\n")
    place = next((number for number, line in enumerate(lines) if _ENCODE.match(line)), None)
    if place is None and not any(map(_KEY.match, lines)):
        raise RecipeError(
            f"{path}: found a recipe in braces, expected one key a line. Write it so."
        )
    if place is None:
        return "\n".join([*lines, "", *_encode_lines(proposals)])
    if not re.fullmatch(r"\s*(#.*)?", lines[place].partition(":")[2]):
        raise RecipeError(
            f"{path}, line {place + 1}: found 'encode' on one line, expected one column a line, to "
            "add others. Write it so, or remove it."
        )
    after = range(place + 1, len(lines))
    end = next((number for number in after if _KEY.match(lines[number])), len(lines))
    inside = [number for number in after if number < end and lines[number][:1] in (" ", "\t")]
    last = max(inside, default=place) + 1
    filled = [lines[number] for number in inside if lines[number].strip()]
    indent = min((line[: -len(line.lstrip(" "))] for line in filled), key=len, default="  ")
    added = [f"{indent}{line}" for line in _entry_lines(proposals)]
    return "\n".join([*lines[:last], *added, *_note_lines(proposals), *lines[last:], ""])


def _encode_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    entries = [*_entry_lines(proposals)]
    if entries:
        yield "# Fitted on the split train. Reasons are of the rows that init has read."
        yield "encode:"
        yield from (f"  {line}" for line in entries)
    yield from _note_lines(proposals)
    yield ""


def _entry_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yields the lines of 'encode' without their indent."""
    entries = [
        (f"{yaml_text(found.name)}: {found.encoding}", found)
        for found in proposals
        if found.encoding
    ]
    width = min(_WIDTH, max((len(text) for text, _ in entries), default=0))
    for text, found in entries:
        yield f"{text:<{width}}  # {_comment(found.reason)}"


def _note_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yields comments: what stays as it is, and open decisions."""
    alike: dict[str, list[str]] = {}
    for found in proposals:
        if not found.encoding:
            yield f"# {_comment(found.name)} stays as it is: {_comment(found.reason)}"
        if found.choice:
            alike.setdefault(found.choice, []).append(_comment(found.name))
    for choice, names in alike.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"# choose: {', '.join(names[:_NAMED])}{more}: {_comment(choice)}"


def _comment(text: str) -> str:
    """Returns a text of one line, as comments are."""
    return "".join(
        character if character.isprintable() else escaped(character) for character in text
    )


def _relative(path: str, folder: str) -> str:
    if files.is_absolute(path):
        return path
    return os.path.relpath(path, folder or ".")


def _sql_text(text: str) -> str:
    """Returns SQL within YAML: in quotes if it has some itself."""
    return yaml_text(text) if '"' in text else text
