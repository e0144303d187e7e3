"""Decides how CSV files are written, where no recipe says it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import shlex
from collections.abc import Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.limits import Limits
from beam_pipelines.files.beam.path_patterns import has_wildcard
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list
from beam_pipelines.sources.csv import header, sniffer
from beam_pipelines.sources.files.compression import compression_of, read_head
from beam_pipelines.sources.inference import SAMPLE_BYTES
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks, encodings

_LOOKED_AT, _ROWS = 1 << 17, 200
# Delimiters of two characters, which no option takes; characters that texts hardly have; and those
# that they often have.
_DOUBLE, _RARE, _COLON = ("::", "||"), ("^", "~", "\x01", "\x1f"), ":"
# Patterns of blanks between cells, as pandas takes them; cells of the second may have one blank.
_BLANKS, _RUNS = r"\s+", r"\s{2,}|\t"
_NAME = re.compile(r"[^\W\d][\w ./-]*")
_ESCAPED = re.compile(rb'\\"(?![,;|\t\r\n])')
_CELLS = re.compile(r'"[^"\s][^"]*"|\S+')
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})*(?:[.,][0-9]+)?")
# Lines that are looked at, and the least of them; so many sentences have not as many words each.
_LINES, _LEAST_LINES, _MANY_LINES = 200, 3, 20
# Encodings in which ASCII is ASCII.
_LIKE_ASCII = {"cp1252", "latin-1", encodings.UTF_8}
# Files that are looked at to tell texts from tables, and bytes of each. A text has a sentence that
# ends within its first line, or at the end of it.
_SOME_TEXTS, _TEXT_BYTES = 8, 4096
_SENTENCE = re.compile(r"[^\W\d_][.!?] +[^\W\d_]|\w[\"')\]]*[.!?\u2026\u3002][\"')\]]*\s*$")


def resolve(source: Source, file: FileInfo, default: str) -> tuple[Source, tuple[str, ...], bytes]:
    """Returns the source with what its first file shows, and decisions.

    The options that the recipe has stay. Bytes of columns that it declares ``bytes`` do, too.
    Decisions are only where the file is unlike plain CSV: cells between commas or the format's own
    delimiter, in UTF-8, with a header.

    Args:
      source: of the recipe.
      file: its first file.
      default: the format's delimiter.

    Returns:
      The source; the decisions, one a line; the beginning of the file as UTF-8.

    Raises:
      DataError: two readings are about as likely; the text cannot be read.
    """
    head = read_head(file.path, compression_of(source, file.path), SAMPLE_BYTES, source.limits)
    decisions = []
    if source.options_of(CsvOptions).encoding is None and "bytes" not in source.types.values():
        found = encodings.find_encoding(head)
        if found.name != encodings.UTF_8:
            if not found.is_certain:
                raise DataError(
                    f"{file.path}: found text that is not UTF-8, such as {found.example!r} if it "
                    f"were {found.name}; expected UTF-8, UTF-16 or Western text. Set 'encoding: "
                    f"{found.name}' of the source if this is right, else another one: "
                    f"{', '.join(encodings.COMMON)}."
                )
            source = source.with_options(encoding=found.name)
            note = f"a guess: check {found.example!r}" if found.example else "by its first bytes"
            decisions.append(f"encoding: {found.name}  # {note}")
    text = encodings.start_of_text(head, source)
    text = blocks.without_mark(0, text, file.path)[1]
    source, above = _preamble(source, text, default)
    decisions += above
    options = source.options_of(CsvOptions)
    skipped = options.skip_lines or 0
    text = text[header.line_offset(text, skipped) :]
    dialect = _dialect(source, text, file.path, default)
    for key, value in (("delimiter", dialect.delimiter), ("quote", dialect.quote)):
        if key in dialect.reasons:
            source = source.with_options(**{key: value})
            decisions.append(f"{key}: {json.dumps(value)}  # {dialect.reasons[key]}")
    if "header" in dialect.reasons:
        names = source.columns or tuple(
            f"column{number}" for number in range(1, len(dialect.cells) + 1)
        )
        source = dataclasses.replace(source.with_options(header=False), columns=names)
        listed = f"columns: [{', '.join(names[:3])}{', …' if len(names) > 3 else ''}]"
        decisions.append(f"header: false, {listed}  # {dialect.reasons['header']}")
    elif options.header is None:
        decisions += _names(dialect, source)
    end, own = header.line_offset(text, 1), source.options_of(CsvOptions)
    if own.header is not False and header.end_of_ruler(text, end) > end:
        decisions.append("a line of dashes below the header is no row")
    elif own.header is None:
        names = header.names_of(dialect.cells, source)
        header.check_second(dialect.rows[:_MANY_LINES], names, file.path, skipped)
    return source, tuple(decisions), text


def _dialect(source: Source, text: bytes, path: str, default: str) -> sniffer.FileDialect:
    """Returns how a table is written.

    Raises:
      DataError: two readings are about as likely, or no option reads it.
    """
    options = source.options_of(CsvOptions)
    sniffed = functools.partial(
        sniffer.sniff,
        # Quotes behind a backslash are errors of their rows.
        _ESCAPED.sub(b'""', text),
        path,
        delimiter=options.delimiter,
        quote=options.quote,
        columns=source.columns,
        default=default,
    )
    try:
        dialect = sniffed(header=options.header)
    except DataError:
        cells: tuple[str, ...] = ()
        with contextlib.suppress(DataError):  # perhaps only the header is unclear
            cells = sniffed(header=True).cells
        if options.delimiter is None and len(cells) < 2:
            _check_delimiter(text, path, True, options.encoding)
        raise
    _check_blanks(text, dialect, path, options.encoding)
    # Where tabs do not divide all rows alike, blanks may.
    tabs = {line.count(b"\t") for line in filter(None, text[:_LOOKED_AT].splitlines()[1:])}
    first = "".join(dialect.cells[:1]).strip()
    is_blank = dialect.delimiter == "\t" and (len(tabs) > 1 or "  " in first)
    may_be_one = len(dialect.cells) == 1 or is_blank
    if options.delimiter is None and (may_be_one or dialect.delimiter == "|"):
        _check_delimiter(text, path, may_be_one, options.encoding)
    return dialect


def check_agreement(asked: Source, source: Source, files: Sequence[FileInfo], default: str) -> None:
    """Checks that files are written like the first one.

    Args:
      asked: the source as the recipe has it; its options are not doubted.
      source: with what the first file shows.
      files: the first one, and others to look at.
      default: the format's delimiter.

    Raises:
      DataError: one is written in another way; the message names both files.
    """
    said, own = asked.options_of(CsvOptions), source.options_of(CsvOptions)
    for file in files[1:]:
        try:
            other, _, text = resolve(asked, file, default)
        except DataError:  # what cannot be read is reported when it is
            continue
        their = other.options_of(CsvOptions)
        known, found = (one.encoding or encodings.UTF_8 for one in (own, their))
        # ASCII is the same in all of them; a text of latin-1 has no letter that only cp1252 has.
        may_be_both = text.isascii() and {known, found} <= _LIKE_ASCII
        may_be_both |= (known, found) == ("cp1252", "latin-1")
        mark = own.delimiter or default
        for key, expected, own_value in (
            ("encoding", known, known if may_be_both else found),
            ("skip_lines", own.skip_lines or 0, their.skip_lines or 0),
            ("delimiter", mark, their.delimiter or mark),
        ):
            if getattr(said, key) is None and own_value != expected:
                raise DataError(
                    f"{file.path}: found the {key} {own_value!r}, expected {expected!r} as in "
                    f"{files[0].path}. Make them two sources, mend one, or set '{key}' if the "
                    "files do agree."
                )


def _preamble(source: Source, text: bytes, default: str) -> tuple[Source, list[str]]:
    """Returns the source without the lines above its table, and decisions."""
    options = source.options_of(CsvOptions)
    if options.skip_lines is not None:
        return source, []
    # With 'header' the recipe says what the first line is; 'sep=' is neither names nor a row.
    says = options.header is not None
    dialects = [] if says else sniffer.candidates(text, options.delimiter, options.quote, default)
    lines, delimiter, why = header.find_preamble(text, dialects)
    if not lines:
        return source, []
    decisions = [f"skip_lines: {lines}  # {why}"]
    source = source.with_options(skip_lines=lines)
    if delimiter is not None and options.delimiter is None:
        source = source.with_options(delimiter=delimiter)
        decisions.append(f"delimiter: {json.dumps(delimiter)}  # {why}")
    return source, decisions


def _names(dialect: sniffer.FileDialect, source: Source) -> list[str]:
    """Returns decisions on names; 'header: true' takes them as they are."""
    found, cells = [], dialect.cells
    if why := dialect.reasons.get("names"):
        columns = yaml_list(f"column{number}" for number in range(1, len(cells) + 1))
        cure = f"header: false and columns: {columns} make one of it"
        found.append(f"header: true  # {why}; {cure}")
    names = header.names_of(cells, source)
    changed = [cell for cell, name in zip(cells, names, strict=True) if cell and cell != name]
    if changed:
        words = f"names without blanks and '#' around, such as {changed[0]!r}"
        found.append(f"{words}  # header: true keeps them")
    unnamed = [place for place in header.nameless(cells) if names[place]]
    return found + [f"column {place + 1} has no name: {names[place]}" for place in unnamed]


def _check_blanks(
    text: bytes, dialect: sniffer.FileDialect, path: str, encoding: str | None
) -> None:
    """Raises ``DataError`` for quotes behind a blank, which open no cell."""
    if dialect.quote != '"' or b' "' not in text[:_LOOKED_AT]:
        return
    some = sniffer.whole_records(text)[:_LOOKED_AT].decode("utf-8", errors="replace")
    rows = sniffer.split_text(some, dialect.delimiter, dialect.quote)[:_ROWS]
    quoted = [next((cell for cell in row if cell.lstrip(" ")[:1] == '"'), "") for row in rows]
    if 2 * sum(map(bool, quoted)) > len(rows):
        read = pandas_read(path, encoding, f"sep={dialect.delimiter!r}, skipinitialspace=True")
        raise DataError(
            f"{path}: found a blank before the quote of {shorten(max(quoted), 40)!r} and other "
            "cells, expected the quote first. Write the file without these blanks, for example: "
            f"{read}.to_csv('new.csv', index=False)"
        )


def _check_delimiter(text: bytes, path: str, is_one_column: bool, encoding: str | None) -> None:
    """Checks that a column has no cells between unusual characters.

    R leaves out the name of its names of rows, so that the first line has a cell less.

    Args:
      text: the beginning of the table.
      path: for the message.
      is_one_column: whether usual delimiters make one column of it; else between bars.
      encoding: of the file; ``None``: UTF-8.

    Raises:
      DataError: they are.
    """
    some = sniffer.whole_records(text).decode("utf-8", errors="replace")
    lines = [line for line in some.splitlines() if line.strip()][:_LINES]
    rest = lines[1:] or lines
    if all(sniffer.kind(line) == "date" or _GROUPED.fullmatch(line.strip()) for line in rest):
        return
    marks = [(mark, False) for mark in (*_DOUBLE, *((*_RARE, _COLON) if is_one_column else ()))]
    marks += [(_BLANKS, False), (_RUNS, False), (_BLANKS, True)] if is_one_column else []
    for mark, lacks_one in marks:
        rows, is_blank = _cells_between(lines, mark), mark in (_BLANKS, _RUNS)
        number, is_header = len(rows[-1]), all(_NAME.fullmatch(cell.strip()) for cell in rows[0])
        is_even = {len(row) for row in rows[lacks_one:]} == {number} == {len(rows[0]) + lacks_one}
        # Two bars are an empty cell where each line has single ones as well.
        is_empty = mark == "||" and all("|" in "".join(row) for row in rows)
        share = _share_of_values(rows) if is_even else 0
        is_long = len(lines) >= _MANY_LINES and not lacks_one
        # Two words may be a name; two numbers are not.
        least = 3 if mark == _BLANKS and (share < 1 or lacks_one) else 2
        if number < least or not is_even or is_empty:
            continue
        if len(lines) < _LEAST_LINES and not (mark == _BLANKS and share == 1):
            continue
        # Sentences and times have such marks, too.
        if mark in (_COLON, _BLANKS) and share < 0.5 and not (is_blank and is_long):
            continue
        if (mark == _COLON or lacks_one) and not is_header:
            continue
        shown = f'"{mark}"' if mark.isprintable() else f'"\\x{ord(mark):02x}"'
        cure = f"Set 'delimiter: {shown}'"
        if len(mark) > 1:
            pattern = mark if is_blank else re.escape(mark)
            more = [] if mark == _BLANKS else ["engine='python'"]
            # A quote alone is a word of a text.
            more += ["quoting=3"] * any('"' in line.split() for line in lines)
            options = ", ".join([f"sep={pattern!r}", *more, *["header=None"] * (not is_header)])
            names = "" if is_header else ".add_prefix('column')"
            read = f"{pandas_read(path, encoding, options)}{names}"
            written = f"to_csv('new.csv'{', index=False' * (not lacks_one)})"
            cure = f"Write it with commas, for example: {read}.{written}"
        if is_blank and "\n\n" in some.strip().replace("\r", ""):
            cure = (
                "Number groups of lines, such as sentences: awk -v OFS='\\t' 'NF {$1=$1; print "
                f"n+0, $0}} !NF {{n++}}' {shlex.quote(os.path.basename(path))} > new.tsv"
            )
        blanks = {_BLANKS: "blanks", _RUNS: "runs of blanks"}
        raise DataError(
            f"{path}: found {number} cells between {blanks.get(mark, shown)} in every line, such "
            f"as {shorten(rest[0], 40)!r}; expected commas, semicolons, tabs or bars. {cure}, or "
            """set 'delimiter: ","' of the source if each line is one cell."""
        )


def _cells_between(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Returns the cells of lines between a mark."""
    if mark == _BLANKS:
        return [[cell.strip('"') for cell in _CELLS.findall(line)] for line in lines]
    if len(mark) == 1:
        return sniffer.split_text("\n".join(lines), mark, '"')
    return [re.split(_RUNS if mark == _RUNS else re.escape(mark), line.strip()) for line in lines]


