"""JSON Lines: one object a line, nested ones made flat (``nested.py``)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from beam_pipelines.core.arrow.columns import Shape, is_list, only_chunk
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import inference, tables, whole_numbers
from beam_pipelines.sources.csv.codes import more_digits
from beam_pipelines.sources.exact_cast import NULL_INSIDE
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.faults.bad_rows import BadRow
from beam_pipelines.sources.faults.bad_values import ColumnError
from beam_pipelines.sources.files.compression import compression_of, read_head
from beam_pipelines.sources.format import Contents, combine
from beam_pipelines.sources.json.by_line import sift
from beam_pipelines.sources.json.depth import check_depth
from beam_pipelines.sources.json.nearly import Tallies, mixed_columns
from beam_pipelines.sources.json.orients import check_is_no_table, rows_within
from beam_pipelines.sources.json.parser_errors import cure_of_kinds, plain, text_for_kinds
from beam_pipelines.sources.json.parser_types import parsed_schema
from beam_pipelines.sources.json.rounded import lost_fraction, rounded_integer
from beam_pipelines.sources.json.scalar_texts import text_columns, with_texts
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.options import EncodedOptions, TableOptions
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.documents import DOCUMENTS, is_document
from beam_pipelines.sources.text.encodings import start_of_text
from beam_pipelines.sources.text.format import TextFormat, digits_type
from beam_pipelines.sources.text.other_content import check_is_text

_BLANK_LINE = re.compile(rb"\n[ \t\r]*(?:\n|[ \t\r]\Z)")
# It ends a line, as in a CSV file, although pyarrow takes it for a blank within an object: else
# rows would depend on where a file is cut.
_LONE_RETURN = re.compile(rb"\r(?!\n)")
# Such a line is ``null`` or no JSON. pyarrow takes a line of null for a row of nulls, and crashes
# if it infers types from one first.
_NULL_LINES = (
    re.compile(rb"\A[ \t\r\n]*n"),
    re.compile(rb"\n[ \t\r]*n"),
    re.compile(rb"\r[ \t]*n"),
)
# Finding a run of lines that agree costs about a millisecond; so many runs mean lines of several
# kinds.
_MAX_RUNS = 1_000
_OPENS, _CLOSES = b"{}"

# Bytes of a document that show what it is.
_HEAD_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class JsonOptions(TableOptions, EncodedOptions):
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
        head = _head(source, files[0])
        check_is_text(source, files[0].path, head)
        if source.format is not None:
            return _types_of(source, files).judged_contents(files[0])
        form, reason = "json_lines", ""
        text = start_of_text(head.removeprefix(blocks.BYTE_ORDER_MARK), source)
        check_is_no_table(text.decode("utf-8", errors="replace"), files[0].path)
        if is_document(text):
            form, reason = DOCUMENTS, "an array, or objects without a line each"
            source = dataclasses.replace(source, format=form)
        types = _types_of(source, files)
        rows = types.rows_within(files[0].path)
        try:
            contents = types.judged_contents(files[0])
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
        lines = blocks.LineNumbers(plan.source, file, body)
        good: list[pa.RecordBatch] = []
        rejected: list[Rejected] = []
        for found in sift(body.data, plan, _read_lines):
            if isinstance(found, pa.RecordBatch):
                good.append(found)
                continue
            start, line, (column, reason) = found
            shown = shorten(line.decode("utf-8", errors="backslashreplace"))
            bad = Rejected(
                plan.source.name, file.path, f"line {lines.line(start)}", column, reason, shown
            )
            bad_rows.reject_or_raise(bad, rejected, reject)
        return combine(good, plan.schema), tuple(rejected)


def _types_of(
    source: Source, files: tuple[FileInfo, ...], mixed: Mapping[str, str] | None = None
) -> JsonTypes:
    """Returns the types of sampled lines; ``mixed`` as in ``JsonTypes``."""
    types = JsonTypes(source, mixed or {})
    for sampled in inference.sample_rounds(source, files):
        for file, lines in blocks.sample_bodies(source, sampled, blocks.LINES):
            types.add(file, lines)
        if types.rows:
            break
    # The lines before those that show a mixed column are looked at again.
    return types if types.mixed == (mixed or {}) else _types_of(source, files, types.mixed)


class JsonTypes:
    """The columns and types of some lines, found body by body.

    Attributes:
      rows: number of lines so far.
      mixed: columns of numbers and texts -> the types that ``infer: lenient`` gives them.

    Args:
      source: of the recipe.
      mixed: those that are known; ``None``: ``infer: lenient`` gives none.
    """

    def __init__(self, source: Source, mixed: Mapping[str, str] | None = None) -> None:
        self.mixed = dict(mixed or {})
        self._is_lenient = mixed is not None and source.infer == "lenient"
        self._source = dataclasses.replace(source, types={**source.types, **self.mixed})
        self._tallies = Tallies(self.mixed)
        self._schema = pa.schema([])
        self._seen: dict[str, Shape | None] = {}
        self._lost: dict[str, str] = {}  # one fraction of a column that float64 rounds
        self._wrong: DataError | None = None
        self._run = pa.table({})  # the last one
        # Columns with two kinds of values -> levels of lists around their texts.
        self._levels: dict[str, int] = {}
        self.rows = 0

    def add(self, file: FileInfo, lines: blocks.Body) -> None:
        """Notes the lines of a body.

        Raises:
          DataError: they contradict each other, or are beyond a limit.
        """
        blocks.check_lines(self._source, file, lines)
        check_depth(self._source, file, lines)
        body = self._with_texts(lines)
        source, (runs, contradictory) = self._source, _runs(body.data)
        # Types that few lines have are no types.
        if runs is None or contradictory > sum(run.num_rows for run in runs):
            raise _contradiction(source, file, body)
        if len(runs) == 1:
            self._tallies.add(source, file, body, runs[0])
        for run in sorted(runs, key=lambda run: -run.num_rows):
            _check_numbers(source, file, body, run)
            while lost := lost_fraction(body.data, run, source, self._lost):
                self._lost[lost[0]] = str(lost[1])
            if self._is_lenient:
                self.mixed |= mixed_columns(self._schema, run.schema)
            found = _with_times(body.data, run) if len(runs) == 1 else run.schema
            self._schema = inference.merge_schemas(self._schema, found, is_left_right=True)
            shapes.note_shapes(self._seen, run.combine_chunks().to_batches())
            self.rows, self._run = self.rows + run.num_rows, run
        if not runs and body.data.strip() and not self._wrong:
            self._wrong = _contradiction(source, file, body)

    def _with_texts(self, lines: blocks.Body) -> blocks.Body:
        """Returns lines with quotes around the numbers of columns of text.

        With ``infer: lenient`` these are also columns with two kinds of values, and always those
        that ``columns`` leaves out.
        """
        levels = self._levels
        while True:
            source = self._source
            body = lines._replace(data=with_texts(lines.data, text_columns(source) | levels))
            if not text_columns(source) and not self._is_lenient and not source.columns:
                return body
            try:
                _parse(body.data, None, "infer")
            except bad_rows.ERRORS as error:
                name, type_ = text_for_kinds(error) or ("", "")
                if not name or name in levels:
                    return body
                is_read = not source.columns or _is_read(name, source.columns)
                if is_read and name not in source.types:
                    if not self._is_lenient:
                        return body
                    self.mixed[name] = type_
                    self._source = dataclasses.replace(source, types={**source.types, name: type_})
                levels[name] = int(type_ != "text")
            else:
                return body

    def rows_within(self, path: str) -> str:
        """Returns how to get rows from the only object; else nothing."""
        return rows_within(self._run, path) if self.rows == self._run.num_rows == 1 else ""

    def contents(self, first: FileInfo) -> Contents:
        """Returns what was found.

        Args:
          first: the source's first file, for messages.

        Raises:
          DataError: there are no lines, or no fields in them.
        """
        source, schema, seen = self._source, self._schema, self._seen
        if not self.rows:
            raise self._wrong or DataError(
                f"{first.path}: found no rows, expected data. Check 'path' of the source."
            )
        nested_types = {field.name: field.type for field in nested.flatten_fields(schema)}
        if not nested_types:
            raise DataError(
                f"{first.path}: found objects without fields, expected some. Check 'path' of "
                "the source."
            )
        # Lines whose type lost to that of others do not decide the shape either.
        seen = {
            name: seen[name]
            for name, type_ in nested_types.items()
            if name in seen and shapes.depth(type_) > 1
        }
        contents = tables.contents_of(source, [(first, schema)], seen)
        read_schema = pa.schema(
            [field.with_type(digits_type(field.type)) for field in contents.read_schema]
        )
        return contents._replace(
            file_schema=parsed_schema(source, schema, read_schema),
            read_schema=read_schema,
        )

    def judged_contents(self, first: FileInfo) -> Contents:
        """Returns what was found, with findings of columns that are nearly alike.

        Raises:
          DataError: see ``contents``.
          RecipeProblems: a column of times has a few other texts.
        """
        contents = self.contents(first)
        problems, decisions = self._tallies.judge(self._source, contents.read_schema)
        if problems:
            raise RecipeProblems(problems)
        for field in contents.read_schema:
            if field.name in self._lost and shapes.depth(field.type) < 2:  # no lists in lists
                of = "list<{}>" if is_list(field.type) else "{}"
                words = more_digits(field.name, self._lost[field.name], of.format("text"))
                decisions.append(
                    f"types: {{{yaml_text(field.name)}: {of.format('float64')}}}  # {words}"
                )
        return contents._replace(source=self._source, decisions=tuple(decisions))


def _is_read(name: str, names: Sequence[str]) -> bool:
    """Whether a field has, is, or is within one of the columns."""
    return any(
        f"{name}.".startswith(f"{one}.") or f"{one}.".startswith(f"{name}.") for one in names
    )


def _runs(data: bytes, schema: pa.Schema | None = None) -> tuple[list[pa.Table] | None, int]:
    """Parses lines, and infers nested types, but for those in the schema.

    Returns:
      One table if all lines agree, else a table for each run of lines that do, in order; ``None``
        if there are too many runs, or too many lines that are no objects. These are left out:
        reading reports them. And the number of objects that contradict themselves.
    """
    with contextlib.suppress(*bad_rows.ERRORS):
        return [_parse(data, schema, "infer")], 0
    starts, ends = blocks.filled_lines(data)
    runs: list[pa.Table] = []
    contradictory = 0
    for number, found in enumerate(
        bad_rows.sift(
            lambda start, end: _parse(data[starts[start] : ends[end - 1]], schema, "infer"),
            0,
            len(starts),
        )
    ):
        if number == _MAX_RUNS:
            return None, contradictory
        if isinstance(found, BadRow):
            contradictory += text_for_kinds(found.error) is not None
        else:
            runs.append(found)
    return runs, contradictory


def _with_times(data: bytes, run: pa.Table) -> pa.Schema:
    """Returns the types of lines that agree, with those of times.

    The parser forgets whether a time has a zone, and takes none with a fraction of a second.
    """

    def as_text(_: str, found: pa.DataType) -> pa.DataType:
        return shapes.with_leaf(found, pa.string()) if _may_be_times(found) else found

    if not any(_may_be_times(field.type) for field in nested.flatten_fields(run.schema)):
        return run.schema
    runs, _ = _runs(data, pa.schema(nested.map_leaves(run.schema, as_text)))
    times: dict[str, pa.DataType] = {}
    for batch in [batch for texts in runs or () for batch in texts.combine_chunks().to_batches()]:
        for name, column in nested.flat_arrays(batch).items():
            array = pc.list_flatten(column, recursive=True) if is_list(column.type) else column
            if pa.types.is_string(array.type) and (type_ := inference.time_type(array)):
                times[name] = type_

    def timed(name: str, found: pa.DataType) -> pa.DataType:
        if not _may_be_times(found):
            return found
        return shapes.with_leaf(found, times.get(name, pa.string()))

    return pa.schema(nested.map_leaves(run.schema, timed))


def _may_be_times(type_: pa.DataType) -> bool:
    leaf = shapes.leaf(type_)
    return bool(pa.types.is_string(leaf) or pa.types.is_timestamp(leaf))


def _check_numbers(source: Source, file: FileInfo, body: blocks.Body, table: pa.Table) -> None:
    """Raises ``DataError`` for an integer that a float64 column refuses."""
    if found := rounded_integer(body.data, table.combine_chunks(), source):
        name, number = found
        rank = shapes.depth(tables.flat_schema(table.schema, file.path).field(name).type)
        raise DataError(
            f"{file.path}, column '{name}': found the integer {shorten(str(number), 100)}, "
            f"expected {whole_numbers.why_refused(number)}. "
            f"{whole_numbers.cure(name, source.types.get(name), rank)}"
        )


def _contradiction(source: Source, file: FileInfo, body: blocks.Body) -> DataError:
    """Returns the error for a sample without common types.

    It names the first line that contradicts those before.
    """
    starts, ends = blocks.filled_lines(body.data)
    low, high = 0, len(starts)
    error: Exception = ValueError("lines that do not agree")
    while low < high:
        middle = (low + high + 1) // 2
        try:
            _parse(body.data[: ends[middle - 1]], None, "infer")
            low = middle
        except bad_rows.ERRORS as earlier:
            high, error = middle - 1, earlier
    line = blocks.LineNumbers(source, file, body).line(int(starts[low]))
    found = body.data[starts[low] : ends[low]].decode("utf-8", errors="backslashreplace")
    is_other = not low and found.strip()[:1] not in ("{", "[")
    cure = "Set 'format: csv' if it is the header of a table." if is_other else cure_of_kinds(error)
    return DataError(
        f"{file.path}, line {line}: found {shorten(found.strip(), 200)}, expected a JSON object "
        f"{'like those before' if low else 'whose fields have one kind of value'}: "
        f"{plain(error)}. {cure}"
    )


def _parse(data: bytes, schema: pa.Schema | None, unexpected: str) -> pa.Table:
    """Parses lines in one block and one thread.

    Raises:
      pa.ArrowInvalid: a line that is not an object as the schema wants it, bytes that are not
        UTF-8, a line with two objects.
    """
    if not data.strip():
        return pa.schema([]).empty_table()
    if not blocks.is_utf8(data):  # the parser does not check
        raise pa.ArrowInvalid("bytes that are not UTF-8")
    if data.startswith(
        blocks.BYTE_ORDER_MARK
    ):  # the parser would skip one, also in the middle of a file
        raise pa.ArrowInvalid("a byte order mark within the file")
    if any(pattern.search(data) for pattern in _NULL_LINES):
        raise pa.ArrowInvalid("null in the place of an object")
    table = pa_json.read_json(
        pa.BufferReader(data),
        read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa_json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=unexpected
        ),
    )
    try:
        table.validate()
    except (
        pa.ArrowInvalid
    ) as error:  # pyarrow forgets the fields of a null among objects if all are null
        raise pa.ArrowInvalid(f"{NULL_INSIDE} of objects, and no object in it") from error
    if table.num_rows != _count_lines(data) or not _are_whole(data, table.num_rows):
        raise pa.ArrowInvalid("a line that is not exactly one object")
    return table


def _are_whole(data: bytes, lines: int) -> bool:
    """Whether all lines begin and end with a brace.

    Then none of as many objects is broken over two lines, because within one only white space is
    between ``}`` and ``{``.
    """
    ends_well = data[-3:].rstrip(b"\r\n").endswith(b"}")
    if (
        data.startswith(b"{")
        and ends_well
        and data.count(b"}\n{") + data.count(b"}\r\n{") == lines - 1
    ):
        return True
    starts, ends = blocks.filled_lines(data)
    characters = np.frombuffer(data, np.uint8)
    filled = np.flatnonzero(blocks.IS_FILLED[characters])
    first, last = filled[np.searchsorted(filled, starts)], filled[np.searchsorted(filled, ends) - 1]
    return bool((characters[first] == _OPENS).all() and (characters[last] == _CLOSES).all())


def _count_lines(data: bytes) -> int:
    """Counts the lines that are not blank."""
    if data[:1].isspace() or _BLANK_LINE.search(data) or _LONE_RETURN.search(data):
        return len(blocks.filled_lines(data)[0])
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _read_lines(data: bytes, plan: SourcePlan) -> pa.RecordBatch:
    unexpected = "ignore" if plan.source.columns else "error"
    try:
        table = _parse(data, plan.file_schema, unexpected).combine_chunks()
    except bad_rows.ERRORS:
        found = pa.schema(nested.flatten_fields(plan.file_schema))
        texts = with_texts(data, text_columns(plan.source, found))
        if texts is data:
            raise
        table = _parse(texts, plan.file_schema, unexpected).combine_chunks()
    if b"-NaN" in data:  # which pyarrow takes for NaN
        _check_json(line for line in data.splitlines() if b"-NaN" in line)
    if not table.num_rows:
        table = plan.file_schema.empty_table()
    batch = pa.RecordBatch.from_arrays(
        [only_chunk(column) for column in table.columns], schema=table.schema
    )
    converted = tables.convert(batch, plan)
    if found := rounded_integer(data, batch, plan.source):
        raise ColumnError(found[0], whole_numbers.ROUNDED)
    for name, column in zip(plan.schema.names, converted.columns, strict=True):
        values = column.flatten() if is_list(column.type) else column
        if (
            pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py()
        ):  # JSON has no infinity
            raise ColumnError(name, "a number beyond the range of its type")
    return converted


def _check_json(lines: Iterable[bytes]) -> None:
    """Raises ``pa.ArrowInvalid`` unless all lines are JSON to Python's parser."""
    for line in lines:
        try:
            json.loads(line)
        except ValueError as error:
            raise pa.ArrowInvalid(f"JSON parse error: {error}") from error


def _head(source: Source, file: FileInfo) -> bytes:
    return read_head(file.path, compression_of(source, file.path), _HEAD_BYTES, source.limits)
