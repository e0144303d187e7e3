"""The interface of a check, and what it finds."""

from __future__ import annotations

import abc
import dataclasses
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import pyarrow as pa

from beam_pipelines.checks.meet import Meet
from beam_pipelines.core.errors import Problem, missing_column
from beam_pipelines.core.places import Pair, Place, Repeats
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.values import ValueReader
from beam_pipelines.sources.source_format import Position
from beam_pipelines.sql.expressions import Expression, NoValueError

Severity = Literal["ok", "warn", "error"]


class Finding(NamedTuple):
    """One result of a check.

    Attributes:
      severity: ``error`` stops the run.
      line: what was found, and where the first row is; without a value of a private column.
      hint: what to do about it.
      data: more of its entry in the manifest.
      listed: the first rows, as ``rejected/`` lists them.
    """

    severity: Severity
    line: str
    hint: str = ""
    data: Mapping[str, Any] = {}
    listed: tuple[Mapping[str, Any], ...] = ()

    def to_json(self, check: str) -> dict[str, Any]:
        """Returns its entry of the manifest."""
        return {"check": check, "severity": self.severity, "line": self.line, **self.data}


def listed_pairs(
    source: str, pairs: Iterable[Pair], reasons: Iterable[str], **more: str
) -> tuple[Mapping[str, Any], ...]:
    """Returns pairs of rows as ``rejected/`` lists them."""
    return tuple(
        {
            "source": source,
            **more,
            "file": pair.file,
            "position": pair.place,
            "reason": reason,
            "text": pair.text,
            "first_text": pair.first_text,
        }
        for pair, reason in zip(pairs, reasons, strict=True)
    )


def first_of(pairs: Iterable[Pair]) -> list[list[str]]:
    """Returns the places of pairs, the earlier row of each first."""
    return [[pair.first, pair.row] for pair in pairs]


class SelectedColumns(NamedTuple):
    """The columns of selected rows before ``drop`` and ``keep``.

    Attributes:
      schema: of the columns.
      broken: derived columns that failed; they are not in the schema, and no problem here.
      written: columns that are written.
      problems: gets those that are found.
      sizes: derived column in lower case -> the size of its expression.
    """

    schema: pa.Schema
    broken: Collection[str]
    written: tuple[str, ...]
    problems: list[Problem]
    sizes: Mapping[str, int] = types.MappingProxyType({})

    def note_unknown(
        self, names: tuple[str, ...], path: tuple[str | int, ...], is_list: bool = True
    ) -> None:
        """Notes columns that are not there."""
        for index, name in enumerate(names):
            if name not in self.schema.names and name not in self.broken:
                message = missing_column(name, self.schema.names)
                self.problems.append(Problem((*path, index) if is_list else path, message))


class CheckError(NoValueError):
    """An expression of a check has no value, which stops the run."""


class FoundRow(NamedTuple):
    """A row in its file.

    Attributes:
      where: the name of the file and the place in it.
      position: its file, place and text.
      values: that were asked for.
    """

    where: str
    position: Position
    values: Mapping[str, Any]


class RowReader(Protocol):
    """Reads rows again by their places."""

    @property
    def source(self) -> str:
        """The name of the base source."""

    @property
    def private(self) -> Collection[str]:
        """Columns whose values are not shown."""

    def joined_words(self, column: str) -> str:
        """Returns words for a column whose values another source has, or ``""``."""

    def rows_of(self, places: Iterable[Place], columns: Sequence[str]) -> Sequence[FoundRow]:
        """Returns rows in order."""

    def pairs_of(self, pairs: Sequence[tuple[Place, Place]]) -> tuple[Pair, ...]:
        """Returns pairs of rows in order."""


@dataclasses.dataclass(frozen=True, eq=False)
class SampledSplits:
    """Sampled rows of all splits, without private columns.

    Attributes:
      raw, encoded: the same rows before and after encoding.
      encode: the plan of encodings, fitted.
      label: its name, or ``None``.
      classes: of the label, by id.
      weight: column of weights, or ``None``.
    """

    raw: pa.RecordBatch
    encoded: pa.RecordBatch
    encode: Any
    label: str | None = None
    classes: Sequence[str] = ()
    weight: str | None = None


