"""Joins that match nothing, multiply rows, or break what the recipe expects."""

from __future__ import annotations

import pytest

from beam_pipelines.analysis.joins import JoinMatches, check_joins, joins_of
from beam_pipelines.core.errors import DataError
from tests.support.manifests import parsed_manifest


@pytest.mark.parametrize(
    ("matched", "unmatched", "added", "expectations", "warnings", "problems"),
    [
        (0, 0, 0, {}, 0, 0),
        (0, 10, 0, {}, 1, 1),
        (1, 9, 0, {}, 0, 0),
        (10, 0, 1, {}, 1, 0),
        (0, 10, 0, {"require_match": 0.0}, 0, 0),
        (0, 10, 0, {"require_match": 0.1}, 0, 1),
        (19, 1, 0, {"require_match": 0.95}, 0, 0),
        (94, 6, 0, {"require_match": 0.95}, 0, 1),
        (0, 0, 0, {"require_match": 1.0, "max_fanout": 1.0}, 0, 0),
        (10, 90, 2, {"max_fanout": 1.2}, 0, 0),
        (10, 90, 3, {"max_fanout": 1.2}, 0, 1),
        (10, 90, 3, {"max_fanout": 1.2, "require_match": 0.5}, 0, 2),
    ],
)
def test_a_join_is_judged_by_its_counts(
    matched: int,
    unmatched: int,
    added: int,
    expectations: dict[str, float],
    warnings: int,
    problems: int,
) -> None:
    """Warnings are for what the recipe does not speak of.

    Its bounds are allowed themselves. A fan-out is that of rows with a match.
    """
    join = JoinMatches("users", matched, unmatched, added, **expectations)
    assert len(list(join.warnings())) == warnings
    assert len(list(join.problems())) == problems
    assert all("'users'" in line for line in [*join.warnings(), *join.problems()])
    if problems:
        with pytest.raises(DataError, match=r"'users'.*(expected at|none of 10 rows)"):
            check_joins([join])
    else:
        check_joins([join])


def test_a_manifest_has_the_expectations() -> None:
    """Manifests of earlier versions have none."""
    counts = {"source": "a", "matched": 1, "unmatched": 2, "dropped": 3, "added": 4}
    old = parsed_manifest(recipe={"join": [{}]}, joins=[counts])
    assert joins_of(old) == [JoinMatches("a", 1, 5, 4)]
    join = {"require_match": 0.5, "max_fanout": 9.0}
    new = parsed_manifest(recipe={"join": [join]}, joins=[counts])
    assert joins_of(new) == [JoinMatches("a", 1, 5, 4, 0.5, 9.0)]
