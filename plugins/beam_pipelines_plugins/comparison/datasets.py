"""Compares two datasets, descriptions, recipes or data files by their statistics."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipelines.analysis.compare import as_json, compare_shares
from beam_pipelines.analysis.drift import CHANCE, LARGE_DRIFT
from beam_pipelines.analysis.joins import JoinMatches, joins_of
from beam_pipelines.analysis.report.page import page_environment, page_file
from beam_pipelines.analysis.statistics.datasets import find_manifest, is_stored, read_statistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import RecipeError, mask, nearest
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.version import __version__
from beam_pipelines.pipeline import api
from beam_pipelines_plugins.comparison.splits import SplitComparison, compare_split, show_change


@dataclasses.dataclass(frozen=True)
class DataComparison:
    """The differences of two datasets.

    Attributes:
      base, test: what was compared.
      splits: split -> comparison; two splits of different names are ``base → test``.
      joins: source -> the joins with it of both sides.
      sizes: of both sides: bytes and number of shards; ``None`` where nothing was written.
      findings: all that matters, in words.
      has_encodings: whether a side has features whose values were not compared.
    """

    base: str
    test: str
    splits: Mapping[str, SplitComparison]
    joins: Mapping[str, tuple[JoinMatches, JoinMatches]]
    sizes: tuple[tuple[int, int] | None, tuple[int, int] | None]
    findings: tuple[str, ...]
    has_encodings: bool = False

    def to_html(self) -> str:
        """Returns the comparison as one HTML page.

        Equal comparisons give equal bytes. The page loads nothing, and runs no script.
        """
        environment = page_environment()
        environment.filters["change"] = show_change
        template = pathlib.Path(__file__).with_name("comparison.html").read_text(encoding="utf-8")
        return environment.from_string(template).render(
            **vars(self), style=page_file(environment, "page.css"), version=__version__
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as values of JSON; pairs are lists."""
        document: dict[str, Any] = as_json(self)
        return document


@dataclasses.dataclass(frozen=True)
class _Side:
    """One side: its statistics by split, and its manifest, if any."""

    path: str
    statistics: Mapping[str, TableStatistics]
    manifest: Manifest | None


def compare_data(
    base: str | os.PathLike[str],
    test: str | os.PathLike[str],
    *,
    split: str | None = None,
    max_drift: float = LARGE_DRIFT,
) -> DataComparison:
    """Compares two datasets by their statistics.

    Recipes and data files are read once. Of the others, only the statistics are.

    Args:
      base, test: each a dataset, a description, TFDV's statistics, a recipe or a data file.
      split: the split of both; ``None``: those of both, or the only one of each.
      max_drift: bits of a column's divergence, and change of a share of rows, up to which there is
        no finding.

    Raises:
      RecipeError: one of them is none of that, or they have no split in common.
      DataError: statistics that cannot be read, or a run that failed.
    """
    with contextlib.ExitStack() as stack:
        sides = [_side(os.fspath(path), stack) for path in (base, test)]
    pairs = _pairs(sides[0], sides[1], split)
    splits = {
        name: compare_split(sides[0].statistics[left], sides[1].statistics[right], max_drift)
        for name, (left, right) in pairs.items()
    }
    joins = _joins(sides[0].manifest, sides[1].manifest)
    findings = [
        *_lost_splits(sides[0], sides[1], split, pairs),
        *(f"{name}, {finding}" for name, one in splits.items() for finding in one.all_findings()),
        *_join_findings(joins, max_drift),
    ]
    sizes = _size(sides[0].manifest), _size(sides[1].manifest)
    return DataComparison(
        sides[0].path,
        sides[1].path,
        splits,
        joins,
        sizes,
        tuple(findings),
        any(map(_has_encodings, sides)),
    )


def _side(path: str, stack: contextlib.ExitStack) -> _Side:
    folder = path
    if not is_stored(path):
        folder = stack.enter_context(api.folder_or_temporary(None))
        api.describe(path, folder)
    return _Side(path, read_statistics(folder), find_manifest(folder))


def _has_encodings(side: _Side) -> bool:
    """Whether a dataset has features that statistics, of columns before encoding, lack."""
    recipe = side.manifest.recipe if side.manifest else {}
    return bool(recipe.get("encode") or recipe.get("preprocessing_fn"))


def _pairs(base: _Side, test: _Side, split: str | None) -> dict[str, tuple[str, str]]:
    """Returns name -> the splits to compare.

    Raises:
      RecipeError: there are none.
    """
    if split is not None:
        for side in (base, test):
            if split not in side.statistics:
                known = ", ".join(side.statistics)
                raise RecipeError(
                    f"{mask(side.path)}: found no split '{split}', expected one of {known}."
                    f"{nearest(split, side.statistics)}"
                )
        return {split: (split, split)}
    both = {name: (name, name) for name in base.statistics if name in test.statistics}
    if both:
        return both
    if len(base.statistics) == len(test.statistics) == 1:
        [left], [right] = base.statistics, test.statistics
        return {f"{left} → {right}": (left, right)}
    names = [", ".join(side.statistics) for side in (base, test)]
    raise RecipeError(
        f"found the splits {names[0]} in {mask(base.path)} and {names[1]} in {mask(test.path)}, "
        "expected one in common."
    )


def _lost_splits(
    base: _Side, test: _Side, split: str | None, pairs: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    if split is not None:
        return
    compared = {name for pair in pairs.values() for name in pair}
    for side, word in ((base, "vanished"), (test, "is new")):
        for name in side.statistics:
            if name not in compared:
                yield f"split '{name}' {word}"


def _joins(
    base: Manifest | None, test: Manifest | None
) -> dict[str, tuple[JoinMatches, JoinMatches]]:
    """Returns the joins of both sides, if they are the same ones."""
    if not base or not test:
        return {}
    left, right = joins_of(base), joins_of(test)
    if [join.source for join in left] != [join.source for join in right]:
        return {}
    several = len({join.source for join in left}) < len(left)
    return {
        f"{one.source}{f' ({number + 1})' if several else ''}": (one, other)
        for number, (one, other) in enumerate(zip(left, right, strict=True))
    }


def _join_findings(
    joins: Mapping[str, tuple[JoinMatches, JoinMatches]], max_drift: float
) -> Iterator[str]:
    chance = CHANCE / max(1, len(joins))
    for name, pair in joins.items():
        sides = [(join.rows, join.matched) for join in pair]
        for one in compare_shares("join", "of the rows had a match", sides, max_drift, chance):
            yield f"join with '{name}': {one.text}"


def _size(manifest: Manifest | None) -> tuple[int, int] | None:
    """Returns bytes and number of all shards."""
    shards = list(manifest.shards) if manifest else []
    return (sum(one.bytes for one in shards), len(shards)) if shards else None
