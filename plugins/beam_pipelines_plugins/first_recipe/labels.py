"""Columns that may be the label, with the reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile, Role

# A column without a name that says it scores no more than the second number.
_POSSIBLE, _MENTIONED = 30, 75
_MOST_CLASSES = 20
_NAMED = re.compile(r"(?:^|/)(?:label|labels|target|class|y|outcome|response)$", re.IGNORECASE)
_OUTCOME = re.compile(
    r"(?:^|[^a-z])(?:churn(?:ed)?|delay|click(?:ed)?|convert(?:ed)?|conversion|fraud|fraudulent|"
    r"default(?:ed)?|survived|survival|returned|bought|purchased?|late|cancell?ed|won|winner|spam|"
    r"sentiment|emotion|toxic|toxicity|diagnosis|disease|malignant|died|death|mortality|recovered|"
    r"rating|stars|nps|csat|satisfaction|revenue|sales|demand|profit|price|income|quality|species|"
    r"readmitted|readmission|approved|attrition|exited|failure|failed|fault|defect|anomaly|outlier|"
    r"subscribed|deposit|passed|grade|responded|hired|promoted|graduated|dropout)"
    r"(?:_?[0-9]+_?(?:d|days|h|hours|m|months|y|years)|_flag)?$|^score$",
    re.IGNORECASE,
)
# Endings of names that may be an outcome's or not.
_PERHAPS = re.compile(r"(?:^|[^a-z])(?:score|result|status|category|risk)$", re.IGNORECASE)
# Two values of these describe a person or a row.
_DESCRIBES = re.compile(r"^(?:sex|gender|smoker|smoking|verified)$", re.IGNORECASE)
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
    columns: Iterable[ColumnProfile], keys: Collection[str] = (), with_classes: Collection[str] = ()
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
    name, is_few = column.name, column.role is Role.CATEGORY and column.distinct <= _MOST_CLASSES
    # Of each group the first that holds.
    groups = (
        ((has_classes, 200, "the source names its classes"),),
        (
            (_NAMED.search(name), 150, "its name"),
            (_OUTCOME.search(name), 100, "its name is an outcome"),
            (_PERHAPS.search(name), 40, "its name may be an outcome"),
        ),
        (
            (column.distinct == 2 and not _DESCRIBES.search(name), 30, "two values"),
            (is_few, 15, f"{column.distinct} values"),
        ),
        ((is_last, 30, "the last column"),),
    )
    found = [next(((n, why) for holds, n, why in group if holds), (0, "")) for group in groups]
    return sum(number for number, _ in found), [why for _, why in found if why]
