"""Finds SQL expressions with which the keys of a sample match."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.sql.database import ExpressionError, identifier
from beam_pipelines.sql.expressions import evaluate, parse_expression

# What texts are compared by; "{}" stands for the key.
_OF_TEXTS = {
    "without blanks around them": "trim({})",
    "without white space around them": r"regexp_replace({}, '^[\s\pZ]+|[\s\pZ]+$', '', 'g')",
    "in lower case": "lower({})",
    "without leading zeros": r"regexp_replace({}, '^0+(.)', '\1')",
    "in Unicode's form NFC": "nfc_normalize({})",
}
_TOGETHER = tuple(words for words in _OF_TEXTS if "white space" not in words)
# Tried where no key matches: a few would match by chance.
_OF_ALL = {
    "by their letters and digits": r"lower(regexp_replace({}, '[^\pL\pN]+', '', 'g'))",
    "without what is before their digits": r"regexp_replace({}, '^[^0-9]+([0-9]+)$', '\1')",
}
DAYS = "by their day"
_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
# Casts that keep values apart.
_CASTS = {
    (pa.int64(), pa.string()): "{}::VARCHAR",
    (pa.bool_(), pa.string()): "{}::VARCHAR",
    (pa.date32(), pa.string()): "{}::VARCHAR",
    (pa.bool_(), pa.int64()): "{}::BIGINT",
    (pa.int64(), pa.float64()): "{}::DOUBLE",
    (pa.float32(), pa.float64()): "{}::DOUBLE",
    (pa.date32(), pa.timestamp("us")): "{}::TIMESTAMP",
    (pa.string(), pa.binary()): "encode({})",
}
# Times of integers.
_TIMES = {
    "as seconds since 1970": "make_timestamp({} * 1000000)",
    "as milliseconds since 1970": "make_timestamp({} * 1000)",
    "as microseconds since 1970": "make_timestamp({})",
    "as digits of days": "try_strptime({}::VARCHAR, '%Y%m%d')",
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


def best_forms(left: KeySide, right: KeySide, exact: int) -> Forms | None:
    """Returns the expressions with which most keys match.

    Of several, it returns those of one side, and those that change less.

    Args:
      left, right: the key columns.
      exact: left keys that match without an expression.

    Returns:
      ``None`` if no more keys match.
    """
    forms = _tried(left, right, _pairs(left, right, exact))
    best = max(forms, key=lambda each: each.matched, default=None)
    return None if best is None or best.matched <= exact else best


def best_zone(left: KeySide, right: KeySide, zones: Iterable[str]) -> Forms:
    """Returns the zone with which most times match."""
    pairs: list[_Pair] = []
    for zone in dict.fromkeys(zones):
        sql = f"timezone('{zone}', {{}})"
        is_left = left.keys.type.tz is None
        pairs.append((zone, left.of(sql) if is_left else None, None if is_left else right.of(sql)))
    return max(_tried(left, right, pairs), key=lambda each: each.matched)


def _tried(left: KeySide, right: KeySide, pairs: Iterable[_Pair]) -> list[Forms]:
    """Returns the matches of expressions, those of one side first."""
    ours, theirs = functools.cache(left.values), functools.cache(right.values)
    ordered = sorted(pairs, key=lambda pair: pair[1:].count(None), reverse=True)
    return [Forms(*pair, count_matches(ours(pair[1]), theirs(pair[2]))) for pair in ordered]


def count_matches(keys: pa.Array, others: pa.Array) -> int:
    """Returns how many keys are among others."""
    if keys.type != others.type:
        return 0
    return pc.sum(pc.is_in(keys.filter(keys.is_valid()), value_set=others)).as_py() or 0


def _pairs(left: KeySide, right: KeySide, exact: int) -> Iterator[_Pair]:
    """Yields words and expressions to try; those that change more come later."""
    types = left.keys.type, right.keys.type
    if types in _CASTS:
        yield "", left.of(_CASTS[types]), None
    if types[::-1] in _CASTS:
        yield "", None, right.of(_CASTS[types[::-1]])
    if pa.int64() in types and any(map(_is_time, types)):
        is_left = types[0] == pa.int64()
        time = types[is_left]
        form = "{}::DATE" if pa.types.is_date(time) else "{}"
        form = "timezone('UTC', {})" if getattr(time, "tz", None) else form
        for words, template in _TIMES.items():
            sql = form.replace("{}", template)
            yield words, left.of(sql) if is_left else None, None if is_left else right.of(sql)
    if all(map(_is_text, types)) and pa.string() in types:
        together = functools.reduce(
            lambda sql, words: _OF_TEXTS[words].replace("{}", sql), _TOGETHER, "{}"
        )
        changes = {**_OF_TEXTS, ", ".join(_TOGETHER): together, **({} if exact else _OF_ALL)}
        for words, template in changes.items():
            own, other = (each.of(_with_text(template, each)) for each in (left, right))
            yield words, own, _plain(right)
            yield words, _plain(left), other
            yield words, own, other
    if all(_is_text(type_) or _is_time(type_) for type_ in types):
        yield from _days(left, right)


def _days(left: KeySide, right: KeySide) -> Iterator[_Pair]:
    """Yields expressions of days; times of both sides share days by chance."""
    sides = left, right
    if pa.int64() in (left.keys.type, right.keys.type) or not any(map(_are_days, sides)):
        return
    has_text = any(pa.types.is_string(each.keys.type) for each in sides)
    cast = "::VARCHAR" if has_text else ""
    own, other = (_day(each, cast) for each in sides)
    if pa.types.is_string(right.keys.type) or (right.keys.type == pa.date32() and not cast):
        yield DAYS, own, None
    if pa.types.is_string(left.keys.type) or (left.keys.type == pa.date32() and not cast):
        yield DAYS, None, other
    yield DAYS, own, other


def _day(side: KeySide, cast: str) -> str:
    if pa.types.is_string(side.keys.type):
        return side.of("left({}, 10)")
    zoned = pa.types.is_timestamp(side.keys.type) and side.keys.type.tz is not None
    return side.of(f"timezone('UTC', {{}})::DATE{cast}" if zoned else f"{{}}::DATE{cast}")


def _are_days(side: KeySide) -> bool:
    keys = side.keys
    if pa.types.is_string(keys.type):
        return bool(pc.all(pc.match_substring_regex(keys, _DAY)).as_py())
    return bool(keys.equals(keys.cast(pa.date32(), safe=False).cast(keys.type)))


def _with_text(template: str, side: KeySide) -> str:
    return template if pa.types.is_string(side.keys.type) else template.replace("{}", "{}::VARCHAR")


def _plain(side: KeySide) -> str | None:
    """Returns the key as text."""
    return None if pa.types.is_string(side.keys.type) else side.of("{}::VARCHAR")


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_integer(type_))


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))
