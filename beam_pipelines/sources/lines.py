"""Lines and records, each a row of one column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, source_format
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.format import TextFormat, settled
from beam_pipelines.sources.text.quotes import NEWLINE, RETURN, Positions
from beam_pipelines.sources.tfrecord.files import check_compression, first_block, read_file

COLUMN = "line"
_TYPES = ("text", "bytes")


class PlainLines(TextFormat):
    """Files of lines that end in LF or CR LF."""

    suffixes = ()
    infers_types = False

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return [*check_payloads(source, "file of lines"), *super().check(source)]

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        for sampled in inference.sample_rounds(source, files, "lines"):
            if any(body.data for _, body in blocks.sample_bodies(source, sampled, blocks.LINES)):
                break
        return contents_of(COLUMN, parse_type(source.types.get(COLUMN, "text")))

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole lines; see ``TextFormat``."""
        blocks.check_lines(plan.source, file, body)
        lines, starts = split_lines(body.data)
        reason = (
            "found bytes that are not UTF-8, expected text. Mend the line, or declare "
            f"'types: {{{COLUMN}: bytes}}'."
        )
        ends = np.append(starts[1:], len(body.data))
        sifted = bad_rows.sift(
            lambda start, end: convert_payloads(lines[start:end], plan), 0, len(lines)
        )
        found = (
            (int(starts[one.number]), int(ends[one.number]), COLUMN, reason)
            if isinstance(one, bad_rows.BadRow)
            else one
            for one in sifted
        )
        return settled(plan, file, body, found, reject)

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, Positions, Positions]:
        """Returns where lines begin and end, blank ones too; see ``TextFormat``."""
        _, starts = split_lines(body.data)
        return body, starts, np.append(starts[1:], len(body.data))


def split_lines(data: bytes) -> tuple[pa.BinaryArray, Positions]:
    """Cuts text into lines.

    Returns:
      The lines without their ends, empty ones among them, and where each begins. What follows the
      last line end is a line if it is not empty.
    """
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters == NEWLINE)
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    dropped = np.concatenate([ends, ends[(ends > 0) & (characters[ends - 1] == RETURN)] - 1])
    if starts[-1] == len(data):
        starts = starts[:-1]
    kept = np.delete(characters, dropped) if len(dropped) else characters
    begins = np.append(starts, len(data))
    offsets = (begins - np.searchsorted(np.sort(dropped), begins)).astype(np.int32)
    lines = pa.Array.from_buffers(
        pa.binary(),
        len(starts),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(kept))],
    )
    return lines, starts


def check_payloads(source: Source, files: str) -> Iterator[Problem]:
    """Yields the options of a source that a one-column format cannot honour.

    Args:
      source: of the recipe.
      files: the word for its files in messages.
    """
    if source.nulls != Source.nulls:
        message = f"a {files} has no nulls. Use NULLIF in 'derive', or leave it out."
        yield source_format.problem(source, "nulls", message)
    for column, type_ in source.types.items():
        if type_ not in _TYPES:
            message = f"column '{column}': found {type_}, expected text or bytes."
            yield source_format.problem(source, "types", message)


def contents_of(column: str, type_: pa.DataType) -> source_format.Contents:
    """Returns the contents of files with one column."""
    schema = pa.schema([(column, type_)])
    return source_format.Contents((column,), schema, schema)


def convert_payloads(values: pa.BinaryArray, plan: SourcePlan) -> pa.RecordBatch:
    """Returns payloads as the plan's column.

    Raises:
      pa.ArrowInvalid: a payload that should be text is not UTF-8.
    """
    return pa.RecordBatch.from_arrays([values.cast(plan.schema.field(0).type)], schema=plan.schema)


RECORD = "record"
_NOT_TEXT = (
    "found bytes that are not UTF-8, expected text. Leave out 'types' of the source to read bytes."
)


class RawRecords(source_format.Format):
    """Payloads of TFRecord files.

    A file is one range: records cannot be found from its middle.
    """

    suffixes = ()

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return [*check_payloads(source, "TFRecord file"), *check_compression(source)]

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        first_block(source, files)
        return contents_of(RECORD, parse_type(source.types.get(RECORD, "bytes")))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        yield from read_file(
            plan,
            byte_range,
            lambda records: convert_payloads(pa.array(list(records), pa.binary()), plan),
            lambda _: (RECORD, _NOT_TEXT),
            reject,
        )

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``record`` and the number of the first one; see ``Format``."""
        return "record", 0
