"""An encoding for each column, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.profile.columns import ColumnProfile, Role
from beam_pipelines.core.formatting import shorten

# A distribution with a longer tail than this is brought into shape by its quantiles.
_SKEWED = 2.0
_FEW_NUMBERS = 12
_MOSTLY_NULL = 0.9
# Below this a whole number may be a year, which has no comma.
_NO_YEAR = 10_000
_DAY_MICROSECONDS = 86_400_000_000
_WORDS = 10_000
_SHOWN_CHARACTERS = 20


class Proposal(NamedTuple):
    """An encoding of a column.

    Attributes:
      name: of the column.
      encoding: as YAML; empty: the column stays as it is.
      reason: one line.
      choice: a decision that is open; or empty.
    """

    name: str
    encoding: str
    reason: str
    choice: str = ""


def propose_encodings(
    columns: Iterable[ColumnProfile], label: str | None, skipped: Iterable[str] = ()
) -> list[Proposal]:
    """Returns an encoding for each column.

    Args:
      columns: of the rows after joins.
      label: name of the label, which is encoded only if it is a text.
      skipped: columns to leave alone, such as parts of sparse tensors.
    """
    chosen = [column for column in columns if column.name not in {*skipped}]
    taken = {column.name for column in chosen}
    return [
        _of_label(column) if column.name == label else _PROPOSE[column.role](column, taken)
        for column in chosen
    ]


def _of_label(column: ColumnProfile) -> Proposal:
    classes = f"the label: {column.distinct:,} classes{_shown(column)}"
    if column.is_text:
        return Proposal(column.name, "vocabulary", classes)
    is_class = column.role in (Role.FLAG, Role.CATEGORY)
    return Proposal(column.name, "", classes if is_class else f"the label: {_range(column)}")


def _drop(column: ColumnProfile, _: set[str]) -> Proposal:
    reasons = {
        Role.EMPTY: f"{column.present or 'none'} of {column.rows:,} rows have a value",
        Role.CONSTANT: f"always {_text(column.values[0].as_py())}" if column.distinct else "",
        Role.IDENTIFIER: "names the row: nearly every one has its own value",
    }
    return Proposal(column.name, "drop", reasons[column.role])


def _flag(column: ColumnProfile, taken: set[str]) -> Proposal:
    steps = [*_filled(column, "most_frequent", taken), "{cast: float32}"]
    return Proposal(column.name, _chain(steps), f"two values{_shown(column)}{_nulls(column)}")


def _moment(column: ColumnProfile, taken: set[str]) -> Proposal:
    values = column.values
    parts = [
        part
        for part, has_several in (
            ("year", pc.year),
            ("month", pc.month),
            ("weekday", pc.day_of_week),
            ("hour", pc.hour if pa.types.is_timestamp(column.type) else None),
        )
        if has_several is not None
        and len(pc.unique(has_several(values))) > 1
        and f"{column.name}_{part}" not in taken
    ] or ["weekday"]
    shown = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    low, high = column.range
    return Proposal(column.name, f"{{date_parts: {shown}}}", f"{low} to {high}{_nulls(column)}")


def _time(column: ColumnProfile, _: set[str]) -> Proposal:
    low, high = column.range
    return Proposal(
        column.name, f"{{cyclic: {_DAY_MICROSECONDS}}}", f"times of day, {low} to {high}"
    )


def _number(column: ColumnProfile, taken: set[str]) -> Proposal:
    is_skewed = abs(column.skewness) > _SKEWED and column.distinct > _FEW_NUMBERS
    steps = [*_filled(column, "median", taken), "quantile_normal" if is_skewed else "z_score"]
    tail = f", skewed ({column.skewness:.1f})" if is_skewed else ""
    choice = ""
    if column.is_integer and column.distinct <= _FEW_NUMBERS:
        choice = f"vocabulary, if its {column.distinct} numbers are names of classes"
    if column.nulls > _MOSTLY_NULL * column.rows:
        choice = f"drop, as {_percent(column.nulls / column.rows)} of the rows lack it"
    return Proposal(
        column.name,
        _chain(steps),
        f"{_range(column)}{tail}{_nulls(column)}",
        choice,
    )


def _category(column: ColumnProfile, _: set[str]) -> Proposal:
    vocabulary = f"{{vocabulary: {{top_k: {_round_up(column.distinct)}, num_oov: 1}}}}"
    fill = ["{fill: unknown}"] if column.may_lack and column.is_text else []
    reason = f"{column.distinct:,} values{_shown(column)}{_nulls(column)}"
    return Proposal(column.name, _chain([*fill, vocabulary]), reason)


def _many(column: ColumnProfile, _: set[str]) -> Proposal:
    fill = ["{fill: unknown}"] if column.may_lack and column.is_text else []
    buckets = f"{{hash_bucket: {_round_up(4 * column.distinct)}}}"
    reason = f"{column.distinct:,} values in {column.present:,} rows{_nulls(column)}"
    return Proposal(column.name, _chain([*fill, buckets]), reason)


def _prose(column: ColumnProfile, _: set[str]) -> Proposal:
    steps = ["{tokenize: {lower: true}}", f"{{vocabulary: {{top_k: {_WORDS}, num_oov: 1}}}}"]
    return Proposal(column.name, _chain(steps), f"texts of {column.words:.0f} words on average")


def _list(column: ColumnProfile, _: set[str]) -> Proposal:
    item = getattr(column.type, "value_type", None)
    if item is not None and (pa.types.is_string(item) or pa.types.is_large_string(item)):
        vocabulary = f"{{vocabulary: {{top_k: {_WORDS}, num_oov: 1}}}}"
        return Proposal(column.name, vocabulary, "lists of texts")
    return Proposal(column.name, "", "lists")


def _bytes(column: ColumnProfile, _: set[str]) -> Proposal:
    return Proposal(column.name, "", "bytes")


_PROPOSE: dict[Role, Callable[[ColumnProfile, set[str]], Proposal]] = {
    Role.EMPTY: _drop,
    Role.CONSTANT: _drop,
    Role.IDENTIFIER: _drop,
    Role.FLAG: _flag,
    Role.MOMENT: _moment,
    Role.TIME: _time,
    Role.NUMBER: _number,
    Role.CATEGORY: _category,
    Role.MANY: _many,
    Role.PROSE: _prose,
    Role.LIST: _list,
    Role.BYTES: _bytes,
}


def _filled(column: ColumnProfile, value: str, taken: set[str]) -> list[str]:
    """Returns the step that fills nulls, if there are any.

    The feature that says where they were needs a name that is free.
    """
    if not column.may_lack:
        return []
    missing = f"{column.name}_missing"
    if missing in taken:
        return [f"{{fill: {value}}}"]
    return [f"{{fill: {{value: {value}, missing: true}}}}"]


def _chain(steps: list[str]) -> str:
    return steps[0] if len(steps) == 1 else f"[{', '.join(steps)}]"


def _round_up(number: int) -> int:
    """Returns the next of 100, 1,000, …: room for new values."""
    size = 100
    while size < number:
        size *= 10
    return size


def _range(column: ColumnProfile) -> str:
    low, high = column.range
    return f"{_number_text(low)} to {_number_text(high)}"


def _number_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if abs(value) >= _NO_YEAR else f"{value}"


def _nulls(column: ColumnProfile) -> str:
    return f", {_percent(column.nulls / column.rows)} null" if column.nulls else ""


def _shown(column: ColumnProfile) -> str:
    shown = ", ".join(
        f"{_text(value)} {_percent(share)}" if share >= 0.01 else _text(value)
        for value, share in column.top
    )
    return f": {shown}{', …' if column.distinct > len(column.top) else ''}"


def _percent(share: float) -> str:
    if share < 0.01:
        return "under 1%"
    return f"{share:.0%}" if share <= 0.99 or share == 1 else "over 99%"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shorten(text, _SHOWN_CHARACTERS)
