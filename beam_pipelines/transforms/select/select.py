"""Selects rows and columns: ``rename``, ``filter``, ``derive``, ``drop`` and ``keep``.

The filter sees the source's and the joined columns. A derived column sees these and earlier derived
ones, on the remaining rows. ``drop`` and ``keep`` come last. Without filter and derived columns,
DuckDB is not loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.checks.check import Check, SelectedColumns, plan_checks
from beam_pipelines.checks.expect import Expect
from beam_pipelines.checks.expectations import expected_lengths
from beam_pipelines.checks.meet import Meet, meet_hashes
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import ROW, SPLIT_KEY, Chunk, add_counts
from beam_pipelines.core.errors import Problem, RecipeProblems, missing_column
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.protect import Protection
from beam_pipelines.sources.bad_input.bad_values import large_cell
from beam_pipelines.sources.images.columns import first_damage, image_columns
from beam_pipelines.sql.conjuncts import conjuncts_of
from beam_pipelines.sql.database import ExpressionError, LargeColumnError
from beam_pipelines.sql.derive import plan_derived
from beam_pipelines.sql.expressions import Expression, evaluate, parse_expression
from beam_pipelines.transforms.select.errors import (
    DamagedImageError,
    LargeValueError,
    SelectError,
    explained,
)
from beam_pipelines.transforms.select.protect import protect_batch, protected_schema
from beam_pipelines.transforms.select.rename import Names, rename_batch
from beam_pipelines.transforms.split.key import KEY_FIELD, key_of


@dataclasses.dataclass(frozen=True)
class SelectPlan(PickledOnce):
    """A selection that is ready to run.

    Attributes:
      filter: the condition, or ``None``.
      derive: new columns, in order.
      protect: columns whose values are replaced after that.
      schema: the columns after selection, including those that only the split needs. The split
        removes these.
      key: the columns whose hash the column ``SPLIT_KEY`` gets; or none.
      rename: columns that get a new name first.
      images: derived columns of images, which are decoded to check them.
      limits: of an image's pixels.
      checks: of the rows, which see all columns before ``drop`` and ``keep``.
      seen: the columns that they name.
    """

    filter: Expression | None
    derive: tuple[Expression, ...]
    schema: pa.Schema
    key: tuple[str, ...] = ()
    rename: Names = dataclasses.field(default_factory=dict)
    images: tuple[str, ...] = ()
    limits: Limits = Limits()  # noqa: RUF009 (it is frozen)
    checks: tuple[Check, ...] = ()
    seen: pa.Schema = dataclasses.field(default_factory=lambda: pa.schema([]))
    protect: Mapping[str, Protection] = dataclasses.field(default_factory=dict)

    @property
    def meets(self) -> tuple[Meet, ...]:
        """The meets of all checks."""
        return tuple(meet for check in self.checks for meet in check.meets)

    def numbered(self) -> SelectPlan:
        """Returns the plan that keeps the column ``ROW`` as well."""
        if ROW in self.schema.names:
            return self
        return dataclasses.replace(self, schema=self.schema.append(pa.field(ROW, pa.int64())))

    def explained(self) -> SelectPlan:
        """Returns the plan that keeps the columns of checks.

        It keeps ``ROW``, too, and checks nothing.
        """
        more = [field for field in self.seen if field.name not in self.schema.names]
        schema = pa.schema([*self.schema, *more])
        return dataclasses.replace(self, schema=schema, checks=()).numbered()


def plan_select(
    recipe: Recipe, schema: pa.Schema, key: tuple[str, ...] = (), contract: bytes | None = None
) -> SelectPlan:
    """Plans a selection of rows with the columns of ``schema``.

    It evaluates the expressions on no rows.

    Args:
      recipe: of the conversion.
      schema: the columns of joined rows, already renamed.
      key: from ``key_columns``.
      contract: the recipe's schema, serialized, or ``None``.

    Raises:
      RecipeProblems: expressions that are not allowed, unknown columns, names that occur twice.
    """
    problems: list[Problem] = []
    empty = empty_batch(schema)
    condition = None
    if recipe.filter is not None:
        condition = _plan_filter(recipe.filter, empty, problems)
    derive, empty, broken, sizes = plan_derived(recipe.derive, schema, ("derive",), problems)
    if not broken:
        protected = protected_schema(recipe.protect, empty.schema, problems)
        empty = empty_batch(protected)
    kept = _kept_columns(recipe, empty.schema, bool(broken), problems)
    expected = schema_pb2.Schema.FromString(contract or b"")
    written = schema_after_split(recipe, kept)
    known = SelectedColumns(empty.schema, broken, tuple(written.names), problems, sizes)
    checks = plan_checks(_with_lengths(recipe, expected, written), known)
    if problems:
        raise RecipeProblems(problems)
    derived = pa.schema([field for field in kept if field.name in recipe.derive])
    images = image_columns(derived, expected, {})
    kept = kept.append(KEY_FIELD) if key else kept
    named = {name for check in checks for name in check.sees}
    return SelectPlan(
        condition,
        derive,
        kept,
        key,
        recipe.rename,
        images,
        recipe.limits,
        checks,
        pa.schema([field for field in empty.schema if field.name in named]),
        recipe.protect,
    )


def _with_lengths(recipe: Recipe, expected: schema_pb2.Schema, written: pa.Schema) -> Recipe:
    """Adds what a schema expects of sparse and weighted features."""
    lengths = tuple(expected_lengths(expected, written))
    rules = (*recipe.checks.get(Expect.name, ()), *lengths)
    checks = {**recipe.checks, Expect.name: rules} if lengths else recipe.checks
    return dataclasses.replace(recipe, checks=checks)


def _plan_filter(sql: str, empty: pa.RecordBatch, problems: list[Problem]) -> Expression | None:
    try:
        expression = parse_expression("filter", sql, empty.schema.names)
        found = evaluate(empty, expression).type
    except ExpressionError as error:
        problems.append(Problem(("filter",), f"'{shorten(sql)}': {error}"))
        return None
    if not pa.types.is_boolean(found):
        problems.append(
            Problem(
                ("filter",),
                f"'{shorten(sql)}': found a value of type {found}, expected a condition",
            )
        )
    return expression


def _kept_columns(
    recipe: Recipe, schema: pa.Schema, broken: bool, problems: list[Problem]
) -> pa.Schema:
    """Returns the remaining columns; notes unknown ones.

    Args:
      broken: whether a derived column failed; unknown columns may then be derived ones.
    """
    known, left = set(schema.names), set(schema_after_split(recipe, schema).names)
    for key, names in (("drop", recipe.drop), ("keep", recipe.keep)):
        for index, name in enumerate(names):
            if name not in known and not (broken and name in recipe.derive):
                problems.append(Problem((key, index), missing_column(name, schema.names)))
    if not left and not problems:
        problems.append(
            Problem(
                ("drop" if recipe.drop else "keep",), "found no column left, expected at least one"
            )
        )
    split = recipe.split
    sampled = None if recipe.sample is None else recipe.sample.by
    deciding = (*split.by, *split.stratify, split.time_column, sampled, SPLIT_KEY)
    return pa.schema([field for field in schema if field.name in left or field.name in deciding])


def schema_after_split(recipe: Recipe, schema: pa.Schema) -> pa.Schema:
    """Leaves out the columns that only decide the split."""
    dropped, kept = set(recipe.drop), set(recipe.keep)
    return pa.schema(
        [
            field
            for field in schema
            if field.name not in dropped
            and (not kept or field.name in kept)
            and field.name != SPLIT_KEY
        ]
    )


def select_rows(plan: SelectPlan, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Filters, derives and drops.

    Args:
      plan: from ``plan_select``.
      batch: rows with the planned columns.

    Returns:
      The remaining rows, in order, with the columns ``plan.schema``; and the number of rows
        filtered out.

    Raises:
      SelectError: an expression has no value for a row.
      DamagedImageError: a derived image is not whole.
    """
    left, filtered = _derived(plan, batch)
    return left.select(plan.schema.names), filtered


