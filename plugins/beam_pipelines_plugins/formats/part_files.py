"""Formats whose libraries give Arrow batches of a part of a file."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa

from beam_pipelines.core.errors import PipelineError, RecipeProblems
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables
from beam_pipelines.sources.bad_input import damaged
from beam_pipelines.sources.batch_files import BatchFiles, OpenedFile, parts_of, tail_rows
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.plan import ByteRange, QuoteStates, SourcePlan
from beam_pipelines.sources.source_format import Rows

# A range of a plan's file; ``None``: a whole file.
Part: TypeAlias = "tuple[SourcePlan, ByteRange] | None"


class OpenedPart(NamedTuple):
    """A part of an open file.

    Attributes:
      schema: the file's columns, nested or not.
      batches: the rows of the part, in order.
      first: number of the first one in the file, from 1.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    first: int = 1


class PartFiles(BatchFiles):
    """A format that defines ``title``, ``suffixes`` and ``open_part``.

    Attributes:
      is_cut: whether a file can be cut into ranges.
    """

    is_cut = True

    @abc.abstractmethod
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> contextlib.AbstractContextManager[OpenedPart]:
        """Opens a part of a file.

        Raises:
          DataError: it exceeds a limit. Any other error means that it is damaged.
        """

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return self.is_cut

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file; see ``BatchFiles``."""
        with self._opened(source, path) as (file, one):
            yield OpenedFile(file, one.schema, one.batches)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        info = byte_range.file
        with self._opened(plan.source, info.path, (plan, byte_range)) as (file, one):
            tables.check_file(plan, info, one.schema)
            row = one.first
            for batch in one.batches:
                for rows in parts_of(batch):
                    yield from tables.rows_of(rows, plan, info, row, reject)
                    row += rows.num_rows
            yield tail_rows(plan, byte_range, file)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        part = plan, byte_range
        with self._opened(plan.source, byte_range.file.path, part) as (_, one):
            return "row", one.first

    @contextlib.contextmanager
    def _opened(
        self, source: Source, path: str, part: Part = None
    ) -> Iterator[tuple[BinaryIO, OpenedPart]]:
        with open_whole(path) as file, contextlib.ExitStack() as stack:
            with _explained(path, self.title):
                one = stack.enter_context(self.open_part(source, path, file, part))
                list(nested.flatten_fields(one.schema))  # names that are no UTF-8 are an error here
            yield file, one._replace(batches=self._each(one, path))

    def _each(self, one: OpenedPart, path: str) -> Iterator[pa.RecordBatch]:
        with _explained(path, self.title):
            yield from one.batches


@contextlib.contextmanager
def _explained(path: str, title: str) -> Iterator[None]:
    """Turns all errors of a library into ``DataError``."""
    with damaged.explained(path, title):
        try:
            yield
        except (PipelineError, RecipeProblems, MemoryError):
            raise
        except Exception as error:
            raise ValueError(str(error) or repr(error)) from error
