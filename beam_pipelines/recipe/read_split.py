"""Reads ``split:``, by shares, hash buckets, time or files."""

from __future__ import annotations

import fractions
import itertools
import math
import re
from typing import Any

from beam_pipelines.recipe.keys import check_known, keys_of, read_keys
from beam_pipelines.recipe.splits import Split, TimeSplit
from beam_pipelines.recipe.values import Value, parse_moment, read_integer, read_share, read_text

READ_BUCKETS = read_integer(1, 1_000_000)
READ_PART = read_share("a share above 0 and at most 1, as 0.8 or 80%", lambda share: 0 < share <= 1)
# TFX's rule for the names of splits.
SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def read_split(value: Value) -> Split | None:
    """Reads the splits; their values tell the kind."""
    if not isinstance(value.tree, dict):
        value.expected("a mapping such as {train: 0.8, eval: 0.2}")
        return None
    keys = {declared.name: declared for declared in keys_of(Split).values()}
    given = {name: keys[name].read(item) for name, item in value.items() if name in keys}
    by, column = given.get("by") or (), given.get("column")
    parts = [(name, item) for name, item in value.items() if name not in keys]
    if not parts and "folds" not in given:
        value.wrong("found no splits, expected at least one, as {train: 0.8, eval: 0.2}.")
        return None
    for name, item in parts:
        if not SPLIT_NAME.fullmatch(name):
            item.wrong(
                f"found the split name '{name}', expected letters, digits, '_' and '-' (TFX's "
                "rule)."
            )
    kinds = {_split_kind(item) for _, item in parts} or {"share"}
    if len(kinds) > 1:
        value.wrong(
            "found several kinds of split, expected all by share, all by buckets, all by time or "
            "all by files."
        )
        return None
    kind = kinds.pop()
    _check_split_keys(value, kind)
    if kind == "share":
        folds = given.get("folds")
        return Split(fractions=_fractions(value, parts, folds), **_of_shares(given))
    of_kind: dict[str, Any] = {
        "time": lambda: {"time_column": column, "times": _times(value, parts)},
        "files": lambda: {"files": _patterns(parts)},
        "buckets": lambda: {"buckets": _buckets(value, parts, by), "by": by},
    }
    return Split(fractions={}, **of_kind[kind]())


def _of_shares(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the keys that go with shares only, and ``by``."""
    names = ("by", "stratify", "folds", "seed")
    return {name: given[name] for name in names if given.get(name) is not None}


def _check_split_keys(value: Value, kind: str) -> None:
    """Notes keys that the kind of split lacks or does not take."""
    given = value.keys
    if "by" in given and kind not in ("share", "buckets"):
        value.wrong(
            "found 'by' with a split that is not by shares, expected it with shares only.", "by"
        )
    for key in ("stratify", "folds", "seed"):
        if key in given and kind != "share":
            value.wrong(
                f"found '{key}' with a split that is not by shares, expected it with shares only.",
                key,
            )
    if "column" in given and kind != "time":
        value.wrong(
            "found 'column' without times, expected {column: date, train: {before: "
            "2013-11-01}, …}.",
            "column",
        )
    if "column" not in given and kind == "time":
        value.wrong(
            "found 'before' and 'after' without 'column', expected the column that is compared."
        )


def _split_kind(value: Value) -> str:
    if not isinstance(value.tree, dict):
        return "share"
    return next((kind for kind in ("files", "buckets") if kind in value.tree), "time")


def _fractions(
    value: Value, parts: list[tuple[str, Value]], folds: int | None = None
) -> dict[str, float]:
    shares = {name: share for name, item in parts if (share := READ_PART(item)) is not None}
    total = math.fsum(shares.values())
    if folds is not None:
        return shares | _fold_shares(value, shares, folds)
    if len(shares) == len(parts) and abs(total - 1) > 1e-9:
        value.wrong(f"found shares that add up to {total:.10g}, expected 1.")
    return shares


def _fold_shares(value: Value, shares: dict[str, float], folds: int) -> dict[str, float]:
    """Returns the splits of folds, which divide what the shares leave."""
    rest = 1 - sum((fractions.Fraction(repr(share)) for share in shares.values()), start=0)
    if rest <= 0:
        value.wrong(
            "found shares that leave no rows to the folds, expected less than 1 in all, as "
            "{test: 0.2, folds: 5}.",
            "folds",
        )
        return {}
    names = [f"fold_{number}" for number in range(folds)]
    for name in shares.keys() & set(names):
        value.wrong(f"found '{name}' with 'folds', which makes a split of this name.", name)
    return dict.fromkeys(names, float(rest / folds))


def _buckets(value: Value, parts: list[tuple[str, Value]], by: tuple[str, ...]) -> dict[str, int]:
    if len(by) > 1:
        value.wrong(
            "found several columns, expected one column: TFX's partition_feature_name.", "by"
        )
    found = {}
    for name, item in parts:
        given = dict(item.items())
        check_known(given, ["buckets"])
        if (number := READ_BUCKETS(given["buckets"])) is not None:
            found[name] = number
    return found


def _patterns(parts: list[tuple[str, Value]]) -> dict[str, str]:
    return {name: pattern for name, item in parts if (pattern := _pattern(item))}


def _pattern(value: Value) -> str | None:
    given = dict(value.items())
    check_known(given, ["files"])
    return read_text(given["files"])


def _times(value: Value, parts: list[tuple[str, Value]]) -> tuple[TimeSplit, ...]:
    times = []
    for name, item in parts:
        expected = "a mapping such as {before: 2013-11-01}"
        times.append(TimeSplit(name, **read_keys(TimeSplit, item, expected)))
        if not {"after", "before"} & item.keys:
            item.wrong("found neither 'before' nor 'after', expected at least one.")
    _check_bounds(value, times)
    return tuple(times)


def _check_bounds(value: Value, times: list[TimeSplit]) -> None:
    """Notes bounds of different kinds, empty splits and overlaps."""
    bounds: dict[str, Any] = {
        text: parse_moment(text)
        for time in times
        for text in (time.after, time.before)
        if text is not None
    }
    if len({type(moment) for moment in bounds.values()}) > 1:
        value.wrong("found dates and numbers as bounds, expected all of one kind.")
        return
    ranges = []
    for time in times:
        after = None if time.after is None else bounds[time.after]
        before = None if time.before is None else bounds[time.before]
        if after is not None and before is not None and after >= before:
            value.wrong(
                f"found after {time.after} and before {time.before}, which holds nothing: 'after' "
                "is the earlier one.",
                time.name,
            )
            continue
        ranges.append((time.name, after, before))
    for (left, left_after, left_before), (
        right,
        right_after,
        right_before,
    ) in itertools.combinations(ranges, 2):
        left_ends = (
            left_before is not None and right_after is not None and left_before <= right_after
        )
        right_ends = (
            right_before is not None and left_after is not None and right_before <= left_after
        )
        if not left_ends and not right_ends:
            value.wrong(
                f"found splits '{left}' and '{right}' that overlap, expected every moment in one "
                "split only."
            )
