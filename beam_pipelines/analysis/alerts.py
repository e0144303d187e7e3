"""Alerts: what is suspicious in columns by their statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.description import show_of
from beam_pipelines.analysis.epochs import cure, show_ends, unit_of
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import is_like_ids, view_of_column
from beam_pipelines.core.arrow.columns import is_date, value_type
from beam_pipelines.core.formatting import formatter_of, shorten, show_share
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sql.database import identifier

# A column of texts is nearly numeric from this share of numbers on, but for all of them.
_NEARLY = 0.9
# Most shares of one value of a label, and fewest rows of a label to say so.
_IMBALANCED, _FEWEST_LABELS = 0.95, 100
# Many different texts, each in few rows on average.
_MANY_TEXTS, _FEW_ROWS = 1000, 10
# Texts of three words and more, and the least share of them in a column of prose.
_PROSE, _LEAST_PROSE = r"\S\s+\S+\s+\S", 0.5
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_SHOWN = 40
# Readers of images add these, which are often alike in all images, or differ in all.
_OF_IMAGES = frozenset(
    f"image/{name}" for name in ("channels", "filename", "format", "height", "stem", "width")
)
# Begins the kind of columns that are times, before their unit.
_EPOCH = "epoch "
# The kind of a join's warnings.
OF_JOIN = "join"
# Kinds whose lines tell what was found.
MERGED, UNKNOWN, NULL_KEY = "merged by float32", "not in the vocabulary", "null split key"
_TOLD = (MERGED, UNKNOWN, NULL_KEY)
# Columns that a line names.
_NAMED = 5


class Alert(NamedTuple):
    """Something suspicious.

    Attributes:
      feature: the column, or what else it is about.
      what: its kind.
      found: what was found.
    """

    feature: str
    what: str
    found: str


def find_alerts(
    statistics: Mapping[str, TableStatistics], label: str | None, keys: Collection[str] = ()
) -> Iterator[Alert]:
    """Yields the alerts of columns, of all splits together.

    Args:
      statistics: of the splits, with the same columns.
      label: the column to predict, or ``None``.
      keys: columns whose values decide the split.
    """
    filled = [table for table in statistics.values() if table.rows]
    names = list(filled[0].columns) if filled else []
    for name in names:
        parts = [table.columns[name] for table in filled]
        if name in keys and (missing := sum(part.missing for part in parts)):
            cure = f"'filter: {identifier(name)} IS NOT NULL' leaves them out"
            yield Alert(name, NULL_KEY, f"{missing:,} rows without it are in one split; {cure}")
        if not parts[0].is_counted or name in _OF_IMAGES:
            continue
        column = parts[0] if len(parts) == 1 else ColumnStatistics.merged(parts)
        yield from (Alert(name, *found) for found in _of_column(name, column, name == label))


def find_repeats(compared: int, repeats: int, rows: int) -> Iterator[Alert]:
    """Yields an alert if rows have the values of earlier ones.

    Args:
      compared: number of rows that were compared, all or a sample.
      repeats: number of these that equal an earlier one.
      rows: number of all rows.
    """
    if repeats:
        what = f"{compared:,} rows" if compared == rows else f"{compared:,} sampled rows"
        equal = "equals" if repeats == 1 else "equal"
        found = f"{repeats:,} of {what} {equal} an earlier one"
        yield Alert("rows", "duplicates", f"{found}; 'duplicates: {{by: rows}}' finds them all")


def by_kind(alerts: Iterable[Alert]) -> dict[str, tuple[str, ...]]:
    """Returns kind -> what the alerts are about, for the manifest."""
    found: dict[str, list[str]] = {}
    for alert in alerts:
        text = f"{alert.feature}: {alert.found}" if alert.what in _TOLD else alert.feature
        found.setdefault(alert.what, []).append(text)
    return {kind: tuple(names) for kind, names in found.items()}


def lines_of(alerts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yields a line for each kind of alert of a dataset."""
    for kind, names in alerts.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        unit = kind.removeprefix(_EPOCH)
        times = f"; {cure(names[:_NAMED], unit)} make times of them" if unit != kind else ""
        joined = ("; " if kind in _TOLD else ", ").join(names[:_NAMED])
        yield f"{kind}: {joined}{more}{times}"


