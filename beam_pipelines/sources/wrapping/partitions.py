"""Folders named ``key=value``, whose keys are columns of the files in them.

Hive, Spark, pyarrow and others write tables so: ``events/year=2024/month=03/part-0.parquet``.
"""

from __future__ import annotations

import abc
import dataclasses
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan

# Attributes of the format of the files that this format has, too.
_TRAITS = (
    *("suffixes", "Options", "infers_types", "has_arrays", "is_compressed", "has_lines"),
    *("checks_images", "rounds_sparse"),
    *("paths_of", "has_own_names", "splittable", "quoting"),
)


@dataclasses.dataclass(frozen=True)
class Wrapped(source_format.Format):
    """A format whose rows another format reads.

    Attributes:
      format: of the files.
    """

    format: source_format.Format

    def __post_init__(self) -> None:
        for name in _TRAITS:
            object.__setattr__(self, name, getattr(self.format, name))

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return self.format.check(self._own(source))

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of other files that are read."""
        return self.format.companions(self._inner(plan))

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Finds rows of a range in their file; see ``Format``."""
        return self.format.positions(self._inner(plan), byte_range, quote_states, rejected, rows)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns the word for a row, and a range's first row number."""
        return self.format.numbering(self._inner(plan), byte_range)

    def _own(self, source: Source) -> Source:
        """Returns the source as the format of the files takes it."""
        return source

    @abc.abstractmethod
    def _inner(self, plan: SourcePlan) -> SourcePlan:
        """Returns the plan of the files' own columns."""


_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def partition_of(path: str, folders: Sequence[str]) -> dict[str, str | None]:
    """Returns the keys and values in a file's folder names.

    Args:
      path: of the file.
      folders: of the source; one of them has the file.
    """
    folder = next(folder for folder in folders if path.startswith(f"{folder}/"))
    parts = [name.partition("=") for name in files.relative(path, folder).split("/")[:-1]]
    values = {
        urllib.parse.unquote(key): urllib.parse.unquote(value) for key, is_, value in parts if is_
    }
    return {key: None if value == _NULL else value for key, value in values.items()}


def partitioned(
    format_: source_format.Format, folders: Sequence[str], listed: Sequence[FileInfo]
) -> source_format.Format:
    """Returns the format of files with the columns of their folders' names.

    Raises:
      DataError: files differ in the keys.
    """
    if not folders or format_.is_file_a_row:
        return format_
    names = tuple(partition_of(listed[0].path, folders))
    for file in listed[1:]:
        found = tuple(partition_of(file.path, folders))
        if found != names:
            raise DataError(
                f"{file.path}: found {_keys(found)} in the names of its folders, expected "
                f"{_keys(names)} as in {listed[0].path}. Move one of them, or make them two "
                "sources."
            )
    return Partitioned(format_, tuple(folders), names) if names else format_


def _keys(names: Sequence[str]) -> str:
    return f"the keys {', '.join(names)}" if names else "no key=value"


