"""Rows of a lakehouse's tables: in Parquet files, or by the library.

A file keeps the columns of the day when it was written: narrower types, or without columns that
were added later. Its rows get the columns that the table has now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.arrow.columns import Shape
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format, tables
from beam_pipelines.sources.batch_files import SAMPLE_ROWS, OpenedFile, tail_rows
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.options import NoOptions
from beam_pipelines.sources.parquet.footers import pieces_of
from beam_pipelines.sources.parquet.format import Parquet, batches_of, opened, top_columns
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines_plugins.kept import KeptRows, keep_batches, kept_plan
from beam_pipelines_plugins.lakehouses import snapshots


def _pinned(source: Source, types: Mapping[str, str]) -> Source:
    """Returns the source with the columns that a dataset has.

    Later ones are left out.
    """
    return source if source.columns else dataclasses.replace(source, columns=tuple(types))


@dataclasses.dataclass(frozen=True)
class LakeFiles(Parquet):
    """Parquet files of a table at one snapshot.

    The note of a file is its row in ``constants``.

    Attributes:
      columns: of the table.
      constants: values of partition columns, a row for each file: a pyarrow table.
      ids: of the table's fields.
    """

    columns: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)
    constants: pa.Table = dataclasses.field(default_factory=lambda: pa.table({}))
    ids: snapshots.Ids = frozenset()

    suffixes = ()  # type: ignore[assignment]
    Options = NoOptions  # type: ignore[assignment]

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with a dataset's columns; see ``Format``."""
        return _pinned(source, types)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Returns the columns; a sample shows the shapes of arrays."""
        if shapes.open_columns(source, self.columns):
            return super().infer(source, files)
        return tables.contents_of(source, [(files[0], self.columns)])

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file, for columns whose shape only values tell; see ``BatchFiles``."""
        wanted = shapes.open_columns(source, self.columns)
        with opened(path) as (file, parquet):
            own = [name for name in wanted if name in parquet.schema_arrow.names]
            found = parquet.iter_batches(SAMPLE_ROWS, columns=own, use_threads=False)
            yield OpenedFile(
                file, self.columns, (self._fitted(path, batch, wanted) for batch in found)
            )

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        info, names = byte_range.file, top_columns(plan, self.columns)
        with opened(info.path) as (file, parquet):
            own_ids = snapshots.ids_of(parquet.schema_arrow)
            if self.ids and not (own_ids and snapshots.agree(self.ids, own_ids)):
                raise DataError(
                    f"{info.path}: found fields with other ids than the table's, or none. Have the "
                    "table's files rewritten by its engine."
                )
            stored = set(parquet.schema_arrow.names) - set(self.constants.column_names)
            own = [name for name in names if name in stored]
            pieces = pieces_of(parquet.metadata, len(plan.files))
            for row, batch in batches_of(plan.source, byte_range, file, parquet, pieces, own):
                fitted = self._fitted(f"{info.path}, row {row} on", batch, names, int(info.note))
                yield from tables.rows_of(fitted, plan, info, row, reject)
            yield tail_rows(plan, byte_range, file)

    def _fitted(
        self, where: str, batch: pa.RecordBatch, names: Sequence[str], place: int = 0
    ) -> pa.RecordBatch:
        """Returns rows of a file with columns of the table.

        A cast adds the fields that structs lack.

        Raises:
          DataError: a value does not fit.
        """
        arrays, fields = [], [self.columns.field(name) for name in names]
        for field in fields:
            if field.name in self.constants.column_names:
                value = self.constants.column(field.name)[place]
                arrays.append(pa.repeat(value, batch.num_rows))
            elif field.name in batch.schema.names:
                try:
                    arrays.append(batch.column(field.name).cast(field.type))
                except pa.ArrowException as error:
                    raise DataError(
                        f"{where}, column '{field.name}': found values that do not fit "
                        f"{field.type}: {error}. Leave the column out with 'columns', or have the "
                        "table's files rewritten."
                    ) from error
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclasses.dataclass(frozen=True)
class LakeRows(KeptRows):
    """Rows of a table that its library reads.

    Attributes:
      source: at one snapshot.
      columns: to read.
    """

    source: Source
    columns: pa.Schema

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with a dataset's columns; see ``Format``."""
        return _pinned(source, types)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Returns the columns; a sample shows the shapes of arrays."""
        seen: dict[str, Shape | None] = {}
        if wanted := shapes.open_columns(source, self.columns):
            sample = (batch.select(wanted).slice(0, SAMPLE_ROWS) for batch in self.live())
            shapes.note_shapes(seen, sample if source.reads_all else itertools.islice(sample, 1))
        return tables.contents_of(source, [(files[0], self.columns)], seen)

    def live(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows by the library, some MiB each."""
        library = importlib.import_module(f"{__package__}.{self.source.format}")
        some, size_bytes = list[pa.RecordBatch](), 0
        for batch in library.batches_of(self.source, self.columns):
            some.append(batch)
            size_bytes += batch.nbytes
            if size_bytes >= source_format.CHUNK_BYTES:
                yield source_format.combine(some, self.columns)
                some, size_bytes = [], 0
        if any(batch.num_rows for batch in some):
            yield source_format.combine(some, self.columns)

    def keep(
        self,
        plans: Mapping[str, SourcePlan],
        limits: Mapping[str, int],
        folder: str,
        note_rows: Callable[[int], None],
    ) -> dict[str, SourcePlan]:
        """Reads tables by their library; see ``Format``.

        Raises:
          DataError: a table cannot be read, or has no rows.
        """
        found: dict[str, SourcePlan] = {}
        for name, plan in plans.items():
            if not isinstance(reader := plan.reader, LakeRows) or plan.snapshot is None:
                raise TypeError(f"{plan.source.name} is no table of a lakehouse")
            batches = _first(reader.live(), limits.get(name))
            kept = keep_batches(batches, files.join(folder, name), note_rows)
            if not kept:
                raise DataError(
                    f"{plan.files[0].path}: found no rows at {plan.snapshot.id}, expected data. "
                    f"Check source '{name}'."
                )
            came = sum(file.rows for file in kept)
            found[name] = kept_plan(plan, reader, kept, plan.snapshot._replace(rows=came))
        return found


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the first rows, or all."""
    for batch in batches:
        yield batch.slice(0, limit)
        limit = None if limit is None else limit - batch.num_rows
        if limit is not None and limit <= 0:
            return
