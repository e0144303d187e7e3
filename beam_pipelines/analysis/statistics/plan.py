"""The plan of statistics: weight, slices, categorical integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import has_lists_as_steps, type_name, value_type
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest
from beam_pipelines.core.layout.schema_features import features_of
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.recipe.sections import Statistics


@dataclasses.dataclass(frozen=True)
class StatisticsPlan(PickledOnce):
    """Statistics to compute besides those of all rows.

    Attributes:
      weight: column of the rows' weights; ``None``: nothing is weighted.
      slice_by: columns, each of whose values gets statistics of its own.
      categorical: integer columns whose values are also counted like texts.
      lists: list columns that are feature lists: each value is a step, and may be null.
      private: columns whose values are not counted, only their presence and number.
    """

    weight: str | None = None
    slice_by: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


def plan_statistics(
    wanted: Statistics,
    schema: pa.Schema,
    contract: bytes | None,
    lists: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
) -> StatisticsPlan:
    """Plans the statistics of a conversion.

    Args:
      wanted: the recipe's ``statistics``.
      schema: the selected columns.
      contract: the recipe's schema as serialized ``schema_pb2.Schema``, or ``None``.
      lists: list columns that are feature lists.
      private: columns whose values are not counted.

    Raises:
      RecipeProblems: a column is missing, or has the wrong type; a column of lists of lists is no
        feature list.
    """
    problems: list[Problem] = []
    if wanted.weight is not None:
        problems += _check(
            schema, ("statistics", "weight"), wanted.weight, _is_number, "a number column"
        )
    for index, column in enumerate(wanted.slice_by):
        path: tuple[str | int, ...] = ("statistics", "slice_by")
        path += (index,) if len(wanted.slice_by) > 1 else ()
        fitting = "a column of texts, integers, dates or times"
        problems += _check(schema, path, column, _has_slices, fitting)
    shown = (wanted.weight, *wanted.slice_by)
    problems += [
        Problem(("statistics",), f"found '{name}', whose values 'pii: {{allow: …}}' hides.")
        for name in private
        if name in shown
    ]
    problems += [
        Problem(
            ("sequence",),
            f"column '{field.name}' is {type_name(field.type)}, which only a feature list holds. "
            f"Name it in 'sequence: {{features: {field.name}}}', declare another type of it with "
            "'types', or leave it out with 'drop'.",
        )
        for field in schema
        if has_lists_as_steps(field.type) and field.name not in lists
    ]
    if problems:
        raise RecipeProblems(problems)
    expected = schema_pb2.Schema() if contract is None else schema_pb2.Schema.FromString(contract)
    categorical = _categorical(schema, expected)
    return StatisticsPlan(wanted.weight, wanted.slice_by, categorical, lists, private)


def _check(
    schema: pa.Schema,
    path: tuple[str | int, ...],
    column: str,
    fits: Callable[[pa.DataType], bool],
    expected: str,
) -> list[Problem]:
    if column not in schema.names:
        known = nearest(column, schema.names) or f" There are {', '.join(schema.names)}."
        return [Problem(path, f"found '{column}', expected a column that is written.{known}")]
    kind = schema.field(column).type
    if fits(kind):
        return []
    return [
        Problem(path, f"found column '{column}' of type {type_name(kind)}, expected {expected}.")
    ]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _has_slices(kind: pa.DataType) -> bool:
    if has_lists_as_steps(kind):
        return False
    kind = value_type(kind)
    return not (pa.types.is_floating(kind) or pa.types.is_binary(kind))


def _categorical(schema: pa.Schema, contract: schema_pb2.Schema) -> tuple[str, ...]:
    """Returns the integer columns with a categorical domain in the schema.

    The columns are in table order.
    """
    features = {feature.name: feature for feature in features_of(contract)}
    return tuple(
        field.name
        for field in schema
        if field.name in features
        and features[field.name].int_domain.is_categorical
        and pa.types.is_integer(value_type(field.type))
    )
