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

_OTHERS = bytes(set(range(256)) - set(b'[]{}"\n'))
_STRING = re.compile(rb'"[^"\n]*"')
_NEWLINE = 10
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
    line = _deep_line(data, most)
    if line >= 0:
        numbers = LineNumbers(source, file, body)
        message = exceeded(
            source.limits, "nesting_depth", f"values nested more than {most:,} levels deep"
        )
        raise DataError(f"{file.path}, line {numbers.line(_line_start(data, line))}: {message}")


def _deep_line(data: bytes, most: int) -> int:
    """Returns the first line with more than ``most`` open brackets, or -1.

    Lines count from 0.
    """
    # An escaped character ends no string. Only brackets, quotes and line ends matter then, and
    # empty strings do not.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    brackets = _STRING.sub(b"", plain.translate(None, _OTHERS).replace(b'""', b""))
    characters = np.frombuffer(brackets, np.uint8)
    depth = np.cumsum(_STEPS[characters], dtype=np.int64)
    ends = np.flatnonzero(characters == _NEWLINE)
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    starts = starts[starts < len(characters)]
    if not len(starts):
        return -1
    before = np.concatenate([np.zeros(1, np.int64), depth])[starts]
    deep = np.flatnonzero(np.maximum.reduceat(depth, starts) - before > most)
    return int(deep[0]) if len(deep) else -1


def _line_start(data: bytes, line: int) -> int:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE)
    return 0 if line == 0 else int(ends[line - 1]) + 1
