"""Readers of single values of a recipe.

A reader takes a ``Value`` and returns what it read, or notes a problem and returns ``None``. It has
the JSON Schema of what it reads.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from beam_pipelines.core.errors import Problem, nearest
from beam_pipelines.recipe.path_dates import fill_date, has_date
from beam_pipelines.recipe.text.lines import Path
from beam_pipelines.recipe.text.yaml import Scalar, Tree

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Unit in small letters -> bytes.
_BYTES = {"": 1, "b": 1} | {
    f"{prefix}{i}b": base**power
    for i, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("kmgtp", 1)
}


def parse_bytes(text: str) -> int:
    """Returns the bytes of a text such as ``1.5 GiB``, or 0."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    return round(float(match[1]) * _BYTES.get(match[2].lower(), 0)) if match else 0


class Value(NamedTuple):
    """A part of the recipe and its place.

    Readers add to ``problems``.
    """

    tree: Tree
    path: Path
    problems: list[Problem]

    def wrong(self, message: str, *steps: str | int) -> None:
        """Notes a problem here, or under a key or index."""
        self.problems.append(Problem((*self.path, *steps), message))

    def wrong_key(self, message: str, meant: str | None = None) -> None:
        """Notes a problem of the key here, and not of its value."""
        self.problems.append(Problem(self.path, message, is_of_key=True, meant=meant))

    def expected(self, expected: str) -> None:
        """Notes that something else was expected here."""
        key = self.path[-1] if self.path else ""
        is_cut = self.shown == "nothing" and f"{key}".count(")") > f"{key}".count("(")
        hint = ' In braces a comma ends a text: put the text before it in quotes, as "f(a, b)".'
        self.wrong(f"found {self.shown}, expected {expected}.{hint if is_cut else ''}")

    @property
    def shown(self) -> str:
        """The value in the words of an error."""
        if isinstance(self.tree, dict):
            return "keys" if self.tree else "an empty mapping"
        if isinstance(self.tree, list):
            return "a list" if self.tree else "an empty list"
        return (
            "nothing" if self.tree.text == "" and self.tree.value is None else f"'{self.tree.text}'"
        )

    @property
    def keys(self) -> set[str]:
        """The keys of a mapping; of anything else, none."""
        return set(self.tree) if isinstance(self.tree, dict) else set()

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


class ValueReader(Generic[T]):
    """Reads a value, or notes a problem and returns ``None``.

    Attributes:
      schema: JSON Schema of what it reads.
    """

    def __init__(self, read: Callable[[Value], T | None], schema: Mapping[str, Any]) -> None:
        self._read = read
        self.schema = schema

    def __call__(self, value: Value) -> T | None:
        return self._read(value)


def reader(**schema: Any) -> Callable[[Callable[[Value], T | None]], ValueReader[T]]:
    """Makes a reader of a function and a JSON Schema."""
    return lambda read: ValueReader(read, schema)


# To YAML, 1, true and null are not strings; a recipe may mean their texts.
TEXT = {"type": ["string", "number", "boolean", "null"]}


@reader(**TEXT)
def read_text(value: Value) -> str | None:
    """Any scalar as it was written."""
    if isinstance(value.tree, Scalar) and value.tree.text.strip():
        return value.tree.text
    value.expected("a text")
    return None


def _texts(value: Value, allow_empty: bool) -> tuple[str, ...] | None:
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


_TEXT_OR_LIST = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}


@reader(**_TEXT_OR_LIST)
def read_texts(value: Value) -> tuple[str, ...] | None:
    """One text or a list of different ones."""
    return _texts(value, allow_empty=False)


@reader(**_TEXT_OR_LIST)
def read_any_texts(value: Value) -> tuple[str, ...] | None:
    """One text or a list of different ones, empty or not."""
    return _texts(value, allow_empty=True)


@reader(**TEXT)
def read_prefix(value: Value) -> str | None:
    """A text that may be empty."""
    return (_texts(value, allow_empty=True) or ("",))[0]


def read_entries(
    value: Value, read: Callable[[Value], T | None], expected: str
) -> dict[str, T] | None:
    """Reads the parts of a mapping, which has one at least.

    Args:
      value: the mapping.
      read: a part; one that it cannot read is left out.
      expected: ends "a mapping, one".
    """
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected(f"a mapping, one {expected}")
        return None
    return {key: found for key, item in value.items() if (found := read(item)) is not None}


@reader(type="object", additionalProperties=TEXT, minProperties=1)
def read_mapping(value: Value) -> dict[str, str] | None:
    """A mapping of texts."""
    return read_entries(value, read_text, "'column: …' a line")


@reader(type=["string", "integer"], pattern=f"^{NAME.pattern}$")
def read_name(value: Value) -> str | None:
    """The name of a dataset or of a feature."""
    text = read_text(value)
    if text is not None and not NAME.fullmatch(text):
        value.expected("letters, digits, '_', '.' and '-', beginning with a letter or a digit")
        return None
    return text


_SUFFIXES = (".tfrecord", ".tfrecord.gz", ".tfrecord.zlib", ".parquet")


