"""Finds what makes two key columns match.

By trying it on a sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import columns
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.yaml_text import yaml_text
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read

_Change = Callable[[pa.Array], pa.Array]
# What texts are compared without.
_CHANGES: Mapping[str, _Change] = {
    "without blanks around them": pc.utf8_trim_whitespace,
    "in lower case": pc.utf8_lower,
    "without leading zeros": lambda keys: pc.replace_substring_regex(keys, "^0+(.)", r"\1"),
    "in Unicode's form NFC": lambda keys: pc.utf8_normalize(keys, "NFC"),
}
_DAYS = "by their day"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# Tried where no key matches: a few would match by chance.
_OF_ALL: Mapping[str, _Change] = {
    "by their letters and digits": lambda keys: pc.utf8_lower(
        pc.replace_substring_regex(keys, r"[^\pL\pN]+", "")
    ),
    "without what is before their digits": lambda keys: pc.replace_substring_regex(
        keys, "^[^0-9]+([0-9]+)$", r"\1"
    ),
}


class Key(NamedTuple):
    """A key column of a source, as it was planned."""

    plan: SourcePlan
    column: str

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        return self.plan.schema.field(self.column).type

    @property
    def is_tried(self) -> bool:
        """Whether types are declared and tried: not in databases and unions."""
        return self.plan.source.url is None and self.plan.source.union is None


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


def try_types(left: Key, right: Key) -> list[Trial]:
    """Declares each column with the other's type, and counts keys that match.

    The sample is the first chunk of each source.

    Returns:
      A trial for each type with which both sides can be read, best first.
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
        matched = _matches(keys[id(left)], keys[id(right)])
        total = len(keys[id(left)])
        trials.append(Trial(side.plan.source.name, side.column, name, matched, total))
    return sorted(trials, key=lambda trial: -trial.matched)


def _declared(key: Key, type_: str) -> Key | None:
    """Returns the key with a declared type.

    ``None`` of sources that are no files.
    """
    source = key.plan.source
    if not key.is_tried:
        return None
    types = {**source.types, key.column: type_}
    return key._replace(plan=plan_source(dataclasses.replace(source, types=types), ""))


def near_miss(left: Key, right: Key) -> str | None:
    """Tells how keys would match that do not.

    Blanks, case, leading zeros and Unicode's forms of texts, and times of days; where no key
    matches, punctuation and prefixes of texts, too. The sample of the left source is
    that of ``try_types``; the right one is read whole, and is not tried if it has several ranges:
    a key may have its equal further on.
    """
    if (kind := _kind(left.type)) is None or kind != _kind(right.type):
        return None
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return None
    is_cheap = _is_tried_for_misses(left) and _is_tried_for_misses(right)
    if not is_cheap or len(right.plan.ranges) > 1:
        return None
    try:
        keys, others = _sample(left, reject=True), _all_keys(right)
    except DataError:
        return None
    if kind == "text":
        keys, others = keys.cast(pa.string()), others.cast(pa.string())
    exact = _matches(keys, others)
    misses = len(keys) - exact
    changes = _changes(kind, keys, others)
    if kind == "text" and not exact:
        changes = {**changes, **_OF_ALL}
    found = [
        (_matches(change(keys), change(others)) - exact, name) for name, change in changes.items()
    ]
    gained, name = max(found, key=lambda each: each[0], default=(0, ""))
    if gained <= 0:
        return None
    return (
        f"{gained:,} of {misses:,} keys of '{left.column}' in the sample that match no "
        f"'{right.column}' of source '{right.plan.source.name}' would match {name}. "
        f"{_answer(left, right, 'date' if name == _DAYS else 'int64', exact + gained)}"
    )


def _is_tried_for_misses(key: Key) -> bool:
    """Whether a source is cheap to look into."""
    reader = key.plan.reader
    return key.plan.source.url is None and reader is not None and not reader.is_file_a_row


def _kind(type_: pa.DataType) -> str | None:
    if pa.types.is_string(type_) or pa.types.is_integer(type_):
        return "text"
    return "time" if pa.types.is_timestamp(type_) or pa.types.is_date(type_) else None


def _changes(kind: str, keys: pa.Array, others: pa.Array) -> Mapping[str, _Change]:
    """Returns the changes to try; those that change most come last."""
    if kind == "time":
        # Times of both sides share days by chance.
        return {_DAYS: _days} if _are_days(keys) or _are_days(others) else {}

    def change_all(texts: pa.Array) -> pa.Array:
        for change in _CHANGES.values():
            texts = change(texts)
        return texts

    days = any(
        pc.all(pc.match_substring_regex(each, f"^{_DAY}$")).as_py() for each in (keys, others)
    )
    of_days = {_DAYS: _day_of_text} if days else {}
    return {**_CHANGES, **of_days, ", ".join(_CHANGES): change_all}


def _day_of_text(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, f"^({_DAY})[T ][0-9:.]+Z?$", r"\1")


def _days(times: pa.Array) -> pa.Array:
    return times.cast(pa.date32(), safe=False)


def _are_days(times: pa.Array) -> bool:
    return bool(times.equals(_days(times).cast(times.type)))


def _matches(keys: pa.Array, others: pa.Array) -> int:
    if keys.type != others.type:
        return 0
    return pc.sum(pc.is_in(keys, value_set=others)).as_py() or 0


def _answer(left: Key, right: Key, type_: str, matched: int) -> str:
    """Returns a remedy: types that match as many keys, or words."""
    try:
        sides = [_declared(key, type_) for key in (left, right)]
        both = [side for side in sides if side is not None]
        if len(both) == 2 and _matches(*map(_sample, both)) >= matched:
            lines = [
                f"'types: {{{yaml_text(key.column)}: {type_}}}' to source '{key.plan.source.name}'"
                for key in (left, right)
            ]
            return f"Add {' and '.join(lines)}."
    except (DataError, RecipeProblems):
        pass
    return "Write them alike in the files: 'derive' comes after the joins."


def _sample(key: Key, reject: bool = False) -> pa.Array:
    """Returns distinct keys of the first chunk with rows."""
    plan = dataclasses.replace(key.plan, ranges=key.plan.ranges[:1])
    for chunk in read.read_chunks(plan, reject=reject):
        if chunk.batch.num_rows:
            return chunk.batch.column(key.column).unique().drop_null()
    return pa.array([], key.type)


def _all_keys(key: Key) -> pa.Array:
    """Returns the distinct keys of a source."""
    chunks = [chunk.batch.column(key.column) for chunk in read.read_chunks(key.plan, reject=True)]
    return pa.chunked_array(chunks, key.type).unique().drop_null()