def _of_column(name: str, column: ColumnStatistics, is_label: bool) -> Iterator[tuple[str, str]]:
    values, kind = column.values, value_type(column.type)
    nans = values.nans if isinstance(values, NumberStatistics) else 0
    if not column.present or not values.count + nans:
        yield "empty", "no row has a value"
        return
    if values.count > 1 and values.distinct == 1 and not nans:
        rows = column.present + column.missing
        missing = f"; {show_share(column.missing, rows)} lack it" if column.missing else ""
        yield "constant", f"every value is {_first(name, column)}{missing}"
        return
    if is_label:
        yield from _of_label(column)
    texts = values if isinstance(values, TextStatistics) and pa.types.is_string(kind) else None
    if texts is not None and _is_prose(texts):
        return
    if times := _epoch(name, column):
        yield times
    elif is_like_ids(view_of_column(name, column)):
        yield "id", "nearly every row has a value of its own; an id tells a model nothing"
    elif texts is not None:
        yield from _of_texts(texts)
    elif isinstance(values, NumberStatistics) and not pa.types.is_time(kind):
        yield from _of_numbers(values, kind)


def _first(name: str, column: ColumnStatistics) -> str:
    if isinstance(column.values, NumberStatistics):
        return show_of(name, [column])(column.values.minimum)
    if not pa.types.is_string(value_type(column.type)):
        return "the same"
    return f"'{shorten(str(column.values.values[0].as_py()), _SHOWN)}'"


def _of_label(column: ColumnStatistics) -> Iterator[tuple[str, str]]:
    values = column.values
    if not values.exact or values.count < _FEWEST_LABELS or not len(values.counts):
        return
    place = int(values.counts.argmax())
    share = values.counts[place] / values.count
    if share >= _IMBALANCED:
        value = values.values[place]
        shown = (
            formatter_of(value_type(column.type))(value.item())
            if isinstance(values, NumberStatistics)
            else f"'{shorten(str(value.as_py()), _SHOWN)}'"
        )
        yield "imbalanced label", f"{show_share(values.counts[place], values.count)} are {shown}"


def _epoch(name: str, column: ColumnStatistics) -> tuple[str, str] | None:
    """Returns the alert of numbers that are times."""
    values, kind = column.values, column.type
    if not isinstance(values, NumberStatistics) or values.nans:
        return None
    if not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        return None
    numbers = values.values if values.exact else None
    low, high = values.minimum, values.maximum
    unit = unit_of(name, low, high, numbers)
    if unit is None or low is None or high is None:
        return None
    found = f"{unit} since 1970, {show_ends(low, high, unit)}; {cure([name], unit)} make times"
    return f"{_EPOCH}{unit}", found


def _is_prose(values: TextStatistics) -> bool:
    """Whether most texts have three words or more, as sentences do."""
    are_prose = pc.match_substring_regex(values.values, _PROSE).to_numpy(zero_copy_only=False)
    return bool(values.counts[are_prose].sum() >= _LEAST_PROSE * max(1, values.counts.sum()))


def _of_texts(values: TextStatistics) -> Iterator[tuple[str, str]]:
    are_numbers = pc.match_substring_regex(values.values, _NUMBER).to_numpy(zero_copy_only=False)
    numbers = int(values.counts[are_numbers].sum())
    if _NEARLY * values.count <= numbers < int(values.counts.sum()):
        others = np.flatnonzero(~are_numbers)
        most = others[np.argsort(-values.counts[others], kind="stable")[:3]]
        named = ", ".join(
            f"'{shorten(str(text), _SHOWN)}'" for text in values.values.take(most).to_pylist()
        )
        share = show_share(numbers, values.count)
        yield "nearly numeric", f"{share} of the texts are numbers; others are {named}"
    elif values.distinct >= _MANY_TEXTS and values.distinct * _FEW_ROWS >= values.count:
        rows = values.count / values.distinct
        about = "" if values.exact else "about "
        yield "high cardinality", f"{about}{values.distinct:,} texts, in {rows:.1f} rows each"


def _of_numbers(values: NumberStatistics, kind: pa.DataType) -> Iterator[tuple[str, str]]:
    if odd := values.nans + values.minus_infinities + values.plus_infinities:
        yield "not finite", f"{odd:,} of {values.nans + values.count:,} are NaN or infinite"
    yield from _sentinels(values, kind)