@reader(type="string")
def read_shard_name(value: Value) -> str | None:
    """The name of shards, with placeholders for split and date."""
    text = read_text(value)
    if text is None:
        return None
    try:
        has_date(text)
    except ValueError as error:
        value.wrong(f"{error}")
        return None
    filled = fill_date(text.replace("{split}", "train"), datetime.date(2000, 1, 1))
    if not NAME.fullmatch(filled) or text.endswith(_SUFFIXES):
        value.expected(
            "letters, digits, '_', '.' and '-', and the placeholders {split} and {date}, such as "
            "'{split}_ctr_{date}', without a suffix"
        )
        return None
    return text


def read_choice(known: Iterable[str]) -> ValueReader[Any]:
    """Returns a reader of one of several known words."""
    names = list(known)
    listed = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]

    @reader(enum=names)
    def read(value: Value) -> str | None:
        text = value.tree.text if isinstance(value.tree, Scalar) else ""
        if text in names:
            return text
        value.wrong(f"found {value.shown}, expected {listed}.{nearest(text, names)}")
        return None

    return read


@reader(type="boolean")
def read_flag(value: Value) -> bool | None:
    """True or false."""
    if isinstance(value.tree, Scalar) and isinstance(value.tree.value, bool):
        return value.tree.value
    value.expected("true or false")
    return None


def read_integer(low: int, high: int | None = None) -> ValueReader[int]:
    """Returns a reader of whole numbers from ``low`` to ``high``, both included."""
    expected = (
        f"a whole number of at least {low}"
        if high is None
        else f"a whole number from {low} to {high}"
    )

    @reader(type="integer", minimum=low, **({} if high is None else {"maximum": high}))
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


# For editors, which show the message instead of the pattern: a number with or without "%", a size.
_NUMBER_TEXT = r"^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*%?\s*$"
_SIZE_TEXT = r"^\s*[0-9]{1,15}(\.[0-9]+)?\s*([kKmMgGtTpP]?[iI]?[bB])?\s*$"
_SHARE = {"type": ["number", "string"], "minimum": 0, "pattern": _NUMBER_TEXT}


def read_share(expected: str, includes: Callable[[float], bool]) -> ValueReader[float]:
    """Returns a reader of a number or a percentage."""

    @reader(**_SHARE, patternErrorMessage=f"Expected {expected}.")
    def read(value: Value) -> float | None:
        text = value.tree.text.strip() if isinstance(value.tree, Scalar) else ""
        share = _share(text)
        if math.isfinite(share) and includes(share):
            return share
        value.expected(expected)
        return None

    return read


def _share(text: str) -> float:
    """Returns a decimal or a percentage as a number; else NaN."""
    try:
        # As floats, 7 / 100 is not exactly 0.07.
        return float(decimal.Decimal(text[:-1]) / 100 if text.endswith("%") else text)
    except (ValueError, decimal.InvalidOperation):
        return math.nan


_read_share_of_rows = read_share(
    "a share below 1, as 0.001 or 0.1%, or a whole number of rows, as 100",
    lambda share: 0 <= share < 1,
)


read_match = read_share("a share from 0 to 1, as 0.95 or 95%", lambda share: 0 <= share <= 1)
read_fanout = read_share("a number from 1, as 1.2", lambda number: number >= 1)


@reader(**_read_share_of_rows.schema)
def read_budget(value: Value) -> int | float | None:
    """A whole number of rows, or a share of them."""
    found = value.tree.value if isinstance(value.tree, Scalar) else None
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    return _read_share_of_rows(value)


_SIZE = "at least 1 KiB, as '128 MiB', '100 MB' or a number of bytes"


@reader(
    type=["integer", "string"],
    minimum=1024,
    pattern=_SIZE_TEXT,
    patternErrorMessage=f"Expected {_SIZE}.",
)
def read_bytes(value: Value) -> int | None:
    """A number of bytes, with or without a unit."""
    size = parse_bytes(value.tree.text) if isinstance(value.tree, Scalar) else 0
    if size < 1024:
        value.expected(_SIZE)
        return None
    return size


MAX_SIDE = 65_535  # of a JPEG, in pixels


@reader(
    type="array",
    items={"type": "integer", "minimum": 1, "maximum": MAX_SIDE},
    minItems=2,
    maxItems=2,
)
def read_size(value: Value) -> tuple[int, ...] | None:
    """Height and width in pixels."""
    sizes = value.tree if isinstance(value.tree, list) else []
    if len(sizes) != 2:
        value.expected("height and width, as [224, 224]")
        return None
    read = read_integer(1, MAX_SIDE)
    height, width = (read(value.at(index, size)) for index, size in enumerate(sizes))
    return None if height is None or width is None else (height, width)


@reader(**read_mapping.schema)
def read_types(value: Value) -> dict[str, str] | None:
    """Column -> type, as ``columns.parse_type`` reads it."""
    from beam_pipelines.core.arrow.columns import parse_type

    types = read_mapping(value)
    for column, name in (types or {}).items():
        try:
            parse_type(name)
        except ValueError as error:
            value.wrong(f"found {error}", column)
    return types


@reader(anyOf=[*_TEXT_OR_LIST["anyOf"], read_mapping.schema])
def read_on(value: Value) -> tuple[tuple[str, str], ...] | None:
    """Pairs of key columns: ``tailnum``, ``[origin, hour]`` or ``{dest: faa}``."""
    if isinstance(value.tree, dict):
        return tuple((read_mapping(value) or {}).items())
    columns = read_texts(value)
    return None if columns is None else tuple((column, column) for column in columns)
