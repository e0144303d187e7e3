"""Readers of single values of a recipe: each returns what it read, or notes the problem and returns
``None``.

``Keys`` reads a mapping key by key, so that the keys a section knows stand in one place, with their
readers and defaults.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from beam_pipelines.core.errors import Problem, nearest
from beam_pipelines.recipe.lines import Path
from beam_pipelines.recipe.yaml import Scalar, Tree

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
BYTES_FOR_UNIT = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}


class Value(NamedTuple):
    """A part of the recipe with its place, as the readers take it. They add to ``problems`` what
    they find.
    """

    tree: Tree
    path: Path
    problems: list[Problem]

    def wrong(self, message: str, *steps: str | int) -> None:
        """Notes a problem here, or under a key or index."""
        self.problems.append(Problem((*self.path, *steps), message))

    def expected(self, expected: str) -> None:
        """Notes that something else was expected here."""
        self.wrong(f"found {self.shown}, expected {expected}.")

    @property
    def shown(self) -> str:
        """What is here, in an error's words."""
        if isinstance(self.tree, dict):
            return "keys" if self.tree else "an empty mapping"
        if isinstance(self.tree, list):
            return "a list" if self.tree else "an empty list"
        return (
            "nothing" if self.tree.text == "" and self.tree.value is None else f"'{self.tree.text}'"
        )

    def at(self, step: str | int, tree: Tree) -> Value:
        """Returns the part of this one under a key or index."""
        return Value(tree, (*self.path, step), self.problems)

    def items(self) -> list[tuple[str, Value]]:
        """Returns the parts of a mapping by key; of anything else, none."""
        return (
            [(key, self.at(key, tree)) for key, tree in self.tree.items()]
            if isinstance(self.tree, dict)
            else []
        )


class Keys:
    """The keys of a mapping, read one by one; what has not been asked for in the end is unknown."""

    def __init__(self, value: Value, expected: str) -> None:
        self.value = value
        self.asked: list[str] = []
        if not isinstance(value.tree, dict):
            value.expected(expected)

    def get(self, key: str) -> Value | None:
        """Returns what is under a key, which is known from now on, or ``None``."""
        if key not in self.asked:
            self.asked.append(key)
        tree = self.value.tree
        return self.value.at(key, tree[key]) if isinstance(tree, dict) and key in tree else None

    def read(self, key: str, reader: Callable[[Value], T | None], default: T) -> T:
        """Returns what the reader makes of the key's value; the default if the key is not there (or
        its value is wrong).
        """
        value = self.get(key)
        result = None if value is None else reader(value)
        return default if result is None else result

    def need(self, key: str, reader: Callable[[Value], T | None], example: str) -> T | None:
        """Like ``read``, of a key that must be there."""
        value = self.get(key)
        if value is None:
            if isinstance(self.value.tree, dict):
                self.value.wrong(f"found no '{key}', expected one, for example '{key}: {example}'.")
            return None
        return reader(value)

    def finish(self) -> None:
        """Notes every key that was not asked for."""
        for key, value in self.value.items():
            if key not in self.asked:
                hint = nearest(key, self.asked) or f" Known are {', '.join(self.asked)}."
                value.wrong(f"found an unknown key '{key}'.{hint}")


def read_text(value: Value) -> str | None:
    """Any scalar as it was written."""
    if isinstance(value.tree, Scalar) and value.tree.text.strip():
        return value.tree.text
    value.expected("a text")
    return None


def read_texts(value: Value, allow_empty: bool = False) -> tuple[str, ...] | None:
    """One text or a list of different ones. With ``allow_empty`` the list and its texts may be
    empty.
    """
    trees = value.tree if isinstance(value.tree, list) else [value.tree]
    if not all(isinstance(tree, Scalar) and (allow_empty or tree.text.strip()) for tree in trees):
        value.expected("a text or a list of texts")
        return None
    texts = tuple(tree.text for tree in trees if isinstance(tree, Scalar))
    if not texts and not allow_empty:
        value.expected("at least one text")
        return None
    for text in sorted(text for text, number in collections.Counter(texts).items() if number > 1):
        value.wrong(f"found '{text}' more than once, expected it once.")
    return texts


def read_mapping(value: Value) -> dict[str, str] | None:
    """A mapping of texts."""
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'column: …' a line")
        return None
    return {key: text for key, item in value.items() if (text := read_text(item)) is not None}


