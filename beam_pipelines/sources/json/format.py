"""JSON Lines: one object a line, nested ones made flat (``nested.py``)."""

from __future__ import annotations

import dataclasses
import functools

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list, only_chunk
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import tables, whole_numbers
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.bad_input.bad_values import ColumnError
from beam_pipelines.sources.files.compression import compression_of, read_head
from beam_pipelines.sources.json.by_line import LineParser
from beam_pipelines.sources.json.infer import types_of
from beam_pipelines.sources.json.pandas_tables import check_is_no_table
from beam_pipelines.sources.json.parser import check_depth, may_have_rounded, parse_lines
from beam_pipelines.sources.json.scalar_texts import text_columns, with_texts
from beam_pipelines.sources.nesting import nested
from beam_pipelines.sources.options import EncodedOptions, TextsOptions
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import Contents
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.documents import DOCUMENTS, is_document
from beam_pipelines.sources.text.encodings import check_is_text, start_of_text
from beam_pipelines.sources.text.format import TextFormat, settled, try_pieces

# Bytes of a document that show what it is.
_HEAD_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class JsonOptions(TextsOptions, EncodedOptions):
    """The keys of JSON sources."""


@dataclasses.dataclass(frozen=True)
class JsonLines(TextFormat):
    """Text with one JSON object a line, or documents of objects.

    Attributes:
      suffixes: see ``Format``.
    """

    suffixes: tuple[str, ...]
    Options = JsonOptions
    has_arrays = True

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        path, compression = files[0].path, compression_of(source, files[0].path)
        head = read_head(path, compression, _HEAD_BYTES, source.limits)
        check_is_text(source, path, head)
        if source.format is not None:
            return types_of(source, files).contents(files[0])
        form, reason = "json_lines", ""
        text = start_of_text(head.removeprefix(blocks.BYTE_ORDER_MARK), source)
        check_is_no_table(text.decode("utf-8", errors="replace"), path)
        if is_document(text):
            form, reason = DOCUMENTS, "an array, or objects without a line each"
            source = dataclasses.replace(source, format=form)
        types = types_of(source, files)
        rows = types.rows_within()
        try:
            contents = types.contents(files[0])
        except DataError as error:
            raise DataError(f"{error} Note that {rows}.") if rows else error from None
        reason = rows or reason
        shown = (f"format: {form}  # {reason}",) if reason else ()
        return contents._replace(decisions=(*shown, *contents.decisions))

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole lines; see ``TextFormat``."""
        blocks.check_lines(plan.source, file, body)
        try:
            return _read_lines(body.data, plan), ()
        except bad_rows.ERRORS:
            # With the plan's types the parser goes no deeper than they do; the search for bad rows
            # does.
            check_depth(plan.source, file, body)
        slow = functools.partial(LineParser(plan).by_python, body.data)
        spans = blocks.filled_lines(body.data)
        found = try_pieces(body.data, spans, lambda data: _read_lines(data, plan), slow)
        return settled(plan, file, body, found, reject)


def _read_lines(data: bytes, plan: SourcePlan) -> pa.RecordBatch:
    unexpected = "ignore" if plan.source.columns else "error"
    try:
        table = parse_lines(data, plan.file_schema, unexpected).combine_chunks()
    except bad_rows.ERRORS:
        found = pa.schema(nested.flatten_fields(plan.file_schema))
        texts = with_texts(data, text_columns(plan.source, found))
        if texts is data:
            raise
        table = parse_lines(texts, plan.file_schema, unexpected).combine_chunks()
    if b"-NaN" in data:  # which pyarrow takes for NaN
        raise ValueError("perhaps no JSON")
    if not table.num_rows:
        table = plan.file_schema.empty_table()
    batch = pa.RecordBatch.from_arrays(
        [only_chunk(column) for column in table.columns], schema=table.schema
    )
    converted = tables.convert(batch, plan)
    if may_have_rounded(data, batch, plan.source):
        raise ValueError(whole_numbers.ROUNDED)
    for name, column in zip(plan.schema.names, converted.columns, strict=True):
        values = column.flatten() if is_list(column.type) else column
        if (
            pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py()
        ):  # JSON has no infinity
            raise ColumnError(name, "a number beyond the range of its type")
    return converted
