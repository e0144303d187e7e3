"""Columns that may be the label, with the reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from beam_pipelines.analysis.profile.columns import ColumnProfile, Role

# A column without a name that says it scores no more than the second number.
_POSSIBLE, _MENTIONED = 30, 75
_MOST_CLASSES = 20
_NAMED = re.compile(r"^(?:label|labels|target|class|y|outcome|response)$", re.IGNORECASE)
_OUTCOME = re.compile(
    r"(?:^|[^a-z])(?:churn(?:ed)?|delay|click(?:ed)?|convert(?:ed)?|conversion|fraud|is_fraud|default(?:ed)?|"
    r"survived|returned|bought|purchased?|late|cancell?ed|won|winner|spam|sentiment|diagnosis|"
    r"rating|stars|revenue|sales|demand|profit|price|income|quality|species|readmitted|approved|attrition|exited|failure|"
    r"subscribed|deposit|passed|grade)$",
    re.IGNORECASE,
)
_NO_LABEL = (Role.EMPTY, Role.CONSTANT, Role.IDENTIFIER, Role.MOMENT, Role.TIME, Role.PROSE)
_NO_LABEL_EITHER = (Role.LIST, Role.BYTES, Role.MANY)


class Candidate(NamedTuple):
    """A column that may be the label.

    Attributes:
      name: of the column.
      reason: why, in a few words.
      is_certain: whether a recipe may take it as the label.
    """

    name: str
    reason: str
    is_certain: bool


def label_candidates(
    columns: Iterable[ColumnProfile],
    keys: Collection[str] = (),
    with_classes: Collection[str] = (),
) -> list[Candidate]:
    """Returns the columns that may be the label, the best one first.

    Only the first one can be certain.

    Args:
      columns: of the base source, in order.
      keys: columns that are keys, and so no labels.
      with_classes: ids whose source names the classes, such as folders of images.
    """
    found = list(columns)
    scored = [
        (*_score(column, column.name in with_classes, column is found[-1]), column)
        for column in found
        if column.role not in (*_NO_LABEL, *_NO_LABEL_EITHER)
        and column.name not in keys
        and column.nulls <= column.rows / 2
        and (not column.has_id_name or column.name in with_classes)
    ]
    scored.sort(key=lambda item: -item[0])
    # Of several equally good ones none is certain, nor one whose name does not say it.
    is_certain = bool(scored) and scored[0][0] > max(
        [_MENTIONED, *(item[0] for item in scored[1:])]
    )
    return [
        Candidate(column.name, ", ".join(reasons), is_certain and place == 0)
        for place, (score, reasons, column) in enumerate(scored)
        if score >= _POSSIBLE
    ]


def _score(column: ColumnProfile, has_classes: bool, is_last: bool) -> tuple[int, list[str]]:
    score, reasons = 0, list[str]()
    if has_classes:
        score, reasons = score + 200, [*reasons, "the source names its classes"]
    if _NAMED.search(column.name):
        score, reasons = score + 150, [*reasons, "its name"]
    elif _OUTCOME.search(column.name):
        score, reasons = score + 100, [*reasons, "its name is an outcome"]
    if column.distinct == 2:
        score, reasons = score + 30, [*reasons, "two values"]
    elif column.role is Role.CATEGORY and column.distinct <= _MOST_CLASSES:
        score, reasons = score + 15, [*reasons, f"{column.distinct} values"]
    if is_last:
        score, reasons = score + 30, [*reasons, "the last column"]
    return score, reasons
