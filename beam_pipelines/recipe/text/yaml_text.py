"""Writes texts as a recipe has them, for the remedies in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Needs no quotes anywhere in YAML.
_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_NOT_PLAIN = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def yaml_text(text: str) -> str:
    """Returns a text as a recipe has it, on one line.

    It is in double quotes, with escapes, if it needs them.
    """
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return '"' + "".join(map(escaped, text)) + '"'


def escaped(character: str) -> str:
    """Returns a character as double quotes have it."""
    if character == '"':
        return '\\"'
    is_plain = character.isprintable() and character != "\\"
    return character if is_plain else character.encode("unicode_escape").decode()


def yaml_list(texts: Iterable[str]) -> str:
    """Returns a list of texts as a recipe has it."""
    return f"[{', '.join(map(yaml_text, texts))}]"
