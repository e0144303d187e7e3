"""Infers columns and types of JSON lines from a sample."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import Shape, is_list
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import inference, tables
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.bad_input.bad_rows import BadRow
from beam_pipelines.sources.json import parser
from beam_pipelines.sources.json.pandas_tables import rows_within
from beam_pipelines.sources.json.scalar_texts import text_columns, with_texts
from beam_pipelines.sources.nesting import nested, shapes
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.source_format import Contents
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.encodings import UTF_8, find_encoding
from beam_pipelines.sources.text.format import digits_type

# Finding a run of lines that agree costs about a millisecond; so many runs mean lines of several
# kinds.
_MAX_RUNS = 1_000
# Names of an object that may be values, and the most of them that a row has.
_MAP_NAMES, _MAP_FILLED = 50, 0.1


def types_of(source: Source, files: tuple[FileInfo, ...]) -> JsonTypes:
    """Returns the types of sampled lines."""
    types = JsonTypes(source)
    for sampled in inference.sample_rounds(source, files, ""):
        for file, lines in blocks.sample_bodies(source, sampled, blocks.LINES):
            types.add(file, lines)
        if types.rows:
            break
    return types


class JsonTypes:
    """The columns and types of some lines, found body by body.

    Attributes:
      rows: number of lines so far.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._schema = pa.schema([])
        self._seen: dict[str, Shape | None] = {}
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
        parser.check_depth(self._source, file, lines)
        body = self._with_texts(lines)
        source, (runs, contradictory) = self._source, _runs(body.data)
        # Types that few lines have are no types.
        if runs is None or contradictory > sum(run.num_rows for run in runs):
            raise _contradiction(source, file, body)
        for run in sorted(runs, key=lambda run: -run.num_rows):
            found = _with_times(body.data, run) if len(runs) == 1 else run.schema
            self._schema = inference.merge_schemas(self._schema, found, is_left_right=True)
            shapes.note_shapes(self._seen, run.combine_chunks().to_batches())
            self.rows, self._run = self.rows + run.num_rows, run
        if not runs and body.data.strip() and not self._wrong:
            self._wrong = _contradiction(source, file, body)

    def _with_texts(self, lines: blocks.Body) -> blocks.Body:
        """Returns lines with quotes around the numbers of columns of text.

        With ``columns`` these are also columns that it leaves out, with two kinds of values.
        """
        levels, source = self._levels, self._source
        while True:
            body = lines._replace(data=with_texts(lines.data, text_columns(source) | levels))
            if not text_columns(source) and not source.columns:
                return body
            try:
                parser.parse_lines(body.data, None, "infer")
            except bad_rows.ERRORS as error:
                name, type_ = parser.text_for_kinds(error) or ("", "")
                # A field has, is, or is within one of the columns.
                pairs = [(f"{name}.", f"{one}.") for one in source.columns]
                is_read = not pairs or any(a.startswith(b) or b.startswith(a) for a, b in pairs)
                if not name or name in levels or (is_read and name not in source.types):
                    return body
                levels[name] = int(type_ != "text")
            else:
                return body

    def rows_within(self) -> str:
        """Returns how to get rows from the only object; else nothing."""
        return rows_within(self._run) if self.rows == self._run.num_rows == 1 else ""

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
        contents = tables.contents_of(source, [(first, schema)], seen, keeps_json=True)
        read_schema = pa.schema(
            [field.with_type(digits_type(field.type)) for field in contents.read_schema]
        )
        return contents._replace(
            file_schema=parser.parsed_schema(source, schema, read_schema),
            read_schema=read_schema,
            source=source,
            decisions=(*contents.decisions, *_maps(source, self._run)),
        )


def _maps(source: Source, run: pa.Table) -> Iterator[str]:
    """Yields findings of objects with other names in each row."""
    for field in run.schema if not source.columns else ():
        if not pa.types.is_struct(field.type) or field.type.num_fields < _MAP_NAMES:
            continue
        columns = run.select([field.name]).flatten().columns
        filled = sum(len(column) - column.null_count for column in columns)
        if filled <= _MAP_FILLED * len(run) * len(columns):
            words = f"{len(columns):,} columns of objects, and each row fills few of them"
            cure = f"types: {{{yaml_text(field.name)}: text}} keeps them as JSON in one"
            yield f"{field.name}: {words}; {cure}"


def _runs(data: bytes, schema: pa.Schema | None = None) -> tuple[list[pa.Table] | None, int]:
    """Parses lines, and infers nested types, but for those in the schema.

    Returns:
      One table if all lines agree, else a table for each run of lines that do, in order; ``None``
        if there are too many runs, or too many lines that are no objects. These are left out:
        reading reports them. And the number of objects that contradict themselves.
    """
    with contextlib.suppress(*bad_rows.ERRORS):
        return [parser.parse_lines(data, schema, "infer")], 0
    starts, ends = blocks.filled_lines(data)
    runs: list[pa.Table] = []
    contradictory = 0

    def parse(start: int, end: int) -> pa.Table:
        return parser.parse_lines(data[starts[start] : ends[end - 1]], schema, "infer")

    for number, found in enumerate(bad_rows.sift(parse, 0, len(starts))):
        if number == _MAX_RUNS:
            return None, contradictory
        if isinstance(found, BadRow):
            contradictory += parser.text_for_kinds(found.error) is not None
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
            type_ = inference.time_type(array) if pa.types.is_string(array.type) else None
            if type_ is not None:
                times[name] = type_

    def timed(name: str, found: pa.DataType) -> pa.DataType:
        if not _may_be_times(found):
            return found
        return shapes.with_leaf(found, times.get(name, pa.string()))

    return pa.schema(nested.map_leaves(run.schema, timed))


def _may_be_times(type_: pa.DataType) -> bool:
    leaf = shapes.leaf(type_)
    return bool(pa.types.is_string(leaf) or pa.types.is_timestamp(leaf))


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
            parser.parse_lines(body.data[: ends[middle - 1]], None, "infer")
            low = middle
        except bad_rows.ERRORS as earlier:
            high, error = middle - 1, earlier
    line = blocks.LineNumbers(source, file, body).line(int(starts[low]))
    found = body.data[starts[low] : ends[low]].decode("utf-8", errors="backslashreplace")
    cure = parser.cure_of_kinds(error)
    if not low and found.strip()[:1] not in ("{", "["):
        cure = "Set 'format: csv' if it is the header of a table."
    elif found.lstrip().startswith("{'"):
        name = os.path.basename(file.path)
        cure = (
            "Lines of Python are no JSON. Write them so, for example: import ast, json; "
            f"open('new.jsonl', 'w').writelines(json.dumps(ast.literal_eval(line)) + '\\n' "
            f"for line in open({name!r}))"
        )
    elif (encoding := find_encoding(body.data).name) != UTF_8:
        cure = f"Set 'encoding: {encoding}' of the source, or another one."
    return DataError(
        f"{file.path}, line {line}: found {shorten(found.strip(), 200)}, expected a JSON object "
        f"{'like those before' if low else 'whose fields have one kind of value'}: "
        f"{parser.plain(error)}. {cure}"
    )
