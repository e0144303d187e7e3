"""Profiles of columns: counts, values, and the role in a model."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.arrow.python_values import python_values
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sql.database import identifier, literal

# Fewer rows than this say nothing about uniqueness.
_FEW_ROWS = 20
# Fewer values than this, in less than a twentieth of the rows, are no values to fit on.
_FEW_VALUES = 10
# Values that a vocabulary holds without a thought; above, a hash needs no list of them.
MANY_VALUES = 10_000
# Mean number of words from which a text is read, not looked up.
_WORDS_OF_PROSE = 4
_TOP = 3

_ID_NAME = re.compile(
    r"(?:^|[^a-z])(?:id|ids|uid|uuid|guid|key|code|sku|isbn|zip|zipcode|postcode|nr|no)$|"
    "^__index_level_",
    re.IGNORECASE,
)
_ID_NAME_IN_CAMELS = re.compile(r"[a-z0-9](?:Ids?|IDs?|Key|Code|Uuid)$")
_ENTITY = re.compile(
    r"(?:^|[^a-z])(?:user|customer|client|account|patient|member|player|visitor|session|device|"
    r"household|driver|store|shop|item|product|article|ad|campaign|merchant|seller|buyer|author|"
    r"host|student|subject|sensor|machine|station|vehicle|tailnum|person|cookie|email|phone|ip)s?$",
    re.IGNORECASE,
)


class Role(enum.Enum):
    """The part that a column has in a model."""

    EMPTY = "empty"
    CONSTANT = "constant"
    IDENTIFIER = "identifier"
    FLAG = "flag"
    MOMENT = "moment"
    TIME = "time"
    NUMBER = "number"
    CATEGORY = "category"
    MANY = "many values"
    PROSE = "prose"
    LIST = "list"
    BYTES = "bytes"


@dataclasses.dataclass(frozen=True)
class ColumnProfile:
    """Counts and values of a column in sampled rows.

    Attributes:
      name, type: of the column.
      rows: of the sample.
      nulls: rows without a value; NaN is none.
      values: the distinct values, the most frequent first; of lists, those inside them.
      counts: how often each of them occurs.
      skewness: of numbers; 0 for others.
      words: mean number of words of a text; 0 for others.
      lengths: the least and the greatest length of a list.
      is_key: whether the column finds rows of another source.
      is_joined: whether the column comes from another source, so that rows may lack it.
    """

    name: str
    type: pa.DataType
    rows: int
    nulls: int
    values: pa.Array
    counts: npt.NDArray[np.int64]
    skewness: float = 0.0
    words: float = 0.0
    lengths: tuple[int, int] = (0, 0)
    is_key: bool = False
    is_joined: bool = False

    @property
    def may_lack(self) -> bool:
        """Whether a row may have no value."""
        return self.nulls > 0 or self.is_joined

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.nulls

    @property
    def distinct(self) -> int:
        """The number of distinct values."""
        return len(self.values)

    @property
    def is_unique(self) -> bool:
        """Whether every row has its own value."""
        return self.rows > 1 and self.distinct == self.rows

    @property
    def is_integer(self) -> bool:
        """Whether the values are whole numbers."""
        return bool(pa.types.is_integer(self.type))

    @property
    def are_whole(self) -> bool:
        """Whether floats are whole numbers, as pandas writes integers with nulls."""
        return bool(
            pa.types.is_floating(self.type)
            and self.nulls
            and self.distinct
            and pc.all(pc.equal(self.values, pc.floor(self.values))).as_py()
        )

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return bool(pa.types.is_string(self.type) or pa.types.is_large_string(self.type))

    @property
    def is_moment(self) -> bool:
        """Whether the values are dates or timestamps."""
        return bool(pa.types.is_date(self.type) or pa.types.is_timestamp(self.type))

    @property
    def has_id_name(self) -> bool:
        """Whether the name is one of ids: ``user_id``, ``sku``, ``orderId``."""
        return bool(_ID_NAME.search(self.name) or _ID_NAME_IN_CAMELS.search(self.name))

    @property
    def has_entity_name(self) -> bool:
        """Whether the name is one of a person or thing: ``user``, ``store_id``."""
        plain = re.sub(r"(?:_?(?:id|uid|key|code|nr|no)|I[dD])$", "", self.name)
        return bool(_ENTITY.search(plain))

    @property
    def range(self) -> tuple[Any, Any]:
        """The least and the greatest value, as Python's."""
        found = pc.min_max(self.values)
        low, high = (python_values(pa.array([found[end]]))[0] for end in ("min", "max"))
        return low, high

    @property
    def top(self) -> list[tuple[Any, float]]:
        """The most frequent values, each with its share of all values."""
        shown = python_values(self.values[:_TOP])
        return [
            (value, int(count) / self.present)
            for value, count in zip(shown, self.counts, strict=False)
        ]

    @property
    def role(self) -> Role:
        """The part in a model, by type, values and name."""
        kind = self.type
        roles = (
            (pa.types.is_nested(kind), Role.LIST),
            (self._is_nearly_empty, Role.EMPTY),
            (pa.types.is_binary(kind) or pa.types.is_large_binary(kind), Role.BYTES),
            (self.distinct == 1 and self.nulls == 0 and self.rows > 1, Role.CONSTANT),
            (pa.types.is_boolean(kind), Role.FLAG),
            (self.is_moment, Role.MOMENT),
            (pa.types.is_time(kind), Role.TIME),
        )
        known = next((role for is_it, role in roles if is_it), None)
        return known or (self._role_of_text() if self.is_text else self._role_of_number())

    @property
    def _is_nearly_empty(self) -> bool:
        """Whether too few rows have a value to learn from."""
        return self.present < min(_FEW_VALUES, max(1, self.rows / 20))

    def _role_of_number(self) -> Role:
        is_whole = self.is_integer or self.are_whole
        if is_whole and self.range == (0, 1):
            return Role.FLAG
        names_something = self.is_key or self.has_id_name or self.has_entity_name
        if not is_whole or not (self._is_counter or names_something):
            return Role.NUMBER
        if self._is_counter or (self.is_unique and self.rows >= _FEW_ROWS):
            return Role.IDENTIFIER
        return self._role_of_names

    @property
    def _role_of_names(self) -> Role:
        return Role.CATEGORY if self.distinct <= MANY_VALUES else Role.MANY

    @property
    def item_role(self) -> Role:
        """The part of the values inside lists."""
        item = getattr(self.type, "value_type", self.type)
        is_text = pa.types.is_string(item) or pa.types.is_large_string(item)
        names_something = self.has_id_name or self.has_entity_name
        if is_text or (pa.types.is_integer(item) and names_something):
            return self._role_of_names
        is_number = pa.types.is_integer(item) or pa.types.is_floating(item)
        return Role.NUMBER if is_number else Role.BYTES

    @property
    def _is_counter(self) -> bool:
        """Whether whole numbers count the rows: unique, and nearly without gaps."""
        if not self.is_unique or self.rows < _FEW_ROWS:
            return False
        low, high = self.range
        return bool(high - low < 2 * self.rows)

    def _role_of_text(self) -> Role:
        is_own = self.distinct >= 0.95 * self.present and self.present >= _FEW_ROWS
        if self.words >= _WORDS_OF_PROSE and self.distinct > self.present / 2:
            return Role.PROSE
        if is_own:
            return Role.IDENTIFIER
        return self._role_of_names


