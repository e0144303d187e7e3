"""The table of features that ``describe`` prints: of data, datasets and statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.epochs import are_years
from beam_pipelines.analysis.statistics.datasets import read_protos
from beam_pipelines.analysis.statistics.view import feature_name
from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.formatting import shorten, show_value, visible
from beam_pipelines.dataset.manifest import find_manifest

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
_PROTO = statistics_pb2.FeatureNameStatistics
_TYPE_FOR_PROTO = {
    _PROTO.INT: "int64",
    _PROTO.FLOAT: "float32",
    _PROTO.STRING: "text",
    _PROTO.BYTES: "bytes",
}


@dataclasses.dataclass(frozen=True)
class ColumnRow:
    """Statistics of one column.

    Attributes:
      name: of the column; in a struct its path, such as ``st.a``.
      type: the recipe's name of its type; of statistics without a manifest, that of the feature.
      missing: rows without it.
      distinct: number of different values of texts; ``None`` of numbers.
      mean, least, most: of numbers, as JSON values, dates as text; of texts ``most`` is the most
        frequent one.
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
    """A split's statistics.

    Attributes:
      split: its name.
      rows: number of rows.
      features: one for each column.
    """

    split: str
    rows: int
    features: tuple[ColumnRow, ...]


def described(folder: str) -> list[DescribedSplit]:
    """Returns the splits of a dataset, a description, or statistics.

    Raises:
      RecipeError, DataError: as ``read_statistics``.
    """
    manifest = find_manifest(folder)
    columns, labels = (manifest.columns, manifest.labels) if manifest else ({}, {})
    return [
        describe_split(split, proto, columns, labels)
        for split, proto in read_protos(folder).items()
    ]


def describe_split(
    split: str,
    proto: statistics_pb2.DatasetFeatureStatistics,
    columns: Mapping[str, str],
    labels: Mapping[str, Sequence[str]],
) -> DescribedSplit:
    """Returns the rows of a split's table.

    Args:
      split: its name.
      proto: of the split's statistics.
      columns: column -> type, as the manifest has them.
      labels: column of ids -> its texts.
    """
    rows = tuple(
        _row(feature, columns, labels)
        for feature in proto.features
        # The columns in a struct follow it; a feature without statistics is none, as in TFDV.
        if feature.type != _PROTO.STRUCT and feature.WhichOneof("stats")
    )
    return DescribedSplit(split, proto.num_examples, rows)


def _row(
    feature: statistics_pb2.FeatureNameStatistics,
    columns: Mapping[str, str],
    labels: Mapping[str, Sequence[str]],
) -> ColumnRow:
    name = feature_name(feature)
    kind = columns.get(name) or _TYPE_FOR_PROTO.get(feature.type, _PROTO.Type.Name(feature.type))
    missing = getattr(feature, feature.WhichOneof("stats")).common_stats.num_missing
    if feature.HasField("num_stats"):
        stats = feature.num_stats
        numbers = (stats.mean, stats.min, stats.max)
        mean, least, most = (_shown(value, kind) for value in numbers)
        texts = labels.get(name, ())
        if texts:
            mean, least, most = None, *(_with_text(value, texts) for value in (least, most))
        return ColumnRow(name, kind, missing, None, mean, least, most)
    if feature.HasField("bytes_stats"):
        return ColumnRow(name, kind, missing, feature.bytes_stats.unique)
    strings = feature.string_stats
    top = strings.top_values[0].value if strings.top_values else None
    return ColumnRow(name, kind, missing, strings.unique, most=top)


def _shown(value: float, kind: str) -> Any:
    """Returns a number as JSON; of dates, times and booleans a text."""
    try:
        type_ = parse_type(kind)
    except ValueError:
        return value
    if pa.types.is_list(type_):
        type_ = type_.value_type
    if pa.types.is_temporal(type_):
        return show_value(value, type_)
    return int(value) if pa.types.is_integer(type_) and value == int(value) else value


def _with_text(value: Any, texts: Any) -> Any:
    is_id = isinstance(value, int) and 0 <= value < len(texts)
    return f"{value} ({texts[value]})" if is_id else value


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
    for value in (row.mean, row.least, row.most):
        if value is None:
            yield ""
        elif isinstance(value, str):
            yield shorten(value, LONGEST_TEXT if row.distinct is None else longest)
        elif are_years(row.name, *_whole(row.least, row.most)):
            yield f"{value:.6g}"
        else:
            is_short = isinstance(value, int) and abs(value) < 10**12
            yield f"{value:,}" if is_short else f"{value:,.6g}"


def _whole(*values: Any) -> tuple[int | None, ...]:
    """Returns whole numbers, and ``None`` for other values."""
    return tuple(value if isinstance(value, int) else None for value in values)


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
    widths[0] = min(widths[0], max(_LEAST_NAME, width - others))
    yield f"{split.split}: {split.rows:,} rows, {len(split.features):,} columns"
    for number, (name, *values) in enumerate(rows):
        shown = [cell.rjust(one) for cell, one in zip(values, widths[1:], strict=True)]
        yield "  ".join([_without_middle(name, widths[0]).ljust(widths[0]), *shown]).rstrip()
        if number == 0:
            yield "─" * (widths[0] + others)
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
