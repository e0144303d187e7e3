"""Inference of column types: the sample, and how types are merged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.plan import FileInfo

# Together the samples are at most this long: about 0.2 s of inference.
SAMPLE_BYTES = 8 * MIB
SAMPLE_FILES = 8


def sample_files(files: tuple[FileInfo, ...]) -> tuple[FileInfo, ...]:
    """Returns at most ``SAMPLE_FILES`` files, spread evenly, first and last among them."""
    if len(files) <= SAMPLE_FILES:
        return files
    return tuple(
        files[index * (len(files) - 1) // (SAMPLE_FILES - 1)] for index in range(SAMPLE_FILES)
    )


def sample_rounds(
    source: Source, files: tuple[FileInfo, ...], what: str = "rows"
) -> Iterator[tuple[FileInfo, ...]]:
    """Yields the files to sample, then the others, some at a time.

    The others are for a sample without rows. A caller that has found some asks for no more.

    Raises:
      DataError: there are no rows; with ``what`` "" the caller says so.
    """
    first = files if source.reads_all else sample_files(files)
    yield first
    known = set(first)
    others = [file for file in files if file not in known]
    for start in range(0, len(others), SAMPLE_FILES):
        yield tuple(others[start : start + SAMPLE_FILES])
    if what:
        raise DataError(
            f"{files[0].path}: found no {what}, expected data. Check 'path' of the source."
        )


def merge_types(left: pa.DataType, right: pa.DataType, is_left_right: bool = False) -> pa.DataType:
    """Returns the type that has the values of both types.

    Null gives way to anything, int64 to float64, dates to timestamps, whole seconds to fractions;
    structs merge field by field and lists item by item. Anything else that differs is text, or with
    ``is_left_right`` it is ``left``.
    """
    types = pa.types
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if types.is_struct(left) and types.is_struct(right):
        return pa.struct(
            list(merge_schemas(pa.schema(list(left)), pa.schema(list(right)), is_left_right))
        )
    if types.is_list(left) and types.is_list(right):
        return pa.list_(merge_types(left.value_type, right.value_type, is_left_right))
    return _merge_scalars(left, right) or (left if is_left_right else pa.string())


def _merge_scalars(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if {left, right} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if types.is_timestamp(left) and types.is_timestamp(right) and left.tz == right.tz:
        return max(left, right, key=lambda type_: ("s", "ms", "us", "ns").index(type_.unit))
    for one, other in ((left, right), (right, left)):
        if types.is_timestamp(one) and types.is_date(other) and one.tz is None:
            return one
        if types.is_string(one) and types.is_temporal(other):
            return one
    return None


def time_type(texts: pa.Array) -> pa.DataType | None:
    """Returns the type of texts of ISO 8601 dates or times.

    All times have an offset, or none has; ``None`` for other texts, for a fraction of a
    microsecond, and where all are null.
    """
    if texts.null_count < len(texts):
        for type_ in (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
            with contextlib.suppress(pa.ArrowInvalid):
                exact_cast(texts, type_)
                return type_
    return None


def merge_schemas(left: pa.Schema, right: pa.Schema, is_left_right: bool = False) -> pa.Schema:
    """Merges types of equal names; new names come after the old."""
    fields = {field.name: field.type for field in left}
    for field in right:
        known = fields.get(field.name, pa.null())
        fields[field.name] = merge_types(known, field.type, is_left_right)
    return pa.schema(list(fields.items()))


def selected(source: Source, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the columns to read: the recipe's ``columns`` that exist, else all."""
    return tuple(name for name in source.columns if name in names) or names
