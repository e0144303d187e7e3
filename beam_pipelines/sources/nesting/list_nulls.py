"""Nulls inside lists: left out or filled, as the recipe's ``list_nulls`` says.

A feature has no place for them, so they are an error otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.cell_formats import DROP, FILL
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Contents, problem
from beam_pipelines.sources.options import ListOptions

# Kind of values -> one of them, for the remedy.
_EXAMPLES = (
    (pa.types.is_boolean, "false"),
    (pa.types.is_integer, "0"),
    (pa.types.is_floating, "0"),
    (pa.types.is_time, "'00:00'"),
    (pa.types.is_temporal, "1970-01-01"),
)


def settle(array: pa.Array, choice: Sequence[str]) -> pa.Array:
    """Returns lists with their null values left out or filled.

    Args:
      array: n lists, or lists of lists, of a column type; null lists stay null.
      choice: of ``list_nulls``; empty: the array stays as it is.

    Raises:
      pa.ArrowInvalid: the type has no such value.
    """
    if not choice or not pa.types.is_list(array.type):
        return array
    offsets, values = offsets_of(array), array.values
    if pa.types.is_list(values.type):
        values = settle(values, choice)
    elif values.null_count and choice[0] == FILL:
        values = pc.fill_null(values, fill_value(choice[1], values.type))
    elif values.null_count:
        before = np.append(0, np.cumsum(pc.is_valid(values).to_numpy(zero_copy_only=False)))
        offsets, values = before[offsets], values.drop_null()
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


def fill_value(text: str, type_: pa.DataType) -> pa.Scalar:
    """Returns a recipe's text as a value of a column type.

    Raises:
      pa.ArrowInvalid: the type has no such value.
    """
    return pa.scalar(text).cast(type_)


def cure(name: str, type_: pa.DataType, can_drop: bool) -> str:
    """Returns the remedy for a null inside a list.

    Args:
      name: of the column.
      type_: column type of its values.
      can_drop: whether lists may become shorter.
    """
    example = next((text for matches, text in _EXAMPLES if matches(type_)), "''")
    drop = f"'list_nulls: {{{name}: {DROP}}}' or " if can_drop else ""
    return (
        f'Set {drop}"list_nulls: {{{name}: {{{FILL}: {example}}}}}" of the source, or leave the '
        "column out with 'columns'."
    )


def can_drop(name: str, column: pa.Field, file_schema: pa.Schema) -> bool:
    """Whether the lists of a column may become shorter.

    Arrays with a shape may not, nor the parallel lists of a list of objects.

    Args:
      name: of the flat column.
      column: its field, with the shape of arrays.
      file_schema: the file's own columns.
    """
    return columns.shape_of(column) is None and name in _own_lists(file_schema)


def _own_lists(schema: pa.Schema, prefix: str = "") -> Iterator[str]:
    """Yields the flat names of lists that are not in lists."""
    for field in schema:
        name = f"{prefix}{field.name}"
        if pa.types.is_struct(field.type):
            yield from _own_lists(pa.schema(list(field.type)), f"{name}.")
        elif is_list(field.type) and not pa.types.is_struct(field.type.value_type):
            yield name


def problems(source: Source, contents: Contents) -> Iterator[Problem]:
    """Yields what ``list_nulls`` of a source cannot do.

    Args:
      source: of the recipe.
      contents: its columns, which include those of ``list_nulls``.
    """
    for name, choice in source.options_of(ListOptions).list_nulls.items():
        field = contents.read_schema.field(name)
        if not pa.types.is_list(field.type):
            shown = source.types.get(name, columns.type_name(field.type))
            yield problem(source, "list_nulls", f"column '{name}': found {shown}, expected a list.")
        elif choice[0] == DROP and not can_drop(name, field, contents.file_schema):
            yield problem(
                source,
                "list_nulls",
                f"column '{name}': found '{DROP}' for lists that are as long as others of their "
                f"row, expected a value in the place of nulls, as {{{FILL}: 0}}.",
            )
        elif choice[0] == FILL:
            yield from _fill_problems(source, name, choice[1], columns.value_type(field.type))


def _fill_problems(source: Source, name: str, text: str, type_: pa.DataType) -> Iterator[Problem]:
    values = columns.column_type(type_) or type_
    try:
        fill_value(text, values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        expected = columns.type_name(values)
        message = f"column '{name}': found '{text}' to fill lists, expected a value of {expected}."
        yield problem(source, "list_nulls", message)
