"""Formats numbers, sizes, dates and texts for the terminal and the report.

Control characters of data become escapes.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


MINUS = "\N{MINUS SIGN}"
_LARGEST_IN_FULL = 10**15
_MOST_VALUES = 8  # of a list
_MICROSECONDS_PER_DAY = 86_400_000_000


def shorten(text: str, limit: int = 1_000) -> str:
    """Returns at most ``limit`` characters of a text; "…" replaces the others."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def show_cell(value: Any, characters: int, is_quoted: bool = False) -> str:
    """Returns a value of a row as text.

    Args:
      value: as Python has it; bytes are shown by their number.
      characters: at most, of a text or a list.
      is_quoted: whether texts are in quotes.
    """
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list):
        shown = [show_cell(item, characters, is_quoted) for item in value[:_MOST_VALUES]]
        more = ["…"] if len(value) > _MOST_VALUES else []
        return shorten(f"[{', '.join(shown + more)}]", characters)
    is_json = is_quoted or isinstance(value, bool)
    return shorten(json.dumps(value, ensure_ascii=False) if is_json else str(value), characters)


def show_bytes(size: float) -> str:
    """Returns a number of bytes in decimal units: ``1.23 MB``.

    It has three digits.
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:,.0f} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.2f} TB"


def show_number(value: float | None) -> str:
    """Returns a number with thousands separators, or ``–`` for ``None``.

    Integers have up to 15 digits; other numbers about four significant ones.
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    elif isinstance(value, int):
        text = f"{value:,}" if abs(value) < _LARGEST_IN_FULL else f"{value:.4e}"
    elif 9_999.5 <= abs(value) < _LARGEST_IN_FULL:
        text = f"{value:,.0f}"
    else:
        text = f"{value:,.4g}"
    return text.replace("-", MINUS)


def formatter_of(kind: pa.DataType) -> Callable[[float | None], str]:
    """Returns the function that shows a column's values, and ``–`` for ``None``.

    It shows numbers, dates and times as statistics hold them: days since 1970 for a date,
    microseconds for a time, 0 or 1 for a bool.

    Args:
      kind: the column's type; for a list, the type of its items.
    """
    import pyarrow as pa  # a tenth of a second that --help need not take

    if pa.types.is_boolean(kind):
        return lambda value: str(bool(value)).lower() if value in (0, 1) else show_number(value)
    return functools.partial(_show_time, kind) if pa.types.is_temporal(kind) else show_number


def _show_time(kind: pa.DataType, value: float | None) -> str:
    import pyarrow as pa  # as above

    from beam_pipelines.core.arrow.python_values import texts_of

    if value is None or not math.isfinite(value):
        return show_number(value)
    try:
        stored = pa.array([round(value)], pa.int32() if pa.types.is_date32(kind) else pa.int64())
        (text,) = texts_of(stored.cast(kind)).to_pylist()
    except (pa.ArrowInvalid, OverflowError):  # a bound that no time has
        return show_number(value)
    whole, _, part = text.partition(".")
    if pa.types.is_timestamp(kind):
        return str(whole[:-3])
    return text if part.strip("0") else str(whole)


def show_spread(value: float | None, kind: pa.DataType) -> str:
    """Returns a difference between values: a number, days, seconds or ``–``."""
    import pyarrow as pa  # a tenth of a second that --help need not take

    if value is None or not pa.types.is_temporal(kind):
        return show_number(value)
    if pa.types.is_date32(kind):
        return f"{show_number(value)} days"
    if value >= _MICROSECONDS_PER_DAY:
        return f"{show_number(value / _MICROSECONDS_PER_DAY)} days"
    return f"{show_number(value / 1e6)} s"


def show_secs(secs: float) -> str:
    """Returns seconds in the largest unit, as ``1.5 h``."""
    units = {"d": 86_400, "h": 3_600, "min": 60}
    unit = next((unit for unit, own in units.items() if secs >= own), "s")
    value = secs / units.get(unit, 1)
    return f"{value:,.0f} {unit}" if value >= 10 else f"{round(value, 1):g} {unit}"


def show_share(part: float, whole: float) -> str:
    """Returns a share in per cent; 0% and 100% are exact."""
    if not part or not whole:
        return "0%"
    share = 100 * part / whole
    if part == whole:
        return "100%"
    return "<0.1%" if share < 0.1 else f"{share:.1f}%" if share < 99.95 else ">99.9%"


def show_count(number: int, word: str) -> str:
    """Returns ``1 row`` or ``1,000 rows``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


# Control characters, line separators, changes of the direction of writing, and lone surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str, keep: str = "\n") -> str:
    r"""Returns a text that a terminal shows and does not obey.

    Data may have control characters, such as those that change colors or the window's title. They
    become escapes: ``\x1b``.

    Args:
      text: of any characters.
      keep: control characters that stay.
    """
    return _INVISIBLE.sub(
        lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text
    )
