"""Prints lines of a command, or its result as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import click

from beam_pipelines.core.errors import mask
from beam_pipelines.core.visible_text import visible


def say(text: str, err: bool = False) -> None:
    """Prints a line with control characters as escapes."""
    click.echo(visible(text), err=err)


def json_text(document: Any) -> str:
    """Returns data as JSON; NaN and infinities, which JSON lacks, are texts."""
    return json.dumps(_finite(document), ensure_ascii=False, indent=1)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def answer(form: str, document: Any, lines: Iterable[str]) -> None:
    """Prints the result of a command.

    Args:
      form: ``json`` or ``text``, as ``format_option`` has it.
      document: the result as data for JSON.
      lines: the result as text.
    """
    if form == "json":
        say(mask(json_text(document)))
        return
    for line in lines:
        say(line)
