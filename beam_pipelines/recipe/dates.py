"""One dataset for each day: ``{date}`` in paths, and the number that TFX calls a span."""

from __future__ import annotations

import datetime
import re

# {date} is 2026-11-21; {date:%Y%m%d} is 20261121.
_PLACE = re.compile(r"\{date(?::([^{}]*))?\}")
# A format is made of these alone: what else strftime knows is no part of a date, or not the same in
# every language.
_FORMAT = re.compile(r"(?:%[Yymdj]|[^%{}*?\[\]])*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# What looks like a place for the date, or is one to TFX.
_LIKE_A_PLACE = re.compile(r"\{\s*(?:date|span|version|yyyy|mm|dd)\b[^{}]*\}?", re.IGNORECASE)
_EPOCH = datetime.date(1970, 1, 1)


def parse_date(text: str) -> datetime.date:
    """Returns the day that a text such as ``2026-11-21`` names.

    Raises:
      ValueError: it names none.
    """
    if _DATE.fullmatch(text):
        try:
            return datetime.date.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"found {text}, which is no day: {error}.") from error
    raise ValueError(f"found '{text}', expected a day as 2026-11-21.")


def span_of(date: datetime.date) -> int:
    """Returns the days since 1970-01-01, as TFX numbers the spans of ``{YYYY}-{MM}-{DD}``."""
    return (date - _EPOCH).days


def has_date(path: str) -> bool:
    """Whether a path or pattern has a place for the date.

    Raises:
      ValueError: it has something that looks like one and is none.
    """
    for place in _LIKE_A_PLACE.findall(path):
        match = _PLACE.fullmatch(place)
        if not match or (
            match[1] is not None and not (_FORMAT.fullmatch(match[1]) and "%" in match[1])
        ):
            raise ValueError(
                f"found {place} in '{path}', expected {{date}}, which stands for 2026-11-21 or the "
                "like, or a format of "
                "%Y, %y, %m, %d and %j, such as {date:%Y%m%d}."
            )
    return _PLACE.search(path) is not None


def fill_date(path: str, date: datetime.date) -> str:
    """Returns a path or pattern with the date in its places."""
    return _PLACE.sub(lambda place: date.strftime(place[1]) if place[1] else date.isoformat(), path)


def output_of_day(output: str, date: datetime.date | None) -> str:
    """Returns an output path with the date in its places.

    Raises:
      ValueError: it has a place for the date, and there is none; or a malformed place.
    """
    try:
        needs_date = has_date(output)
    except ValueError as error:
        raise ValueError(f"--output: {error}") from error
    if needs_date and date is None:
        raise ValueError(
            f"found a date in --output {output}, expected the day, as in --date 2026-11-21."
        )
    return output if date is None else fill_date(output, date)


def without_date(name: str) -> str:
    """Returns a name without the places for the date."""
    return _PLACE.sub("", name)
