"""libsvm, libfm and libffm text: sparse rows, read into lists."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_flag, read_integer, read_name
from beam_pipelines.sources import inference
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.faults.bad_rows import BadRow
from beam_pipelines.sources.format import Contents, combine, problem
from beam_pipelines.sources.libsvm.explain import explain_line
from beam_pipelines.sources.libsvm.lines import (
    INTEGER,
    LABEL,
    NUMBER,
    QID,
    BadLinesError,
    LibsvmLayout,
    parse_lines,
    tokenise,
)
from beam_pipelines.sources.options import EncodedOptions
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.text import blocks
from beam_pipelines.sources.text.cells import Flags
from beam_pipelines.sources.text.format import TextFormat, digits_type
from beam_pipelines.sources.text.quotes import Positions


@dataclasses.dataclass(frozen=True)
class Libsvm:
    """Options of ``libsvm``, ``libfm`` and ``libffm`` sources."""

    base: int | None = recipe_key(
        read_integer(0, 1), None, "1 of `libsvm`, else 0", "The first index in the files."
    )
    size: int | None = recipe_key(
        read_integer(1, 1 << 62), None, "from the data", "Number of indices; a larger one is bad."
    )
    fields: int | None = recipe_key(
        read_integer(1, 1 << 62), None, "from the data", "Number of fields of libffm; the same."
    )
    sort: bool = recipe_key(
        read_flag, False, "false", "Sorts the indices of each line; else they must ascend."
    )
    name: str = recipe_key(
        read_name, "features", "`features`", "Name of the sparse feature; prefix of its columns."
    )


@dataclasses.dataclass(frozen=True)
class SparseOptions(EncodedOptions):
    """The keys of sources of sparse lines."""

    libsvm: Libsvm = recipe_key(
        section(Libsvm, "a mapping such as {base: 1, size: 1000}"),
        Libsvm(),
        "see below",
        "Options of `libsvm`, `libfm` and `libffm` sources.",
    )


@dataclasses.dataclass(frozen=True)
class SparseLines(TextFormat):
    """Text with one sparse row a line, ``label idx:val …``.

    Attributes:
      suffixes: see ``Format``.
      base: the first index, unless the recipe says otherwise.
      has_fields: whether a feature is ``field:idx:val``.
    """

    suffixes: tuple[str, ...]
    base: int
    has_fields: bool = False
    Options = SparseOptions
    rounds_sparse = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = super().check(source)
        if source.options_of(SparseOptions).libsvm.fields is not None and not self.has_fields:
            problems.append(
                problem(source, "libsvm", "found 'fields', expected it with 'format: libffm' only.")
            )
        known = {
            field.name: field.type
            for field in self._layout(source, pa.int64(), has_qid=True).schema
        }
        for name, type_ in source.types.items():
            if name in known and not _can_be(name, type_, known[name]):
                expected = (
                    "an integer or a float type"
                    if name == LABEL
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
        rows, has_fractions, has_qid = 0, False, QID in source.types
        for sampled in inference.sample_rounds(source, files):
            for file, body in blocks.sample_bodies(source, sampled, blocks.LINES):
                blocks.check_lines(source, file, body)
                tokens = tokenise(body.data)
                labels, _ = tokens.texts(tokens.first)
                rows += len(labels)
                # A label that is no number is a bad row, and does not decide the type.
                is_fraction = pc.and_not(
                    pc.match_substring_regex(labels, NUMBER),
                    pc.match_substring_regex(labels, INTEGER),
                )
                has_fractions |= pc.any(is_fraction, min_count=0).as_py()
                has_qid |= len(tokens.queries()) > 0
            if rows:
                break
        if not rows:
            raise DataError(
                f"{files[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        label = columns.parse_type(source.types[LABEL]) if LABEL in source.types else None
        layout = self._layout(
            source, label or (pa.float64() if has_fractions else pa.int64()), has_qid
        )
        names = tuple(layout.schema.names)
        read_schema = pa.schema(
            [layout.schema.field(name) for name in inference.selected(source, names)]
        )
        option = source.options_of(SparseOptions).libsvm
        sizes = (*([option.fields] if self.has_fields else []), option.size)
        sparse = SparseColumns(option.name, layout.keys, layout.value, sizes)
        return Contents(names, layout.schema, read_schema, sparse=(sparse,))

    def read_body(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body, reject: bool
    ) -> tuple[pa.RecordBatch, tuple[Rejected, ...]]:
        """Reads whole lines; see ``TextFormat``."""
        schema = plan.file_schema
        layout = self._layout(plan.source, schema.field(LABEL).type, QID in schema.names)
        blocks.check_lines(plan.source, file, body)
        names = plan.schema.names
        try:
            return parse_lines(body.data, layout).select(names), ()
        except bad_rows.ERRORS:
            pass
        lines = blocks.LineNumbers(plan.source, file, body)
        tokens = tokenise(body.data)
        starts, ends = tokens.row_starts, tokens.row_ends
        batches, bad = _sift(body.data, starts, ends, layout)
        rejected: list[Rejected] = []
        for start, end in zip(starts[bad].tolist(), ends[bad].tolist(), strict=True):
            line = body.data[start:end]
            shown = shorten(line.decode("utf-8", errors="backslashreplace").strip())
            row = Rejected(
                plan.source.name,
                file.path,
                f"line {lines.line(start)}",
                *explain_line(line, layout),
                shown,
            )
            bad_rows.reject_or_raise(row, rejected, reject)
        return combine([batch.select(names) for batch in batches], plan.schema), tuple(rejected)

    def records(
        self, plan: SourcePlan, file: FileInfo, body: blocks.Body
    ) -> tuple[blocks.Body, Positions, Positions]:
        """Returns where lines with tokens begin and end; see ``TextFormat``."""
        tokens = tokenise(body.data)
        return body, tokens.row_starts, tokens.row_ends

    def _layout(self, source: Source, label: pa.DataType, has_qid: bool) -> LibsvmLayout:
        option = source.options_of(SparseOptions).libsvm
        base = self.base if option.base is None else option.base
        return LibsvmLayout(
            option.name,
            self.has_fields,
            has_qid,
            digits_type(label),
            base,
            option.size,
            option.fields,
            not option.sort,
            LABEL not in source.types,
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
        if name == LABEL
        else bool(type_ == known)
    )


def _sift(
    data: bytes, starts: Positions, ends: Positions, layout: LibsvmLayout
) -> tuple[list[pa.RecordBatch], Flags]:
    """Returns batches of the good lines, and flags of the bad ones.

    Bad lines of one kind are found at a time.
    """
    bad = np.zeros(len(starts), np.bool_)
    ends = np.minimum(ends + 1, len(data))
    while True:
        left = np.flatnonzero(~bad)
        lines = blocks.joined(data, starts[left], ends[left])
        try:
            return [parse_lines(lines, layout)], bad
        except BadLinesError as error:
            bad[left[error.rows]] = True
        except bad_rows.ERRORS:
            break
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum((ends - starts)[left])])
    found = list(
        bad_rows.sift(
            lambda start, end: parse_lines(lines[edges[start] : edges[end]], layout), 0, len(left)
        )
    )
    bad[left[[row.number for row in found if isinstance(row, BadRow)]]] = True
    return [batch for batch in found if isinstance(batch, pa.RecordBatch)], bad
