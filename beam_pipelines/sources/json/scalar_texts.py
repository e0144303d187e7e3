"""Values of JSON lines that become texts, for columns of declared text.

The parser makes no text of a number, an object or a list. So quotes are put around them in the
lines themselves, and a text has what was written. Each line is looked at alone: a bad one changes
no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow import columns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.text.documents import string_quotes

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# A number, a boolean, or one of the words that Python and JavaScript write for other numbers.
SCALAR = r"^(?:-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN|true|false)$"
_QUOTE, _COLON, _COMMA, _OBJECT, _LIST, _END_OF_LIST = b'":,{[]'
_ESCAPE, _TAB, _SPACE = b"\\\t "
_NONE = -1


def _table(characters: bytes) -> Flags:
    """Returns byte -> whether it is one of the characters."""
    return np.isin(np.arange(256), list(characters))


_BLANK, _BREAK, _BRACKET = _table(b" \t"), _table(b"\r\n"), _table(b"{[}]")
_ENDS, _BEGINS = _table(b",}] \t\r\n"), _table(b"-0123456789tfNI")


def text_columns(source: Source, found: pa.Schema | None = None) -> dict[str, int]:
    """Returns columns declared text -> levels of lists around the texts.

    Args:
      source: of the recipe.
      found: the flat types of the lines. ``None``: not known, and lists in lists may have texts.
    """
    names = {}
    for name, written in source.types.items():
        type_ = columns.parse_type(written)
        if columns.value_type(type_) == pa.string():
            levels = shapes.depth(type_)
            if found is not None and name in found.names:
                levels = shapes.depth(found.field(name).type)
            elif levels:
                levels = source.limits.nesting_depth
            names[name] = levels
    return names


def with_texts(data: bytes, names: Mapping[str, int]) -> bytes:
    """Returns lines with other values of some columns as strings.

    Args:
      data: whole lines.
      names: of flat columns, ``a.b`` for field ``b`` of ``a`` or of the objects in the list ``a``
        -> how many lists are around its texts. Objects there, and lists, become the text of their
        JSON; numbers and booleans do at any level.
    """
    if not names or not data:
        return data
    lines = _Lines(data)
    begins = [lines.values(name) for name in names]
    wholes = [
        lines.wholes(found, levels) for found, levels in zip(begins, names.values(), strict=True)
    ]
    first, last = _outermost(*map(np.concatenate, zip(*wholes, strict=True)))
    starts = np.unique(np.concatenate(begins))
    starts = starts[_number_before(first, starts) == _number_before(last, starts)]
    starts, ends = _scalars(lines.text, starts)
    if not len(starts) and not len(first):
        return data
    text = lines.text[:-1].copy()
    # A string may have these only behind an escape.
    special = np.flatnonzero((text == _QUOTE) | (text == _ESCAPE) | (text == _TAB))
    special = special[_number_before(first, special) > _number_before(last, special)]
    tabs = special[text[special] == _TAB]
    text[tabs] = _SPACE
    special = np.setdiff1d(special, tabs)
    quotes = np.sort(np.concatenate([starts, ends, first, last]))
    places = np.concatenate([quotes, special])
    marks = np.repeat(np.array([_QUOTE, _ESCAPE], np.uint8), [len(quotes), len(special)])
    order = np.argsort(places, kind="stable")
    return np.insert(text, places[order], marks[order]).tobytes()


def _outermost(starts: Positions, ends: Positions) -> tuple[Positions, Positions]:
    """Returns spans, without those that are within others."""
    starts, numbers = np.unique(starts, return_index=True)
    ends = ends[numbers]
    reach = np.maximum.accumulate(np.append(0, ends))[:-1]
    return starts[starts >= reach], ends[starts >= reach]


def _number_before(places: Positions, positions: Positions) -> Positions:
    """Returns how many ascending places are at positions or before."""
    return np.searchsorted(places, positions, side="right")


def _scalars(text: Bytes, starts: Positions) -> tuple[Positions, Positions]:
    """Returns where the numbers and booleans among values begin and end."""
    starts = starts[_BEGINS[text[starts]]]
    if not len(starts):
        return starts, starts
    stops = np.flatnonzero(_ENDS[text])
    ends = stops[np.searchsorted(stops, starts)]
    edges = np.stack([starts, ends], axis=1).ravel().astype(np.int32)
    both = pa.Array.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(text)]
    )
    words = both.take(pa.array(np.arange(0, len(both), 2)))
    is_scalar = pc.match_substring_regex(words, SCALAR).to_numpy(zero_copy_only=False)
    return starts[is_scalar], ends[is_scalar]


class _Lines:
    """Strings and brackets of lines.

    Attributes:
      text: the lines, and a line end.
    """

    def __init__(self, data: bytes) -> None:
        self.text = text = np.frombuffer(data + b"\n", np.uint8)
        self._breaks = np.flatnonzero(_BREAK[text])
        quotes, _ = string_quotes(text)
        counts = self._counts(quotes)
        if (counts % 2).any():  # in a line with an odd number of quotes nothing is certain
            quotes = quotes[np.repeat(counts % 2 == 0, counts)]
        self._quotes, self._opens, self._closes = quotes, quotes[::2], quotes[1::2]
        places = np.flatnonzero(_BRACKET[text])
        self._places = places = places[~self._is_inside(places)]
        self._is_open = (text[places] == _OBJECT) | (text[places] == _LIST)
        # Of the brackets up to here, in their line.
        self._depths = self._open_at(np.where(self._is_open, 1, -1))
        is_list = (text[places] == _LIST).astype(np.int64)
        self._lists_around = self._open_at(is_list - (text[places] == _END_OF_LIST)) - is_list

    def _open_at(self, steps: npt.NDArray[np.int64]) -> Positions:
        """Returns the sums of steps of brackets, each line from 0."""
        sums, counts = np.cumsum(steps), self._counts(self._places)
        before = np.append(0, sums)[np.cumsum(counts) - counts]
        return np.asarray(sums - np.repeat(before, counts))

    def values(self, name: str) -> Positions:
        """Returns where the values of a column begin.

        The items of lists.
        """
        found = [np.empty(0, np.int64)]
        for key, above in _last_keys(name):
            strings = self._strings(key)
            begins = self._value_of(strings)
            strings, begins = strings[begins != _NONE], begins[begins != _NONE]
            begins = begins[self._is_under(self._opens[strings], above)]
            while len(begins):
                found.append(begins)
                begins = self._items(begins[self.text[begins] == _LIST])
        return np.concatenate(found)

    def wholes(self, begins: Positions, levels: int) -> tuple[Positions, Positions]:
        """Returns where objects and lists at a level begin and end."""
        begins = begins[(self.text[begins] == _OBJECT) | (self.text[begins] == _LIST)]
        numbers = np.searchsorted(self._places, begins)
        is_deep = self._lists_around[numbers] >= levels
        begins, depths = begins[is_deep], self._depths[numbers[is_deep]]
        ends = np.full(len(begins), _NONE)
        for depth in np.unique(depths).tolist():
            closes = self._places[~self._is_open & (self._depths == depth - 1)]
            here = np.flatnonzero(depths == depth)
            ends[here] = np.append(closes, _NONE)[np.searchsorted(closes, begins[here])]
        is_whole = (ends != _NONE) & (self._line(np.maximum(ends, 0)) == self._line(begins))
        return begins[is_whole], ends[is_whole] + 1

    def _line(self, positions: Positions) -> Positions:
        return np.searchsorted(self._breaks, positions)

    def _counts(self, positions: Positions) -> Positions:
        """Returns how many of ascending positions are in each line."""
        counts: Positions = np.diff(np.searchsorted(positions, self._breaks), prepend=0)
        return counts

    def _is_inside(self, positions: Positions) -> Flags:
        """Whether positions are inside strings."""
        return np.asarray(np.searchsorted(self._quotes, positions) % 2 == 1)

    def _strings(self, key: str) -> Positions:
        """Returns the numbers of the strings that are a key."""
        found = [np.empty(0, np.int64)]
        for written in _spellings(key):
            length = len(written)
            numbers = np.flatnonzero(self._closes - self._opens == length + 1)
            places = (self._opens[numbers] + 1)[:, None] + np.arange(length)
            is_key = (self.text[places] == np.frombuffer(written, np.uint8)).all(axis=1)
            found.append(numbers[is_key])
        return np.concatenate(found)

    def _value_of(self, strings: Positions) -> Positions:
        """Returns where the values of keys begin, else ``_NONE``."""
        colons = self._skip(self._closes[strings] + 1, 1)
        is_key = self.text[colons] == _COLON
        begins = self._skip(np.where(is_key, colons + 1, colons), 1)
        return np.where(is_key, begins, _NONE)

    def _skip(self, positions: Positions, step: int) -> Positions:
        """Returns the next positions that are not blank, forward or backward."""
        last = len(self.text) - 1
        positions = np.clip(positions, 0, last)
        while (is_blank := _BLANK[self.text[positions]] & (positions > 0)).any():
            positions = np.clip(positions + step * is_blank, 0, last)
        return positions

    def _around(self, positions: Positions) -> Positions:
        """Returns the brackets that are open around positions; ``_NONE`` where none is."""
        found = np.full(len(positions), _NONE)
        before = np.searchsorted(self._places, positions) - 1
        depths = np.where(before >= 0, self._depths[np.maximum(before, 0)], 0)
        for depth in np.flatnonzero(np.bincount(np.maximum(depths, 0))).tolist():
            opens = self._places[self._is_open & (self._depths == depth)]
            here = np.flatnonzero(depths == depth)
            last = np.searchsorted(opens, positions[here]) - 1
            if len(opens):
                found[here] = np.where(last >= 0, opens[np.maximum(last, 0)], _NONE)
        is_same = self._line(np.maximum(found, 0)) == self._line(positions)
        return np.where(is_same & (depths > 0), found, _NONE)

    def _is_under(self, positions: Positions, name: str | None) -> Flags:
        """Whether keys are in the object of a name (``None``: the line's)."""
        objects = self._around(positions)
        is_object = (objects != _NONE) & (self.text[objects] == _OBJECT)
        around = self._around(np.maximum(objects, 0))
        if name is None:
            return np.asarray(is_object & (around == _NONE))
        values = objects
        while (in_list := is_object & (around != _NONE) & (self.text[around] == _LIST)).any():
            values = np.where(in_list, around, values)
            around = np.where(in_list, self._around(np.maximum(values, 0)), around)
        colons = self._skip(np.maximum(values - 1, 0), -1)
        ends = self._skip(np.maximum(colons - 1, 0), -1)
        strings = np.searchsorted(self._closes, ends)
        is_key = is_object & (self.text[colons] == _COLON) & (self.text[ends] == _QUOTE)
        is_under = np.zeros(len(positions), np.bool_)
        for key, above in _last_keys(name):
            here = np.flatnonzero(is_key & np.isin(strings, self._strings(key)))
            is_under[here] |= self._is_under(self._opens[strings[here]], above)
        return is_under

    def _items(self, lists: Positions) -> Positions:
        """Returns where the items of lists begin."""
        if not len(lists):
            return lists
        commas = np.flatnonzero(self.text == _COMMA)
        commas = commas[~self._is_inside(commas)]
        commas = commas[np.isin(self._around(commas), lists)]
        return self._skip(np.concatenate([lists, commas]) + 1, 1)


def _last_keys(name: str) -> Iterator[tuple[str, str | None]]:
    """Yields possible last keys of a flat name, and the names above."""
    yield name, None
    for place, character in enumerate(name):
        if character == ".":
            yield name[place + 1 :], name[:place]


def _spellings(key: str) -> set[bytes]:
    """Returns how a key is written in JSON: with escapes or without."""
    plain = json.dumps(key, ensure_ascii=False)[1:-1]
    return {plain.encode("utf-8", "surrogatepass"), json.dumps(key)[1:-1].encode()}
