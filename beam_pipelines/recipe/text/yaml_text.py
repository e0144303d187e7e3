"""Writes texts as a recipe has them, for the remedies in messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def yaml_text(text: str) -> str:
    """Returns a text as a recipe has it, quoted if needed."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return json.dumps(text, ensure_ascii=False)


def yaml_list(texts: Iterable[str]) -> str:
    """Returns a list of texts as a recipe has it."""
    return f"[{', '.join(map(yaml_text, texts))}]"
