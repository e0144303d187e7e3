"""libsvm and libfm text: sparse rows, read into lists."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.sparse_columns import MOST_INDEX, SparseColumns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.keys import plain_key, recipe_key, section
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_flag, read_integer, read_name
from beam_pipelines.sources import inference, whole_numbers
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.libsvm import lines
from beam_pipelines.sources.options import EncodedOptions
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import Contents, problem
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text import format as text_format
from beam_pipelines.sources.text.cells import cell_parser
from beam_pipelines.sources.text.quotes import Positions

# Patterns for a whole token.
_IS_INTEGER, _IS_INDEX, _IS_NUMBER = map(re.compile, (lines.INTEGER, r"^-?[0-9]+$", lines.NUMBER))


@dataclasses.dataclass(frozen=True)
class Libsvm:
    """Options of ``libsvm`` and ``libfm`` sources."""

    base: int | None = recipe_key(
        read_integer(0, 1), None, "1 of `libsvm`, else 0", "The first index in the files."
    )
    size: int | None = recipe_key(
        read_integer(1, 1 << 62), None, "from the data", "Number of indices; a larger one is bad."
    )
    sort: bool = plain_key(
        read_flag, False, "Sorts the indices of each line; else they must ascend."
    )
    name: str = plain_key(
        read_name, "features", "Name of the sparse feature; prefix of its columns."
    )


@dataclasses.dataclass(frozen=True)
class SparseOptions(EncodedOptions):
    """The keys of sources of sparse lines."""

    libsvm: Libsvm = recipe_key(
        section(Libsvm, "a mapping such as {base: 1, size: 1000}"),
        Libsvm(),
        "see below",
        "Options of `libsvm` and `libfm` sources.",
    )


@dataclasses.dataclass(frozen=True)
class SparseLines(text_format.TextFormat):
    """Text with one sparse row a line, ``label idx:val …``.

    Attributes:
      suffixes: see ``Format``.
      base: the first index, unless the recipe says otherwise.
    """

    suffixes: tuple[str, ...]
    base: int
    Options = SparseOptions
    rounds_sparse = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = super().check(source)
        known = {
            field.name: field.type
            for field in self._layout(source, pa.int64(), has_qid=True).schema
        }
        for name, type_ in source.types.items():
            if name in known and not _can_be(name, type_, known[name]):
                expected = (
                    "an integer or a float type"
                    if name == lines.LABEL
                    else columns.type_name(known[name])
                )
                message = (
                    f"column '{name}': found {type_}, expected {expected}. Declare that, or "
                    "leave it out."
                )
                problems.append(problem(source, "types", message))
        return problems

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds the label's type, and whether there are queries; see ``Format``."""
        rows, has_fractions, has_qid = 0, False, lines.QID in source.types
        for sampled in inference.sample_rounds(source, files):
            for file, body in blocks.sample_bodies(source, sampled, blocks.LINES):
                blocks.check_lines(source, file, body)
                tokens = lines.tokenise(body.data)
                labels = tokens.labels()
                rows += len(labels)
                # A label that is no number is a bad row, and does not decide the type.
                is_fraction = pc.and_not(
                    pc.match_substring_regex(labels, lines.NUMBER),
                    pc.match_substring_regex(labels, lines.INTEGER),
                )
                has_fractions |= pc.any(is_fraction, min_count=0).as_py()
                has_qid |= len(tokens.queries()) > 0
            if rows:
                break
        label = (
            columns.parse_type(source.types[lines.LABEL]) if lines.LABEL in source.types else None
        )
        layout = self._layout(
            source, label or (pa.float64() if has_fractions else pa.int64()), has_qid
        )
        names = tuple(layout.schema.names)
        read_schema = pa.schema(
            [layout.schema.field(name) for name in inference.selected(source, names)]
        )
        option = source.options_of(SparseOptions).libsvm
        sparse = SparseColumns(option.name, (layout.index_column,), layout.value, (option.size,))
        return Contents(names, layout.schema, read_schema, sparse=(sparse,))

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole lines; see ``TextFormat``."""
        schema = plan.file_schema
        layout = self._layout(
            plan.source, schema.field(lines.LABEL).type, lines.QID in schema.names
        )
        blocks.check_lines(plan.source, file, body)
        names = plan.schema.names
        try:
            return lines.parse_lines(body.data, layout).select(names), ()
        except bad_rows.ERRORS:
            pass
        tokens = lines.tokenise(body.data)
        found = text_format.try_pieces(
            body.data,
            (tokens.starts, tokens.ends),
            lambda data: lines.parse_lines(data, layout),
            lambda starts, ends: _by_line(body.data, starts, ends, layout),
        )
        chosen = (one.select(names) if isinstance(one, pa.RecordBatch) else one for one in found)
        return text_format.settled(plan, file, body, chosen, reject)

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, Positions, Positions]:
        """Returns where lines with tokens begin and end; see ``TextFormat``."""
        tokens = lines.tokenise(body.data)
        return body, tokens.starts, tokens.ends

    def _layout(self, source: Source, label: pa.DataType, has_qid: bool) -> lines.LibsvmLayout:
        option = source.options_of(SparseOptions).libsvm
        base = self.base if option.base is None else option.base
        return lines.LibsvmLayout(
            option.name,
            has_qid,
            text_format.digits_type(label),
            base,
            option.size,
            not option.sort,
            lines.LABEL not in source.types,
        )


def _can_be(name: str, declared: str, known: pa.DataType) -> bool:
    """Whether a column may be declared so.

    Types that cannot be parsed may be here; they are reported elsewhere.
    """
    try:
        type_ = columns.parse_type(declared)
    except ValueError:
        return True
    return (
        pa.types.is_integer(type_) or pa.types.is_floating(type_)
        if name == lines.LABEL
        else bool(type_ == known)
    )


def _by_line(
    data: bytes, starts: Sequence[int], ends: Sequence[int], layout: lines.LibsvmLayout
) -> Iterator[pa.RecordBatch | text_format.BadRecord]:
    """Yields the bad lines, and a batch of the good ones."""
    good = []
    for start, end in zip(starts, ends, strict=True):
        if why := _explain_line(data[start:end], layout):
            yield start, end, *why
        else:
            good.append(data[start:end])
    if good:
        yield lines.parse_lines(b"".join(good), layout)


def _explain_line(line: bytes, layout: lines.LibsvmLayout) -> tuple[str, str] | None:
    """Returns the column and the error of a bad line.

    ``None`` of a good one. It finds the first of several errors.
    """
    plain = line.split(b"#", 1)[0]
    label, *tokens = (token.decode("utf-8", "backslashreplace") for token in plain.split())
    if wrong := _explain_label(label, layout):
        return lines.LABEL, wrong
    if tokens and tokens[0].startswith("qid:"):
        query = tokens.pop(0)[len("qid:") :]
        if not layout.has_qid:
            cure = f"Declare 'types: {{{lines.QID}: int64}}', or set 'infer: full' of the source."
            return (
                lines.QID,
                f"found 'qid:{query}', expected none: no row of the sample has one. {cure}",
            )
        if not _fits(query, _IS_INTEGER, pa.int64()):
            return lines.QID, _wrong(query, "an integer from -2^63 to 2^63-1")
    before, known = -1, set[int]()
    for token in tokens:
        if why := _explain_feature(token, layout):
            return why
        index = int(token.partition(":")[0])
        if index in known or (layout.is_sorted and index <= before):
            expected = "indices each once" + ", in ascending order" * layout.is_sorted
            cure = ", or set 'libsvm: {sort: true}' of the source" * layout.is_sorted
            return layout.index_column, _wrong(token, expected, f"Mend the line{cure}.")
        known.add(index)
        before = index
    return None


def _explain_feature(token: str, layout: lines.LibsvmLayout) -> tuple[str, str] | None:
    index, _, value = token.partition(":")
    if token.count(":") != 1:
        cure = "Mend the line, or set another 'format'."
        if token.count(":") == 2:
            cure = "Of libffm, take off the fields: sed -E 's/[0-9]+:([0-9]+:)/\\1/g'."
        return "", _wrong(token, "index:value", cure)
    low, high = layout.bounds
    if not _fits(index, _IS_INDEX, pa.int64()) or not low <= int(index) <= high:
        cure = ", or set a larger 'size' in 'libsvm' of the source" * (high < MOST_INDEX)
        if index == "0":
            cure = ", or set 'libsvm: {base: 0}' of the source if its indices begin at 0"
        return layout.index_column, _wrong(
            token, f"an index from {low} to {high}", f"Mend the line{cure}."
        )
    if not _fits(value, _IS_NUMBER, pa.float32()):
        return layout.value, _wrong(token, "index:value with a finite number of 32 bits")
    return None


def _fits(text: str, pattern: re.Pattern[str], type_: pa.DataType) -> bool:
    """Whether a text has a pattern, and is a finite number."""
    try:
        return bool(pattern.match(text)) and cell_parser(type_)(text) is not None
    except ValueError:
        return False


def _explain_label(label: str, layout: lines.LibsvmLayout) -> str:
    type_, cure = layout.label, "Mend the line: one label comes before the features."
    is_whole = pa.types.is_integer(type_)
    if not _fits(label, _IS_INTEGER if is_whole else _IS_NUMBER, type_):
        if is_whole and _IS_NUMBER.match(label):
            cure = f"Declare 'types: {{{lines.LABEL}: float32}}'."
        return bad_rows.wrong_value(label, type_, cure)
    if layout.is_label_exact and type_ == pa.float64():
        expected = whole_numbers.why_text_refused(label)
        cure = f"Declare 'types: {{{lines.LABEL}: float64}}' to round it."
        return bad_rows.wrong_value(label, expected, cure) if expected else ""
    return ""


def _wrong(found: str, expected: str, cure: str = "Mend the line.") -> str:
    return f"found '{shorten(found, 100)}', expected {expected}. {cure}"