@dataclasses.dataclass(frozen=True)
class Partitioned(Wrapped):
    """A format whose files have columns in their folders' names.

    Attributes:
      folders: of the source, without ``/`` at the end.
      names: of the columns, in the order of the folders.
    """

    folders: tuple[str, ...]
    names: tuple[str, ...]

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        contents = self.format.infer(self._own(source), files)
        twice = [name for name in self.names if name in contents.names]
        if twice:
            suffix = os.path.splitext(files[0].path)[1]
            raise DataError(
                f"{files[0].path}: found the column '{twice[0]}' in the file and in the names of "
                "its folders, expected it once. To read the files' own columns, write the pattern "
                f"'{self.folders[0]}/**{suffix}'."
            )
        found = self._types(source, files)
        fields = [pa.field(name, type_) for name, type_ in found.items()]
        read = {field.name: field for field in [*contents.read_schema, *fields]}
        selects = bool(source.columns) and self.has_own_names(source)
        wanted = [name for name in source.columns if name in read] if selects else list(read)
        if set(wanted) <= set(self.names):
            message = "found columns of folder names only, expected one of the files, too."
            raise RecipeProblems([source_format.problem(source, "columns", message)])
        inner = contents.source or source
        own = inner.columns
        if own and self.has_own_names(inner) and not selects:
            own = (*own, *self.names)
        kept = dataclasses.replace(
            inner, columns=source.columns if selects else own, types=dict(source.types)
        )
        return contents._replace(
            names=(*contents.names, *self.names),
            read_schema=pa.schema([read[name] for name in wanted]),
            source=kept,
            decisions=(_decision(found), *contents.decisions),
        )

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        inner = self._inner(plan)
        for rows in self.format.read(inner, byte_range, quote_states, reject):
            yield rows._replace(batch=self._with_columns(rows.batch, plan, byte_range.file))

    def read_together(
        self, plan: SourcePlan, some: Sequence[FileInfo]
    ) -> tuple[pa.RecordBatch, list[int]] | None:
        """Reads small files of one partition in one go; see ``Format``."""
        if len({tuple(self._values(file).values()) for file in some}) > 1:
            return None
        together = self.format.read_together(self._inner(plan), some)
        if together is None:
            return None
        return self._with_columns(together[0], plan, some[0]), together[1]

    def _own(self, source: Source) -> Source:
        """Returns the source without the columns of folders' names."""
        return dataclasses.replace(
            source,
            columns=tuple(name for name in source.columns if name not in self.names),
            types={name: type_ for name, type_ in source.types.items() if name not in self.names},
        )

    def _inner(self, plan: SourcePlan) -> SourcePlan:
        """Returns the plan of the files' own columns."""

        def own(schema: pa.Schema) -> pa.Schema:
            return pa.schema([field for field in schema if field.name not in self.names])

        return dataclasses.replace(
            plan,
            source=self._own(plan.source),
            read_schema=own(plan.read_schema),
            schema=own(plan.schema),
            reader=self.format,
        )

    def _with_columns(
        self, batch: pa.RecordBatch, plan: SourcePlan, file: FileInfo
    ) -> pa.RecordBatch:
        values = self._values(file)
        arrays = []
        for field in plan.schema:
            if field.name not in self.names:
                arrays.append(batch.column(field.name))
            elif values[field.name] is None:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            else:
                read = plan.read_schema.field(field.name)
                value = pa.scalar(values[field.name], pa.string()).cast(read.type)
                arrays.append(pa.repeat(value, batch.num_rows).cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)

    def _values(self, file: FileInfo) -> dict[str, str | None]:
        """Returns the columns' values in a file."""
        return partition_of(file.path, self.folders)

    def _types(self, source: Source, listed: Sequence[FileInfo]) -> dict[str, pa.DataType]:
        """Returns the type of each column, by its values in all folders.

        Raises:
          RecipeProblems: a value is none of the declared type.
        """
        distinct: Mapping[str, dict[str, str]] = {name: {} for name in self.names}
        for file in listed:
            for name, value in partition_of(file.path, self.folders).items():
                if value is not None:
                    distinct[name].setdefault(value, file.path)
        types, problems = {}, []
        for name, first_of in distinct.items():
            declared = source.types.get(name)
            types[name] = _inferred(first_of) if declared is None else columns.parse_type(declared)
            for value, path in first_of.items():
                if declared is not None and not _is_value(value, types[name]):
                    message = f"column '{name}': found '{value}' in {path}, expected {declared}."
                    problems.append(source_format.problem(source, "types", message))
                    break
        if problems:
            raise RecipeProblems(problems)
        return types


@dataclasses.dataclass(frozen=True)
class WithNulls(Partitioned):
    """A format whose files lack columns, which are null."""

    def _values(self, file: FileInfo) -> dict[str, str | None]:
        return dict.fromkeys(self.names)


def with_nulls(
    format_: source_format.Format, contents: source_format.Contents, source: Source
) -> tuple[source_format.Format, source_format.Contents]:
    """Returns format and contents with the columns that may lack."""
    inner = contents.source or source
    lacking = {
        name: columns.parse_type(type_)
        for name, type_ in inner.planning.may_lack.items()
        if name not in contents.names
    }
    if not lacking or not format_.has_own_names(inner):
        return format_, contents
    fields = [pa.field(name, type_) for name, type_ in lacking.items()]
    return WithNulls(format_, (), tuple(lacking)), contents._replace(
        names=(*contents.names, *lacking), read_schema=pa.schema([*contents.read_schema, *fields])
    )


def _decision(types: Mapping[str, pa.DataType]) -> str:
    found = ", ".join(f"{name} ({columns.type_name(type_)})" for name, type_ in types.items())
    whole = [name for name, type_ in types.items() if type_ == pa.int64()]
    hint = f"  # 'types: {{{whole[-1]}: text}}' keeps leading zeros" if whole else ""
    return f"columns of folder names: {found}{hint}"


def _inferred(values: Mapping[str, str]) -> pa.DataType:
    if values and all(map(_INTEGER.fullmatch, values)):
        return pa.int64()
    is_date = bool(values) and all(map(_DATE.fullmatch, values))
    return (
        pa.date32() if is_date and all(_is_value(v, pa.date32()) for v in values) else pa.string()
    )


def _is_value(text: str, type_: pa.DataType) -> bool:
    try:
        pc.cast(pa.scalar(text), type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
