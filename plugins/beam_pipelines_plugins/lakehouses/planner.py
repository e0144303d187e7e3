"""Plans sources in lakehouses: the snapshot, its files and columns."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Contents, Planner
from beam_pipelines.sources.plan import FileInfo, Snapshot, SourcePlan
from beam_pipelines.storage import file_checksums, files, input_roots
from beam_pipelines_plugins.lakehouses import delta, iceberg
from beam_pipelines_plugins.lakehouses.options import (
    DELTA,
    ICEBERG,
    DeltaOptions,
    IcebergOptions,
    problems,
    sqlite_path,
)
from beam_pipelines_plugins.lakehouses.snapshots import (
    DataFile,
    Note,
    TableSnapshot,
    keep_deletes,
    rows_of,
)
from beam_pipelines_plugins.lakehouses.table import LakeTable


class _Lake(Planner):
    """Plans tables of one kind.

    Attributes:
      format: of the tables.
    """

    format: str

    def check(self, source: Source) -> list[Problem]:
        """Returns the keys of the source that do not fit."""
        return list(problems(dataclasses.replace(source, format=self.format)))

    def plan(self, source: Source, directory: str) -> tuple[SourcePlan, Contents]:
        """Plans a table, whose ranges are not cut yet; see ``Planner``.

        Raises:
          OutsideRootError: the table may not be read.
          RecipeProblems: the recipe does not fit the table.
          DataError: the table cannot be read, or has no rows.
        """
        source = _placed(dataclasses.replace(source, format=self.format), directory)
        snapshot = (delta if self.format == DELTA else iceberg).snapshot_of(source)
        if not snapshot.files or snapshot.rows == 0:
            raise DataError(
                f"{snapshot.title}: found no rows at {_word(source)} {snapshot.id}, expected data. "
                f"Check source '{source.name}', or name another {_word(source)}."
            )
        with input_roots.within_store(snapshot.place):
            plan = _plan(source, snapshot, snapshot.files)
        contents = plan.reader.infer(source, tuple(plan.files)) if plan.reader else None
        if contents is None:
            raise TypeError(source.name)
        read_schema = contents.read_schema
        schema = columns.normalise_schema(read_schema, snapshot.title, takes_steps=True)
        plan = dataclasses.replace(
            plan,
            read_schema=read_schema,
            schema=schema,
            null_columns=contents.null_columns,
            file_schema=contents.file_schema,
        )
        return plan, contents


class Delta(_Lake):
    """Plans tables of Delta Lake."""

    format, Options = DELTA, DeltaOptions


class Iceberg(_Lake):
    """Plans tables of Iceberg."""

    format, Options = ICEBERG, IcebergOptions


def _placed(source: Source, directory: str) -> Source:
    """Returns the source with absolute places."""
    path = tuple(files.resolve(each, directory) for each in source.path)
    for each in path:
        input_roots.check(each)
    catalog = source.options_of(IcebergOptions).catalog
    if catalog is not None and catalog.uri and (database := sqlite_path(catalog.uri)):
        placed_at = files.resolve(database, directory)
        uri = catalog.uri.replace(f":///{database}", f":///{placed_at}", 1)
        catalog = dataclasses.replace(catalog, uri=uri)
    placed = dataclasses.replace(source, path=path)
    return placed if catalog is None else placed.with_options(catalog=catalog)


def _word(source: Source) -> str:
    return "version" if source.format == DELTA else "snapshot"


def _plan(source: Source, snapshot: TableSnapshot, chosen: Sequence[DataFile]) -> SourcePlan:
    """Returns the plan of some files of a table, without their columns."""
    for path, times in collections.Counter(file.path for file in chosen).items():
        input_roots.check(path)
        if times > 1:
            raise DataError(
                f"{snapshot.title}: found {path} twice, expected each file once. Have the "
                "table's files rewritten, or restore its log."
            )
    dates = file_checksums.modified_secs(file.path for file in chosen)
    constants, numbers = _constants(snapshot.schema, chosen)
    with_deletes = [file for file in chosen if len(file.deleted)]
    places = {file.path: number for number, file in enumerate(with_deletes)}
    listed = tuple(
        FileInfo(
            file.path,
            file.size_bytes,
            dates[file.path],
            note=Note(file.rows, number, places.get(file.path)).to_text(),
        )
        for file, number in zip(chosen, numbers, strict=True)
    )
    table = LakeTable(
        snapshot.schema,
        snapshot.by,
        snapshot.names,
        constants,
        keep_deletes(file.deleted for file in with_deletes),
    )
    return SourcePlan(
        source=source,
        format=source.format or "",
        files=listed,
        read_schema=pa.schema([]),
        schema=pa.schema([]),
        ranges=(),
        decisions=(_decision(source, snapshot),),
        reader=table,
        snapshot=Snapshot(snapshot.id, rows_of(chosen), snapshot.table),
    )


def _decision(source: Source, snapshot: TableSnapshot) -> str:
    """Returns what the dataset tells of its table."""
    number = len(snapshot.files)
    deleted = sum(len(file.deleted) for file in snapshot.files)
    when = f" of {snapshot.committed} UTC" if snapshot.committed else ""
    rows = "" if snapshot.rows is None else f"{snapshot.rows:,} rows in "
    left = f", without {deleted:,} deleted rows" if deleted else ""
    return (
        f"{snapshot.title}, {_word(source)} {snapshot.id}{when}: {rows}{number:,} "
        f"file{'' if number == 1 else 's'}{left}"
    )


def _constants(
    schema: pa.Schema, chosen: Sequence[DataFile]
) -> tuple[pa.Table | None, list[int | None]]:
    """Returns the distinct constants of files, and each file's row of them."""
    names = [field.name for field in schema if any(field.name in file.constants for file in chosen)]
    if not names:
        return None, [None] * len(chosen)
    rows: dict[tuple[Any, ...], int] = {}
    numbers: list[int | None] = [
        rows.setdefault(tuple(file.constants.get(name) for name in names), len(rows))
        for file in chosen
    ]
    arrays = [
        _array([row[place] for row in rows], schema.field(name).type)
        for place, name in enumerate(names)
    ]
    return pa.table(arrays, names), numbers


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Returns constants in a column's type; Iceberg counts days and microseconds."""
    is_temporal = pa.types.is_temporal(type_)
    if is_temporal and all(isinstance(value, int) or value is None for value in values):
        width = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(type_)
    return pa.array(values, type_)
