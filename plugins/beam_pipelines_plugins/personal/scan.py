"""Looks for personal data in the columns of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import byte_lengths, is_valid, offsets_of
from beam_pipelines_plugins.personal.names import GIVEN_NAMES, names_persons, names_things, words_of
from beam_pipelines_plugins.personal.patterns import PATTERNS, Mask, Pattern, matches

PERSON_NAME = "person_name"
# Numbers of the tests that no pattern has: persons by column name, persons by vocabulary.
BY_NAME, BY_VOCABULARY = len(PATTERNS), len(PATTERNS) + 1
_SMALL_NUMBER = 100_000_000
_WORDS = r"^\pL[\pL'’.-]*(?:,? \pL[\pL'’.-]*){0,5}$"
_TWO_WORDS = r"^\p{Lu}[\pL'’.-]*(?:,? \p{Lu}[\pL'’.-]*){1,3}$"
_MOST_NAME_BYTES = 60
# Characters that are counted, ten bits of a word each. A longer text counts as if it had the most.
_GROUPS = {"digits": "0123456789", "ats": "@", "colons": ":", "dots": ".", "dashes": "-"}
_BITS, _MOST = 10, (1 << 10) - 1
_WEIGHTS = np.zeros(256, np.uint64)
for _place, _group in enumerate(_GROUPS.values()):
    _WEIGHTS[[*_group.encode()]] = 1 << (_BITS * _place)
# Candidates of a chunk to look at first, where there are a few times as many or more. The step is
# a prime, so that values that recur at a fixed distance are among them.
_SAMPLE, _MANY, _STEP = 2048, 4, 2654435761


# Group of characters -> int64[n], of each text; and their bytes.
Counts = Mapping[str, npt.NDArray[np.int64]]


class Seen(NamedTuple):
    """Values of one kind in one column of a chunk.

    Attributes:
      column: its name.
      test: number of the pattern, or of another test.
      shaped: rows with a value of this shape.
      right: rows with a value that is right.
      first: number of the first of these rows; -1 if there is none.
    """

    column: str
    test: int
    shaped: int
    right: int
    first: int


def kind_of(test: int) -> str:
    """Returns the kind of personal data that a test finds."""
    return PATTERNS[test].kind if test < len(PATTERNS) else PERSON_NAME


def least_of(test: int) -> float:
    """Returns the least share of right values among those of the shape."""
    return PATTERNS[test].least if test < len(PATTERNS) else 0.5


def scan_batch(batch: pa.RecordBatch) -> tuple[Seen, ...]:
    """Looks for personal data in all columns of a chunk.

    It looks at texts and whole numbers, and lists of them. A row counts for the first test
    of each kind that finds it.

    Args:
      batch: n rows of column types.

    Returns:
      What was seen, without tests that saw no value of their shape.
    """
    seen: list[Seen] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name.startswith("\0") or not batch.num_rows:
            continue
        values, rows = _flattened(column)
        taken: dict[str, Mask] = {}
        for test, shaped, right in _tests(name, values):
            kind = kind_of(test)
            is_shaped, is_right = (_by_row(mask, rows, len(column)) for mask in (shaped, right))
            if kind in taken:
                is_shaped, is_right = is_shaped & ~taken[kind], is_right & ~taken[kind]
                taken[kind] |= is_right
            else:
                taken[kind] = is_right
            if is_shaped.any():
                count = int(is_right.sum())
                first = int(is_right.argmax()) if count else -1
                seen.append(Seen(name, test, int((is_shaped | is_right).sum()), count, first))
    return tuple(seen)


def _by_row(mask: Mask, rows: npt.NDArray[np.int64] | None, length: int) -> Mask:
    """Returns bool[length], the rows that have values of a mask."""
    if rows is None:
        return mask
    found = np.zeros(length, bool)
    found[rows[mask]] = True
    return found


def _flattened(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64] | None]:
    """Returns the values of lists, and the row of each, or ``None``."""
    rows = None
    while pa.types.is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        parents = np.arange(len(column)) if rows is None else rows
        rows, column = np.repeat(parents, lengths), column.flatten()
    return column, rows


def _tests(name: str, values: pa.Array) -> Iterator[tuple[int, Mask, Mask]]:
    """Yields tests, values of their shape, and right ones."""
    words = words_of(name)
    own = {
        number: pattern
        for number, pattern in enumerate(PATTERNS)
        if (not pattern.hints or pattern.hints & words) and not pattern.others & words
    }
    if pa.types.is_string(values.type):
        counts = _counts_of(values)
        for number, pattern in own.items():
            candidates = _having(counts, pattern.needs)
            filled = counts["bytes"] > 0 if pattern.hints else None
            yield from _test(number, values, candidates, partial(_match, pattern), filled)
        yield from _test_names(values, words, counts)
    elif pa.types.is_integer(values.type):
        large = pc.fill_null(pc.greater_equal(values, _SMALL_NUMBER), False)
        candidates = np.flatnonzero(large.to_numpy(zero_copy_only=False))
        for number, pattern in own.items():
            if pattern.may_be_number:
                filled = is_valid(values) if pattern.hints else None
                yield from _test(number, values, candidates, partial(_match, pattern), filled)


def _counts_of(texts: pa.Array) -> Counts:
    """Returns the bytes of n texts, and their characters of each group."""
    lengths = byte_lengths(texts)
    packed = _native.sum_weights(texts, _WEIGHTS).view(np.int64)
    counts = ((packed >> _BITS * place) & _MOST for place in range(len(_GROUPS)))
    is_long = lengths > _MOST
    if is_long.any():
        counts = (np.where(is_long, _MOST, count) for count in counts)
    return {"bytes": lengths, **dict(zip(_GROUPS, counts, strict=True))}


def _having(counts: Counts, least: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Returns the numbers of the texts with enough characters, ascending."""
    masks = [counts[group] >= number for group, number in least.items()]
    return np.flatnonzero(np.logical_and.reduce(masks))


