"""A split by file, time or entity, with the reason."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile, Role, id_like

_TRAIN = 0.8
_FEW_MOMENTS = 5
# An entity with more of the rows makes shares of a split uneven.
_LARGE = 0.25
# A class with a smaller share may be missing in a split by a hash; it needs some rows to divide.
_RARE, _FEWEST_ROWS = 0.05, 5
_PERSON = re.compile(
    r"user|customer|client|account|patient|member|player|visitor|session|device|household|student|"
    r"subject|driver|person|author|cookie|email|phone|(?:^|[^a-z])ip$",
    re.IGNORECASE,
)
# A catalogue's entries: a model knows them all.
_OF_CATALOGUES = re.compile(
    r"(?:code|zip|zipcode|postcode|no|nr|sku|isbn|^ads?|items?|products?|articles?|campaigns?)$",
    re.IGNORECASE,
)
_NOT_OF_THE_ROW = re.compile(
    r"birth|born|dob|expir|valid|due|founded|until|sign_?up|registered|joined", re.IGNORECASE
)


class SplitProposal(NamedTuple):
    """A split of rows into ``train`` and ``eval``.

    Attributes:
      column: by which rows are divided; empty: by the whole row.
      before: the first moment of ``eval``, ISO 8601; empty: rows are divided by a hash.
      reason: one line.
      stratify: the label, whose classes have their shares in each split; empty: none.
      files: the pattern of each split's files; empty: rows of all files are divided.
    """

    column: str
    before: str
    reason: str
    stratify: str = ""
    files: tuple[tuple[str, str], ...] = ()


def propose_splits(
    columns: Iterable[ColumnProfile],
    entities: Collection[str],
    is_whole: bool,
    label: ColumnProfile | None = None,
) -> list[SplitProposal]:
    """Returns possible splits, the best one first.

    One of them is by a hash of the row.

    Args:
      columns: of the base source.
      entities: its columns that are keys of other sources.
      is_whole: whether the profile has all rows. Of a part, the boundary in time is unknown, so
        that a split by time is not the first one.
      label: whose rare classes have their shares in both splits.
    """
    found = list(columns)
    times = [_by_time(column) for column in found if _is_time_of_row(column)]
    owners = sorted(
        (column for column in id_like(found) if not _OF_CATALOGUES.search(column.name)),
        key=lambda column: (not _PERSON.search(column.name), column.name not in entities),
    )
    owners = [column for column in owners if column.distinct >= _FEW_MOMENTS]
    even = [_by_entity(column) for column in owners if _largest(column) <= _LARGE]
    uneven = [_by_entity(column) for column in owners if _largest(column) > _LARGE]
    whole = SplitProposal("", "", "by a hash of the row")
    if label is not None and (rare := _rare_class(label)):
        whole = SplitProposal(
            "", "", f"each class has its share in both splits; {rare}", label.name
        )
    by_rows = [*even, whole, *uneven]
    return [*times, *by_rows] if is_whole else [*by_rows, *times]


def _largest(column: ColumnProfile) -> float:
    """Returns the share of the rows that the most frequent value has."""
    return float(column.counts[0]) / column.present


def _by_entity(column: ColumnProfile) -> SplitProposal:
    largest = _largest(column)
    much = f", {largest:.0%} of them in one" if largest > _LARGE else ""
    return SplitProposal(
        column.name,
        "",
        f"rows of one {column.name} stay together: {column.distinct:,} in {column.present:,} rows"
        f"{much}",
    )


def _rare_class(label: ColumnProfile) -> str:
    """Returns the share of a label's rarest class, if it is small."""
    if label.role not in (Role.FLAG, Role.CATEGORY):
        return ""
    share = float(label.counts[-1]) / label.present
    if share >= _RARE or label.counts[-1] < _FEWEST_ROWS:
        return ""
    return f"the rarest has {share:.1%}"


def _is_time_of_row(column: ColumnProfile) -> bool:
    return (
        column.is_moment
        and column.distinct >= _FEW_MOMENTS
        and column.nulls <= column.rows / 2
        and not _NOT_OF_THE_ROW.search(column.name)
    )


def _by_time(column: ColumnProfile) -> SplitProposal:
    """Returns the split at the end of the first rows in time."""
    order = np.argsort(column.values.cast("timestamp[us]").cast("int64").to_numpy())
    below = np.cumsum(column.counts[order])
    place = int(np.searchsorted(below, _TRAIN * column.present)) + 1
    moment = python_value(column.values, int(order[min(place, len(order) - 1)]))
    return SplitProposal(
        column.name,
        _iso(moment),
        f"by {column.name}: the model predicts later rows from earlier ones",
    )


def _iso(moment: Any) -> str:
    if isinstance(moment, str):  # no value of Python
        return moment.replace(" ", "T")
    if isinstance(moment, datetime.datetime):
        moment = moment.replace(tzinfo=None)
    return str(moment.isoformat())
