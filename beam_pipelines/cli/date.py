"""The option ``--date`` of every command that reads sources: the day that ``{date}`` stands for."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

import click

from beam_pipelines.recipe import dates

Command = TypeVar("Command", bound=Any)


def date_option(command: Command) -> Command:
    """Gives a command the option, as an argument ``date``."""
    text = "The day that {date} in the sources' paths and in --output stands for, as 2026-11-21."
    option = click.option("--date", metavar="DAY", callback=_day, help=text)
    return option(command)


def _day(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> datetime.date | None:
    try:
        return None if value is None else dates.parse_date(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def output_of_day(output: str, date: datetime.date | None) -> str:
    """Returns ``--output`` with the date in its places.

    Raises:
      click.UsageError: it has a place for the date, and there is none; or something that only looks
        like a place.
    """
    try:
        return dates.output_of_day(output, date)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
