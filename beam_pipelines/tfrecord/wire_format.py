"""Reading protobuf's wire format with numpy: the fields of many messages at once, and the numbers
that are packed in them.

All messages are walked in step: the first field of each, then the second of each. The few that have
many more fields than the others are walked alone, in as many steps as the logarithm of their
fields: at every byte it is found where a field that began there would end, and such jumps are
doubled.

Format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.tfrecord.record_block import FOOTER_BYTES, HEADER_BYTES, RecordBlock

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Zeros behind the data, so that the number at its very end may be read past it.
PADDING = 16
_LENGTH_DELIMITED = 2
_MOST_VARINT_BYTES = 10
# A length of more bytes than these is beyond any record.
_MOST_LENGTH_BYTES = 5
# Walking in step costs some 30 µs for each field, however few messages there are.
_FEW_MESSAGES = 32
# The jumps of a message are found in windows; in fields of more bytes than these few of them would
# be used.
_WINDOW_BYTES, _SMALL_FIELD = 1 << 20, 512
# Shorter runs of bytes are gathered by an index for each byte, longer ones by a slice for each run.
_SHORT_RUN = 64


class Fields(NamedTuple):
    """Length-delimited fields, message by message, in the order in which they lie there.

    Attributes:
      message: number of the message that each belongs to.
      tag: its first byte.
      start, end: bytes of its content.
      wrong: of each message, whether it has anything else in it, which is not read.
    """

    message: Places
    tag: Bytes
    start: Places
    end: Places
    wrong: Flags


def padded(records: Sequence[bytes]) -> tuple[Bytes, Places, Places]:
    """Returns the bytes of all records, in order, with ``PADDING``; and where each begins and
    ends.
    """
    if isinstance(records, RecordBlock):
        first = records.starts[0]
        framed = records.data[first : records.starts[-1]] + bytes(PADDING)
        bounds = records.starts - first
        return (
            np.frombuffer(framed, np.uint8),
            bounds[:-1] + HEADER_BYTES,
            bounds[1:] - FOOTER_BYTES,
        )
    ends = np.cumsum(np.fromiter(map(len, records), np.int64, len(records)))
    data = np.frombuffer(b"".join((*records, bytes(PADDING))), np.uint8)
    return data, np.concatenate([np.zeros(min(len(records), 1), np.int64), ends[:-1]]), ends


def fields_of(data: Bytes, starts: Places, ends: Places) -> Fields:
    """Returns the fields of messages that lie in ``data`` from ``starts`` to ``ends``.

    A field whose tag is longer than a byte, that is not length-delimited, or that ends behind its
    message, makes the message wrong.
    """
    wrong = np.zeros(len(starts), bool)
    message = np.flatnonzero(starts < ends)
    cursor = starts[message]
    found: list[tuple[Places, Bytes, Places, Places]] = []
    while len(message):
        tag, start, end = _field_at(data, cursor)
        bad = (tag & 0x87 != _LENGTH_DELIMITED) | (end > ends[message])
        wrong[message[bad]] = True
        is_small = len(message) <= _FEW_MESSAGES and (end - start).mean() < _SMALL_FIELD
        good = ~bad
        message, cursor, stop = message[good], cursor[good], end[good]
        if is_small:
            found += [
                _alone(data, int(m), int(c), int(ends[m]), wrong)
                for m, c in zip(message, cursor, strict=True)
            ]
            break
        found.append((message, tag[good], start[good], stop))
        rest = stop < ends[message]
        message, cursor = message[rest], stop[rest]
    return _in_order(found, wrong)


def _field_at(data: Bytes, cursor: Places) -> tuple[Bytes, Places, Places]:
    """Returns tag, start and end of the fields that begin at ``cursor``; a length that is none ends
    behind everything.
    """
    start, length = lengths_at(data, cursor + 1)
    return data[cursor], start, start + length


def lengths_at(data: Bytes, cursor: Places) -> tuple[Places, Places]:
    """Returns where the lengths at ``cursor`` end, and what they are; where there is none, one
    beyond everything.
    """
    length = data[cursor].astype(np.int64)
    start = cursor + 1
    more = np.flatnonzero(length > 127)
    if len(more):
        length[more] &= 127
        for place in range(1, _MOST_LENGTH_BYTES):
            byte = data[np.minimum(cursor[more] + place, len(data) - 1)].astype(np.int64)
            length[more] |= (byte & 127) << (7 * place)
            start[more] += 1
            more = more[byte > 127]
            if not len(more):
                break
        length[more] = 1 << 62
    return start, length


def _alone(
    data: Bytes, message: int, start: int, end: int, wrong: Flags
) -> tuple[Places, Bytes, Places, Places]:
    """Returns the fields of one message from ``start``, window by window."""
    places: list[Places] = []
    while start < end:
        stop = min(start + _WINDOW_BYTES, end)
        cursor = np.arange(start, stop, dtype=np.int64)
        tag, _, after = _field_at(data, cursor)
        after[(tag & 0x87 != _LENGTH_DELIMITED) | (after > end)] = end + 1
        jumps = np.append(np.minimum(after, stop) - start, stop - start)
        reached = np.zeros(1, np.int64)
        while len(new := jumps[reached][jumps[reached] < stop - start]):
            reached = np.concatenate([reached, new])
            jumps = jumps[jumps]
        places.append(reached + start)
        start = int(after[reached[-1]])
    cursor = np.concatenate([np.zeros(0, np.int64), *places])
    if start > end:  # the last one begins no field
        wrong[message], cursor = True, cursor[:-1]
    return (np.full(len(cursor), message), *_field_at(data, cursor))


def _in_order(found: list[tuple[Places, Bytes, Places, Places]], wrong: Flags) -> Fields:
    """Returns fields, which are in order of each message, message by message."""
    if not found:
        none = np.zeros(0, np.int64)
        return Fields(none, np.zeros(0, np.uint8), none, none, wrong)
    message, tag, start, end = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if len(found) > 1:
        order = np.lexsort((start, message))
        message, tag, start, end = message[order], tag[order], start[order], end[order]
    return Fields(message, tag, start, end, wrong)


def gather(data: Bytes, starts: Places, ends: Places) -> tuple[Bytes, Places]:
    """Returns the bytes from each start to its end, one after the other, and n + 1 offsets into
    them.
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    total = int(offsets[-1])
    if total > _SHORT_RUN * len(starts):
        view = data.data
        runs = map(
            memoryview.__getitem__,
            itertools.repeat(view),
            map(slice, starts.tolist(), ends.tolist()),
        )
        return np.frombuffer(b"".join(runs), np.uint8), offsets
    return data[np.repeat(starts - offsets[:-1], ends - starts) + np.arange(total)], offsets


