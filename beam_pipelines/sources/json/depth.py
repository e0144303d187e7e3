"""Finds JSON that is nested too deeply, before a parser reads it.

Parsers use recursion, and overflow the stack.
"""

from __future__ import annotations

import re

import numpy as np

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text.blocks import Body, LineNumbers

_STRING = re.compile(rb'"[^"\n]*"')
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def check_depth(source: Source, file: FileInfo, body: Body) -> None:
    """Checks that lines are not nested deeper than the limit.

    Raises:
      DataError: one is.
    """
    most = source.limits.nesting_depth
    data = body.data
    # Each line that begins with an object has one bracket for it; if the others are few, no line
    # can be deep.
    if data.count(b"{") + data.count(b"[") - data.count(b"\n{") - data.startswith(b"{") < most:
        return
    start = 0
    for line in data.split(b"\n"):  # to the parser, a carriage return alone ends none
        if line.count(b"{") + line.count(b"[") > most and _depth(line) > most:
            found = f"values nested more than {most:,} levels deep"
            message = exceeded(source.limits, "nesting_depth", found)
            place = LineNumbers(source, file, body).line(start)
            raise DataError(f"{file.path}, line {place}: {message}")
        start += len(line) + 1


def _depth(line: bytes) -> int:
    """Returns the most brackets that are open at once."""
    # An escaped character ends no string.
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in line else line
    brackets = np.frombuffer(_STRING.sub(b"", plain), np.uint8)
    return int(np.cumsum(_STEPS[brackets], dtype=np.int64).max(initial=0))
