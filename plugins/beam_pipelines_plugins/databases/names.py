"""Names of tables in recipes: ``users``, ``shop.users``, ``shop."all.users"``."""

from __future__ import annotations

import re

# A part in quotation marks, or one without dots.
_PART = re.compile(r'"((?:[^"]|"")+)"(?=\.|$)|([^.]+)')


def name_parts(table: str) -> list[str]:
    """Returns the parts of a table's name: maybe schemas, and the table."""
    found = _PART.findall(table)
    return [quoted.replace('""', '"') or plain for quoted, plain in found]


def table_name(*parts: str) -> str:
    """Returns the name of a table for ``name_parts``."""
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    doubled = part.replace('"', '""')
    return f'"{doubled}"' if "." in part or part.startswith('"') else part
