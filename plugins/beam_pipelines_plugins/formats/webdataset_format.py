"""WebDataset: the rows of tar archives, one range an archive."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, tables
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
from beam_pipelines_plugins.formats.webdataset_layout import (
    KEY,
    RowLayout,
    Survey,
    layout_of_plan,
    read_samples,
    reads_object,
)
from beam_pipelines_plugins.formats.webdataset_values import MemberError, SampleValues, json_line

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
        survey, rows = Survey(source), 0
        objects = _Objects(source)
        for sampled in inference.sample_rounds(source, files, ""):
            for file in sampled:
                most = None if source.reads_all else SAMPLE_BYTES // len(sampled)
                rows += _look_through(source, file, survey, objects, most)
            if rows:
                break
        if not rows:
            raise DataError(
                f"{files[0].path}: found no rows, expected files such as a.jpg and a.cls. Check "
                "'path' of the source."
            )
        layout = survey.layout()
        plain = layout.plain_fields(source)
        names, schema = list(plain.names), plain
        found = objects.contents(files[0])
        if found is not None:
            names += found.names
            schema = pa.schema([*plain, *found.file_schema])
        wanted = inference.selected(source, tuple(names))
        own = tables.contents_of(source, [(files[0], plain)])
        types = {field.name: field for field in own.read_schema}
        types |= {field.name: field for field in found.read_schema} if found else {}
        nulls = (*own.null_columns, *(found.null_columns if found else ()))
        return Contents(
            tuple(names),
            schema,
            pa.schema([types[name] for name in wanted]),
            tuple(name for name in nulls if name in wanted),
        )

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        layout, path, crc32c = layout_of_plan(plan), byte_range.file.path, 0
        values, bad = SampleValues(plan.source, layout), []
        for sample in read_samples(plan.source, path):
            for name, data in sample.members.values():
                crc32c = google_crc32c.extend(google_crc32c.extend(crc32c, name.encode()), data)
            try:
                values.add(sample)
            except MemberError as error:
                found = (error.name, error.column, error.reason, error.text)
                bad.append(Rejected(plan.source.name, path, *found))
                if not reject:
                    break
            if values.size_bytes >= CHUNK_BYTES or len(values) == MAX_CHUNK_ROWS:
                yield _rows(plan, layout, byte_range.file, values, bad, reject)
                values, bad = SampleValues(plan.source, layout), []
        yield _rows(plan, layout, byte_range.file, values, bad, reject)._replace(crc32c=crc32c)

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
        good = [
            sample.first.name
            for sample in read_samples(plan.source, path)
            if bad.isdisjoint(member.name for member in sample.members.values())
        ]
        return [Position(path, good[row], "") for row in rows]


class _Objects:
    """Types of the JSON of some rows."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._types: JsonTypes | None = None

    def add(self, file: FileInfo, rows: Mapping[str, bytes]) -> None:
        """Notes the JSON of rows, by their places."""
        if self._types is None:
            self._types = JsonTypes(self._source)
        with _placed(list(rows)):
            self._types.add(file, _body(rows.values()))

    def contents(self, first: FileInfo) -> Contents | None:
        """Returns the columns of JSON, if there are any."""
        return None if self._types is None else self._types.contents(first)


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
    source: Source, file: FileInfo, survey: Survey, objects: _Objects, most: int | None
) -> int:
    """Notes extensions and JSON of a file's first rows; returns their number.

    Args:
      source, file: of the rows.
      survey, objects: what is found.
      most: bytes of the rows; ``None``: all rows.
    """
    rows = size = 0
    waiting: dict[str, bytes] = {}
    for sample in read_samples(source, file.path):
        survey.add(file.path, sample)
        rows += 1
        size += sample.size_bytes
        wanted = {
            name: member for name, member in sample.members.items() if reads_object(source, name)
        }
        if wanted:
            with contextlib.suppress(MemberError):  # a bad row, when it is read
                waiting[sample.first.name] = json_line(wanted)
        if size >= (CHUNK_BYTES if most is None else most):
            if most is not None:
                break
            if waiting:
                objects.add(file, waiting)
            waiting, size = {}, 0
    if waiting:
        objects.add(file, waiting)
    return rows


def _rows(
    plan: SourcePlan,
    layout: RowLayout,
    file: FileInfo,
    values: SampleValues,
    bad: list[Rejected],
    reject: bool,
) -> Rows:
    """Converts rows to the plan's columns.

    Raises:
      DataError: one is bad, unless ``reject``.
    """
    wrong: dict[int, Rejected] = {}
    parts = [_plain(plan, values, file)]
    if layout.objects():
        parts.append(_objects(plan, layout, values, file))
    for _, rejected in parts:
        for number, one in rejected.items():
            wrong.setdefault(number, one._replace(position=values.first[number]))
    bad = [*bad, *(wrong[number] for number in sorted(wrong))]
    if bad and not reject:
        raise DataError(bad[0].describe())
    columns: dict[str, pa.Array] = {}
    for batch, rejected in parts:
        own = np.delete(np.arange(len(values)), sorted(rejected))
        kept = batch.filter(pa.array(~np.isin(own, list(wrong)))) if wrong else batch
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
    plan: SourcePlan, values: SampleValues, file: FileInfo
) -> tuple[pa.RecordBatch, dict[int, Rejected]]:
    """Converts all columns but those of JSON.

    Returns:
      The good rows, and the bad ones by number.
    """
    batch = values.batch()
    part = _part(plan, batch.schema.names)
    if not len(part.schema):
        return batch.select([KEY]), {}
    found = list(tables.rows_of(batch, part, file, 1, reject=True))
    rejected = [bad for rows in found for bad in rows.rejected]
    return combine([rows.batch for rows in found], part.schema), _numbered(rejected)


def _objects(
    plan: SourcePlan, layout: RowLayout, values: SampleValues, file: FileInfo
) -> tuple[pa.RecordBatch, dict[int, Rejected]]:
    """Parses the columns of JSON; returns the bad rows by number."""
    own = layout.objects()
    fields = [field for field in plan.file_schema if field.name in own]
    names = [field.name for field in nested.flatten_fields(pa.schema(fields))]
    part = dataclasses.replace(_part(plan, names), file_schema=pa.schema(fields))
    with _placed(values.first):
        batch, rejected = _JSON.read_body(part, file, _body(values.objects), reject=True)
    return batch, _numbered(rejected)


def _numbered(rejected: Iterable[Rejected]) -> dict[int, Rejected]:
    """Returns bad rows by number, from 0."""
    found = list(rejected)
    return dict(zip((row_numbers(found) - 1).tolist(), found, strict=True))
