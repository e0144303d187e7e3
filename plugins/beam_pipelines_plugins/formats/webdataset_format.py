"""WebDataset: the rows of tar archives, one range an archive."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
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
from beam_pipelines.sources.json.format import JsonLines
from beam_pipelines.sources.json.infer import JsonTypes
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text.blocks import Body
from beam_pipelines_plugins.formats.webdataset_rows import (
    KEY,
    RowLayout,
    SampleError,
    check_no_tables,
    is_object,
    is_of,
    json_line,
    layout_of,
    layout_of_plan,
    read_samples,
)

_LINE = re.compile(r", line ([0-9]+)(?=[:,])")
_JSON = JsonLines(())


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
        objects: list[JsonTypes] = []
        for sampled in inference.sample_rounds(source, files, ""):
            for file in sampled:
                most = None if source.reads_all else SAMPLE_BYTES // len(sampled)
                extensions |= _look_through(source, file, objects, most)
            if extensions:
                break
        else:
            raise DataError(
                f"{files[0].path}: found no rows, expected files such as a.jpg and a.cls. Check "
                "'path' of the source."
            )
        plain = layout_of(extensions).plain_fields(source)
        own = tables.contents_of(source, [(files[0], plain)])
        parts = [own._replace(file_schema=plain), *(one.contents(files[0]) for one in objects)]
        names = [name for part in parts for name in part.names]
        types = {field.name: field for part in parts for field in part.read_schema}
        wanted = inference.selected(source, tuple(names))
        return Contents(
            tuple(names),
            pa.schema([field for part in parts for field in part.file_schema]),
            pa.schema([types[name] for name in wanted]),
            tuple(name for part in parts for name in part.null_columns if name in wanted),
        )

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        layout, path, crc32c = layout_of_plan(plan), byte_range.file.path, 0
        rows, size, bad = _SomeRows([], [], []), 0, list[Rejected]()
        for sample in read_samples(plan.source, path):
            for extension, data in sample.members.items():
                name = f"{sample.key}.{extension}"
                crc32c = google_crc32c.extend(google_crc32c.extend(crc32c, name.encode()), data)
            try:
                values, line = layout.row_of(plan.source, sample)
            except SampleError as error:
                found = (error.column, error.reason, error.text)
                row = Rejected(plan.source.name, path, sample.first, *found)
                bad_rows.reject_or_raise(row, bad, reject)
                continue
            rows.places.append(sample.first)
            rows.values.append(values)
            rows.objects.append(line)
            size += sample.size_bytes
            if size >= CHUNK_BYTES or len(rows.places) == MAX_CHUNK_ROWS:
                yield _converted(plan, layout, byte_range.file, rows, bad, reject)
                rows, size, bad = _SomeRows([], [], []), 0, []
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
      values: column -> value, without those of JSON.
      objects: the JSON of each: a line of an object whose keys are extensions.
    """

    places: list[str]
    values: list[dict[str, Any]]
    objects: list[bytes]


def _body(lines: Iterable[bytes]) -> Body:
    return Body(0, b"".join(line + b"\n" for line in lines))


@contextlib.contextmanager
def _placed(places: Sequence[str]) -> Iterator[None]:
    """Puts the places of rows for numbers of lines in errors."""
    try:
        yield
    except DataError as error:
        match = _LINE.search(str(error))
        if match is None:
            raise
        place = places[int(match[1]) - 1]
        raise DataError(str(error).replace(match[0], f", {place}", 1)) from error


def _look_through(
    source: Source, file: FileInfo, objects: list[JsonTypes], most: int | None
) -> dict[tuple[str, ...], None]:
    """Notes the JSON of a file's first rows.

    Args:
      source, file: of the rows.
      objects: the types of JSON; none before there is any.
      most: bytes of the rows; ``None``: all rows.

    Returns:
      The extensions of the rows, each once.
    """
    size, waiting, found = 0, dict[str, bytes](), dict[tuple[str, ...], None]()
    for sample in read_samples(source, file.path):
        check_no_tables(source, file.path, sample)
        found[tuple(sample.members)] = None
        size += sample.size_bytes
        wanted = {
            slot: data
            for slot, data in sample.members.items()
            if is_object(slot)
            and (not source.columns or any(is_of(name, slot) for name in source.columns))
        }
        if wanted:
            with contextlib.suppress(SampleError):  # a bad row, when it is read
                waiting[sample.first] = json_line(wanted)
        if size >= (CHUNK_BYTES if most is None else most):
            if most is not None:
                break
            _note(source, file, objects, waiting)
            waiting, size = {}, 0
    _note(source, file, objects, waiting)
    return found


def _note(
    source: Source, file: FileInfo, objects: list[JsonTypes], waiting: dict[str, bytes]
) -> None:
    """Notes the JSON of rows, by their places."""
    if waiting:
        objects += [] if objects else [JsonTypes(source)]
        with _placed(list(waiting)):
            objects[0].add(file, _body(waiting.values()))


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
    parts = [_plain(plan, layout, file, rows)]
    if layout.objects():
        fields = [field for field in plan.file_schema if field.name in layout.objects()]
        names = [field.name for field in nested.flatten_fields(pa.schema(fields))]
        part = dataclasses.replace(_part(plan, names), file_schema=pa.schema(fields))
        with _placed(rows.places):
            parts.append(_JSON.read_body(part, file, _body(rows.objects), reject=True))
    numbers = [(row_numbers(rejected) - 1).tolist() for _, rejected in parts]
    wrong: dict[int, Rejected] = {}
    for own, (_, rejected) in zip(numbers, parts, strict=True):
        for number, one in zip(own, rejected, strict=True):
            wrong.setdefault(number, one._replace(position=rows.places[number]))
    for number in sorted(wrong):
        bad_rows.reject_or_raise(wrong[number], bad, reject)
    columns: dict[str, pa.Array] = {}
    for own, (batch, _) in zip(numbers, parts, strict=True):
        left = np.delete(np.arange(len(rows.places)), own)
        kept = batch.filter(pa.array(~np.isin(left, list(wrong)))) if wrong else batch
        columns |= dict(zip(kept.schema.names, kept.columns, strict=True))
    arrays = [columns[name] for name in plan.schema.names]
    return Rows(pa.RecordBatch.from_arrays(arrays, schema=plan.schema), tuple(bad))


def _part(plan: SourcePlan, names: Collection[str]) -> SourcePlan:
    """Returns the plan of some columns."""
    read, schema = (
        pa.schema([field for field in columns if field.name in names])
        for columns in (plan.read_schema, plan.schema)
    )
    return dataclasses.replace(plan, read_schema=read, schema=schema)


def _plain(
    plan: SourcePlan, layout: RowLayout, file: FileInfo, rows: _SomeRows
) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
    """Converts all columns but those of JSON."""
    arrays = {}
    for field in layout.plain_fields(plan.source):
        values = [row[field.name] for row in rows.values]
        if field.name in layout.slots and not pa.types.is_binary(field.type):
            texts = pa.array(values, pa.binary()).view(pa.string())
            is_number = pa.types.is_integer(field.type)
            arrays[field.name] = pc.ascii_trim_whitespace(texts) if is_number else texts
        else:
            arrays[field.name] = pa.array(values, field.type)
    batch = pa.RecordBatch.from_pydict(arrays)
    part = _part(plan, batch.schema.names)
    if not len(part.schema):
        return batch.select([KEY]), ()
    found = list(tables.rows_of(batch, part, file, 1, reject=True))
    return combine([one.batch for one in found], part.schema), found[0].rejected
