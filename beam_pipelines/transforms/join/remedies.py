"""Finds what makes two key columns match.

By trying SQL expressions on a sample of their keys.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.database import ExpressionError, identifier
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms import read

# What texts are compared by; "{}" stands for the key.
_OF_TEXTS = {
    "without blanks around them": "trim({})",
    "in lower case": "lower({})",
    "without leading zeros": r"regexp_replace({}, '^0+(.)', '\1')",
}
_DAYS = "by their day"
# Casts that keep values apart.
_CASTS = {
    (pa.int64(), pa.string()): "{}::VARCHAR",
    (pa.bool_(), pa.string()): "{}::VARCHAR",
    (pa.date32(), pa.string()): "{}::VARCHAR",
    (pa.bool_(), pa.int64()): "{}::BIGINT",
    (pa.int64(), pa.float64()): "{}::DOUBLE",
    (pa.float32(), pa.float64()): "{}::DOUBLE",
    (pa.string(), pa.float64()): "TRY_CAST({} AS DOUBLE)",
    (pa.date32(), pa.timestamp("us")): "{}::TIMESTAMP",
    (pa.string(), pa.timestamp("us")): "TRY_CAST({} AS TIMESTAMP)",
    (pa.string(), pa.binary()): "encode({})",
}
_Pair = tuple[str, str | None, str | None]


class KeySide(NamedTuple):
    """A key column: its name, and its distinct values in a sample."""

    column: str
    keys: pa.Array

    def of(self, template: str) -> str:
        """Returns the template's expression of the column."""
        return template.replace("{}", identifier(self.column))

    def values(self, sql: str | None) -> pa.Array:
        """Returns the values of an expression, which are null if it fails."""
        if sql is None:
            return self.keys
        rows = pa.record_batch([self.keys], [self.column])
        try:
            return evaluate(rows, parse_expression("key", sql, rows.schema.names))
        except ExpressionError:
            return pa.nulls(len(self.keys))


class Forms(NamedTuple):
    """Expressions of both keys with which some match.

    Attributes:
      words: how keys match so; empty of a cast alone.
      left, right: SQL; ``None``: the column as it is.
      matched: left keys of the sample that have an equal right key.
    """

    words: str
    left: str | None
    right: str | None
    matched: int


def best_forms(left: KeySide, right: KeySide, zone: str = "UTC") -> Forms | None:
    """Returns the expressions with which most keys match.

    Of several, it returns those of one side, and those that change less.

    Args:
      left, right: the key columns.
      zone: of times, where one column has none.

    Returns:
      ``None`` if no more keys match than without an expression.
    """
    exact = count_matches(left.keys, right.keys)
    if exact == len(left.keys):  # DuckDB, which evaluates expressions, takes time to load
        return None
    ours, theirs = functools.cache(left.values), functools.cache(right.values)
    pairs = sorted(_pairs(left, right, zone), key=lambda pair: pair[1:].count(None), reverse=True)
    tried = (Forms(*pair, count_matches(ours(pair[1]), theirs(pair[2]))) for pair in pairs)
    best = max(tried, key=lambda each: each.matched, default=None)
    return None if best is None or best.matched <= exact else best


def count_matches(keys: pa.Array, others: pa.Array) -> int:
    """Returns how many keys are among others."""
    if keys.type != others.type:
        return 0
    return pc.sum(pc.is_in(keys.filter(keys.is_valid()), value_set=others)).as_py() or 0


def _pairs(left: KeySide, right: KeySide, zone: str) -> Iterator[_Pair]:
    """Yields words and expressions to try; those that change more come later."""
    types = left.keys.type, right.keys.type
    if types in _CASTS:
        yield "", left.of(_CASTS[types]), None
    if types[::-1] in _CASTS:
        yield "", None, right.of(_CASTS[types[::-1]])
    if all(map(pa.types.is_timestamp, types)) and types[0] != types[1]:
        words, form = f"if the zone is {zone}", f"timezone('{zone}', {{}})"
        pair = (None, right.of(form)) if _zone_of(left) else (left.of(form), None)
        yield words, *pair
        return
    if all(map(_is_text, types)) and pa.string() in types:
        together = functools.reduce(lambda sql, form: form.replace("{}", sql), _OF_TEXTS.values())
        for words, form in {**_OF_TEXTS, ", ".join(_OF_TEXTS): together}.items():
            own, other = (each.of(form.replace("{}", _text_of(each))) for each in (left, right))
            plain = [None if _is_string(each) else each.of("{}::VARCHAR") for each in (left, right)]
            yield words, own, plain[1]
            yield words, plain[0], other
            yield words, own, other
    if all(map(_is_text_or_time, types)) and any(map(_are_days, (left, right))):
        cast = "::VARCHAR" if pa.string() in types else ""
        own, other = (_day(each, cast) for each in (left, right))
        if _is_string(right) or (types[1] == pa.date32() and not cast):
            yield _DAYS, own, None
        if _is_string(left) or (types[0] == pa.date32() and not cast):
            yield _DAYS, None, other
        yield _DAYS, own, other


