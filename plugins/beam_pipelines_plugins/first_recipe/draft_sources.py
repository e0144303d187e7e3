"""Finds the tables of a folder for a first recipe.

Says what is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.core.errors import PipelineError, RecipeProblems
from beam_pipelines.core.layout.dataset_layout import MANIFEST, RECIPE_SCHEMA, REPORT
from beam_pipelines.files.beam import files, path_patterns
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import planner_of
from beam_pipelines.recipe.unions import Union
from beam_pipelines.sources import FORMATS, format_of, format_of_path
from beam_pipelines.sources.csv.resolve import are_texts, texts_cure
from beam_pipelines.sources.files.listing import is_document
from beam_pipelines.sources.files.split_names import split_patterns, splits_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.wrapping.unions import plan_union
from beam_pipelines_plugins.first_recipe.joins import Side
from beam_pipelines_plugins.first_recipe.labels import Candidate, label_candidates

_MOST_FILES = 2_000
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
# What differs in the names of a series: numbers, dates, months, ids of writers.
_NUMBER = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9]+|"
    rf"(?<![a-z])(?:{_MONTH})(?![a-z])"
)


class LeftOut(NamedTuple):
    """A file or folder that is no source, and why.

    Attributes:
      path, reason: as they are shown.
      is_unreadable: whether it is a data file that cannot be read.
    """

    path: str
    reason: str
    is_unreadable: bool = False


class FoundTables(NamedTuple):
    """The tables of a first recipe.

    Attributes:
      plans: of the sources, the base first.
      label: that the names of the files show, if it is certain.
      splits: split -> pattern of the base's files, if they are those of splits.
      left_out: what is no source.
      base_note: why the first source is the base.
      other_base: the source that could be the base as well, or ``""``.
    """

    plans: tuple[SourcePlan, ...]
    label: Candidate | None = None
    splits: tuple[tuple[str, str], ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    base_note: str = ""
    other_base: str = ""


def series_of(path: str) -> str:
    """Returns a path without numbers and months, which a series shares."""
    return re.sub(r"[-_. ()]*#[)]?", "", _NUMBER.sub("#", path.lower()))


def files_of(folder: str) -> tuple[list[str], list[LeftOut]]:
    """Returns the files that may be tables, and what is left out."""
    found: list[str] = []
    left_out: list[LeftOut] = []
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        path, name = files.join(folder, entry.name), entry.name
        if name == RECIPE_SCHEMA:
            continue
        if entry.is_dir():
            if name.startswith((".", "_")):
                left_out.append(LeftOut(path, "hidden"))
            elif os.path.exists(files.join(path, MANIFEST)):
                left_out.append(LeftOut(path, "a dataset of this package"))
            else:
                own, others = files_of(path)
                found += own
                left_out += others if own else _together(path, others)
        elif reason := _reason(path, name, entry):
            left_out.append(LeftOut(path, reason))
        else:
            found.append(path)
    texts = [path for path in found if path.lower().endswith(".txt")]
    if are_texts(texts):
        found = [path for path in found if path not in set(texts)]
        left_out.append(LeftOut(folder, f"{len(texts):,} texts; {texts_cure(folder)}"))
    if len(found) > _MOST_FILES:
        raise PipelineError(
            f"{folder}: found more than {_MOST_FILES:,} files, expected fewer to compare. Name the "
            "tables with patterns."
        )
    return found, left_out


def _together(folder: str, others: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """Yields a folder in place of files that are no tables."""
    reasons = sorted({one.reason for one in others})
    if [one.path for one in others] == [folder]:
        yield from others
    elif others:
        yield LeftOut(folder, f"{len(others):,} files: {'; '.join(reasons)}")


def _reason(path: str, name: str, entry: os.DirEntry[str]) -> str:
    """Returns why a file is no table, or ``""``."""
    format_ = format_of_path(path)
    reasons = (
        (name.startswith((".", "_")), "hidden"),
        (name.lower().endswith((".yaml", ".yml")), "a recipe or settings"),
        (name == REPORT or is_document(path), "a document"),
        (not os.path.exists(path) or not entry.stat().st_size, "empty"),
        (
            planner_of(path) == "database",
            f"a database; 'init {name}#TABLE' proposes a recipe for a table",
        ),
        (name.lower().endswith(".sql"), "SQL commands; load them into a database"),
        (format_ is None, "its suffix is of no format"),
    )
    known = next((reason for is_it, reason in reasons if is_it), "")
    if not known and FORMATS[format_ or ""].is_file_a_row:
        return "an image; 'init' reads images of a folder that has them and one table"
    return known


def grouped(
    paths: Sequence[str], folder: str, plan: Callable[[str], SourcePlan]
) -> tuple[list[tuple[list[str], SourcePlan]], list[LeftOut]]:
    """Puts the files of each table together.

    Files are one table if they have the same columns, and are of one series, or of one folder in
    which all tables have these columns, or are the splits of one table.
    """
    known: list[tuple[str, SourcePlan]] = []
    left_out: list[LeftOut] = []
    for path in paths:
        try:
            found = plan(path)
        except PipelineError as error:
            left_out.append(LeftOut(path, " ".join(str(error).split()), is_unreadable=True))
            continue
        if path.lower().endswith(".txt") and len(found.schema) == 1:
            left_out.append(LeftOut(path, "a text of lines; 'format: lines' reads it"))
        else:
            known.append((path, found))
    labels = {label: path for path, one in known for label in format_of(one).companions(one)}
    left_out += [LeftOut(path, f"read with {labels[path]}") for path, _ in known if path in labels]
    known = [(path, one) for path, one in known if path not in labels]
    shapes: dict[str, set[tuple[str, ...]]] = {}
    for path, found in known:
        shapes.setdefault(os.path.dirname(path), set()).add(tuple(found.schema.names))
    split_of = splits_of([path for path, _ in known])
    with_label = {tuple(one.schema.names) for path, one in known if split_of[path] == "train"}
    tables: dict[tuple[object, ...], list[tuple[str, SourcePlan]]] = {}
    for path, found in known:
        columns, name = tuple(found.schema.names), split_of[path]
        below = os.path.dirname(path)
        if name == "submission":
            key: object = path
        elif name:
            # The splits of a table are one, but for tables whose labels are in another file.
            is_one = columns in with_label and len(with_label) == 1
            key = "splits" if is_one else (series_of(path), path if name == "test" else "")
        else:
            is_folder = len(shapes[below]) == 1 and (below != folder or len(shapes) == 1)
            key = (
                ("folder", series_of(os.path.relpath(below or ".", folder or ".")))
                if is_folder
                else series_of(os.path.relpath(path, folder or "."))
            )
        tables.setdefault((found.format, columns, key), []).append((path, found))
    return [([path for path, _ in own], own[0][1]) for own in tables.values()], left_out


def pattern_of(paths: Sequence[str], others: Iterable[str]) -> tuple[str, ...]:
    """Returns a pattern for files of a series, or nothing."""
    common = os.path.commonprefix
    prefix = re.sub("[0-9]+$", "", common(list(paths)))
    suffix = re.sub("^[0-9]+", "", common([path[len(prefix) :][::-1] for path in paths])[::-1])
    folder = os.path.dirname(paths[0])
    is_one_folder = all(os.path.dirname(path) == folder for path in paths)
    pattern = re.compile(f"{re.escape(prefix)}[^/]*{re.escape(suffix)}")
    is_plain = (
        is_one_folder and len(prefix) > len(folder) + 1 and not path_patterns.has_wildcard(prefix)
    )
    if len(paths) > 1 and is_plain and not any(map(pattern.fullmatch, {*others} - {*paths})):
        return (f"{prefix}*{suffix}",)
    return tuple(paths)


def united(plans: Sequence[SourcePlan]) -> tuple[list[SourcePlan], list[LeftOut]]:
    """Returns tables; a series of nearly equal columns is a union.

    Files of one series are rows of one table, and not joined; so are tables that all have the same
    columns, in any order. Those that cannot be united, because of their types or of names in other
    letters, are left out.
    """
    series: dict[tuple[str, str], list[SourcePlan]] = {}
    is_one = len({frozenset(map(str.casefold, plan.schema.names)) for plan in plans}) == 1
    split_of = splits_of([file.path for plan in plans for file in plan.files])
    for plan in plans:
        path = plan.files[0].path if format_of(plan).has_files else ""
        is_alone = not path or split_of[path]
        key = plan.source.name if is_alone else "" if is_one else series_of(path)
        series.setdefault((plan.format, key), []).append(plan)
    found: list[SourcePlan] = []
    left_out: list[LeftOut] = []
    for own in series.values():
        alike = sorted(own, key=lambda plan: plan.source.path)
        first, *others = sorted(alike, key=lambda plan: -len(plan.schema))
        if not others or not all(_is_alike(first, other) for other in others):
            found += own
            continue
        same = [one for one in alike if not _in_other_letters(first, one)]
        words = re.findall("[a-z_]*[a-z]", os.path.basename(series_of(alike[0].files[0].path)))
        name = words[0] if len(words) > 1 else "rows"
        while any(plan.source.name == name for plan in (*plans, *found)):
            name = f"all_{name}"
        reason = f"its columns are those of {first.source.name} in other letters"
        try:
            union = Union(tuple(plan.source.name for plan in same), missing="fill")
            source = Source(name, options={"union": union}).with_planning(keeps_steps=True)
            found.append(plan_union(source, same) if len(same) > 1 else first)
        except RecipeProblems as error:
            found.append(first)
            same, reason = [first], "; ".join(problem.message for problem in error.problems)
        left_out += [
            LeftOut(one.files[0].path, f"{reason}: {', '.join(one.schema.names)}", True)
            for one in alike
            if one not in same
        ]
    return found, left_out


def _is_alike(one: SourcePlan, other: SourcePlan) -> bool:
    """Whether half of a table's columns are in another."""
    names, others = ({*map(str.casefold, each.schema.names)} for each in (one, other))
    return 2 * len(names & others) >= len(others) > 0


