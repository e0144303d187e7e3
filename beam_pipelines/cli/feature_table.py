"""The table of features that ``describe`` prints: of data, datasets and statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.analysis.epochs import are_years, show_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.datasets import find_manifest, read_statistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.cli.output import table
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.formatting import shorten, visible

LONGEST_TEXT, _SHORTER_TEXT = 24, 12
_HEADS = ("feature", "type", "missing", "distinct", "mean", "least", "most")
_LEFT_OUT_FIRST = ("mean", "distinct", "type")
# Characters of a text, and how many columns are left out, of narrower and narrower tables.
_NARROWER = (
    *((LONGEST_TEXT, number) for number in range(3)),
    (_SHORTER_TEXT, 2),
    (_SHORTER_TEXT, 3),
)
_LEAST_NAME = 16


@dataclasses.dataclass(frozen=True)
class ColumnRow:
    """Statistics of one column.

    Attributes:
      name: of the column.
      type: the recipe's name of its type.
      missing: rows without it.
      distinct: number of different values of texts; ``None`` of numbers.
      mean, least, most: of numbers, as JSON values, dates and ids as text; of texts ``most`` is the
        most frequent one.
    """

    name: str
    type: str
    missing: int
    distinct: int | None = None
    mean: Any = None
    least: Any = None
    most: Any = None


@dataclasses.dataclass(frozen=True)
class DescribedSplit:
    """A split's statistics: its name, its rows, and those of each column."""

    split: str
    rows: int
    features: tuple[ColumnRow, ...]


def described(folder: str) -> list[DescribedSplit]:
    """Returns the splits of a dataset, a description, or statistics.

    Raises:
      RecipeError, DataError: as ``read_statistics``.
    """
    manifest = find_manifest(folder)
    labels: Mapping[str, Sequence[str]] = manifest.labels if manifest else {}
    return [
        DescribedSplit(
            split,
            table.rows,
            tuple(
                _row(name, column, labels.get(name, ()))
                for name, column in table.columns.items()
                if column.is_counted
            ),
        )
        for split, table in read_statistics(folder).items()
    ]


def _row(name: str, column: ColumnStatistics, labels: Sequence[str]) -> ColumnRow:
    values, kind = column.values, value_type(column.type)
    facts = name, type_name(column.type), column.missing
    if not isinstance(values, NumberStatistics):
        top = [] if pa.types.is_binary(kind) else values.top(1)
        return ColumnRow(*facts, values.distinct, most=next((value for value, _ in top), None))
    if not values.count:
        return ColumnRow(*facts)
    numbers: tuple[Any, ...] = (None if labels else values.mean, values.minimum, values.maximum)
    if labels or pa.types.is_temporal(kind):
        show = show_of(name, [column], labels)
        numbers = tuple(None if number is None else show(number, kind) for number in numbers)
    return ColumnRow(*facts, None, *numbers)


def cells_of(row: ColumnRow, longest: int = LONGEST_TEXT) -> Iterator[str]:
    """Yields the cells of a row, in the order of ``_HEADS``.

    Args:
      row: of a column.
      longest: characters of its texts; dates stay.
    """
    yield row.name
    yield row.type
    yield f"{row.missing:,}"
    yield "" if row.distinct is None else f"{row.distinct:,}"
    ends = (value if isinstance(value, int) else None for value in (row.least, row.most))
    separator = "" if are_years(row.name, *ends) else ","
    for value in (row.mean, row.least, row.most):
        if value is None or isinstance(value, str):
            yield shorten(value or "", LONGEST_TEXT if row.distinct is None else longest)
        else:
            is_short = isinstance(value, int) and abs(value) < 10**12
            yield format(value, separator if is_short else f"{separator}.6g")


def table_lines(split: DescribedSplit, width: int) -> Iterator[str]:
    """Yields the lines of a split's table, none wider than ``width`` characters.

    A narrow table leaves out the mean and the distinct values, shortens texts, leaves out the type,
    and cuts the middle of names, in this order.
    """
    for longest, number in _NARROWER:
        kept = [n for n, head in enumerate(_HEADS) if head not in _LEFT_OUT_FIRST[:number]]
        cells = (list(cells_of(row, longest)) for row in split.features)
        rows = [[visible(row[n], keep="") for n in kept] for row in (_HEADS, *cells)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        others = sum(2 + one for one in widths[1:])
        if min(widths[0], _LEAST_NAME) + others <= width:
            break
    longest = max(_LEAST_NAME, width - others)
    rows = [[_without_middle(name, longest), *values] for name, *values in rows]
    yield f"{split.split}: {split.rows:,} rows, {len(split.features):,} columns"
    yield from table(rows[0], rows[1:], gap=2)
    yield ""


def _without_middle(name: str, limit: int) -> str:
    """Returns at most ``limit`` characters; names often differ at their ends."""
    end = (limit - 1) // 2
    return name if len(name) <= limit else f"{name[: limit - 1 - end]}…{name[-end:]}"


def to_json(splits: list[DescribedSplit]) -> dict[str, Any]:
    """Returns splits as JSON data."""
    return {
        split.split: {"rows": split.rows, "features": [vars(row) for row in split.features]}
        for split in splits
    }
