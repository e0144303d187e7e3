"""Code of formats with types of their own.

Makes columns flat, checks every file and row, and converts values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import inference, source_format
from beam_pipelines.sources.bad_input import bad_rows, bad_values
from beam_pipelines.sources.exact_cast import convert_array
from beam_pipelines.sources.nesting import nested, shapes, tensors
from beam_pipelines.sources.plan import FileInfo, SourcePlan


def check_schema(source: Source, path: str, schema: pa.Schema) -> None:
    """Checks a file's own columns against the recipe's limits.

    Raises:
      DataError: they are too many, or too deep.
    """
    depth = nested.levels(schema)
    if depth > source.limits.nesting_depth:
        message = exceeded(source.limits, "nesting_depth", f"columns nested {depth:,} levels deep")
        raise DataError(f"{path}: {message}")
    source_format.check_columns(source, path, len(schema))


def contents_of(
    source: Source,
    schemas: Sequence[tuple[FileInfo, pa.Schema]],
    seen: Mapping[str, columns.Shape | None] | None = None,
    keeps_json: bool = False,
) -> source_format.Contents:
    """Returns the contents of a source, from the schemas of its files.

    Args:
      source: of the recipe.
      schemas: (file, its schema), of all files or some of them.
      seen: column -> the shape that its arrays had in the sample, ``None`` if they differed.
      keeps_json: whether lists can be read as the text of their JSON.

    Raises:
      DataError: files that do not agree, a flat name twice, a type that is no column.
      RecipeProblems: a declared type to which the column cannot be converted.
    """
    for file, schema in schemas:
        check_schema(source, file.path, schema)
    first, file_schema = schemas[0]
    flat = flat_schema(file_schema, first.path, source.columns)
    wanted = inference.selected(source, tuple(flat.names))
    for file, schema in schemas[1:]:
        other = flat_schema(schema, file.path, source.columns)
        flat = _agreed(source, first, flat, file, other)
    problems = []
    fields = []
    for name in wanted:
        found = flat.field(name).type
        if name not in source.types:
            of_json, shape = file_schema.names if keeps_json else (), (seen or {}).get(name)
            fields.append(_undeclared(first, name, _without_null(found), shape, of_json))
            continue
        declared = columns.parse_type(source.types[name])
        if not _can_become(found, source.types[name], declared):
            message = (
                f"column '{name}': found {found}, which cannot become {source.types[name]}. "
                f"{_others(found, name)}"
            )
            problems.append(source_format.problem(source, "types", message))
        fields.append(pa.field(name, declared))
    if problems:
        raise RecipeProblems(problems)
    undeclared = pa.schema([field for field in fields if field.name not in source.types])
    normalised = {field.name: field for field in columns.normalise_schema(undeclared, first.path)}
    read_schema = pa.schema([normalised.get(field.name, field) for field in fields])
    nulls = tuple(
        name for name in wanted if _without_null(flat.field(name).type) != flat.field(name).type
    )
    decisions = tuple(
        f"'{name}', the index of pandas, is a column  # 'drop: [{name}]' leaves it out"
        for name in wanted
        if name.startswith("__index_level_") and not source.columns
    )
    return source_format.Contents(
        tuple(flat.names), file_schema, read_schema, nulls, decisions=decisions
    )


def _undeclared(
    file: FileInfo,
    name: str,
    found: pa.DataType,
    seen: columns.Shape | None,
    of_json: Sequence[str],
) -> pa.Field:
    """Returns the field of a column without a declared type.

    Arrays become a flat list, with their shape.

    Raises:
      DataError: arrays of several shapes, or no array in the sample.
    """
    flat = shapes.flat_type(found)
    if flat is None or not (shapes.has_shape(found) or seen):
        return pa.field(name, found if flat is None else flat)
    shape = shapes.shape_of_type(found) or seen
    if not shape:
        leaf, key = columns.type_name(flat.value_type), yaml_text(name)
        has_shapes = shape is None
        keep = f"{bad_values.json_text(of_json, name)}, " if of_json else ""
        tensor = f"'types: {{{key}: tensor}}' to keep each row's own shape, " if has_shapes else ""
        steps = (
            f"'types: {{{key}: list<list<{leaf}>>}}' with 'sequence: {{features: {key}}}' for "
            "the steps of a feature list, "
            if shapes.depth(found) == 2
            else ""
        )
        raise DataError(
            f"{file.path}, column '{name}': found {found} without one shape that all rows of the "
            f"sample have. Declare {keep}{tensor}'types: {{{key}: list<{leaf}>}}' for the values "
            f"alone, {steps}or leave the column out with 'columns'."
        )
    return columns.with_shape(pa.field(name, flat), shape)


def _can_become(found: pa.DataType, name: str, declared: pa.DataType) -> bool:
    if columns.array_type(name):
        return tensors.can_become(found, name)
    try:
        _convert(pa.array([], shapes.stored(found)), name, pa.field("", declared), declared)
    except (*bad_rows.ERRORS, TypeError):
        return False
    return True


def _others(found: pa.DataType, name: str) -> str:
    """Returns the lines of a recipe that a column can follow."""
    empty = pa.array([], shapes.stored(found))
    names = bad_values.other_types(
        lambda type_: _convert(empty, columns.type_name(type_), pa.field("", type_), type_), found
    )
    lines = [f"'types: {{{yaml_text(name)}: {type_}}}'" for type_ in names]
    return f"Declare {' or '.join(lines)}." if lines else "Declare none."


def _without_null(type_: pa.DataType) -> pa.DataType:
    """Returns text for a type that has only nulls, or empty lists."""
    if columns.is_list(type_):
        return (
            pa.list_(_without_null(type_.value_type))
            if pa.types.is_null(type_.value_type)
            else type_
        )
    return pa.string() if pa.types.is_null(type_) else type_


def flat_schema(schema: pa.Schema, path: str, wanted: Collection[str] = ()) -> pa.Schema:
    """Returns the flat columns of a file.

    Args:
      schema: of the file.
      path: for messages.
      wanted: the columns to read, if not all. Names that are not among them may be there twice.

    Raises:
      DataError: two have the same name.
    """
    fields: dict[str, pa.Field] = {}
    for field in nested.flatten_fields(schema):
        if field.name in fields and (not wanted or field.name in wanted):
            raise DataError(
                f"{path}: found two columns named '{field.name}' (nested fields count as 'a.b'). "
                "Rename one of them, or name the others, which are to be read, in 'columns'."
            )
        fields.setdefault(field.name, field)
    return pa.schema(list(fields.values()))


def _agreed(
    source: Source, first: FileInfo, flat: pa.Schema, file: FileInfo, other: pa.Schema
) -> pa.Schema:
    """Returns the schema of two files that agree.

    A column that has only nulls in one takes the other's type.
    """
    _check_names(first.path, flat.names, file.path, other.names)
    types = {}
    for field in flat:
        found = other.field(field.name).type
        known, new = (shapes.flat_type(type_) for type_ in (field.type, found))
        if pa.types.is_null(field.type):
            types[field.name] = found
            continue
        types[field.name] = field.type
        if field.name not in source.types and known != new and not pa.types.is_null(found):
            raise _type_differs(file.path, field.name, found, field.type, first.path)
    return pa.schema(list(types.items()))


def _check_names(first: str, names: Sequence[str], path: str, others: Sequence[str]) -> None:
    for one, other, missing in (
        (path, first, sorted(set(names) - set(others))),
        (first, path, sorted(set(others) - set(names))),
    ):
        if missing:
            raise DataError(
                f"{one}: found no column '{missing[0]}', which {other} has. "
                f"{source_format.MUST_AGREE}"
            )


def _type_differs(
    path: str, name: str, found: pa.DataType, known: pa.DataType, first: str
) -> DataError:
    item = " ".join(str(shapes.leaf(type_)) for type_ in (found, known))
    wide = "text" if re.search("string|binary|bool|date|time|duration", item) else "float64"
    wide = f"list<{wide}>" if columns.is_list(found) and columns.is_list(known) else wide
    return DataError(
        f"{path}, column '{name}': found type {found}, expected {known} as in {first}. Files of "
        "one source must agree: mend one, or declare the type with 'types: "
        f"{{{yaml_text(name)}: {wide}}}'."
    )


def check_file(plan: SourcePlan, file: FileInfo, schema: pa.Schema) -> None:
    """Checks that a file has the columns and types found at planning.

    Raises:
      DataError: it has not; the message names both files.
    """
    check_schema(plan.source, file.path, schema)
    flat = flat_schema(schema, file.path, plan.source.columns)
    first = plan.files[0].path
    _check_names(
        first,
        flat_schema(plan.file_schema, first, plan.source.columns).names,
        file.path,
        flat.names,
    )
    for field in plan.read_schema:
        found = flat.field(field.name).type
        if field.name in plan.source.types or _without_null(found) != found:
            continue
        if shapes.flat_type(found) != field.type:
            raise _type_differs(file.path, field.name, found, field.type, first)


def rows_of(
    batch: pa.RecordBatch,
    plan: SourcePlan,
    file: FileInfo,
    first_row: int | Callable[[], int | list[int]],
    reject: bool,
    word: str = "row",
) -> Iterator[source_format.Rows]:
    """Converts rows of a file to the plan's columns.

    Args:
      batch: with the file's own types, nested or not.
      plan: of the source.
      file: file of the rows.
      first_row: number of the first row in the file, from 1, for messages; a function where it
        takes time to find, which may return the numbers of all rows.
      reject: whether bad rows are left out and listed.
      word: the word for a row in messages.

    Raises:
      DataError: a bad row.
    """
    try:
        yield from source_format.cut_rows(
            convert(batch, plan) if batch.num_rows else empty_batch(plan.schema), ()
        )
        return
    except bad_values.ColumnError:
        pass
    errors = errors_of(batch, plan)
    found = first_row() if callable(first_row) else first_row
    numbers = found if isinstance(found, list) else range(found, found + batch.num_rows)
    rejected: list[Rejected] = []
    for number, error in errors.items():
        row = batch.slice(number, 1)
        bad = Rejected(
            plan.source.name,
            file.path,
            f"{word} {numbers[number]}",
            *bad_values.explain(row, plan, error),
            bad_rows.shown_row(row),
        )
        bad_rows.reject_or_raise(bad, rejected, reject)
    is_good = np.ones(batch.num_rows, np.bool_)
    is_good[list(errors)] = False
    good = (
        convert(batch.filter(pa.array(is_good)), plan)
        if is_good.any()
        else empty_batch(plan.schema)
    )
    yield from source_format.cut_rows(good, tuple(rejected))


def errors_of(batch: pa.RecordBatch, plan: SourcePlan) -> dict[int, bad_values.ColumnError]:
    """Returns the errors of rows that cannot be converted, ascending.

    The error of a row is that of its first bad column. Most columns are good.
    """
    errors: dict[int, bad_values.ColumnError] = {}
    flat = nested.flat_arrays(batch)
    for field, column in zip(plan.read_schema, plan.schema, strict=True):
        declared = plan.source.types.get(field.name)
        attempt = functools.partial(_convert, flat[field.name], declared, column, field.type)
        for found in bad_rows.sift(attempt, 0, batch.num_rows):
            if isinstance(found, bad_rows.BadRow):
                errors.setdefault(
                    found.number, bad_values.ColumnError(field.name, str(found.error))
                )
    return dict(sorted(errors.items()))


def convert(batch: pa.RecordBatch, plan: SourcePlan) -> pa.RecordBatch:
    """Flattens, selects, casts and normalises the columns of a batch.

    Raises:
      ColumnError: a value that does not fit.
    """
    flat = nested.flat_arrays(batch)
    arrays = []
    for field, column in zip(plan.read_schema, plan.schema, strict=True):
        try:
            declared = plan.source.types.get(field.name)
            array = _convert(flat[field.name], declared, column, field.type)
        except bad_rows.ERRORS as error:
            raise bad_values.ColumnError(field.name, str(error)) from error
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _convert(
    array: pa.Array,
    declared: str | None,
    column: pa.Field,
    type_: pa.DataType,
    start: int = 0,
    end: int | None = None,
) -> pa.Array:
    """Converts the values of one column.

    Args:
      array: with the file's own type.
      declared: the recipe's type, or ``None``.
      column: of the plan's schema.
      type_: the type that the reader checks: the declared type, or the column's.
      start, end: of the rows; by default all.

    Raises:
      As ``convert_array``.
    """
    array = array[start:end]
    if declared is not None and columns.array_type(declared):
        return tensors.serialize(array, declared)
    array = shapes.stored_array(array)
    shape = columns.shape_of(column)
    has_steps = columns.has_lists_as_steps(type_)
    if shape is not None or (shapes.depth(array.type) > 1 and not has_steps):
        array = shapes.flatten(array, shape)
    return convert_array(array, type_)
