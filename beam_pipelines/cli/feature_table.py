"""The table of features that ``describe`` prints: of data, datasets and statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.analysis.description import Figure, describe, ends, show_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.datasets import find_manifest, read_statistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.cli.output import table
from beam_pipelines.core.arrow.columns import type_name
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
_NONE = Figure(None, "")


class DescribedSplit(NamedTuple):
    """A split's statistics.

    Attributes:
      split: its name.
      rows: their number.
      features: figures of each by the heads of the table. Texts have no least, and most is the
        most frequent one.
    """

    split: str
    rows: int
    features: Sequence[Mapping[str, Figure]]


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
            [
                _row(name, column, labels.get(name, ()))
                for name, column in table.columns.items()
                if column.is_counted
            ],
        )
        for split, table in read_statistics(folder).items()
    ]


def _row(name: str, column: ColumnStatistics, labels: Sequence[str]) -> Mapping[str, Figure]:
    kind = type_name(column.type)
    show = show_of(name, [column], labels)
    found = {key: figures[0] for key, figures in describe([column], show)}
    row = {"feature": Figure(name, name), "type": Figure(kind, kind)}
    row |= {key: found[key.capitalize()] for key in ("missing", "distinct")}
    values = column.values
    if isinstance(values, TextStatistics):
        top = [] if pa.types.is_binary(values.values.type) else values.top(1)
        return row | {"most": Figure(top[0][0], str(top[0][0]))} if top else row
    [(least, most, _)] = ends([column], show)
    if labels:  # an id has a text, and no mean
        return row | {"least": Figure(least.text, least.text), "most": Figure(most.text, most.text)}
    return row | {"mean": found["Mean"], "least": least, "most": most}


def table_lines(split: DescribedSplit, width: int) -> Iterator[str]:
    """Yields the lines of a split's table, none wider than ``width`` characters.

    A narrow table leaves out the mean and the distinct values, shortens texts, leaves out the type,
    and cuts the middle of names, in this order.
    """
    for longest, number in _NARROWER:
        kept = [n for n, head in enumerate(_HEADS) if head not in _LEFT_OUT_FIRST[:number]]
        cells = (list(_cells(row, longest)) for row in split.features)
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


def _cells(row: Mapping[str, Figure], longest: int) -> Iterator[str]:
    """Yields the texts of a row, at most ``longest`` characters of texts."""
    name, *others = (row.get(head, _NONE).text for head in _HEADS)
    yield name
    yield from (shorten(text, LONGEST_TEXT if "least" in row else longest) for text in others)


def _without_middle(name: str, limit: int) -> str:
    """Returns at most ``limit`` characters; names often differ at their ends."""
    end = (limit - 1) // 2
    return name if len(name) <= limit else f"{name[: limit - 1 - end]}…{name[-end:]}"


def to_json(splits: Sequence[DescribedSplit]) -> dict[str, Any]:
    """Returns splits as JSON data."""
    return {
        split.split: {
            "rows": split.rows,
            "features": [
                {
                    "name" if head == "feature" else head: row.get(head, _NONE).value
                    for head in _HEADS
                }
                for row in split.features
            ],
        }
        for split in splits
    }