def _day(side: KeySide, cast: str) -> str:
    if _is_string(side):
        return side.of("left({}, 10)")
    return side.of(f"timezone('UTC', {{}})::DATE{cast}" if _zone_of(side) else f"{{}}::DATE{cast}")


def _zone_of(side: KeySide) -> str | None:
    return getattr(side.keys.type, "tz", None)


def _are_days(side: KeySide) -> bool:
    """Whether all keys are days: two times share one by chance."""
    if _is_string(side):
        return bool(pc.all(pc.match_substring_regex(side.keys, r"^\d{4}-\d\d-\d\d$")).as_py())
    return bool(side.keys.equals(side.keys.cast(pa.date32(), safe=False).cast(side.keys.type)))


def _text_of(side: KeySide) -> str:
    return "{}" if _is_string(side) else "{}::VARCHAR"


def _is_string(side: KeySide) -> bool:
    return bool(pa.types.is_string(side.keys.type))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_integer(type_))


def _is_text_or_time(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date)
    return any(kind(type_) for kind in kinds)


class SampledKey(NamedTuple):
    """A key column of a source, as it was planned."""

    plan: SourcePlan
    column: str

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        return self.plan.schema.field(self.column).type

    def sample(self, reject: bool = True, most: int | None = 1) -> KeySide:
        """Returns distinct keys of the first ranges; ``None``: of all."""
        plan = dataclasses.replace(self.plan, ranges=self.plan.ranges[:most])
        chunks = (chunk.batch for chunk in read.read_chunks(plan, reject=reject))
        found = (batch.column(self.column) for batch in chunks if batch.num_rows)
        keys = pa.chunked_array(itertools.islice(found, most), self.type)
        return KeySide(self.column, keys.unique().drop_null())


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


def near_miss(keys: Keys) -> str | None:
    """Tells how keys of one type would match that do not.

    The sample of the left source is its first chunk; the right one is read whole, and is not tried
    if it has several ranges: a key may have its equal further on.
    """
    left, right = keys.left, keys.right
    formats = [format_of(key.plan) for key in (left, right)]
    is_cheap = all(one.has_files and not one.is_file_a_row for one in formats)
    is_cheap = is_cheap and len(right.plan.ranges) == 1
    if left.type != right.type or not (is_cheap and _is_text_or_time(left.type)):
        return None
    try:
        ours, theirs = left.sample(), right.sample(most=None)
    except DataError:
        return None
    forms = best_forms(ours, theirs)
    if forms is None:
        return None
    exact = count_matches(ours.keys, theirs.keys)
    return (
        f"{forms.matched - exact:,} of {len(ours.keys) - exact:,} keys of '{left.column}' in the "
        f"sample that match no '{right.column}' of source '{right.plan.source.name}' would match "
        f"{forms.words}. {_derive_lines(keys, forms)}."
    )


def type_remedy(keys: Keys) -> str:
    """Returns what makes two key columns of different types match.

    As far as it was tried.
    """
    one, other = keys.left.sample(), keys.right.sample()
    zone = _zone_in_files(keys.left) or _zone_in_files(keys.right) or "UTC"
    forms = best_forms(one, other, zone)
    if forms is None:
        of_times = "" if _zone_of(one) == _zone_of(other) else ", such as timezone('UTC', time)"
        return (
            "No key of the sample matches with any expression that was tried. Name other columns, "
            f"or make keys that are alike with 'types' or 'derive' of a source{of_times}."
        )
    return (
        f"{_derive_lines(keys, forms)}, with which {forms.matched:,} of {len(one.keys):,} keys of "
        f"the sample match{' ' if forms.words else ''}{forms.words}."
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


def _zone_in_files(key: SampledKey) -> str | None:
    """Returns the zone that the files have for a column."""
    types = {field.name: field.type for field in nested.flatten_fields(key.plan.file_schema)}
    return getattr(types.get(key.column), "tz", None)
