"""A split by time or by entity, with the reason."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.analysis.profile.columns import ColumnProfile, id_like
from beam_pipelines.core.python_values import python_value

_TRAIN = 0.8
_FEW_MOMENTS = 5
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
_NOT_OF_THE_ROW = re.compile(r"birth|born|dob|expir|valid|due|founded|until", re.IGNORECASE)


class SplitProposal(NamedTuple):
    """A split of rows into ``train`` and ``eval``.

    Attributes:
      column: by which rows are divided; empty: by the whole row.
      before: the first moment of ``eval``, ISO 8601; empty: rows are divided by a hash.
      reason: one line.
    """

    column: str
    before: str
    reason: str


def propose_splits(
    columns: Iterable[ColumnProfile], entities: Collection[str], is_whole: bool
) -> list[SplitProposal]:
    """Returns possible splits, the best one first.

    One of them is by a hash of the row.

    Args:
      columns: of the base source.
      entities: its columns that are keys of other sources.
      is_whole: whether the profile has all rows. Of a part, the boundary in time is unknown, so
        that a split by time is not the first one.
    """
    found = list(columns)
    times = [_by_time(column) for column in found if _is_time_of_row(column)]
    owners = sorted(
        (column for column in id_like(found) if not _OF_CATALOGUES.search(column.name)),
        key=lambda column: (not _PERSON.search(column.name), column.name not in entities),
    )
    by_entity = [
        SplitProposal(
            column.name,
            "",
            f"rows of one {column.name} stay together: {column.distinct:,} in "
            f"{column.present:,} rows",
        )
        for column in owners
        if column.distinct >= _FEW_MOMENTS
    ]
    whole = SplitProposal("", "", "by a hash of the row")
    return [*times, *by_entity, whole] if is_whole else [*by_entity, whole, *times]


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
        column.name, _iso(moment), "the model predicts later rows from earlier ones"
    )


def _iso(moment: Any) -> str:
    if isinstance(moment, str):  # no value of Python
        return moment.replace(" ", "T")
    if isinstance(moment, datetime.datetime):
        moment = moment.replace(tzinfo=None)
    return str(moment.isoformat())
