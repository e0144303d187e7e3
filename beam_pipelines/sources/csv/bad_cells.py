"""Finds the cells that parsers refuse, with kernels over whole columns.

pyarrow.csv names only the first bad row. Arrow's cast of texts decides here; it has the same
parsers. A pattern comes before it, which all good cells match and some bad ones: a cast that fails
costs ten microseconds, a pattern fifty nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from beam_pipelines.core import columns
from beam_pipelines.sources import bad_rows
from beam_pipelines.sources.bad_rows import BadRow
from beam_pipelines.sources.exact_cast import INFINITY

Flags = npt.NDArray[np.bool_]

# RE2 syntax, here and below.
_DECIMAL = r"^-?[0-9]+$"
_INTEGER = r"^(-?[0-9]+|0[xX][0-9a-fA-F]{1,16})$"
_FLOAT = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan.*)$"
_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_HOUR, _MINUTE = "([01][0-9]|2[0-3])", r":[0-5][0-9](:[0-5][0-9](\.[0-9]{0,%d})?)?"
_OFFSET = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_PLACES_FOR_UNIT = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_OPTIONS = pa_csv.ConvertOptions()
_BOOLEAN = f"^({'|'.join([*_OPTIONS.true_values, *_OPTIONS.false_values])})$"


def bad_cells(cells: pa.Array, type_: pa.DataType, nulls: Sequence[str]) -> Flags:
    """Returns which cells of a column are bad.

    Args:
      cells: the bytes of n cells, without their quotes; binary, none of them null.
      type_: the type to read: a scalar type of a recipe, or an inferred one.
      nulls: texts that mean null.

    Returns:
      n flags.
    """
    is_null = pc.is_in(cells, value_set=pa.array([text.encode() for text in nulls], pa.binary()))
    flags: Flags = ~is_null.to_numpy(zero_copy_only=False)
    flags[flags] = ~_fit(cells.filter(pc.invert(is_null)), type_).to_numpy(zero_copy_only=False)
    return flags


def plain_integers(texts: pa.Array) -> pa.Array:
    """Returns texts as Arrow's integers take them: ``+5`` and ``5.00`` become ``5``."""
    return pc.replace_substring_regex(
        pc.replace_substring_regex(texts, r"^[ \t]*\+([0-9])", r"\1"),
        r"^(-?[0-9]+)\.0+([ \t]*)$",
        r"\1\2",
    )


def _fit(cells: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns which cells, none of them null, fit the type."""
    types = pa.types
    if types.is_binary(type_) or types.is_string(type_):
        return _fit_by_cast(cells, type_)
    texts = cells.view(pa.string())  # perhaps not UTF-8, which the kernels used here accept
    if not (types.is_boolean(type_) or types.is_timestamp(type_)):
        texts = pc.ascii_trim(texts, characters=" \t")
    if types.is_integer(type_):
        texts = plain_integers(texts)
    if types.is_boolean(type_) or types.is_time(type_):  # there is no such cast, or it accepts more
        return _may_fit(texts, type_)
    fit = _fit_by_cast(texts, type_)
    return _without_infinite(fit, texts, type_) if types.is_floating(type_) else fit


def _fit_by_cast(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns which texts can be cast to the type, and normalised."""

    def cast(some: pa.Array) -> pa.Array:
        return columns.normalise(some.cast(type_))

    try:
        cast(texts)
    except bad_rows.ERRORS:
        may_fit = _may_fit(texts, type_)
        bad = _refused(_doubtful(texts.filter(may_fit), type_), cast)
        return pc.and_(may_fit, pc.invert(pc.is_in(texts, value_set=bad)))
    return texts.is_valid()


def _refused(texts: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Returns the distinct texts that a cast refuses."""
    distinct = texts.unique()
    found = bad_rows.sift(
        lambda start, end: cast(distinct.slice(start, end - start)), 0, len(distinct)
    )
    return distinct.take(
        pa.array([row.number for row in found if isinstance(row, BadRow)], pa.int64())
    )


def _may_fit(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns which texts match the pattern of all texts of the type."""
    if pa.types.is_string(type_):
        return texts.is_valid()
    matches = pc.match_substring_regex(texts, _pattern(type_))
    return pc.and_(matches, _within(texts, type_)) if pa.types.is_integer(type_) else matches


def _doubtful(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Leaves out texts that certainly fit."""
    return (
        texts.filter(pc.invert(pc.string_is_ascii(texts.view(type_))))
        if pa.types.is_string(type_)
        else texts
    )


def _pattern(type_: pa.DataType) -> str:
    types = pa.types
    if types.is_boolean(type_):
        return _BOOLEAN
    if types.is_integer(type_):
        return _INTEGER
    if types.is_floating(type_):
        return _FLOAT
    if types.is_date(type_):
        return f"^{_DAY}$"
    minute = _MINUTE % _PLACES_FOR_UNIT[type_.unit]
    if types.is_time(type_):
        return f"^{_HOUR}{minute}$"
    clock = f"[ T]{_HOUR}({minute})?"
    return f"^{_DAY}{clock}{_OFFSET}$" if type_.tz else f"^{_DAY}({clock})?$"


def _within(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns which texts are not decimal integers far beyond the type.

    Near the ends of 64 bits a float64 cannot tell.
    """
    low, high = bad_rows.integer_range(type_)
    is_decimal = pc.match_substring_regex(texts, _DECIMAL)
    numbers = pc.if_else(is_decimal, texts, "0").cast(pa.float64())
    return pc.and_(pc.greater_equal(numbers, float(low)), pc.less_equal(numbers, float(high)))


def _without_infinite(fit: pa.Array, texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns which fitting texts stay finite, or say that they are infinite."""
    fitting = texts.filter(fit)
    infinite = fitting.filter(pc.is_inf(fitting.cast(type_)))
    beyond = infinite.filter(pc.invert(pc.match_substring_regex(infinite, INFINITY))).unique()
    return pc.and_(fit, pc.invert(pc.is_in(texts, value_set=beyond)))


def other_number(found: int, expected: int, delimiter: str) -> str:
    """Returns the error of a record of another length."""
    cure = (
        f"Complete the line, remove it, set 'delimiter' of the source if it is not {delimiter!r}, "
        "or allow some such lines with 'on_error: {reject: 10}'."
        if found < expected
        else f"Quote cells that contain the delimiter {delimiter!r}, or set 'delimiter' and "
        "'quote' of the source."
    )
    cells = f"{found} cell{'' if found == 1 else 's'}"
    return f"found {cells}, expected {expected}, one for each column. {cure}"
