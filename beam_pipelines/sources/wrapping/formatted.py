"""Columns of texts, read as the recipe says that they are written.

These are the source's ``formats``, ``trim`` and ``nulls``, for files of every format.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.cell_formats import WHITE_SPACE, parse_format
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import inference, source_format
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.csv import codes, text_findings
from beam_pipelines.sources.csv.column_formats import type_of
from beam_pipelines.sources.csv.evidence import Evidence, evidence_of
from beam_pipelines.sources.csv.formats import to_plain, typed
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.text.cells import Flags, parsed
from beam_pipelines.sources.wrapping.derived import reject_rows
from beam_pipelines.sources.wrapping.partitions import Wrapped

# Of each sampled file: rows that are looked at, the bytes of the file in which they begin, and
# those that they have in memory.
_ROWS, _BYTES, _MOST_BYTES = 20_000, 1 << 20, 1 << 22


@dataclasses.dataclass(frozen=True)
class Formatted(Wrapped):
    """A format whose columns of texts are read as the recipe says.

    Attributes:
      names: of the columns.
    """

    names: tuple[str, ...] = ()

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types, and what the texts look like; see ``Format``."""
        if self.format.judges_cells:
            return self.format.infer(source, files)
        formats = source.options_of(TextsOptions).formats
        own = {name: type_ for name, type_ in source.types.items() if name not in formats}
        contents = self.format.infer(dataclasses.replace(source, types=own), files)
        texts = _texts(contents, source)
        if problems := [
            source_format.problem(
                source,
                "formats",
                f"column '{name}': found no texts in the files, expected some, as 'formats' say "
                "how texts are written. Leave the column out of 'formats'.",
            )
            for name in formats
            if name in contents.read_schema.names and name not in texts
        ]:
            raise RecipeProblems(problems)
        found = contents.source or source
        found = dataclasses.replace(found, types={**found.types, **source.types})
        contents = contents._replace(source=found)
        evidence = self._evidence(contents, files, texts)
        types = {
            name: columns.parse_type(source.types[name])
            if name in source.types
            else type_of(parse_format(text), evidence[name])
            for name, text in formats.items()
            if name in texts
        }
        schema = pa.schema(
            [field.with_type(types.get(field.name, field.type)) for field in contents.read_schema]
        )
        said = "".join(contents.decisions)
        noted = text_findings.of_texts(
            found,
            {n: one for n, one in evidence.items() if f"types: {{{yaml_text(n)}: " not in said},
        )
        return contents._replace(read_schema=schema, decisions=(*contents.decisions, *noted))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        inner, before = self._inner(plan), 0
        left_out: list[Rejected] = []
        for rows in self.format.read(inner, byte_range, quote_states, reject):
            left_out += rows.rejected
            batch, bad = self._converted(rows.batch, plan)
            rejected = list(rows.rejected)
            if bad:
                places = self.format.positions(
                    inner, byte_range, quote_states, left_out, [before + row for row in bad]
                )
                rejected += reject_rows(plan, places, bad.values(), reject)
            before += rows.batch.num_rows
            yield rows._replace(batch=batch, rejected=tuple(rejected))

    def read_together(
        self, plan: SourcePlan, some: Sequence[FileInfo]
    ) -> tuple[pa.RecordBatch, list[int]] | None:
        """Reads small files in one go; see ``Format``."""
        together = self.format.read_together(self._inner(plan), some)
        batch, bad = (None, {}) if together is None else self._converted(together[0], plan)
        return None if together is None or bad else (batch, together[1])

    def _inner(self, plan: SourcePlan) -> SourcePlan:
        """Returns the plan that reads the columns as texts."""
        return self._as_texts(plan, self.names)

    def _as_texts(self, plan: SourcePlan, names: Sequence[str]) -> SourcePlan:
        def as_texts(schema: pa.Schema) -> pa.Schema:
            return pa.schema(
                [pa.field(one.name, pa.string()) if one.name in names else one for one in schema]
            )

        types = {name: type_ for name, type_ in plan.source.types.items() if name not in names}
        return dataclasses.replace(
            plan,
            source=dataclasses.replace(plan.source, types=types),
            read_schema=as_texts(plan.read_schema),
            schema=as_texts(plan.schema),
            reader=self.format,
        )

    def _converted(
        self, batch: pa.RecordBatch, plan: SourcePlan
    ) -> tuple[pa.RecordBatch, dict[int, tuple[str, str]]]:
        """Returns the good rows, and number -> column and error of others."""
        arrays = list(batch.columns)
        bad: dict[int, tuple[str, str]] = {}
        formats = plan.source.options_of(TextsOptions).formats
        for place, field in enumerate(plan.read_schema):
            if field.name not in self.names:
                continue
            texts = batch.column(place)
            arrays[place], wrong = self._values(plan.source, field, texts)
            for row in np.flatnonzero(wrong).tolist():
                if row not in bad:
                    reason = codes.wrong_text(texts[row].as_py(), field, formats)
                    bad[row] = field.name, reason
        converted = pa.RecordBatch.from_arrays(arrays, schema=plan.schema)
        if bad:
            is_good = np.ones(batch.num_rows, np.bool_)
            is_good[list(bad)] = False
            converted = converted.filter(pa.array(is_good))
        return converted, dict(sorted(bad.items()))

    def _values(self, source: Source, field: pa.Field, texts: pa.Array) -> tuple[pa.Array, Flags]:
        """Returns the values of a column, and which texts are none."""
        options = source.options_of(TextsOptions)
        format_ = options.formats.get(field.name)
        if options.trim or format_ is not None:
            texts = pc.utf8_trim(texts, characters=WHITE_SPACE)
        nulls = pa.array(_nulls(self.format, source), pa.string())
        texts = pc.if_else(pc.is_in(texts, value_set=nulls), None, texts)
        plain = texts if format_ is None else to_plain(texts, parse_format(format_))
        wrong = pc.and_not(texts.is_valid(), plain.is_valid()).to_numpy(zero_copy_only=False)
        try:
            return columns.normalise(typed(plain, field.type)), wrong
        except bad_rows.ERRORS:
            values, others = parsed(plain, field.type)
            return values, wrong | others

    def _evidence(
        self, contents: source_format.Contents, files: tuple[FileInfo, ...], names: Sequence[str]
    ) -> dict[str, Evidence]:
        """Returns the evidence of columns of texts."""
        source = contents.source
        if source is None or not names:
            return {}
        # Lines are parsed as a whole: their other columns say why one is bad.
        read_schema = pa.schema(
            [
                field
                for field in contents.read_schema
                if self.format.infers_types or field.name in names
            ]
        )
        path = files[0].path
        plan = SourcePlan(
            source=source,
            format=source.format or "",
            files=contents.files or files,
            read_schema=read_schema,
            schema=columns.normalise_schema(read_schema, path, takes_steps=True),
            ranges=(),
            file_schema=contents.file_schema,
            root=contents.root,
            sparse=contents.sparse,
            steps=contents.steps,
        )
        inner = self._as_texts(plan, names)
        evidence = {name: Evidence() for name in names}
        trim = bool(source.options_of(TextsOptions).trim)
        for file in inference.sample_files(tuple(plan.files)):
            with contextlib.suppress(DataError):  # reading reports it
                table = pa.Table.from_batches(
                    [rows.batch for rows in self._head(inner, file)], inner.schema
                )
                for name in names:
                    texts = table.column(name)
                    texts = pc.utf8_trim(texts, characters=WHITE_SPACE) if trim else texts
                    evidence[name].add(evidence_of(texts))
        return evidence

    def _head(self, inner: SourcePlan, file: FileInfo) -> Iterator[source_format.Rows]:
        """Yields the first rows of a file, or all of them."""
        is_cut = not inner.source.reads_all and self.format.splittable(inner.source, file.path)
        end = min(file.size_bytes, _BYTES) if is_cut else file.size_bytes
        left, left_bytes = _ROWS, _MOST_BYTES
        for rows in self.format.read(inner, ByteRange(0, 0, file, 0, end), {}, reject=True):
            if inner.source.reads_all:
                yield rows
                continue
            number = rows.batch.num_rows
            row_bytes = rows.batch.nbytes / max(1, number)
            most = min(left, max(1, int(left_bytes / max(1, row_bytes))))
            yield rows._replace(batch=rows.batch.slice(0, most))
            left, left_bytes = left - number, left_bytes - rows.batch.nbytes
            if left <= 0 or left_bytes <= 0:
                return


