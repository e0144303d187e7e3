"""Plans sources in lakehouses: the snapshot, its files and columns."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import itertools
import json

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.files.beam import file_checksums, files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.format import Contents, Planner
from beam_pipelines.sources.plan import FileInfo, Snapshot, SourcePlan
from beam_pipelines_plugins.extras import needed
from beam_pipelines_plugins.lakehouses import options
from beam_pipelines_plugins.lakehouses.snapshots import TableSnapshot
from beam_pipelines_plugins.lakehouses.table import LakeTable, keep_deletes


class _Lake(Planner):
    """Plans tables of one kind.

    Attributes:
      format: of the tables.
    """

    format: str

    def check(self, source: Source) -> list[Problem]:
        """Returns the keys of the source that do not fit."""
        return list(options.problems(dataclasses.replace(source, format=self.format)))

    def plan(self, source: Source, directory: str) -> tuple[SourcePlan, Contents]:
        """Plans a table, whose ranges are not cut yet; see ``Planner``.

        Raises:
          OutsideRootError: the table may not be read.
          RecipeProblems: the recipe does not fit the table.
          DataError: the table cannot be read, or has no rows.
        """
        source = _placed(dataclasses.replace(source, format=self.format), directory)
        with needed(source.path[0], "lakehouse"):
            module = importlib.import_module(f"{__package__}.{self.format}")
        found = module.snapshot_of(source)
        word = "version" if self.format == options.DELTA else "snapshot"
        if not found.files or found.rows == 0:
            raise DataError(
                f"{found.title}: found no rows at {word} {found.id}, expected data. Check source "
                f"'{source.name}', or name another {word}."
            )
        listed, reader = _listed(found), _reader(found)
        contents = reader.infer(source, listed)
        plan = SourcePlan(
            source=source,
            format=self.format,
            files=listed,
            read_schema=contents.read_schema,
            schema=columns.normalise_schema(contents.read_schema, found.title, takes_steps=True),
            ranges=(),
            null_columns=contents.null_columns,
            file_schema=contents.file_schema,
            decisions=(_decision(word, found),),
            reader=reader,
            snapshot=Snapshot(found.id, found.rows, found.table),
        )
        return plan, contents


class Delta(_Lake):
    """Plans tables of Delta Lake."""

    format, Options = options.DELTA, options.DeltaOptions


class Iceberg(_Lake):
    """Plans tables of Iceberg."""

    format, Options = options.ICEBERG, options.IcebergOptions


def _placed(source: Source, directory: str) -> Source:
    """Returns the source with absolute places."""
    path = tuple(files.resolve(options.local_path(each), directory) for each in source.path)
    for each in path:
        input_roots.check(each)
    return dataclasses.replace(source, path=path)


def _listed(found: TableSnapshot) -> tuple[FileInfo, ...]:
    """Returns the files of a snapshot, which may be read, each once."""
    with input_roots.within_store(found.place):
        for path, times in collections.Counter(file.path for file in found.files).items():
            input_roots.check(path)
            if times > 1:
                raise DataError(
                    f"{found.title}: found {path} twice, expected each file once. Have the "
                    "table's files rewritten, or restore its log."
                )
        dates = file_checksums.modified_secs(file.path for file in found.files)
    batches = itertools.count()
    return tuple(
        FileInfo(
            file.path,
            file.size_bytes,
            dates[file.path],
            note=json.dumps([place, file.rows, next(batches) if len(file.deleted) else None]),
        )
        for place, file in enumerate(found.files)
    )


def _reader(found: TableSnapshot) -> LakeTable:
    constants = {
        field.name: _array([file.constants.get(field.name) for file in found.files], field.type)
        for field in found.columns
        if any(field.name in file.constants for file in found.files)
    }
    deleted = (file.deleted for file in found.files if len(file.deleted))
    return LakeTable(
        found.columns, found.keys, found.ids, pa.table(constants), keep_deletes(deleted)
    )


def _array(values: list[object], type_: pa.DataType) -> pa.Array:
    """Returns constants in a column's type; Iceberg counts days and microseconds."""
    is_temporal = pa.types.is_temporal(type_)
    if is_temporal and all(isinstance(value, int) or value is None for value in values):
        width = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(type_)
    return pa.array(values, type_)


def _decision(word: str, found: TableSnapshot) -> str:
    """Returns what the dataset tells of its table."""
    number = len(found.files)
    deleted = sum(len(file.deleted) for file in found.files)
    when = f" of {found.committed} UTC" if found.committed else ""
    rows = "" if found.rows is None else f"{found.rows:,} rows in "
    left = f", without {deleted:,} deleted rows" if deleted else ""
    return (
        f"{found.title}, {word} {found.id}{when}: {rows}{number:,} "
        f"file{'' if number == 1 else 's'}{left}"
    )
