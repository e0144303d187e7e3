"""Sources whose rows are those of other sources, with columns by name."""

from __future__ import annotations

import array
import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import format_of, source_format
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.planner import cut_files
from beam_pipelines.sources.wrapping.derived import read_rows


@dataclasses.dataclass(frozen=True)
class UnionFormat(source_format.Format):
    """Reads the ranges of several sources.

    Attributes:
      members: plans of the sources, each with ranges of its own.
      origin: column with the name of a row's source, or ``None``.
    """

    members: tuple[SourcePlan, ...]
    origin: str | None

    @property
    def starts(self) -> list[int]:
        """Number of the first range of each source."""
        return [0, *itertools.accumulate(len(member.ranges) for member in self.members[:-1])]

    def member_of(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[SourcePlan, ByteRange]:
        """Returns the source of a range, and its own range; see ``Format``."""
        starts = self.starts
        place = bisect.bisect_right(starts, byte_range.number) - 1
        own = dataclasses.replace(byte_range, number=byte_range.number - starts[place])
        return self.members[place], own

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Is not called: ``plan_union`` plans."""
        raise NotImplementedError(source.name)

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        member, own = self.member_of(plan, byte_range)
        for rows in read_rows(member, own, quote_states, reject):
            yield rows._replace(batch=self._with_columns(rows.batch, plan, member))

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Finds rows of a range in their file; see ``Format``."""
        member, own = self.member_of(plan, byte_range)
        return format_of(member).positions(member.as_read, own, quote_states, rejected, rows)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns the word for a row, and a range's first row number."""
        member, own = self.member_of(plan, byte_range)
        return format_of(member).numbering(member, own)

    def _with_columns(
        self, batch: pa.RecordBatch, plan: SourcePlan, member: SourcePlan
    ) -> pa.RecordBatch:
        """Returns rows of a source with the columns of all.

        Raises:
          DataError: an integer is no float64.
        """
        arrays = []
        for field in plan.schema:
            if field.name == self.origin:
                arrays.append(pa.repeat(pa.scalar(member.source.name), batch.num_rows))
            elif field.name not in member.schema.names or field.name in member.null_columns:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            else:
                arrays.append(_cast(batch.column(field.name), field, member.source.name))
        return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _cast(array: pa.Array, field: pa.Field, source: str) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        return pc.cast(array, field.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"source '{source}', column '{field.name}': found a number that is not exact as "
            f"float64, expected {type_name(field.type)} as in another source of the union. "
            "Declare one type for all of them with 'types'."
        ) from error


def plan_union(source: Source, members: Sequence[SourcePlan]) -> SourcePlan:
    """Plans the rows of several sources as one source.

    Args:
      source: the union.
      members: plans of its sources, in order.

    Raises:
      RecipeProblems: a source has no table, or their columns differ.
    """
    union = source.union
    if union is None:
        raise ValueError(source.name)
    problems: list[Problem] = []
    for member in members:
        is_table = not format_of(member).is_file_a_row and not member.sparse and not member.labels
        if not is_table or any(True for _ in format_of(member).companions(member)):
            message = f"found the source '{member.source.name}' of format '{member.format}', "
            problems.append(
                source_format.problem(source, "union", f"{message}expected tables of rows.")
            )
    schema = _schema(source, members, problems)
    if problems:
        raise RecipeProblems(problems)
    cut = [*map(cut_files, members)]
    pairs = zip(members, cut, strict=True)
    members = tuple(dataclasses.replace(member, ranges=own) for member, own in pairs)
    reader = UnionFormat(members, union.origin)
    ends = (first + end for first, own in zip(reader.starts, cut, strict=True) for end in own.ends)
    listed = tuple(file for member in members for file in member.files)
    formats = {member.format for member in members}
    return SourcePlan(
        source=dataclasses.replace(
            source, path=tuple(path for member in members for path in member.source.path)
        ),
        format=formats.pop() if len(formats) == 1 else "union",
        files=listed,
        read_schema=schema,
        schema=schema,
        ranges=dataclasses.replace(cut[0], files=listed, ends=array.array("q", ends)),
        file_schema=schema,
        steps=tuple(dict.fromkeys(name for member in members for name in member.steps)),
        decisions=tuple(
            f"{member.source.name}: {decision}"
            for member in members
            for decision in member.decisions
        ),
        reader=reader,
    )


def _schema(source: Source, members: Sequence[SourcePlan], problems: list[Problem]) -> pa.Schema:
    """Returns the columns of all sources in order."""
    found: dict[str, dict[str, pa.DataType]] = {}
    for member in members:
        for field in member.schema:
            types = found.setdefault(field.name, {})
            if field.name not in member.null_columns:
                types[member.source.name] = field.type
    fills = source.union is not None and source.union.missing == "fill"
    fields = []
    for name, types in found.items():
        without = [each.source.name for each in members if name not in each.schema.names]
        if without and not fills:
            message = (
                f"column '{name}' is not in the source {', '.join(without)}, expected it in all. "
                "Set 'missing: fill' for null there, or choose the 'columns' of each source."
            )
            problems.append(source_format.problem(source, "union", message))
        kind = _common(set(types.values()))
        if kind is None:
            shown = ", ".join(f"{type_name(type_)} in {own}" for own, type_ in types.items())
            others = [own for own, type_ in types.items() if not pa.types.is_string(type_)]
            cure = f"'types: {{{yaml_text(name)}: text}}' of {', '.join(others)} makes texts of all"
            message = (
                f"column '{name}' is {shown}, expected one type. Declare it with 'types' of one "
                f"of the sources; {cure}."
            )
            problems.append(source_format.problem(source, "union", message))
        fields.append(pa.field(name, kind or pa.string()))
    return pa.schema([*fields, *_origin(source, set(found), problems)])


def _origin(source: Source, names: set[str], problems: list[Problem]) -> Iterator[pa.Field]:
    """Yields the column of origins; notes names that do not fit."""
    for name in source.key:
        if name not in {*names, *source.derive}:
            message = f"there is no column '{name}' in the union, expected it for the 'key'."
            problems.append(source_format.problem(source, "union", message))
    origin = None if source.union is None else source.union.origin
    if origin in names:
        message = f"found the origin '{origin}', which is a column. Choose a new name."
        problems.append(source_format.problem(source, "union", message))
    elif origin is not None:
        yield pa.field(origin, pa.string())


def _common(types: set[pa.DataType]) -> pa.DataType | None:
    """Returns the type that holds all values; ``None`` if there is none."""
    if not types:
        return pa.string()
    if types <= {pa.int64(), pa.float32(), pa.float64()} and len(types) > 1:
        return pa.float64()
    return next(iter(types)) if len(types) == 1 else None
