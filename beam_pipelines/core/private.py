"""Hides values of private columns in messages and in lists of rows."""

from __future__ import annotations

import re
from collections.abc import Collection

from beam_pipelines.core.chunks import Rejected

# In place of a value.
HIDDEN = "a value that is not shown"
_WHY = "the recipe has private columns"
# A message has the value before the words on what is expected.
_FOUND = re.compile(r"\bfound .*?(?=, expected|\Z)", re.DOTALL)
# A remedy may repeat it.
_QUOTED = re.compile(r"'[^']+'|\"[^\"]+\"")


def hide_row(row: Rejected, private: Collection[str]) -> Rejected:
    """Returns a rejected row without text and private values.

    Args:
      row: of a source.
      private: names of private columns; empty: the row stays as it is.
    """
    if not private:
        return row
    if row.column and row.column not in private:
        return row._replace(text="")
    return row._replace(text="", reason=f"found {HIDDEN}, as {_WHY}")


def hide_found(message: str) -> str:
    """Returns an error's message without what was found."""
    quoted = {text for found in _FOUND.findall(message) for text in _QUOTED.findall(found)}
    message = _FOUND.sub(f"found {HIDDEN}", message)
    for text in quoted:
        message = message.replace(text, HIDDEN)
    return message
