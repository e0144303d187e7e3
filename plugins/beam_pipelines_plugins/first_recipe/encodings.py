"""An encoding for each column, with the reason."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sql.database import identifier
from beam_pipelines_plugins.first_recipe.column_profile import MANY_VALUES, ColumnProfile, Role
from beam_pipelines_plugins.first_recipe.joins import words_of

# A distribution with a longer tail than this is brought into shape by its quantiles.
_SKEWED = 2.0
_FEW_NUMBERS = 12
_MOSTLY_NULL, _MOSTLY_DECIMAL = 0.9, 0.5
# With a currency or a unit.
_DECIMAL = r"^[-+(]?\p{Sc}?[0-9][0-9,]*\.[0-9]+ ?[\pL%°\p{Sc}]{0,4}\)?$"
# Below this a whole number may be a year, which has no comma.
_NO_YEAR = 10_000
_DAY_MICROSECONDS = 86_400_000_000
_WORDS = 10_000
_NAMES = (Role.CATEGORY, Role.MANY)
_SAME_NAMES = "vocabulary, if the numbers are names of classes"
_BIRTH = re.compile(r"birth|born|(?:^|[^a-z])dob$", re.IGNORECASE)
# Amounts, which are no names.
_AMOUNTS = re.compile(
    "n|num|cnt|count|counts|qty|quantity|amount|number|total|sum|age|year|years|month|months|"
    "days|hours|minutes|pct|percent|discount|rooms|bedrooms|bathrooms|floors|children|"
    "siblings|score|rating|stars|scale|nps|satisfaction|size|length|width|height|weight|"
    "price|cost|retweets|likes|views|visits|medications|items|orders|clicks"
)
# Names of columns whose numbers may be names.
_NAMES_THINGS = re.compile(
    "id|ids|code|codes|zip|zipcode|postal|postcode|area|tract|region|district|block|county|"
    "fips|phone|fax|year|type|class|category|group|number|num|no|nr|key"
)
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
    columns: Iterable[ColumnProfile],
    label: str | None,
    skipped: Iterable[str] = (),
    grouped: str = "",
    split_time: str | None = None,
) -> list[Proposal]:
    """Returns an encoding for each column.

    Args:
      columns: of the rows after joins.
      label: name of the label, which is encoded only if it is a text.
      skipped: columns to leave alone, such as parts of sparse tensors.
      grouped: the column whose values the split keeps together.
      split_time: the time that the split is by.
    """
    chosen = [
        # Rows without the time are left out by a filter.
        dataclasses.replace(one, nulls=0, rows=one.present) if one.name == split_time else one
        for one in columns
        if one.name not in {*skipped}
    ]
    taken = {column.name for column in chosen}
    proposals = [
        _of_label(column) if column.name == label else _PROPOSE[column.role](column, taken)
        for column in chosen
    ]
    proposals = [_of_split_time(one) if one.name == split_time else one for one in proposals]
    return [_grouped(one) if one.name == grouped else one for one in proposals]


def _of_split_time(found: Proposal) -> Proposal:
    """Returns the parts of a time that recur after the split."""
    parts = [part for part in ("weekday", "hour") if re.search(rf"\b{part}\b", found.encoding)]
    if not found.encoding.startswith("{date_parts"):
        return found
    if not parts:
        reason = f"{found.reason}; eval has other values than train"
        return found._replace(encoding="drop", reason=reason)
    return found._replace(encoding=f"{{date_parts: {_chain(parts)}}}")


def _grouped(found: Proposal) -> Proposal:
    """Returns the proposal of a column that a split is by."""
    if found.encoding in ("", "drop"):
        return found
    reason = f"{found.reason}; eval has other values than train"
    return Proposal(found.name, "drop", reason, f"{found.encoding}, with another split")


def _of_label(column: ColumnProfile) -> Proposal:
    classes = f"the label: {column.distinct:,} classes{_shown(column)}"
    if column.is_text:
        return Proposal(column.name, "vocabulary", classes, _as_one(column, set()))
    is_class = column.role in (Role.FLAG, Role.CATEGORY)
    return Proposal(column.name, "", classes if is_class else f"the label: {_range(column)}")


def _drop(column: ColumnProfile, _: set[str]) -> Proposal:
    if column.role is Role.EMPTY:
        reason = f"{column.present or 'none'} of {column.rows:,} rows have a value"
    elif column.role is Role.CONSTANT:
        reason = f"always {_text(column.values[0].as_py())}"
    elif choice := _as_numbers(column):
        return Proposal(column.name, "drop", "texts of numbers, nearly all different", choice)
    else:
        reason = "names the row: nearly every value is unique"
    return Proposal(column.name, "drop", reason)


def _as_numbers(column: ColumnProfile) -> str:
    """Returns the decision on texts of decimal numbers, or ``""``."""
    if not column.is_text or not column.distinct:
        return ""
    decimals = pc.sum(pc.match_substring_regex(column.values, _DECIMAL)).as_py()
    choice = "z_score, after the decision on its source that makes numbers of it"
    return choice if decimals >= _MOSTLY_DECIMAL * column.distinct else ""


# DuckDB's trim takes off spaces only.
_TRIM = r"regexp_replace({}, '^[\s\pZ]+|[\s\pZ]+$', '', 'g')"


def _as_one(column: ColumnProfile, taken: set[str]) -> str:
    """Returns the decision on texts that differ by case or blanks."""
    name = f"{column.name}_lower"
    if not column.is_text or name in taken:
        return ""
    folded = pc.utf8_lower(pc.utf8_trim_whitespace(column.values)).dictionary_encode().indices
    _, firsts, counts = np.unique(folded.to_numpy(), return_index=True, return_counts=True)
    several = firsts[counts > 1]
    if not len(several):
        return ""
    first = int(several.min())
    alike = column.values.filter(pc.equal(folded, folded[first])).to_pylist()
    shown = " and ".join(json.dumps(_text(value), ensure_ascii=False) for value in alike[:2])
    is_plain = len({value.strip(" ").lower() for value in alike}) == 1
    trim = "trim({})" if is_plain else _TRIM
    sql = json.dumps(f"lower({trim.format(identifier(column.name))})", ensure_ascii=False)
    return (
        f"if {shown} are one value, derive: {{{yaml_text(name)}: {sql}}}, "
        f"drop: [{yaml_text(column.name)}], and encode {yaml_text(name)} in its place"
    )


def _flag(column: ColumnProfile, taken: set[str]) -> Proposal:
    steps = [*_filled(column, "most_frequent", taken), "{cast: float32}"]
    return Proposal(column.name, _chain(steps), f"two values{_shown(column)}{_nulls(column)}")


def _moment(column: ColumnProfile, taken: set[str]) -> Proposal:
    values, is_birth = column.values, bool(_BIRTH.search(column.name))
    parts = [
        part
        for part, has_several in (
            ("year", pc.year),
            ("month", pc.month),
            ("weekday", pc.day_of_week),
            ("hour", pc.hour if pa.types.is_timestamp(column.type) else None),
        )
        if has_several is not None
        and (part == "year" or not is_birth)
        and len(pc.unique(has_several(values))) > 1
        and f"{column.name}_{part}" not in taken
    ] or ["weekday"]
    low, high = (str(end).partition(".")[0] for end in column.range)
    reason = f"{low} to {high}{_nulls(column)}"
    steps = [*_filled(column, "median", taken), f"{{date_parts: {_chain(parts)}}}"]
    return Proposal(column.name, _chain(steps), reason)


def _time(column: ColumnProfile, _: set[str]) -> Proposal:
    low, high = column.range
    return Proposal(
        column.name, f"{{cyclic: {_DAY_MICROSECONDS}}}", f"times of day, {low} to {high}"
    )


def _number(column: ColumnProfile, taken: set[str]) -> Proposal:
    is_skewed = abs(column.skewness) > _SKEWED and column.distinct > _FEW_NUMBERS
    steps = [*_filled(column, "median", taken), "quantile_normal" if is_skewed else "z_score"]
    tail = f", skewed ({column.skewness:.1f})" if is_skewed else ""
    choice, words = "", {word.rstrip("0123456789") for word in words_of(column.name)}
    if column.is_integer and column.distinct <= min(_FEW_NUMBERS, column.present / 5):
        choice = "" if any(map(_AMOUNTS.fullmatch, words)) else _SAME_NAMES
    elif (column.is_integer or column.are_whole) and any(map(_NAMES_THINGS.fullmatch, words)):
        choice = f"{_names(column)}, if the numbers are names, as the name of the column says"
        if "year" in words:
            choice = f"{{cast: float32}} leaves the number as it is; {_names(column)}, for classes"
    if column.nulls > _MOSTLY_NULL * column.rows:
        choice = f"drop, as {_percent(column.nulls / column.rows)} of the rows lack it"
    return Proposal(column.name, _chain(steps), f"{_range(column)}{tail}{_nulls(column)}", choice)


def _category(column: ColumnProfile, taken: set[str]) -> Proposal:
    about = f" in {column.present:,} rows" if column.role is Role.MANY else _shown(column)
    reason = f"{column.distinct:,} values{about}{_nulls(column)}"
    choice = _as_numbers(column) or _as_one(column, taken)
    return Proposal(column.name, _chain([*_with_unknown(column), *_steps(column)]), reason, choice)


def _with_unknown(column: ColumnProfile) -> list[str]:
    """Returns the step that makes a name of nulls, if any."""
    if not column.may_lack:
        return []
    name = "unknown" if column.is_text else min(0, int(column.range[0])) - 1
    return [f"{{fill: {name}}}"]


def _names(column: ColumnProfile) -> str:
    """Returns the encoding of names: a vocabulary, or hashes of very many."""
    return _chain(_steps(column))


def _steps(column: ColumnProfile) -> list[str]:
    whole = ["{cast: int64}"] if pa.types.is_floating(column.type) else []
    if column.distinct > MANY_VALUES:
        return [*whole, f"{{hash_bucket: {_round_up(4 * column.distinct)}}}"]
    return [*whole, f"{{vocabulary: {{top_k: {_round_up(column.distinct)}, num_oov: 1}}}}"]


def _prose(column: ColumnProfile, _: set[str]) -> Proposal:
    steps = ["{tokenize: {lower: true}}", f"{{vocabulary: {{top_k: {_WORDS}, num_oov: 1}}}}"]
    reason = f"texts of {column.words:.0f} words on average{_nulls(column)}"
    return Proposal(column.name, _chain(steps), reason)


def _list(column: ColumnProfile, _: set[str]) -> Proposal:
    low, high = column.lengths
    number = f"{low}" if low == high else f"{low} to {high}"
    values = f"lists of {number}, {column.distinct:,} values"
    if not column.distinct:
        return Proposal(column.name, "", "lists")
    if column.item_role in _NAMES:
        shown = ", ".join(_text(value) for value, _ in column.top)
        shown += ", …" if column.distinct > len(column.top) else ""
        return Proposal(column.name, _names(column), f"{values}: {shown}{_nulls(column)}")
    if column.item_role is not Role.NUMBER:
        return Proposal(column.name, "", f"lists of {number}")
    choice = ""
    if pa.types.is_integer(column.type.value_type):
        choice = f"{_names(column)}, if its numbers are names"
    elif low != high:
        choice = "z_score, if its numbers are amounts"
    return Proposal(column.name, "", f"lists of {number}, {_range(column)}", choice)


_PROPOSE: dict[Role, Callable[[ColumnProfile, set[str]], Proposal]] = {
    Role.EMPTY: _drop,
    Role.CONSTANT: _drop,
    Role.IDENTIFIER: _drop,
    Role.FLAG: _flag,
    Role.MOMENT: _moment,
    Role.TIME: _time,
    Role.NUMBER: _number,
    Role.CATEGORY: _category,
    Role.MANY: _category,
    Role.PROSE: _prose,
    Role.LIST: _list,
    Role.BYTES: lambda column, _: Proposal(column.name, "", "bytes"),
}


def _filled(column: ColumnProfile, value: str, taken: set[str]) -> list[str]:
    """Returns the step that fills nulls, if there are any.

    The feature that says where they were needs a name that is free.
    """
    if not column.may_lack:
        return []
    is_taken = f"{column.name}_missing" in taken
    return [f"{{fill: {value if is_taken else f'{{value: {value}, missing: true}}'}}}"]


def _chain(steps: list[str]) -> str:
    return steps[0] if len(steps) == 1 else f"[{', '.join(steps)}]"


def _round_up(number: int) -> int:
    """Returns the next of 100, 1,000, …: room for new values."""
    return max(100, int(10 ** len(str(number - 1))))


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
    if isinstance(value, float):
        value = f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shorten(text, _SHOWN_CHARACTERS)
