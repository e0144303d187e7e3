"""Prints lines of a command."""

from __future__ import annotations

import click

from beam_pipelines.core.visible_text import visible


def say(text: str, err: bool = False) -> None:
    """Prints a line with control characters as escapes."""
    click.echo(visible(text), err=err)