def pandas_read(path: str, encoding: str | None, options: str) -> str:
    """Returns the line of pandas that reads all values as texts."""
    given = [repr(path.rpartition("/")[2]), options, "dtype=str", "keep_default_na=False"]
    return f"pandas.read_csv({', '.join([*given, *[f'encoding={encoding!r}'] * bool(encoding)])})"


def _share_of_values(rows: Sequence[Sequence[str]]) -> float:
    """Returns the share of columns that have numbers or dates."""
    columns = list(zip(*rows[len(rows) > 1 :], strict=True))
    values = sum(all(sniffer.kind(cell) != "text" for cell in column) for column in columns)
    return values / len(columns)


def are_texts(paths: Sequence[str]) -> bool:
    """Whether most of some ``.txt`` files begin with a sentence."""
    if len(paths) < 2 or not all(path.lower().endswith(".txt") for path in paths):
        return False
    some = paths[:: max(1, len(paths) // _SOME_TEXTS)]
    heads = [read_head(path, "none", _TEXT_BYTES, Limits()) for path in some]
    lines = [head.decode(errors="replace").strip().partition("\n")[0] for head in heads]
    return 2 * sum(_SENTENCE.search(line) is not None for line in lines) > len(some)


def texts_cure(folder: str) -> str:
    """Returns how to read a folder of texts."""
    return (
        f"pack them: 'tar cf texts.tar -C {folder} .'. Then texts.tar has a row a file, its text "
        "in 'txt', and the name of its folder is \"split_part(__key__, '/', -2)\" in 'derive'."
    )


def check_no_texts(source: Source, paths: Sequence[str]) -> None:
    """Checks that the files of a source are not a text each.

    Raises:
      DataError: they are, and the recipe has neither a format nor columns.
    """
    is_told = source.format is not None or source.options_of(CsvOptions).header is not None
    if is_told or source.columns or not are_texts(paths):
        return
    folder = source.path[0] if len(source.path) == 1 else ""
    folder = os.path.dirname(paths[0]) if not folder or has_wildcard(folder) else folder
    raise DataError(
        f"{paths[0]}: found {len(paths):,} files that begin with a sentence, expected tables. If "
        "each line is a text, set 'format: lines'; if they are tables, 'format: csv'. If each file "
        f"is a text, {texts_cure(folder)}"
    )