class Facts(NamedTuple):
    """The input of ``Check.judge``.

    Attributes:
      rows: number of rows that were selected.
      splits: split -> its rows, in order.
      met: meet -> (number of the split of the earlier row, and of the row) -> rows.
      pieces: address and piece of each chunk, by address.
      sampled: some of the rows; ``None``: there are none.
    """

    rows: int
    splits: Mapping[str, int]
    met: Mapping[str, Mapping[tuple[int, int], Repeats]]
    pieces: Sequence[tuple[tuple[int, int], Any]] = ()
    sampled: SampledSplits | None = None

    def repeats(self, meet: str) -> Repeats:
        """Returns the rows that met, without splits."""
        return self.met.get(meet, {}).get((0, 0), Repeats())


class Check(abc.ABC):
    """A rule of the recipe that is ready to run.

    Attributes:
      name: its key in the recipe; also in the manifest and of the file in ``rejected/``.
      reader: of its value in the recipe, the options of ``plan``.
      help: one line on the key.
      changes_rows: whether it leaves rows out; then its key is part of the recipe's hash.
      finds_equal_rows: whether it tells of equal rows, so that nothing else has to.
    """

    name: ClassVar[str]
    reader: ClassVar[ValueReader[Any]]
    help: ClassVar[str] = ""
    changes_rows: ClassVar[bool] = False
    finds_equal_rows: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def plan(cls, options: Any, recipe: Recipe, known: SelectedColumns) -> Check | None:
        """Returns the check that the recipe asks for; notes what is wrong."""

    @classmethod
    def hides(cls, options: Any) -> tuple[str, ...]:  # noqa: ARG003
        """Returns columns that it allows, but whose values nothing shows."""
        return ()

    @property
    def meets(self) -> tuple[Meet, ...]:
        """Rows that meet."""
        return ()

    @property
    def sees(self) -> tuple[str, ...]:
        """Columns of selected rows that it names."""
        return ()

    def piece(self, rows: pa.RecordBatch) -> Any:
        """Returns what the rows of a chunk add, as JSON data."""
        return None

    def explained(self, rows: pa.RecordBatch, error: Exception) -> CheckError:
        """Returns an error of an expression of the check, with its place."""
        expression = Expression(self.name, self.name, (), 1)
        return CheckError(str(error), expression, rows, f"check '{self.name}'")

    def revealing(self, private: Collection[str]) -> Iterator[Problem]:
        """Yields results that are values of private columns."""
        yield from ()

    @abc.abstractmethod
    def judge(self, facts: Facts, rows: RowReader) -> Iterable[Finding]:
        """Yields the findings."""


def plan_checks(recipe: Recipe, known: SelectedColumns) -> tuple[Check, ...]:
    """Returns the checks of a recipe; notes what is wrong with them."""
    every = dict.fromkeys((*plugins.known(plugins.CHECKS), *sorted(recipe.checks)))
    names = [name for name in every if name in recipe.checks]
    kinds: list[type[Check]] = [plugins.load(plugins.CHECKS, name) for name in names]
    planned = (kind.plan(recipe.checks[kind.name], recipe, known) for kind in kinds)
    checks = tuple(check for check in planned if check is not None)
    for check in checks:
        known.problems.extend(_impossible(check, recipe))
        if not check.changes_rows and any(meet.drop for meet in check.meets):
            raise TypeError(
                f"check '{check.name}' leaves rows out, expected 'changes_rows = True' of "
                f"{type(check).__name__}: the recipe's hash has to know it."
            )
    return checks


def _impossible(check: Check, recipe: Recipe) -> Iterator[Problem]:
    """Yields keys of a recipe that a check contradicts."""
    meets_splits = any(meet.has_splits for meet in check.meets)
    if meets_splits and recipe.sequence is not None and recipe.sequence.group_by:
        message = (
            "found it with 'group_by' of the sequence: grouped rows are not compared. Leave it "
            "out: a split by the columns of 'group_by' has all rows of a key."
        )
        yield Problem((check.name,), message)
