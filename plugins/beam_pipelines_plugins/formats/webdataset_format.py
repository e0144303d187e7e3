"""WebDataset: the rows of tar archives, one range an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, tables
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.files.compression import no_zlib
from beam_pipelines.sources.format import (
    CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    Contents,
    Format,
    Position,
    QuoteStates,
    Rows,
    combine,
    problem,
    row_numbers,
)
from beam_pipelines.sources.images.options import ImagesOptions, image_options
from beam_pipelines.sources.inference import SAMPLE_BYTES
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines_plugins.formats.webdataset_rows import (
    RowLayout,
    SampleError,
    check_no_tables,
    layout_of,
    layout_of_plan,
    read_samples,
)


class WebDataset(Format):
    """Tar archives; one range a file."""

    suffixes = (".tar", ".tgz")
    Options = ImagesOptions
    has_arrays = True
    checks_images = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = no_zlib(source)
        if image_options(source).classes:
            message = "a WebDataset has numbers of classes. Leave 'classes' out."
            problems.append(problem(source, "image", message))
        return problems

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        extensions: dict[tuple[str, ...], None] = {}
        for sampled in inference.sample_rounds(source, files, ""):
            for file in sampled:
                most = None if source.reads_all else SAMPLE_BYTES // len(sampled)
                extensions |= _look_through(source, file, most)
            if extensions:
                break
        else:
            raise DataError(
                f"{files[0].path}: found no rows, expected files such as a.jpg and a.cls. Check "
                "'path' of the source."
            )
        return tables.contents_of(source, [(files[0], layout_of(extensions).fields(source))])

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        layout, path, crc32c = layout_of_plan(plan), byte_range.file.path, 0
        rows, size, bad = _SomeRows([], []), 0, list[Rejected]()
        for sample in read_samples(plan.source, path):
            for extension, data in sample.members.items():
                name = f"{sample.key}.{extension}"
                crc32c = google_crc32c.extend(google_crc32c.extend(crc32c, name.encode()), data)
            try:
                values = layout.row_of(plan.source, sample)
            except SampleError as error:
                found = (error.column, error.reason, "")
                row = Rejected(plan.source.name, path, sample.first, *found)
                bad_rows.reject_or_raise(row, bad, reject)
                continue
            rows.places.append(sample.first)
            rows.values.append(values)
            size += sample.size_bytes
            if size >= CHUNK_BYTES or len(rows.places) == MAX_CHUNK_ROWS:
                yield _converted(plan, layout, byte_range.file, rows, bad, reject)
                rows, size, bad = _SomeRows([], []), 0, []
        last = _converted(plan, layout, byte_range.file, rows, bad, reject)
        yield last._replace(crc32c=crc32c)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Names the first file of rows; see ``Format``."""
        path = byte_range.file.path
        bad = {one.position for one in rejected}
        firsts = [sample.first for sample in read_samples(plan.source, path)]
        good = [name for name in firsts if name not in bad]
        return [Position(path, good[row], "") for row in rows]


class _SomeRows(NamedTuple):
    """Some rows.

    Attributes:
      places: name of the first file of each.
      values: column -> value.
    """

    places: list[str]
    values: list[dict[str, Any]]


def _look_through(source: Source, file: FileInfo, most: int | None) -> dict[tuple[str, ...], None]:
    """Returns the extensions of a file's first rows, each combination once.

    Args:
      source, file: of the rows.
      most: bytes of the rows; ``None``: all rows.
    """
    size, found = 0, dict[tuple[str, ...], None]()
    for sample in read_samples(source, file.path):
        check_no_tables(source, file.path, sample)
        found[tuple(sample.members)] = None
        size += sample.size_bytes
        if most is not None and size >= most:
            break
    return found


def _converted(
    plan: SourcePlan,
    layout: RowLayout,
    file: FileInfo,
    rows: _SomeRows,
    bad: list[Rejected],
    reject: bool,
) -> Rows:
    """Converts rows to the plan's columns.

    Raises:
      DataError: one is bad, unless ``reject``.
    """
    arrays = {}
    for field in layout.fields(plan.source):
        values = [row[field.name] for row in rows.values]
        if field.name in layout.slots and not pa.types.is_binary(field.type):
            texts = pa.array(values, pa.binary()).view(pa.string())
            is_number = pa.types.is_integer(field.type)
            arrays[field.name] = pc.ascii_trim_whitespace(texts) if is_number else texts
        else:
            arrays[field.name] = pa.array(values, field.type)
    batch = pa.RecordBatch.from_pydict(arrays)
    found = list(tables.rows_of(batch, plan, file, 1, reject=True))
    rejected = found[0].rejected
    for row, number in zip(rejected, row_numbers(rejected).tolist(), strict=True):
        placed = row._replace(position=rows.places[number - 1])
        bad_rows.reject_or_raise(placed, bad, reject)
    return Rows(combine([one.batch for one in found], plan.schema), tuple(bad))