def _test(
    number: int,
    values: pa.Array,
    candidates: npt.NDArray[np.int64],
    match: Callable[[pa.Array], tuple[Mask, Mask]],
    filled: Mask | None,
) -> Iterator[tuple[int, Mask, Mask]]:
    """Yields a test, values of its shape, and right ones.

    Of many candidates it looks at some. If few of these are right, it looks at no others.

    Args:
      number: of the test.
      values: n, of any type.
      candidates: numbers of those to look at.
      match: the test of some of them.
      filled: the values of the shape, if it does not depend on the test.
    """
    looked_at = candidates
    if len(candidates) > _MANY * _SAMPLE:
        places = np.arange(_SAMPLE, dtype=np.uint64) * np.uint64(_STEP) % np.uint64(len(candidates))
        looked_at = candidates[np.unique(places).astype(np.int64)]
    if not len(candidates):
        return
    shaped, right = match(_taken(values, looked_at))
    known = right.sum() >= least_of(number) / 2 * (shaped if filled is None else right).sum()
    if len(looked_at) < len(candidates) and right.any() and known:
        looked_at = candidates
        shaped, right = match(_taken(values, looked_at))
    is_sample = len(looked_at) < len(candidates)
    of_shape = (
        filled if filled is not None and not is_sample else _spread(shaped, looked_at, len(values))
    )
    yield number, of_shape, _spread(right, looked_at, len(values))


def _taken(values: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    taken = values if len(places) == len(values) else values.take(pa.array(places))
    return taken if pa.types.is_string(taken.type) else taken.cast(pa.string())


def _match(pattern: Pattern, texts: pa.Array) -> tuple[Mask, Mask]:
    """Returns which texts have a pattern's shape, and which are right."""
    places = np.flatnonzero(matches(texts, pattern.whole))
    if not len(places):
        return np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    found = texts if len(places) == len(texts) else texts.take(pa.array(places))
    shaped, right = pattern.check(pattern, found)
    return _spread(shaped, places, len(texts)), _spread(right, places, len(texts))


def _spread(mask: Mask, places: npt.NDArray[np.int64], length: int) -> Mask:
    if len(places) == length:
        return mask
    spread = np.zeros(length, bool)
    spread[places] = mask
    return spread


def _test_names(
    texts: pa.Array, words: frozenset[str], counts: Counts
) -> Iterator[tuple[int, Mask, Mask]]:
    """Yields names of persons, by the column's name or by the vocabulary."""
    lengths = counts["bytes"]
    may_be = (lengths <= _MOST_NAME_BYTES) & (lengths > 1) & (counts["digits"] == 0)
    candidates = np.flatnonzero(may_be)
    if names_persons(words):
        match = partial(_of_distinct, lambda values: (matches(values, _WORDS),) * 2)
        yield from _test(BY_NAME, texts, candidates, match, lengths > 0)
        return
    if names_things(words):
        return
    shape = _WORDS if "name" in words else _TWO_WORDS
    match = partial(_of_distinct, partial(_given, shape))
    yield from _test(BY_VOCABULARY, texts, candidates, match, None)


def _of_distinct(
    match: Callable[[pa.Array], tuple[Mask, Mask]], texts: pa.Array
) -> tuple[Mask, Mask]:
    """Returns a test of texts, which looks at each distinct one."""
    encoded = texts.dictionary_encode()
    indices = encoded.indices.to_numpy()
    shaped, right = match(encoded.dictionary)
    return shaped[indices], right[indices]


def _given(shape: str, texts: pa.Array) -> tuple[Mask, Mask]:
    """Returns which texts are words, and which have a given name."""
    shaped = matches(texts, shape)
    right = np.zeros(len(texts), bool)
    if shaped.any():
        parts = pc.split_pattern_regex(pc.utf8_lower(texts.filter(pa.array(shaped))), "[ ,.-]+")
        is_given = pc.is_in(parts.flatten(), GIVEN_NAMES).to_numpy(zero_copy_only=False)
        offsets = offsets_of(parts)
        counts = np.concatenate([[0], np.cumsum(is_given)])[offsets - offsets[0]]
        right[shaped] = np.diff(counts) > 0
    return shaped, right
