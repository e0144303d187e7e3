"""Where CSV records begin, so that a cut never splits a record.

A range [start, end) has the records that begin in it. A newline ends a record unless it is inside
quotes, which depends on all the text before it. So each range of a file is scanned once, on its
own, for *each* state in which it might begin; the results are functions from state to state, and
folding them from the front of the file gives the state in which every range does begin.

The automaton is that of pyarrow and of Python's ``csv`` module: a quote opens a quoted cell only as
its first character. Anywhere else outside quotes it is a plain character, as in ``5" disk``, which
is why counting quotes is not enough. Inside quotes, two quotes are one plain quote, and a single
one closes.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits, exceeded

# States between two bytes. CLOSED: just after a quote that closed a cell, or is the first half of a
# doubled quote.
OUTSIDE, CLOSED, INSIDE = 0, 1, 2
NEWLINE, RETURN = 10, 13
OTHER_QUOTE = "set 'quote: \"\"' of the source, which turns quoting off."
_LOOK_AHEAD_BYTES = 64 * 1024

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Dialect(NamedTuple):
    """Delimiter and quote as bytes; ``quote`` is ``None`` without quoting."""

    delimiter: int
    quote: int | None


def toggling_quotes(data: bytes, state: int, previous: int, dialect: Dialect) -> Positions:
    """Finds the quotes that open or close, without stray ones.

    Stray quotes are inside unquoted text.

    Args:
      data: a part of the text.
      state: state of the automaton before it.
      previous: the byte before it; ``NEWLINE`` at the start of a file.
      dialect: delimiter and quote.

    Returns:
      Positions in ``data``, increasing (int64). They open and close in turn.
    """
    if dialect.quote is None or bytes((dialect.quote,)) not in data:
        return np.empty(0, np.int64)
    text = np.frombuffer(data, np.uint8)
    return _without_stray(text, np.flatnonzero(text == dialect.quote), state, previous, dialect)


def _without_stray(
    text: Bytes, quotes: Positions, state: int, previous: int, dialect: Dialect
) -> Positions:
    """Returns the quotes that open or close.

    Python runs only once per stray quote. Quotes open and close in turn, so every second one has to
    be able to open: after a delimiter or a line end, or directly after a quote that closed, which
    makes a doubled one. The first that cannot is stray; so are those that touch it. After them the
    turns start again.
    """
    stray = array.array("q")
    cannot_open: dict[int, Positions] = {}
    number = 1 if state == INSIDE else 0
    while True:
        turn = number & 1
        if turn not in cannot_open:
            cannot_open[turn] = (
                2 * np.flatnonzero(~_can_open(text, quotes[turn::2], state, previous, dialect))
                + turn
            )
        found = int(cannot_open[turn].searchsorted(number))
        if found == len(cannot_open[turn]):
            return np.delete(quotes, np.frombuffer(stray, np.int64)) if stray else quotes
        number = int(cannot_open[turn][found])
        stray.append(number)
        number += 1
        while number < len(quotes) and text[quotes[number] - 1] == dialect.quote:
            stray.append(number)
            number += 1


def _can_open(
    text: Bytes, quotes: Positions, state: int, previous: int, dialect: Dialect
) -> npt.NDArray[np.bool_]:
    """Returns which quotes can open a cell, or reopen a closed one.

    The text before has to be outside quotes.
    """
    opens_after = np.zeros(256, np.bool_)
    opens_after[[dialect.delimiter, NEWLINE, RETURN, dialect.quote or 0]] = True
    can_open = opens_after[text[quotes - 1]]
    if len(quotes) and quotes[0] == 0:
        can_open[0] = state == CLOSED or (opens_after[previous] and previous != dialect.quote)
    return can_open


def state_after(data: bytes, state: int, toggles: Positions) -> int:
    """Returns the state after ``data``, given its toggling quotes."""
    if not data:
        return state
    if (state == INSIDE) != bool(len(toggles) % 2):
        return INSIDE
    return CLOSED if len(toggles) and toggles[-1] == len(data) - 1 else OUTSIDE


def transition(data: bytes, previous: int, dialect: Dialect) -> tuple[int, int, int]:
    """Scans a range; returns the state after it for each before it.

    States are in the order OUTSIDE, CLOSED, INSIDE.
    """
    if dialect.quote is None or bytes((dialect.quote,)) not in data:
        return (OUTSIDE, OUTSIDE, INSIDE) if data else (OUTSIDE, CLOSED, INSIDE)
    return _native.quote_transition(data, previous, dialect.delimiter, dialect.quote)


def fold(transitions: Iterable[tuple[int, int, int]]) -> bytes:
    """Returns the state before each range, and after the last one.

    Args:
      transitions: of a file's ranges, in order.
    """
    states = bytearray((OUTSIDE,))
    for transition in transitions:
        states.append(transition[states[-1]])
    return bytes(states)


def record_start(
    file: BinaryIO,
    path: str,
    position: int,
    size: int,
    state: int,
    dialect: Dialect,
    limits: Limits,
) -> int:
    """Returns the first byte from ``position`` on at which a record begins.

    It follows a newline outside quotes. A carriage return alone ends a record, too, but no range:
    such files are read as one.

    Args:
      file: seekable.
      path: for errors.
      position: a byte of the file.
      size: size of the file; returned if no record begins any more.
      state: state of the automaton before ``position``.
      dialect: delimiter and quote.
      limits: of the recipe.

    Raises:
      DataError: the record before goes on for longer than the limit.
    """
    if position == 0 or position >= size:
        return min(position, size)
    file.seek(position - 1)
    previous = file.read(1)[0]
    if previous == NEWLINE and state == OUTSIDE:
        return position
    begin, length = position, _LOOK_AHEAD_BYTES
    while data := file.read(length):
        toggles = toggling_quotes(data, state, previous, dialect)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE)
        outside = ends[(np.searchsorted(toggles, ends) + (state == INSIDE)) % 2 == 0]
        if len(outside):
            return begin + int(outside[0]) + 1
        state, previous, begin = state_after(data, state, toggles), data[-1], begin + len(data)
        length = min(length * 2, 4 * MIB)
        if begin - position > limits.line_bytes:
            raise DataError(f"{path}, around byte {position:,}: {endless_record(limits)}")
    return size


def endless_record(limits: Limits) -> str:
    """Returns the message for a record that does not end."""
    return (
        f"{exceeded(limits, 'line_bytes', f'a record of more than {limits.line_bytes:,} bytes')} A "
        "quote that is opened and never closed does this, "
        f"too: close it, or {OTHER_QUOTE}"
    )


def long_record(data: bytes, toggles: Positions, most: int) -> int:
    """Returns where the first record of more than ``most`` bytes begins.

    It is -1 if there is none. The line end does not count. Looks at one line end for each ``most``
    bytes or so, not at all.

    Args:
      data: whole records.
      toggles: the quotes in them that open or close.
      most: bytes.
    """
    start, end = 0, len(data)
    while end - start > most:
        newline = last_end(data, toggles, (start, start + most + 1), (b"\n", b"\r"))
        if newline < 0:
            return start
        start = newline + 1
    return -1


def last_end(data: bytes, toggles: Positions, span: tuple[int, int], marks: Sequence[bytes]) -> int:
    """Returns the last line end outside quotes, or -1.

    Args:
      data: text that begins outside quotes.
      toggles: the quotes in it that open or close.
      span: where to look, from and to.
      marks: the characters that end lines.
    """
    start, end = span
    while (found := max(data.rfind(mark, start, end) for mark in marks)) >= 0:
        before = int(np.searchsorted(toggles, found))
        if before % 2 == 0:
            return found
        end = int(toggles[before - 1])
    return -1


def line_ends(data: bytes) -> Positions:
    """Returns the positions of LF, and of CR without LF."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == NEWLINE)
    if b"\r" not in data:
        return ends
    returns = np.flatnonzero(text == RETURN)
    followed = text[np.minimum(returns + 1, len(text) - 1)] == NEWLINE
    return np.sort(np.concatenate([ends, returns[~followed]]))