def read_matching(pattern: re.Pattern[str], allowed: str) -> Callable[[Value], str | None]:
    """Returns a reader of texts of a pattern; ``allowed`` says it in words."""

    def read(value: Value) -> str | None:
        text = read_text(value)
        if text is not None and not pattern.fullmatch(text):
            value.expected(f"{allowed}, beginning with a letter or a digit")
            return None
        return text

    return read


read_name = read_matching(NAME, "letters, digits, '_', '.' and '-'")


def read_choice(known: Iterable[str]) -> Callable[[Value], Any]:
    """Returns a reader of one of several known words."""
    names = list(known)
    listed = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]

    def read(value: Value) -> str | None:
        text = value.tree.text if isinstance(value.tree, Scalar) else ""
        if text in names:
            return text
        value.wrong(f"found {value.shown}, expected {listed}.{nearest(text, names)}")
        return None

    return read


def read_flag(value: Value) -> bool | None:
    """True or false."""
    if isinstance(value.tree, Scalar) and isinstance(value.tree.value, bool):
        return value.tree.value
    value.expected("true or false")
    return None


def read_integer(low: int, high: int | None = None) -> Callable[[Value], int | None]:
    """Returns a reader of whole numbers from ``low`` to ``high``, both included."""
    expected = (
        f"a whole number of at least {low}"
        if high is None
        else f"a whole number from {low} to {high}"
    )

    def read(value: Value) -> int | None:
        found = value.tree.value if isinstance(value.tree, Scalar) else None
        if (
            not isinstance(found, int)
            or isinstance(found, bool)
            or found < low
            or (high is not None and found > high)
        ):
            value.expected(expected)
            return None
        return found

    return read


def read_share(expected: str, includes: Callable[[float], bool]) -> Callable[[Value], float | None]:
    """A number, or a percentage such as ``0.1%``."""

    def read(value: Value) -> float | None:
        text = value.tree.text.strip() if isinstance(value.tree, Scalar) else ""
        share = _share(text)
        if math.isfinite(share) and includes(share):
            return share
        value.expected(expected)
        return None

    return read


def _share(text: str) -> float:
    """Returns the number that is nearest to a decimal or a percentage; NaN if it is neither."""
    try:
        # 7 / 100 and the like would be a bit more or less than what is written.
        return float(decimal.Decimal(text[:-1]) / 100 if text.endswith("%") else text)
    except (ValueError, decimal.InvalidOperation):
        return math.nan


_read_share_of_rows = read_share(
    "a share below 1, as 0.001 or 0.1%, or a whole number of rows, as 100",
    lambda share: 0 <= share < 1,
)


def read_budget(value: Value) -> int | float | None:
    """A whole number of rows, or a share of them."""
    found = value.tree.value if isinstance(value.tree, Scalar) else None
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    return _read_share_of_rows(value)


def read_bytes(value: Value) -> int | None:
    """A number of bytes, with or without a unit."""
    text = value.tree.text.strip() if isinstance(value.tree, Scalar) else ""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    units = {unit.lower(): size for unit, size in BYTES_FOR_UNIT.items()}
    size = (
        round(float(match[1]) * units[match[2].lower()])
        if match and match[2].lower() in units
        else -1
    )
    if size < 1024:
        value.expected("at least 1 KiB, as '128 MiB', '100 MB' or a number of bytes")
        return None
    return size


def read_character(value: Value) -> str | None:
    """One character."""
    text = value.tree.text if isinstance(value.tree, Scalar) else ""
    if len(text) == 1:
        return text
    value.expected(
        "one character" + (', as "\\t" in double quotes' if text.startswith("\\") else "")
    )
    return None


def read_quote(value: Value) -> str | None:
    """One character, or an empty text."""
    return (
        "" if isinstance(value.tree, Scalar) and value.tree.value == "" else read_character(value)
    )


def read_bound(value: Value) -> str | None:
    """A date, a moment or a number, as ISO 8601 or decimal text; a zone is turned into UTC."""
    text = value.tree.text.strip() if isinstance(value.tree, Scalar) else ""
    moment = parse_moment(text)
    if moment is None:
        value.expected(
            "a date (2013-11-01), a moment (2013-11-01T12:00:00, UTC unless it has a zone) or a "
            "number"
        )
        return None
    if isinstance(moment, float) or len(text) == len("2013-11-01"):
        return text
    return moment.isoformat()


def parse_moment(text: str) -> float | datetime.datetime | None:
    """Returns a text as a number or as a moment in UTC without a zone; ``None`` if it is
    neither.
    """
    with contextlib.suppress(ValueError):
        return float(text) if math.isfinite(float(text)) else None
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.fromisoformat(
            text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
        )
        return (
            moment
            if moment.tzinfo is None
            else moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        )
    return None
