"""Batches of every kind of value, and three ways to accumulate them."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

Accumulator = TypeVar("Accumulator")

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOAT64 = st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.0, 1e308, -1e308, 5e-324])
TEXT = st.text(max_size=3) | st.sampled_from(["", "a", "b", "true", "1"])

VALUES_FOR_TYPE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int64(): INT64,
    pa.float32(): st.floats(width=32),
    pa.float64(): FLOAT64,
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.time64("us"): st.times(),
    pa.list_(pa.int64()): st.lists(INT64, max_size=3),
    pa.list_(pa.string()): st.lists(TEXT, max_size=3),
}


@st.composite
def arrays(draw: st.DrawFn, types: Sequence[pa.DataType] = tuple(VALUES_FOR_TYPE)) -> pa.Array:
    """Draws an array of one of the types, with nulls."""
    kind = draw(st.sampled_from(types))
    return pa.array(draw(st.lists(st.none() | VALUES_FOR_TYPE[kind], max_size=30)), kind)


def three_ways(
    array: Any,
    of: Callable[[Any], Accumulator],
    merged: Callable[[Sequence[Accumulator]], Accumulator],
    seed: int = 0,
) -> list[Accumulator]:
    """Accumulates an array or batch in three ways.

    They are at once, in shuffled chunks, and in a pickled tree.
    """
    chooser = random.Random(seed)
    cuts = sorted({0, len(array), *(chooser.randint(0, len(array)) for _ in range(5))})
    slices = [array.slice(start, end - start) for start, end in itertools.pairwise(cuts)] or [array]
    parts = [of(chunk) for chunk in slices]
    chooser.shuffle(parts)
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = merged([one_by_one, part])
    nodes = parts
    while len(nodes) > 1:
        nodes = [_pickled(node) for node in nodes]
        nodes = [merged(nodes[i : i + 3]) for i in range(0, len(nodes), 3)]
    return [of(array), one_by_one, _pickled(nodes[0])]


def _pickled(accumulator: Accumulator) -> Accumulator:
    return pickle.loads(pickle.dumps(accumulator))  # noqa: S301 - what was pickled on the same line
