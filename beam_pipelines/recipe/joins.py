"""The recipe's joins, by key and by time."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from beam_pipelines.recipe import keys, values
from beam_pipelines.recipe.text.yaml import Scalar

JoinHow = Literal["left", "inner", "semi", "anti"]
JoinStrategy = Literal["auto", "broadcast", "hash"]
FeatureKind = Literal[
    "count", "count_distinct", "first", "last", "max", "mean", "min", "std", "sum"
]
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
_FEATURE = re.compile(
    rf"({'|'.join(get_args(FeatureKind))}) *\( *([^(),]*?) *(?:, *([0-9]+) *)?\)"
    rf"(?: +over +({_DURATION}))?"
)
_DURATIONS = "a duration, as 30s, 15min, 1h, 7d or 2w"


class WindowFeature(NamedTuple):
    """A feature that is made of a window of rows.

    Attributes:
      kind: what is computed.
      column: of the source; empty: ``count`` counts rows.
      most: values of a list, of ``last`` alone; ``None``: one value.
      over: microseconds of the window; ``None``: the whole past.
    """

    kind: FeatureKind
    column: str
    most: int | None
    over: int | None


def parse_feature(text: str, over: int | None = None) -> WindowFeature | None:
    """Returns the feature of a text such as ``sum(price) over 7d``.

    Args:
      text: of the recipe.
      over: of a text without ``over``.

    Returns:
      ``None`` if it is none.
    """
    found = _FEATURE.fullmatch(text.strip())
    if found is None:
        return None
    kind, column, most, own = found.groups()
    if (not column and kind != "count") or (most and (kind != "last" or not int(most))):
        return None
    return WindowFeature(kind, column, most and int(most), parse_duration(own) if own else over)  # type: ignore[arg-type]


def parse_duration(text: str) -> int:
    """Returns the microseconds of a text such as ``7d``, or 0."""
    if not re.fullmatch(_DURATION, text.strip()):
        return 0
    number, unit = re.findall("[0-9]+|[a-z]+", text)
    microseconds = int(number) * _MICROSECONDS[unit]
    return microseconds if microseconds <= _MOST_MICROSECONDS else 0


@values.reader(
    type="string", pattern=f"^{_DURATION}$", patternErrorMessage=f"Expected {_DURATIONS}."
)
def read_duration(value: values.Value) -> int | None:
    """A duration with a unit, in microseconds."""
    found = parse_duration(value.tree.text) if isinstance(value.tree, Scalar) else 0
    if not found:
        value.expected(_DURATIONS)
        return None
    return found


@values.reader(type="object", additionalProperties=values.TEXT, minProperties=1)
def read_features(value: values.Value) -> dict[str, str] | None:
    """Feature -> what its window becomes."""
    return values.read_entries(value, _feature, "'feature: count()' a line")


def _feature(value: values.Value) -> str | None:
    text = value.tree.text if isinstance(value.tree, Scalar) else ""
    if parse_feature(text) is None:
        value.expected(
            "count(), last(column), a list as last(column, 50), or another of "
            f"{', '.join(get_args(FeatureKind))} of a column, each also with a window of its own, "
            "as 'sum(price) over 7d'"
        )
        return None
    return text


@dataclasses.dataclass(frozen=True)
class Timed:
    """The times of both sides; a row meets no later ones."""

    left: str = keys.needed_key(values.read_text, "Time of the rows so far.", "time")
    right: str = keys.needed_key(values.read_text, "Time of the source's rows.", "time")
    tie: str | None = keys.plain_key(
        values.read_text,
        None,
        "Column of the source that orders rows with equal key and time.",
        omitted=True,
    )


@dataclasses.dataclass(frozen=True)
class AsOf(Timed):
    """The newest row of the source at a time."""

    tolerance: int | None = keys.recipe_key(
        read_duration, None, "any age", "Most time from the source's row to the left row."
    )
    exact: bool = keys.plain_key(
        values.read_flag, True, "Whether a row at exactly the left row's time is taken."
    )


@dataclasses.dataclass(frozen=True)
class Window(Timed):
    """The rows of the source in some time before a row."""

    over: int | None = keys.recipe_key(
        read_duration, None, "the whole past", "Time before the left row, its begin included."
    )
    exact: bool = keys.plain_key(
        values.read_flag, False, "Whether rows at exactly the left row's time are in it."
    )


def _section(kind: type[Any], expected: str) -> values.ValueReader[Any]:
    """Returns the reader of a section with needed keys."""

    def read(value: values.Value) -> Any:
        return kind(**{"left": "", "right": "", **keys.read_keys(kind, value, expected)})

    return values.ValueReader(read, keys.json_schema(kind))


@dataclasses.dataclass(frozen=True)
class Join:
    """A join of the rows so far with another source."""

    source: str = keys.needed_key(values.read_text, "Name of the right source.", "planes")
    on: tuple[tuple[str, str], ...] = keys.needed_key(
        values.read_on, "Key columns: pairs (left column, right column).", "tailnum"
    )
    how: JoinHow = keys.plain_key(
        values.read_choice(get_args(JoinHow)),
        "left",
        "left keeps unmatched left rows with nulls, inner drops them; semi and anti keep the left "
        "rows with and without a match, and add no columns.",
    )
    prefix: str = keys.plain_key(
        values.read_prefix,
        "",
        "Put before the names of the right source's columns. Its key columns are not added.",
    )
    strategy: JoinStrategy = keys.plain_key(
        values.read_choice(get_args(JoinStrategy)),
        "auto",
        "auto decides by the right source's size.",
    )
    require_match: float | None = keys.recipe_key(
        values.read_match, None, "an error if none match", "Least share of left rows with a match."
    )
    max_fanout: float | None = keys.recipe_key(
        values.read_fanout,
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

    window: Window | None = keys.recipe_key(
        _section(Window, "a mapping such as {left: time, right: time, over: 7d}"),
        None,
        "rows of all times",
        "Joins what `features` makes of the source's rows before the left row's time.",
        omitted=True,
    )
    features: Mapping[str, str] = keys.plain_key(
        read_features, {}, "New column: what it is of a `window`.", omitted=True
    )

    @property
    def timed(self) -> AsOf | Window | None:
        """The times of the join, or ``None``."""
        return self.as_of or self.window

    @property
    def reach(self) -> int | None:
        """Microseconds before a row that it looks back; ``None``: any time."""
        if self.as_of is not None:
            return self.as_of.tolerance
        own = None if self.window is None else self.window.over
        overs = [feature.over for feature in self.parsed.values()] or [own]
        return None if None in overs else max(filter(None, overs))

    @property
    def parsed(self) -> dict[str, WindowFeature]:
        """Name in the result -> feature of a window."""
        over = None if self.window is None else self.window.over
        features = ((name, parse_feature(text, over)) for name, text in self.features.items())
        return {self.prefix + name: feature for name, feature in features if feature is not None}

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
        """The condition of times, as the plan shows it."""
        if self.timed is None:
            return ""
        sign = "<=" if self.timed.exact else "<"
        reach = self.reach
        span = str(datetime.timedelta(microseconds=reach or 0)).removesuffix(", 0:00:00")
        age = "" if reach is None else f", at most {span} old"
        return f" as of {self.timed.right} {sign} {self.timed.left}{age}"

    @property
    def adds_columns(self) -> bool:
        """Whether the rows get columns of the source."""
        return self.how in ("left", "inner")


def check_join(value: values.Value, join: Join) -> None:
    """Notes keys of a join that contradict each other."""
    if join.as_of and join.window:
        value.wrong("found 'as_of' and 'window', expected one of them.", "window")
    if join.window and "features" not in value.keys and join.adds_columns:
        value.wrong("found no 'features', expected some, for example 'features: {n: count()}'.")
    if join.features and not (join.window and join.adds_columns):
        why = "without 'window'" if not join.window else f"in a {join.how} join"
        value.wrong_key(f"found 'features' {why}, which have no rows to be made of. Remove them.")