def _derived(plan: SelectPlan, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Returns the remaining rows with all columns.

    Returns:
      The rows, and the number of rows filtered out.
    """
    left = batch = rename_batch(batch, plan.rename)
    if plan.filter is not None:
        mask = pc.fill_null(_evaluate(batch, plan.filter), False)
        left = batch if pc.all(mask, min_count=0).as_py() else batch.filter(mask)
    if plan.key:
        left = left.append_column(SPLIT_KEY, key_of(left, plan.key))
    for expression in plan.derive:
        left = left.append_column(expression.name, _evaluate(left, expression, plan.limits))
        if large := large_cell(left.select([expression.name]), plan.limits.cell_bytes):
            found = exceeded(plan.limits, "cell_bytes", f"a value of {large.size_bytes:,} bytes")
            raise LargeValueError(SelectError(found, expression, left), large.row)
    left = protect_batch(plan.protect, left) if plan.protect else left
    for column, found in first_damage(left, plan.images, plan.limits).values():
        raise DamagedImageError(found, column)
    return left, batch.num_rows - left.num_rows


def _evaluate(
    batch: pa.RecordBatch, expression: Expression, limits: Limits | None = None
) -> pa.Array:
    try:
        return evaluate(batch, expression, limits.derived_bytes if limits else None)
    except LargeColumnError as error:
        found = exceeded(limits or Limits(), "derived_bytes", str(error))
        raise LargeValueError(SelectError(found, expression, batch), error.row) from error
    except ExpressionError as error:
        raise SelectError(str(error), expression, batch) from error


@dataclasses.dataclass
class SelectChunks(beam.PTransform):
    """Selects rows and columns of chunks.

    Input: ``Chunk`` elements. Output: a ``Chunk`` with the same address for each, its rows in
    order, maybe none, and ``filtered`` in its counts.

    Attributes:
      plan: from ``plan_select``.
    """

    plan: SelectPlan

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | "Select" >> beam.Map(select_chunk, self.plan)


def select_chunk(chunk: Chunk, plan: SelectPlan) -> Chunk:
    """Selects rows and columns of a chunk, and checks them.

    Its counts get ``filtered``. What checks carry follows the columns.
    """
    with explained(chunk.path):
        rows, filtered = _derived(plan, chunk.batch)
        checked = [_checked(check, rows) for check in plan.checks]
        batch = rows.select(plan.schema.names)
        if ROW in plan.schema.names and not rows.num_rows and ROW not in rows.schema.names:
            batch = batch.append_column(ROW, pa.array([], pa.int64()))
        for _, carried in checked:
            for name, column in carried.items():
                batch = batch.append_column(name, column)
    counts = add_counts(chunk.counts, {"filtered": filtered})
    pieces = tuple(piece for piece, _ in checked)
    return chunk._replace(batch=batch, counts=counts, pieces=pieces)


def _checked(check: Check, rows: pa.RecordBatch) -> tuple[Any, dict[str, pa.Array]]:
    """Returns what rows add to a check, and columns for it.

    Raises:
      CheckError: an expression of the check has no value.
    """
    try:
        piece = check.piece(rows)
        carried = dict(meet_hashes(check.meets, rows))
    except ExpressionError as error:
        raise check.explained(rows, error) from error
    return piece, carried


def divide_filter(
    select: SelectPlan, base: pa.Schema, joined: pa.Schema
) -> tuple[SelectPlan | None, SelectPlan]:
    """Divides the filter of a selection.

    Args:
      select: of joined rows.
      base: columns of the base source.
      joined: of joined rows, already renamed.

    Returns:
      What is selected before the joins, or ``None``, and after them. The rows of the first one have
      their new names, until ``joinable``.
    """
    if select.filter is None:
        return None, select
    rename = {name: select.rename.get(name, name) for name in base.names}
    own: list[str] = []
    others: list[str] = []
    for sql in conjuncts_of(select.filter.sql):
        part = parse_expression("filter", sql, joined.names)
        is_own = part.columns and set(part.columns) <= set(rename.values())
        (own if is_own else others).append(sql)
    if not own:
        return None, select
    first = SelectPlan(
        _condition(own, joined),
        (),
        pa.schema([field.with_name(rename[field.name]) for field in base]),
        rename={old: new for old, new in rename.items() if old != new},
    )
    rest = _condition(others, joined) if others else None
    return first, dataclasses.replace(select, filter=rest)


def _condition(parts: Sequence[str], schema: pa.Schema) -> Expression:
    """Returns the condition that all parts hold."""
    condition = parse_expression("filter", " AND ".join(parts), schema.names)
    found = evaluate(empty_batch(schema), condition)
    if pa.types.is_boolean(found.type):
        return condition
    # AND makes booleans of other values.
    return condition._replace(sql=f"(\n{condition.sql}\n) AND TRUE")


def joinable(chunk: Chunk, plan: SelectPlan) -> Chunk:
    """Returns a chunk that ``plan`` has selected as the joins expect it.

    Its columns have the names of the base source. Its counts get ``filtered_first``.

    Args:
      chunk: with the count ``filtered``.
      plan: from ``divide_filter``, before the joins.
    """
    counts = add_counts(chunk.counts, {"filtered_first": chunk.counts["filtered"]})
    old_names = {new: old for old, new in plan.rename.items()}
    return chunk._replace(batch=rename_batch(chunk.batch, old_names), counts=counts)