def formatted(
    format_: source_format.Format, contents: source_format.Contents, source: Source
) -> source_format.Format:
    """Returns the format that reads texts as the recipe says."""
    source = contents.source or source
    options = source.options_of(TextsOptions)
    changes_all = options.trim or (not format_.reads_nulls and bool(_nulls(format_, source)))
    names = [
        name
        for name in (_texts(contents, source) if options.formats or changes_all else ())
        if name in options.formats
        or (changes_all and not pa.types.is_binary(contents.read_schema.field(name).type))
    ]
    return Formatted(format_, tuple(names)) if names else format_


def _texts(contents: source_format.Contents, source: Source) -> list[str]:
    """Returns the columns to read that are texts in the files."""
    declared = {*source.types, *source.options_of(TextsOptions).formats}
    types = {field.name: field.type for field in nested.flatten_fields(contents.file_schema)}
    return [
        field.name
        for field in contents.read_schema
        if pa.types.is_string(columns.column_type(types.get(field.name, pa.null())) or pa.null())
        and (pa.types.is_string(field.type) or field.name in declared)
    ]


def _nulls(format_: source_format.Format, source: Source) -> tuple[str, ...]:
    """Returns the texts that mean null.

    Formats with nulls of their own have others only if the recipe says so.
    """
    is_said = format_.reads_nulls or source.nulls != Source.nulls
    return source.nulls if is_said else ()
