"""Times as numbers: seconds, milliseconds, … since 1970."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from beam_pipelines.core.layout.id_names import OF_IDS, words_of
from beam_pipelines.recipe.text.yaml_text import yaml_list, yaml_text
from beam_pipelines.sql.database import identifier

# Unit -> how many a second has.
UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 10**6, "nanoseconds": 10**9}
OR_ZERO = " or 0"
# 1990-01-01 and 2100-01-01, in seconds.
_FIRST, _LAST = 631_152_000, 4_102_444_800
# So many different numbers have to be whole seconds, or whole minutes.
_LEAST_ROUND = 20
_OF_TIMES = frozenset(
    (
        "time", "times", "timestamp", "timestamps", "ts", "tstamp", "date", "datetime", "dt", "day",
        "epoch", "unix", "unixtime", "millis", "at", "when", "created", "updated", "modified",
        "changed", "deleted", "start", "started", "begin", "end", "ended", "finished", "since",
        "until", "expires", "expiry", "seen", "login", "visit", "birth", "birthday", "dob", "born",
        "posted", "published", "opened", "closed", "received", "sent", "registered", "signup",
        "joined", "ordered", "shipped", "delivered", "measured", "recorded", "mtime", "ctime",
        "atime",
    )
)  # fmt: skip


def unit_of(
    name: str, low: float | None, high: float | None, numbers: npt.NDArray[Any] | None = None
) -> str | None:
    """Returns the unit of numbers that are times; ``None`` for others.

    All are in the years 1990 to 2099, and the column's name is one of times. Another name that is
    none of ids does if all numbers are whole minutes, or of a finer unit whole seconds.

    Args:
      name: of the column.
      low, high: the least and the greatest number; ``None`` without any.
      numbers: the distinct ones, if they are known.

    Returns:
      A key of ``UNITS``; with ``OR_ZERO`` after it if some are 0, which is no time.
    """
    if low is None or high is None:
        return None
    if low == 0 < high and numbers is not None:
        others = numbers[numbers != 0]
        if not len(others):  # the greatest number is infinite
            return None
        unit = unit_of(name, others.min().item(), high, others)
        return f"{unit}{OR_ZERO}" if unit else None
    fitting = (
        unit
        for unit, a_second in UNITS.items()
        if _FIRST * a_second <= low <= high < _LAST * a_second
    )
    words = set(words_of(name))
    unit = next(fitting, None)
    if unit is None or words & OF_IDS:
        return None
    if words & _OF_TIMES:
        return unit
    step = 60 if unit == "seconds" else UNITS[unit]
    is_round = (
        numbers is not None and len(numbers) >= _LEAST_ROUND and not np.any(np.mod(numbers, step))
    )
    return unit if is_round else None


def time_name(name: str, taken: Sequence[str] = ()) -> str:
    """Returns a free name for the times of a column."""
    made = f"{name}_utc"
    while made in taken:
        made += "_"
    return made


def time_sql(name: str, unit: str) -> str:
    """Returns the expression that makes times of a column, to the microsecond."""
    number = identifier(name)
    if unit.endswith(OR_ZERO):
        number = f"NULLIF({number}, 0)"
    a_second = UNITS[unit.removesuffix(OR_ZERO)]
    return f"to_timestamp({number}{'' if a_second == 1 else f' / {a_second}'})"


def seconds_of(numbers: Any, unit: str) -> Any:
    """Returns float64 numbers as seconds since 1970, as Arrow has them."""
    return pc.divide(numbers, float(UNITS[unit.removesuffix(OR_ZERO)]))


def cure(names: Sequence[str], unit: str) -> str:
    """Returns the lines of a recipe that make times of columns."""
    sqls = {time_name(name): time_sql(name, unit) for name in names}
    # Within braces of YAML an expression may need quotes.
    flow = {n: yaml_text(sql) if {*sql} & {*"\"',"} else sql for n, sql in sqls.items()}
    derived = ", ".join(f"{yaml_text(name)}: {sql}" for name, sql in flow.items())
    dropped = yaml_text(names[0]) if len(names) == 1 else yaml_list(names)
    return f"'derive: {{{derived}}}' and 'drop: {dropped}'"


def show_ends(low: float, high: float, unit: str) -> str:
    """Returns the days of the least and the greatest number."""
    if unit.endswith(OR_ZERO):
        return f"to {_day(high, unit)}"
    return f"{_day(low, unit)} to {_day(high, unit)}"


def _day(number: float, unit: str) -> str:
    seconds = seconds_of(float(number), unit).as_py() // 1
    return str(datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date())
