"""The recipe's joins, by key and by time."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any, Literal, get_args

from beam_pipelines.recipe import keys
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import (
    Value,
    ValueReader,
    read_choice,
    read_fanout,
    read_flag,
    read_match,
    read_on,
    read_prefix,
    read_text,
    reader,
)

JoinHow = Literal["left", "inner", "semi", "anti"]
JoinStrategy = Literal["auto", "broadcast", "hash"]
_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_MOST_MICROSECONDS = 1 << 60
_DURATION = rf"[0-9]+ *(?:{'|'.join(_MICROSECONDS)})"
_DURATIONS = "a duration, as 30s, 15min, 1h, 7d or 2w"


def parse_duration(text: str) -> int:
    """Returns the microseconds of a text such as ``7d``, or 0."""
    if not re.fullmatch(_DURATION, text.strip()):
        return 0
    number, unit = re.findall("[0-9]+|[a-z]+", text)
    microseconds = int(number) * _MICROSECONDS[unit]
    return microseconds if microseconds <= _MOST_MICROSECONDS else 0


@reader(type="string", pattern=f"^{_DURATION}$", patternErrorMessage=f"Expected {_DURATIONS}.")
def read_duration(value: Value) -> int | None:
    """A duration with a unit, in microseconds."""
    found = parse_duration(value.tree.text) if isinstance(value.tree, Scalar) else 0
    if not found:
        value.expected(_DURATIONS)
        return None
    return found


@dataclasses.dataclass(frozen=True)
class Timed:
    """The times of both sides; a row meets no later ones."""

    left: str = keys.needed_key(read_text, "Time of the rows so far.", "time")
    right: str = keys.needed_key(read_text, "Time of the source's rows.", "time")
    tie: str | None = keys.recipe_key(
        read_text,
        None,
        "none",
        "Column of the source that orders rows with equal key and time.",
        omitted=True,
    )


@dataclasses.dataclass(frozen=True)
class AsOf(Timed):
    """The newest row of the source at a time."""

    tolerance: int | None = keys.recipe_key(
        read_duration, None, "any age", "Most time from the source's row to the left row."
    )
    exact: bool = keys.recipe_key(
        read_flag, True, "`true`", "Whether a row at exactly the left row's time is taken."
    )


def _section(kind: type[Any], expected: str) -> ValueReader[Any]:
    """Returns the reader of a section with needed keys."""

    def read(value: Value) -> Any:
        return kind(**{"left": "", "right": "", **keys.read_keys(kind, value, expected)})

    return ValueReader(read, keys.json_schema(kind))


@dataclasses.dataclass(frozen=True)
class Join:
    """A join of the rows so far with another source."""

    source: str = keys.needed_key(read_text, "Name of the right source.", "planes")
    on: tuple[tuple[str, str], ...] = keys.needed_key(
        read_on, "Key columns: pairs (left column, right column).", "tailnum"
    )
    how: JoinHow = keys.recipe_key(
        read_choice(get_args(JoinHow)),
        "left",
        "`left`",
        "left keeps unmatched left rows with nulls, inner drops them; semi and anti keep the left "
        "rows with and without a match, and add no columns.",
    )
    prefix: str = keys.recipe_key(
        read_prefix,
        "",
        "none",
        "Put before the names of the right source's columns. Its key columns are not added.",
    )
    strategy: JoinStrategy = keys.recipe_key(
        read_choice(get_args(JoinStrategy)),
        "auto",
        "`auto`",
        "auto decides by the right source's size.",
    )
    require_match: float | None = keys.recipe_key(
        read_match, None, "an error if none match", "Least share of left rows with a match."
    )
    max_fanout: float | None = keys.recipe_key(
        read_fanout,
        None,
        "a warning if rows are added",
        "Most rows that a left row with a match becomes, on average.",
    )
    as_of: AsOf | None = keys.recipe_key(
        _section(AsOf, "a mapping such as {left: time, right: valid_from}"),
        None,
        "rows of all times",
        "Joins the newest row of the source at the left row's time.",
        omitted=True,
    )

    @property
    def timed(self) -> AsOf | None:
        """The times of the join, or ``None``."""
        return self.as_of

    @property
    def reach(self) -> int | None:
        """Microseconds before a row that it looks back; ``None``: any time."""
        return None if self.as_of is None else self.as_of.tolerance

    @property
    def left_on(self) -> tuple[str, ...]:
        """The key columns on the left."""
        return tuple(left for left, _ in self.on)

    @property
    def right_on(self) -> tuple[str, ...]:
        """The key columns of the right source."""
        return tuple(right for _, right in self.on)

    @property
    def left_keys(self) -> tuple[str, ...]:
        """The left columns without whose values a row matches nothing."""
        return self.left_on if self.timed is None else (*self.left_on, self.timed.left)

    @property
    def words(self) -> str:
        """What the times of the join are, for the plan."""
        if self.timed is None:
            return ""
        sign = "<=" if self.timed.exact else "<"
        reach = self.reach
        age = "" if reach is None else f", at most {datetime.timedelta(microseconds=reach)} old"
        return f" as of {self.timed.right} {sign} {self.timed.left}{age}"

    @property
    def adds_columns(self) -> bool:
        """Whether the rows get columns of the source."""
        return self.how in ("left", "inner")
