"""Dates in the paths of sources, and TFX's spans."""

from __future__ import annotations

import datetime
import re

from beam_pipelines.core.errors import RecipeError

# {date} is 2026-11-21; {date:%Y%m%d} is 20261121.
_PLACEHOLDER = re.compile(r"\{date(?::([^{}]*))?\}")
# A format has these alone: strftime's others are not parts of a date, or depend on the language.
_FORMAT = re.compile(r"(?:%[Yymdj]|[^%{}*?\[\]])*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# A text that resembles a placeholder, or is one of TFX.
_LIKE_A_PLACEHOLDER = re.compile(r"\{\s*(?:date|span|version|yyyy|mm|dd)\b[^{}]*\}?", re.IGNORECASE)
_EPOCH = datetime.date(1970, 1, 1)


def parse_date(text: str) -> datetime.date:
    """Returns the date of a text such as ``2026-11-21``.

    Raises:
      ValueError: it is not a date.
    """
    if _DATE.fullmatch(text):
        try:
            return datetime.date.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"found {text}, which is no day: {error}.") from error
    raise ValueError(f"found '{text}', expected a day as 2026-11-21.")


def span_of(date: datetime.date) -> int:
    """Returns the days since 1970-01-01, as TFX numbers spans of ``{YYYY}-{MM}-{DD}``."""
    return (date - _EPOCH).days


def has_date(path: str) -> bool:
    """Whether a path or pattern has a placeholder for the date.

    Raises:
      ValueError: it has a text that resembles one.
    """
    for place in _LIKE_A_PLACEHOLDER.findall(path):
        match = _PLACEHOLDER.fullmatch(place)
        if not match or (
            match[1] is not None and not (_FORMAT.fullmatch(match[1]) and "%" in match[1])
        ):
            raise ValueError(
                f"found {place} in '{path}', expected {{date}}, which stands for 2026-11-21 or the "
                "like, or a format of %Y, %y, %m, %d and %j, such as {date:%Y%m%d}."
            )
    return _PLACEHOLDER.search(path) is not None


def fill_date(path: str, date: datetime.date) -> str:
    """Returns a path or pattern with the date in its placeholders."""
    return _PLACEHOLDER.sub(
        lambda place: date.strftime(place[1]) if place[1] else date.isoformat(), path
    )


def output_of_day(output: str, date: datetime.date | None) -> str:
    """Returns an output path with the date in its places.

    Raises:
      RecipeError: it has a place for the date, and there is none; or a malformed place.
    """
    try:
        needs_date = has_date(output)
    except ValueError as error:
        raise RecipeError(f"--output: {error}") from error
    if needs_date and date is None:
        raise RecipeError(
            f"found a date in --output {output}, expected the day, as in --date 2026-11-21."
        )
    return output if date is None else fill_date(output, date)


def without_date(name: str) -> str:
    """Returns a name without the placeholders for the date."""
    return _PLACEHOLDER.sub("", name)