# The least share of the values.
_LEAST = 0.001
# The ends of integer types, and the fill values of LAS and netCDF.
_ENDS = (32767, 32768, 65535, 2147483647, 2147483648, 999.25, 1e20, 9.969209968386869e36)
# -1 may be a number like others, if these are small.
_FAR = 20
_DATES = ("0001-01-01", "1899-12-30", "1900-01-01", "1970-01-01", "2099-12-31", "9999-12-31")
_DAYS = frozenset(np.array(_DATES, "datetime64[D]").astype(np.int64).tolist())
_MICROSECONDS_PER_DAY = 86_400_000_000


def _sentinels(values: NumberStatistics, kind: pa.DataType) -> Iterator[tuple[str, str]]:
    """Yields the alert of a value that may mean null.

    Such as -999, it is the least or the greatest one. It is further from the others than these are
    from each other, or it is negative, and no other is.
    """
    numbers = values.values
    if len(numbers) < 3:
        return
    for place, rest in ((0, numbers[1:]), (len(numbers) - 1, numbers[:-1])):
        value, count = numbers[place].item(), int(values.counts[place])
        is_rare = count < _LEAST * values.count or count < 2
        if is_rare or not _is_sentinel(value, kind):
            continue
        low, high = rest[0].item(), rest[-1].item()
        gap = low - value if place == 0 else value - high
        is_below = value < 0 <= low and not is_date(kind) and (value != -1 or high >= _FAR)
        if value == -1 and not is_below:
            continue
        if gap > high - low or is_below:
            shown, *ends = map(formatter_of(kind), (value, low, high))
            found = f"{show_share(count, values.count)} are {shown}, the others {' to '.join(ends)}"
            yield "sentinel", f"{found}: does it mean null?"
            return


def _is_sentinel(value: float, kind: pa.DataType) -> bool:
    """Whether a number or date stands for nothing in many files."""
    if pa.types.is_date(kind):
        return value in _DAYS
    if pa.types.is_timestamp(kind):
        return not value % _MICROSECONDS_PER_DAY and value // _MICROSECONDS_PER_DAY in _DAYS
    digits = f"{abs(value):.7g}".replace(".", "")
    is_nines = set(digits) == {"9"} and (value < 0 or len(digits) > 2)
    return is_nines or value == -1 or abs(value) in _ENDS


# Up to this share of the values, neighbours of a wide column fall together by chance.
_BY_CHANCE = 0.01
_COMPARED = 5_000
# Beyond, a float64 has lost the digits of an integer.
_LARGEST = 2.0**53


def find_merged(feature: str, column: str, before: pa.Array, after: pa.Array) -> Iterator[Alert]:
    """Yields an alert if float32 merge more numbers than by chance.

    Args:
      feature, column: names.
      before: int64 or float64 of rows, in the column.
      after: the same numbers as float32.
    """
    if not before.null_count and _count_distinct(before) == _count_distinct(after):
        return
    known = pc.and_(before.is_valid(), pc.is_finite(after)).fill_null(False)
    places = np.flatnonzero(known.to_numpy(zero_copy_only=False))
    places = places[:: 1 + len(places) // _COMPARED]
    distinct, first = np.unique(before.take(pa.array(places)), return_index=True)
    written = after.to_numpy(zero_copy_only=False)[places][first]
    same = np.flatnonzero(written[1:] == written[:-1])
    if len(same) <= _BY_CHANCE * len(distinct):
        return
    if pa.types.is_integer(before.type):
        cure = "leave 'cast: float32' out"
    else:
        are_whole = ((distinct == np.trunc(distinct)) & (np.abs(distinct) <= _LARGEST)).all()
        type_ = "int64" if are_whole else "text"
        cure = f"'types: {{{yaml_text(column)}: {type_}}}' of the source keeps them"
    pair = [*distinct[same[0] : same[0] + 2].tolist(), written[same[0]].item()]
    low, high, both = (f"{number:.17g}" if number % 1 else str(int(number)) for number in pair)
    yield Alert(
        feature,
        MERGED,
        f"{len(distinct):,} different numbers of sampled rows become "
        f"{len(distinct) - len(same):,}, as {low} and {high} become {both}; {cure}",
    )


def _count_distinct(numbers: pa.Array) -> int:
    """Returns the number of distinct values, but one; each NaN is one."""
    values = np.sort(numbers.to_numpy(zero_copy_only=False))
    return int(np.count_nonzero(values[1:] != values[:-1]))
