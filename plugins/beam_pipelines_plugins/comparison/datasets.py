"""Compares two datasets, descriptions, recipes or data files by their statistics."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.compare import ColumnComparison, compare_columns
from beam_pipelines.analysis.drift import LARGE_DRIFT
from beam_pipelines.analysis.statistics.datasets import find_manifest, is_stored, read_statistics
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.view import view_of_column
from beam_pipelines.core.errors import RecipeError, mask, nearest
from beam_pipelines.core.formatting import show_share
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.pipeline import api

# Values that are named, of all that are new or vanished.
_NAMED = 3


class TextsOfOneSide(NamedTuple):
    """Texts that only one side has.

    Attributes:
      number: of different texts.
      occurrences: of all of them.
      most: the most frequent of them, with their counts.
    """

    number: int
    occurrences: int
    most: tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True)
class ComparedColumn(ColumnComparison):
    """One column of two datasets, with its texts.

    Attributes:
      new, vanished: texts of test only and of base only; ``None``: not compared.
    """

    new: TextsOfOneSide | None = None
    vanished: TextsOfOneSide | None = None

    @property
    def shown_missing(self) -> str:
        """The shares of rows without it, one if both are equal."""
        shares = [show_share(share, 1.0) for share in self.missing if share is not None]
        return " → ".join(dict.fromkeys(shares))

    @property
    def not_judged(self) -> str:
        """The column and the reason: ``user (id)``."""
        if self.note != "date":
            return f"{self.name} ({self.note})"
        return f"{self.name} (date): {' → '.join(dict.fromkeys(self.ranges))}"


@dataclasses.dataclass(frozen=True)
class SplitComparison:
    """One split of two datasets.

    Attributes:
      rows: in base and test.
      columns: of both, in the order of base, then the others of test.
      findings: of the split itself, in words.
    """

    rows: tuple[int, int]
    columns: tuple[ComparedColumn, ...]
    findings: tuple[str, ...] = ()

    @property
    def ordered(self) -> list[ComparedColumn]:
        """The columns: those with findings, then by drift."""
        return sorted(self.columns, key=lambda one: (not one.findings, -(one.drift or 0)))

    @property
    def not_judged(self) -> tuple[str, ...]:
        """The columns that are not judged, with the reason."""
        return tuple(one.not_judged for one in self.columns if one.note)

    def all_findings(self) -> Iterator[str]:
        """Yields the findings of the split and of its columns."""
        yield from self.findings
        for column in self.columns:
            for finding in column.findings:
                yield f"{column.name}: {finding.text}"


def compare_split(
    base: TableStatistics, test: TableStatistics, max_drift: float = LARGE_DRIFT
) -> SplitComparison:
    """Compares two splits; the arguments are those of ``compare_columns``."""
    rows = base.rows, test.rows
    findings = (f"no rows, and {rows[0]:,} before",) if rows[0] and not rows[1] else ()
    columns = (_with_texts(column, base, test) for column in compare_columns(base, test, max_drift))
    return SplitComparison(rows, tuple(columns), findings)


def _with_texts(
    column: ColumnComparison, base: TableStatistics, test: TableStatistics
) -> ComparedColumn:
    """Adds new and vanished texts; ids and numbers have none."""
    if column.types[0] != column.types[1] or column.note == "id":
        return ComparedColumn(**vars(column))
    left, right = (view_of_column(column.name, side.columns[column.name]) for side in (base, test))
    new, vanished = (
        None if known is None or found is None else _missing_from(known, found)
        for known, found in ((left.strings, right.strings), (right.strings, left.strings))
    )
    return ComparedColumn(**vars(column), new=new, vanished=vanished)


def _missing_from(base: TextStatistics, test: TextStatistics) -> TextsOfOneSide | None:
    """Returns the texts that ``base`` has not; ``None`` if not known."""
    if not base.exact:
        return None  # the most frequent ones are kept only
    is_only = ~pc.is_in(test.values, base.values).to_numpy(zero_copy_only=False)
    only, counts = test.values.filter(pa.array(is_only)), test.counts[is_only]
    most = np.argsort(-counts, kind="stable")[:_NAMED]
    named = zip(only.take(pa.array(most)).to_pylist(), counts[most], strict=True)
    shown = tuple((str(text), int(count)) for text, count in named)
    return TextsOfOneSide(len(only), int(counts.sum()), shown)


def show_change(base: int, test: int) -> str:
    """Returns a change in per cent; a large one as a factor."""
    if not base:
        return ""
    return f"×{test / base:,.0f}" if test >= 10 * base else f"{(test - base) / base:+.1%}"


@dataclasses.dataclass(frozen=True)
class DataComparison:
    """The differences of two datasets.

    Attributes:
      base, test: what was compared.
      splits: split -> comparison; two splits of different names are ``base → test``.
      findings: all that matters, in words.
      has_encodings: whether a side has features whose values were not compared.
    """

    base: str
    test: str
    splits: Mapping[str, SplitComparison]
    findings: tuple[str, ...]
    has_encodings: bool = False

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
    findings = [
        *_lost_splits(sides[0], sides[1], split, pairs),
        *(f"{name}, {finding}" for name, one in splits.items() for finding in one.all_findings()),
    ]
    has_encodings = any(map(_has_encodings, sides))
    return DataComparison(sides[0].path, sides[1].path, splits, tuple(findings), has_encodings)


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


def as_json(value: Any) -> Any:
    """Returns frozen values as data for JSON."""
    if dataclasses.is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    return list(map(as_json, value)) if isinstance(value, (tuple, list)) else value