def packed_integers(data: Bytes, offsets: Places) -> tuple[npt.NDArray[np.int64], Places, Flags]:
    """Decodes varints, which follow one another in runs.

    Args:
      data: of all runs.
      offsets: n + 1, of the runs.

    Returns:
      The numbers of all runs, how many there are in each, and whether a run ends within a number or
      has one that is too long.
    """
    last = np.flatnonzero(data < 128)
    ends = np.searchsorted(last, offsets)
    firsts = np.concatenate([np.zeros(min(len(last), 1), np.int64), last[:-1] + 1])
    lengths = last + 1 - firsts
    numbers = np.zeros(len(last), np.uint64)
    longest = int(lengths.max(initial=0))
    # Whatever a run that ends early leaves behind would be taken for the beginning of the next one.
    wrong = (
        (np.diff(offsets) > 0) & (data[np.maximum(offsets[1:] - 1, 0)] > 127)
        if len(data)
        else np.diff(offsets) > 0
    )
    wrong[np.searchsorted(offsets[1:], firsts[lengths > _MOST_VARINT_BYTES], side="right")] = True
    for place in range(min(longest, _MOST_VARINT_BYTES)):
        has = slice(None) if place == 0 else np.flatnonzero(lengths > place)
        byte = data[firsts[has] + place].astype(np.uint64) & np.uint64(127)
        numbers[has] |= byte << np.uint64(7 * place)
    return numbers.view(np.int64), np.diff(ends), wrong