def record_spans(data: bytes, toggles: Positions) -> tuple[Positions, Positions]:
    """Finds the records of text that is cut at records.

    Returns:
      Where each record begins, and where it ends (after its line end). Empty lines are no records.
    """
    text, none = np.frombuffer(data, np.uint8), np.zeros(0, np.int64)
    if not data:
        return none, none
    ends = line_ends(data)
    ends = ends[np.searchsorted(toggles, ends) % 2 == 0] + 1
    if not len(ends) or ends[-1] != len(text):
        ends = np.append(ends, len(text))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    kept = (text[starts] != NEWLINE) & (text[starts] != RETURN)
    return starts[kept], ends[kept]


def count_cells(data: bytes, toggles: Positions, starts: Positions, dialect: Dialect) -> Positions:
    """Counts the cells of each record: delimiters outside quotes, plus one.

    Args:
      data: whole records.
      toggles: the quotes in them that open or close.
      starts: where the records begin, as ``record_spans`` finds them.
      dialect: delimiter and quote.
    """
    if not len(starts):
        return np.zeros(0, np.int64)
    is_delimiter = np.frombuffer(data, np.uint8) == dialect.delimiter
    if len(toggles):
        turns = np.zeros(len(data), np.uint8)
        turns[toggles] = 1
        is_delimiter &= np.cumsum(turns, dtype=np.uint8) & 1 == 0  # multiples of 256 change nothing
    counts: Positions = np.add.reduceat(is_delimiter, starts, dtype=np.int64) + 1
    return counts
