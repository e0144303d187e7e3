"""Finds what makes two key columns match.

By trying it on a sample.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join.forms import (
    DAYS,
    Forms,
    KeySide,
    best_forms,
    best_zone,
    count_matches,
)


class SampledKey(NamedTuple):
    """A key column of a source, as it was planned."""

    plan: SourcePlan
    column: str

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        return self.plan.schema.field(self.column).type

    @property
    def is_tried(self) -> bool:
        """Whether types can be declared: not of tables, unions and derived columns."""
        source, has_files = self.plan.source, format_of(self.plan).has_files
        return has_files and source.union is None and self.column not in source.derive


class Keys(NamedTuple):
    """The key columns of both sides of a join.

    Attributes:
      left, right: the columns in their sources.
      name: the left one's in the rows so far.
      join: of the recipe.
      known: names of the rows so far.
    """

    left: SampledKey
    right: SampledKey
    name: str
    join: Join
    known: Collection[str]


class Trial(NamedTuple):
    """A type that was declared and read.

    Attributes:
      source, column, type: ``types: {column: type}`` of the source.
      matched: distinct left keys of the sample that have an equal right key.
      total: distinct left keys of the sample.
    """

    source: str
    column: str
    type: str
    matched: int
    total: int


def try_types(left: SampledKey, right: SampledKey) -> list[Trial]:
    """Declares each column with the other's type, and counts keys that match.

    The sample is the first chunk of each source.

    Returns:
      A trial for each type with which both sides can be read, best first; of those that match as
        many, float64 last, which features round.
    """
    trials = []
    for side, other in ((right, left), (left, right)):
        name = columns.type_name(other.type)
        try:
            changed = _declared(side, name)
            if changed is None or changed.type != other.type:
                continue
            keys = {id(side): _sample(changed), id(other): _sample(other)}
        except (DataError, RecipeProblems):
            continue
        matched = count_matches(keys[id(left)], keys[id(right)])
        total = len(keys[id(left)])
        trials.append(Trial(side.plan.source.name, side.column, name, matched, total))
    return sorted(trials, key=lambda trial: (-trial.matched, trial.type == "float64"))


def _declared(key: SampledKey, type_: str) -> SampledKey | None:
    """Returns the key with a declared type.

    ``None`` of sources that are no files.
    """
    source = key.plan.source
    if not key.is_tried:
        return None
    types = {**source.types, key.column: type_}
    plan = plan_source(dataclasses.replace(source, types=types), "")
    return key._replace(plan=with_derived(plan, source.derive))


def near_miss(keys: Keys) -> str | None:
    """Tells how keys of one type would match that do not.

    The sample of the left source is that of ``try_types``; the right one is read whole, and is not
    tried if it has several ranges: a key may have its equal further on.
    """
    left, right = keys.left, keys.right
    is_text = pa.types.is_string(left.type)
    is_time = pa.types.is_timestamp(left.type) or pa.types.is_date(left.type)
    is_cheap = _is_tried_for_misses(left) and _is_tried_for_misses(right)
    if left.type != right.type or not (is_text or is_time) or not is_cheap:
        return None
    if len(right.plan.ranges) > 1:
        return None
    try:
        ours, theirs = _sample(left, reject=True), _all_keys(right)
    except DataError:
        return None
    exact = count_matches(ours, theirs)
    if exact == len(ours):
        return None
    forms = best_forms(KeySide(left.column, ours), KeySide(right.column, theirs), exact)
    if forms is None:
        return None
    lines = _types_of_both(keys, forms) or _derive_lines(keys, forms)
    return (
        f"{forms.matched - exact:,} of {len(ours) - exact:,} keys of '{left.column}' in the sample "
        f"that match no '{right.column}' of source '{right.plan.source.name}' would match "
        f"{forms.words}. {lines}."
    )


def type_remedy(keys: Keys) -> str:
    """Returns what makes two key columns of different types match.

    As far as it was tried.
    """
    left, right = keys.left, keys.right
    one, other = (KeySide(key.column, _sample(key, reject=True)) for key in (left, right))
    total = len(one.keys)
    if {columns.type_name(key.type) for key in (left, right)} == {"timestamp", "timestamptz"}:
        zone = best_zone(one, other, [*_zones(left), *_zones(right), "UTC"])
        return (
            "A time without a zone equals none with one. Name the zone of those without; if it is "
            f"{zone.words}: {_derive_lines(keys, zone)}, with which {zone.matched:,} of "
            f"{total:,} keys of the sample match."
        )
    trials = try_types(left, right)
    forms = best_forms(one, other, trials[0].matched if trials else 0)
    if forms is not None:
        words = f" {forms.words}" if forms.words else ""
        return (
            f"{_derive_lines(keys, forms)}, with which {forms.matched:,} of {total:,} keys of the "
            f"sample match{words}."
        )
    if trials and trials[0].matched:
        best = trials[0]
        lines = f"Add 'types: {{{yaml_text(best.column)}: {best.type}}}' to source '{best.source}'"
        if best.type == "float64":  # which features round
            lines = _types_of_both(keys, Forms("", None, None, best.matched)) or lines
        return f"{lines}, with which {best.matched:,} of {best.total:,} keys of the sample match."
    return (
        "No key of the sample matches with either type, and with no expression that was tried. "
        "Name other columns, or make keys that are alike with 'derive' of a source."
    )


def _derive_lines(keys: Keys, forms: Forms) -> str:
    """Returns the lines of a recipe that join by expressions."""
    prefix, join = keys.name.removesuffix(keys.left.column), keys.join
    ours, theirs = keys.left.column, keys.right.column
    lines = []
    if forms.left is not None:
        ours = _new_name(keys.left, prefix, keys.known)
        lines.append(_line(keys.left, ours, forms.left))
    if forms.right is not None:
        theirs = _new_name(keys.right, join.prefix, keys.known)
        lines.append(_line(keys.right, theirs, forms.right))
        if join.prefix + keys.right.column in keys.known:  # it is no key any more
            lines.append(f"set prefix: {yaml_text(f'{join.source}_{join.prefix}')} of the join")
    old, new = (keys.name, keys.right.column), (prefix + ours, theirs)
    on = (new if pair == old else pair for pair in join.on)
    pairs = ", ".join(f"{yaml_text(a)}: {yaml_text(b)}" for a, b in on)
    text = f"{', '.join(lines)} and join on: {{{pairs}}}"
    return text[0].upper() + text[1:]


def _line(key: SampledKey, name: str, sql: str) -> str:
    return f"add to source '{key.plan.source.name}' derive: {{{yaml_text(name)}: {yaml_text(sql)}}}"


def _new_name(key: SampledKey, prefix: str, known: Collection[str]) -> str:
    """Returns a name that no column has."""
    taken = {name.lower() for name in (*key.plan.schema.names, *known)}
    names = (f"{key.column}_key{number or ''}" for number in itertools.count())
    return next(name for name in names if not {name.lower(), f"{prefix}{name}".lower()} & taken)


def _zones(key: SampledKey) -> list[str]:
    """Returns the zone that the files have for a column."""
    types = {field.name: field.type for field in nested.flatten_fields(key.plan.file_schema)}
    zone = getattr(types.get(key.column), "tz", None)
    return [] if zone is None else [zone]


def _is_tried_for_misses(key: SampledKey) -> bool:
    """Whether a source is cheap to look into."""
    reader = key.plan.reader
    return reader is not None and reader.has_files and not reader.is_file_a_row


def _types_of_both(keys: Keys, forms: Forms) -> str:
    """Returns the types with which as many keys match, or ""."""
    type_ = "date" if forms.words == DAYS else "int64"
    try:
        both = [_declared(key, type_) for key in (keys.left, keys.right)]
        if None in both or count_matches(*(_sample(key) for key in both if key)) < forms.matched:
            return ""
    except (DataError, RecipeProblems):
        return ""
    lines = (
        f"'types: {{{yaml_text(key.column)}: {type_}}}' to source '{key.plan.source.name}'"
        for key in (keys.left, keys.right)
    )
    return f"Add {' and '.join(lines)}"


def _sample(key: SampledKey, reject: bool = False) -> pa.Array:
    """Returns distinct keys of the first chunk with rows."""
    plan = dataclasses.replace(key.plan, ranges=key.plan.ranges[:1])
    for chunk in read.read_chunks(plan, reject=reject):
        if chunk.batch.num_rows:
            return chunk.batch.column(key.column).unique().drop_null()
    return pa.array([], key.type)


def _all_keys(key: SampledKey) -> pa.Array:
    """Returns the distinct keys of a source."""
    chunks = [chunk.batch.column(key.column) for chunk in read.read_chunks(key.plan, reject=True)]
    return pa.chunked_array(chunks, key.type).unique().drop_null()