def profile_columns(rows: pa.Table) -> dict[str, ColumnProfile]:
    """Returns column -> profile, in order."""
    return {
        name: profile_column(name, column)
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }


def profile_column(name: str, column: pa.ChunkedArray | pa.Array) -> ColumnProfile:
    """Returns the profile of a column."""
    known = column.drop_null()
    if pa.types.is_floating(column.type):
        known = known.filter(pc.invert(pc.is_nan(known)))
    nulls = len(column) - len(known)
    lengths = _lengths(known)
    values, counts = _value_counts(pc.list_flatten(known).drop_null() if lengths else known)
    return ColumnProfile(
        name,
        column.type,
        len(column),
        nulls,
        values,
        counts,
        _skewness(known),
        0.0 if lengths else _words(values, counts),
        lengths or (0, 0),
    )


def _lengths(known: pa.ChunkedArray | pa.Array) -> tuple[int, int] | None:
    """Returns the extreme lengths of lists; ``None`` of other values."""
    if not len(known) or not is_list(known.type):
        return None
    ends = pc.min_max(pc.list_value_length(known))
    return ends["min"].as_py(), ends["max"].as_py()


def _value_counts(known: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Returns the distinct values, the most frequent first, and their counts."""
    if pa.types.is_nested(known.type) or not len(known):
        return pa.nulls(0, known.type), np.zeros(0, np.int64)
    found = pc.value_counts(known)
    values, counts = found.field("values"), found.field("counts").to_numpy()
    order = np.argsort(-counts, kind="stable")
    return values.take(pa.array(order)), counts[order]


def _skewness(known: pa.ChunkedArray | pa.Array) -> float:
    """Returns the third standardized moment of numbers; 0 of other values."""
    if not (pa.types.is_integer(known.type) or pa.types.is_floating(known.type)):
        return 0.0
    numbers = known.to_numpy().astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return 0.0
    deviations = numbers - numbers.mean()
    scale = float(np.sqrt(np.mean(deviations**2)))
    if scale == 0:
        return 0.0
    deviations /= scale
    return float(np.mean(deviations * deviations * deviations))  # a power takes 20 times as long


def _words(values: pa.Array, counts: npt.NDArray[np.int64]) -> float:
    """Returns the mean number of words of counted texts."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return 0.0
    words = pc.count_substring_regex(values, r"\S+").to_numpy().astype(np.int64)
    return float(words @ counts / max(counts.sum(), 1))


def id_like(columns: Iterable[ColumnProfile]) -> list[ColumnProfile]:
    """Returns the columns that name persons or things, several rows each."""
    return [
        column
        for column in columns
        if (column.is_text or column.is_integer or column.are_whole)
        and (column.has_id_name or column.has_entity_name)
        and column.present
        and column.distinct >= 2
        and column.distinct <= 0.9 * column.present
    ]


def note_below(rows: pa.Table) -> Iterator[str]:
    """Yields the decision on a last row with nothing but a text."""
    if rows.num_rows < _FEW_ROWS or rows.num_columns < 3:
        return
    first, *others = (column[-1] for column in rows.columns)
    filled = sum(column.null_count == 1 for column in rows.columns[1:])
    is_text = first.is_valid and first.type in (pa.string(), pa.large_string())
    if is_text and filled > 1 and not any(value.is_valid for value in others):
        name, text = rows.column_names[0], first.as_py()
        sql = f"{identifier(name)} IS DISTINCT FROM {literal(text)}"
        note = f"the last row has {name} alone, {shorten(text, 40)!r}"
        yield f"{note}; if it is a note below the table, filter: {yaml_text(sql)}"