def _in_other_letters(one: SourcePlan, other: SourcePlan) -> bool:
    """Whether a name differs from one of another table by its case."""
    names = {name.casefold(): name for name in one.schema.names}
    return any(names.get(name.casefold(), name) != name for name in other.schema.names)


def choose_base(
    plans: Sequence[SourcePlan],
    sample: Callable[[SourcePlan], Side],
    joins_of: Callable[[Sequence[Side]], int],
) -> FoundTables:
    """Puts the base first: the source with the label and most rows.

    A test file is not one, nor the form of a submission: these are left out.
    """
    left_out: list[LeftOut] = []
    label: Candidate | None = None
    split_of = splits_of([file.path for plan in plans for file in plan.files])
    names = {plan.source.name: _split_of(plan, split_of) for plan in plans}
    chosen = [plan for plan in plans if names[plan.source.name] not in ("test", "submission")]
    if not chosen:
        return FoundTables(tuple(plans))
    forms = [plan for plan in plans if names[plan.source.name] == "submission"]
    trains = [plan for plan in chosen if names[plan.source.name] == "train"] or chosen
    for plan in plans:
        role = names[plan.source.name]
        place = plan.source.path[0] if plan.source.path else plan.source.name
        if role == "submission":
            left_out.append(LeftOut(place, "the form of a submission, whose labels are no data"))
        elif role == "test":
            train = max(trains, key=lambda one: len({*one.schema.names} & {*plan.schema.names}))
            label = _lacking(train, plan, forms) or label
            left_out.append(
                LeftOut(
                    place,
                    "rows to predict, no examples. After convert: "
                    f"beam-pipelines transform out {place} -o out_test",
                )
            )
    if len(chosen) == 1:
        return FoundTables(
            tuple(chosen),
            label,
            split_patterns([file.path for file in chosen[0].files]),
            tuple(left_out),
        )
    sides = [sample(plan) for plan in chosen]
    joins_by_base = [
        joins_of([side, *sides[:number], *sides[number + 1 :]]) for number, side in enumerate(sides)
    ]
    scores = [
        (
            label is not None and label.name in plan.schema.names,
            names[plan.source.name] == "train",
            # A label outweighs further joins: refunds of orders have one more than orders.
            joins > 0,
            any(found.is_certain for found in label_candidates(side.columns.values())),
            joins,
            side.rows.num_rows if side.is_whole else plan.size_bytes,
        )
        for plan, side, joins in zip(chosen, sides, joins_by_base, strict=True)
    ]
    best, other = best_of(scores, lambda one, two: joins_of([sides[one], sides[two]]) > 0)
    base, joins = chosen[best], scores[best][4]
    note = f", as {joins} of the others can be joined to them" if joins else ", as it has the label"
    note = note if joins or scores[best][0] or scores[best][3] else ", as it has the most rows"
    rest = []
    for plan, side in zip(chosen, sides, strict=True):
        if plan is not base and side.is_whole and side.rows.num_rows == 1:
            left_out.append(LeftOut(plan.files[0].path, "one row, no table"))
        elif plan is not base:
            rest.append(plan)
    if label is not None and label.name not in base.schema.names:
        label = None
    other_base = "" if other is None else chosen[other].source.name
    splits = split_patterns([file.path for file in base.files])
    return FoundTables((base, *rest), label, splits, tuple(left_out), note, other_base)


