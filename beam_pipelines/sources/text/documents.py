"""JSON arrays and documents over several lines, as JSON Lines.

The text is changed while it is read: an element becomes one line, and the line ends within it
follow it. So an element that begins its line in the file keeps its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.errors import DataError

_QUOTE, _BACKSLASH = b'"\\'


def string_quotes(
    text: npt.NDArray[np.uint8], backslashes: int = 0
) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the quotes that begin or end a string.

    Args:
      text: n bytes.
      backslashes: the number of them directly before the text.

    Returns:
      Their positions, ascending; the number of backslashes at the end.
    """
    quotes, slashes = np.flatnonzero(text == _QUOTE), np.flatnonzero(text == _BACKSLASH)
    # Where the run of backslashes begins that has each one.
    is_first = np.diff(slashes, prepend=-2) > 1
    begins = np.maximum.accumulate(np.where(is_first, slashes, 0))
    begins = np.where(begins == 0, -backslashes, begins)
    last = np.searchsorted(slashes, quotes) - 1
    lengths = np.full(len(quotes), 0)
    if len(slashes):
        follows = (last >= 0) & (slashes[np.maximum(last, 0)] == quotes - 1)
        lengths[follows] = quotes[follows] - begins[last[follows]]
    if len(quotes) and quotes[0] == 0:
        lengths[0] = backslashes
    at_end = len(slashes) > 0 and slashes[-1] == len(text) - 1
    tail = len(text) - int(begins[-1]) if at_end else 0 if len(text) else backslashes
    # An odd number of backslashes escapes a quote.
    return quotes[lengths % 2 == 0], tail


Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

# The format of such files, a key of ``sources.FORMATS``.
DOCUMENTS = "json"
_COMMA, _NEWLINE, _RETURN, _BLANK = b",\n\r "
_OPENS, _CLOSES = b"{[", b"}]"
_STRUCTURE = np.isin(np.arange(256), list(b"{[}],\n\r"))
_LINE_END = re.compile(r"[\r\n]")
_OPENING = re.compile(r"[ \t]*\{")
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*([\[{])")


def is_document(head: bytes) -> bool:
    """Whether a text is an array, or objects without a line each.

    Args:
      head: beginning of the text; of an object that is longer it is not known.
    """
    match = _BEGINNING.match(head)
    if match is None:
        return False
    is_array = match[1] == b"["
    text = head[match.start(1) :].decode("utf-8", errors="replace")
    end = _end_of_value(text)
    if not end:
        return is_array
    # A list on a line above others is a bad line of JSON Lines.
    after = text[end:].lstrip(" \t\r")
    if is_array:
        return not after.strip()
    if after.startswith(","):  # lines that are cut out of an array
        return True
    if "\n" in text[:end]:
        return after[:1] in ("", "\n")
    after = text[end:].lstrip(" \t")  # a carriage return alone ends a line
    return after.startswith("{") and _are_objects(after)


def _are_objects(text: str) -> bool:
    """Whether the first line has whole objects only.

    The end of the text may cut one.
    """
    newline = _LINE_END.search(text)
    line = text[: newline.start()] if newline else text
    position = 0
    while opening := _OPENING.match(line, position):
        position = _end_of_value(line, opening.end() - 1)
        if not position:
            return newline is None
    return not line[position:].strip()


def _end_of_value(text: str, start: int = 0) -> int:
    """Returns where the first JSON value ends; 0 if there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0


def as_lines(blocks: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yields documents as lines, block by block.

    Args:
      blocks: text in UTF-8, cut anywhere; an array of elements, or elements one after the other,
        with commas or without.
      path: of the file, for the error.

    Raises:
      DataError: the array has no end.
    """
    lines = _BlockState()
    waiting = last = b""
    for block in blocks:
        last = block.rstrip()[-1:] or last
        # Text behind a comma or an element decides what becomes of it.
        waiting += block
        if not waiting.endswith((b",", b"}")):
            yield lines.add(waiting)
            waiting = b""
    if waiting:
        yield lines.add(waiting)
    if lines.is_array and last != b"]":
        raise DataError(
            f"{path}: found the end of the file within an array, expected ']'. The file may be cut "
            "off: get it again."
        )


class _BlockState:
    """The state between two blocks."""

    def __init__(self) -> None:
        self._base = -1  # depth of elements: 1 in an array; -1: nothing has begun
        self._depth = 0
        self._backslashes = 0  # at the end of the last block
        self._in_string = False
        self._owed = 0  # line ends within the element so far

    @property
    def is_array(self) -> bool:
        """Whether the text is an array of elements."""
        return self._base == 1

    def add(self, block: bytes) -> bytes:
        """Returns a block as lines."""
        if self._base < 0:
            match = _BEGINNING.match(block)
            if match is None:
                return block
            self._base = 1 if match[1] == b"[" else 0
        text = np.frombuffer(block, np.uint8).copy()
        quotes, self._backslashes = string_quotes(text, self._backslashes)
        places = np.flatnonzero(_STRUCTURE[text])
        inside = (np.searchsorted(quotes, places) + self._in_string) % 2 == 1
        self._in_string ^= len(quotes) % 2 == 1
        return self._cut(text, places[~inside])

    def _cut(self, text: Bytes, places: Positions) -> bytes:
        """Ends lines where elements end, and nowhere within them."""
        marks = text[places]
        steps = np.isin(marks, list(_OPENS)).astype(np.int64) - np.isin(marks, list(_CLOSES))
        depths = self._depth + np.cumsum(steps)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        base = self._base
        is_end = (marks == _NEWLINE) & (depths > base)
        within = places[is_end]
        text[within] = _BLANK
        text[places[(marks == _RETURN) & (depths > base)]] = _BLANK
        closed = places[(steps < 0) & (depths == base)]
        behind = text[np.minimum(closed + 1, len(text) - 1)]
        if base:
            text[places[(steps > 0) & (depths == 1)]] = _BLANK  # of the array itself
            text[places[(steps < 0) & (depths == 0)]] = _BLANK
        commas = places[(marks == _COMMA) & (depths == base)]
        has_end = np.isin(text[np.minimum(commas + 1, len(text) - 1)], [_NEWLINE, _RETURN])
        text[commas] = np.where(has_end, _BLANK, _NEWLINE)
        # Line ends within an element come after it; an object may follow on the same line.
        counts = np.diff(np.searchsorted(within, closed), prepend=0)
        if len(closed):
            counts[0] += self._owed
            self._owed = len(within) - int(np.searchsorted(within, closed[-1]))
        else:
            self._owed += len(within)
        if not base:
            on_line = ~np.isin(behind, [_COMMA, _NEWLINE, _RETURN]) & (closed + 1 < len(text))
            counts = np.maximum(counts, on_line)
        added = np.insert(text, np.repeat(closed + 1, counts), _NEWLINE)
        return added.tobytes()
