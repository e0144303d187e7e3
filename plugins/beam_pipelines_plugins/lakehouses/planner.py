"""Plans sources in lakehouses: the snapshot, its files and columns."""

from __future__ import annotations

import dataclasses
import importlib

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.files.beam import file_checksums, files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.parquet.format import top_columns
from beam_pipelines.sources.plan import FileInfo, Snapshot, SourcePlan
from beam_pipelines.sources.source_format import Contents, Planner
from beam_pipelines_plugins.extras import needed
from beam_pipelines_plugins.kept import ranges_of
from beam_pipelines_plugins.lakehouses import options
from beam_pipelines_plugins.lakehouses.snapshots import TableSnapshot
from beam_pipelines_plugins.lakehouses.table import LakeFiles, LakeRows


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
        found: TableSnapshot = module.snapshot_of(source)
        word = "version" if self.format == options.DELTA else "snapshot"
        if not found.files or found.rows == 0:
            raise DataError(
                f"{found.title}: found no rows at {word} {found.id}, expected data. Check source "
                f"'{source.name}', or name another {word}."
            )
        reader: LakeFiles | LakeRows
        if found.needs:
            size_bytes = sum(file.size_bytes for file in found.files)
            reader = LakeRows(found.pinned, found.columns)
            listed: tuple[FileInfo, ...] = (FileInfo(source.path[0], size_bytes),)
        else:
            reader = LakeFiles(found.columns, _constants(found), found.ids)
            listed = _listed(found)
        contents = reader.infer(source, listed)
        plan = SourcePlan(
            source=source,
            format=self.format,
            files=listed,
            read_schema=contents.read_schema,
            schema=columns.normalise_schema(contents.read_schema, found.title, takes_steps=True),
            ranges=ranges_of(listed[0], 1, 1) if found.needs else (),
            null_columns=contents.null_columns,
            file_schema=contents.file_schema,
            decisions=(_decision(word, found),),
            reader=reader,
            snapshot=Snapshot(found.id, found.rows, found.table),
        )
        if isinstance(reader, LakeRows):
            wanted = [found.columns.field(name) for name in top_columns(plan, found.columns)]
            reader = dataclasses.replace(reader, columns=pa.schema(wanted))
            plan = dataclasses.replace(plan, reader=reader)
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
    """Returns the files of a snapshot, which may be read."""
    with input_roots.within_store(found.pinned.path[0]):
        for file in found.files:
            input_roots.check(file.path)
        dates = file_checksums.modified_secs(file.path for file in found.files)
    return tuple(
        FileInfo(file.path, file.size_bytes, dates[file.path], note=str(place))
        for place, file in enumerate(found.files)
    )


def _constants(found: TableSnapshot) -> pa.Table:
    values = {
        field: [file.constants.get(field.name) for file in found.files]
        for field in found.columns
        if any(field.name in file.constants for file in found.files)
    }
    return pa.table({field.name: pa.array(own, field.type) for field, own in values.items()})


def _decision(word: str, found: TableSnapshot) -> str:
    """Returns what the dataset tells of its table."""
    number = len(found.files)
    when = f" of {found.committed} UTC" if found.committed else ""
    rows = "" if found.rows is None else f"{found.rows:,} rows in "
    needs = f", read before the run by the table's library, as it has {found.needs}"
    return (
        f"{found.title}, {word} {found.id}{when}: {rows}{number:,} "
        f"file{'' if number == 1 else 's'}{needs if found.needs else ''}"
    )