def best_of(
    scores: Sequence[tuple[bool, bool, bool, bool, int, int]], names: Callable[[int, int], bool]
) -> tuple[int, int | None]:
    """Returns the best source, and one that is near.

    Refunds name orders, and so have one join more; orders are the base, as there are more of them.

    Args:
      scores: of sources; the last two are joins and rows.
      names: whether rows of one source name those of another.
    """
    best, *others = sorted(range(len(scores)), key=lambda one: scores[one], reverse=True)
    others = [one for one in others if scores[one][:4] == scores[best][:4] and scores[one][4]]
    larger = [one for one in others if scores[one][5] > scores[best][5]]
    if named := [one for one in larger if names(best, one)]:
        return max(named, key=lambda one: scores[one][5]), best
    near = [one for one in others if one in larger or scores[one][4] == scores[best][4]]
    return best, near[0] if near else None


def _split_of(plan: SourcePlan, split_of: Mapping[str, str]) -> str:
    """Returns the split of a source by the names of its files.

    Several are none.
    """
    names = {split_of[file.path] for file in plan.files}
    if "train" in names:
        return "train"
    return names.pop() if len(names) == 1 else ""


def _lacking(train: SourcePlan, test: SourcePlan, forms: Sequence[SourcePlan]) -> Candidate | None:
    """Returns the column that only the rows to learn from have."""
    names = [name for name in train.schema.names if name not in test.schema.names]
    asked = [name for name in names if any(name in form.schema.names for form in forms)]
    found = asked or names
    if len(found) != 1 or len(names) > len(train.schema) / 2 + 1:
        return None
    also = " and the submission has" if asked else ""
    place = os.path.basename(test.files[0].path)
    return Candidate(found[0], f"the column that {place} lacks{also}", is_certain=True)
