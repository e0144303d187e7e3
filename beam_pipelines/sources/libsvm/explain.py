"""Explains errors of libsvm, libfm and libffm lines, token by token."""

from __future__ import annotations

import math
import re

import pyarrow as pa

from beam_pipelines.core.arrow.sparse_columns import MOST_INDEX
from beam_pipelines.core.formatting import shorten
from beam_pipelines.sources import whole_numbers
from beam_pipelines.sources.faults import bad_rows
from beam_pipelines.sources.libsvm.lines import INTEGER, LABEL, NUMBER, QID, Expected, LibsvmLayout

# Patterns for a whole token.
_IS_INTEGER, _IS_INDEX, _IS_NUMBER = map(re.compile, (INTEGER, r"^-?[0-9]+$", NUMBER))
_MOST = (1 << 63) - 1
_MOST_DIGITS = 4_000
# The smallest number that rounds to no finite float32: half a step beyond the largest.
_INFINITE = float.fromhex("0x1.ffffffp+127")


def explain_line(line: bytes, layout: LibsvmLayout) -> tuple[str, str]:
    """Returns the column and the error of a line that ``parse_lines`` refuses."""
    label, *tokens = (
        token.decode("utf-8", "backslashreplace") for token in re.split(rb"[ \t]+", _plain(line))
    )
    wrong = _explain_label(label, layout)
    if wrong:
        return LABEL, wrong
    if tokens and tokens[0].startswith("qid:"):
        query = tokens.pop(0)[len("qid:") :]
        if not layout.has_qid:
            cure = f"Declare 'types: {{{QID}: int64}}', or set 'infer: full' of the source."
            return QID, f"found 'qid:{query}', expected none: no row of the sample has one. {cure}"
        if not _is_integer(query, _IS_INTEGER):
            return QID, _wrong(query, "an integer from -2^63 to 2^63-1")
    before: tuple[int, ...] = ()
    known: set[tuple[int, ...]] = set()
    expected = tuple(zip(layout.keys, layout.bounds, strict=True))
    for token in tokens:
        keys, column, wrong = _explain_feature(token, expected, layout)
        if wrong:
            return column, wrong
        if keys in known or (layout.is_sorted and keys <= before):
            return layout.keys[-1], _explain_order(token, keys in known, layout)
        known.add(keys)
        before = keys
    return "", "found a line that cannot be read. Mend it."


def _plain(line: bytes) -> bytes:
    return line.split(b"#", 1)[0].strip(b" \t\r\n")


def _explain_label(label: str, layout: LibsvmLayout) -> str:
    type_ = layout.label
    if ":" in label:
        return f"found '{label}' in its place, expected a label before the features. Mend the line."
    if "," in label:
        return (
            f"found '{shorten(label, 100)}', expected one label: rows with several are "
            "not read. Write them as JSON Lines with a list of labels, or keep one."
        )
    if not _is_label(label, type_):
        is_number = pa.types.is_integer(type_) and _IS_NUMBER.match(label)
        cure = f"Declare 'types: {{{LABEL}: float32}}'." if is_number else "Mend the line."
        return bad_rows.wrong_value(label, type_, cure)
    if layout.is_label_exact and type_ == pa.float64():
        expected = whole_numbers.why_text_refused(label)
        cure = f"Declare 'types: {{{LABEL}: float64}}' to round it."
        return bad_rows.wrong_value(label, expected, cure) if expected else ""
    return ""


def _is_label(label: str, type_: pa.DataType) -> bool:
    if pa.types.is_integer(type_):
        low, high = bad_rows.integer_range(type_)
        return _is_integer(label, _IS_INTEGER) and low <= int(label) <= high
    most = _INFINITE if type_ == pa.float32() else math.inf
    return bool(_IS_NUMBER.match(label)) and abs(float(label)) < most


def _explain_feature(
    token: str, expected: Expected, layout: LibsvmLayout
) -> tuple[tuple[int, ...], str, str]:
    """Returns a token's keys, its bad column and the error, if any."""
    form = "field:index:value" if layout.has_fields else "index:value"
    *texts, value = token.split(":")
    if len(texts) != len(expected):
        return (
            (),
            "",
            (
                f"found '{shorten(token, 100)}', expected {form}. Mend the line, or set "
                "another "
                "'format'."
            ),
        )
    keys: list[int] = []
    for text, (column, (low, high)) in zip(texts, expected, strict=True):
        if not _IS_INDEX.match(text):
            return (), column, _wrong(token, f"{form} with whole numbers before the value")
        # Python refuses to parse thousands of digits.
        key = int(text[:_MOST_DIGITS])
        if not low <= key <= high or len(text) > _MOST_DIGITS:
            return (), column, _explain_range(token, key, (low, high), column == layout.keys[-1])
        keys.append(key)
    if not _IS_NUMBER.match(value) or abs(float(value)) >= _INFINITE:
        return (
            (),
            layout.value,
            _wrong(token, f"{form} with a finite number (of 32 bits) as its value"),
        )
    return tuple(keys), "", ""


def _explain_range(token: str, found: int, bounds: tuple[int, int], is_index: bool) -> str:
    low, high = bounds
    is_declared = high < MOST_INDEX
    expected = f"from {low} to {high}" if is_declared or found > high else f"at least {low}"
    word, option = ("an index", "size") if is_index else ("a field", "fields")
    cure = f"Set 'libsvm: {{{option}: …}}' of the source, or mend the line."
    if found == 0 and low == 1:
        cure = "Set 'libsvm: {base: 0}' of the source if its indices begin at 0."
    elif found < low:
        cure = "Mend the line."
    elif not is_declared:
        cure = "A tf.SparseTensor has no larger ones. Mend the line."
    return f"found '{shorten(token, 100)}', expected {word} {expected}. {cure}"


def _explain_order(token: str, is_repeated: bool, layout: LibsvmLayout) -> str:
    order = "fields, and indices within a field," if layout.has_fields else "indices"
    problem = "which is there already" if is_repeated else "behind a larger one"
    cure = (
        "Remove one of the two."
        if is_repeated
        else "Sort the line, or set 'libsvm: {sort: true}' of the source."
    )
    ascending = "in ascending order, " if layout.is_sorted else ""
    return (
        f"found '{shorten(token, 100)}', {problem}, expected {order} {ascending}each once. {cure}"
    )


def _is_integer(text: str, pattern: re.Pattern[str]) -> bool:
    # Python refuses to parse thousands of digits.
    return (
        bool(pattern.match(text)) and len(text) <= _MOST_DIGITS and -_MOST - 1 <= int(text) <= _MOST
    )


def _wrong(found: str, expected: str) -> str:
    return f"found '{shorten(found, 100)}', expected {expected}. Mend the line."
