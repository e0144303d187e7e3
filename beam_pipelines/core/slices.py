"""Cuts bytes and values into messages that the shuffle of every engine takes.

An element that crosses an engine has limits that small tables never meet. Flink sorts records in
buffers of some MiB and fails on a record that does not fit
(``Cannot write record to fresh sort buffer``): a job divides the managed memory of a slot, 64 to
512 MB by default, among all of its sorts. gRPC sends an element in one message. Dataflow's shuffle
takes values of some MB well.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

# The largest element that may cross an engine, encoded.
MAX_ELEMENT_BYTES = 1 << 20
# For everything in a message except its data: keys, orders, numbers.
_HEADER_BYTES = 16 << 10
SLICE_BYTES = MAX_ELEMENT_BYTES - _HEADER_BYTES

# Some bytes, or buffers to concatenate.
Buffers: TypeAlias = bytes | Sequence[bytes | pa.Buffer]


class Slice(NamedTuple):
    """One of ``total`` consecutive parts of some bytes.

    Attributes:
      number: its place among them, from 0.
      total: number of slices.
      data: at most ``SLICE_BYTES``.
    """

    number: int
    total: int
    data: bytes


def cut(data: Buffers) -> Iterator[Slice]:
    """Yields the slices of some bytes, or of the concatenation of several buffers; one slice of no
    bytes.
    """
    whole: bytes = data if isinstance(data, bytes) else b"".join(data)  # type: ignore[arg-type]  # Arrow's buffers are such
    total = max(1, math.ceil(len(whole) / SLICE_BYTES))
    for number in range(total):
        yield Slice(number, total, whole[number * SLICE_BYTES : (number + 1) * SLICE_BYTES])


def concatenate(slices: Iterable[Slice]) -> bytes:
    """Returns the bytes that ``cut`` was given, from all of their slices in any order.

    Raises:
      ValueError: a slice is missing, or one came twice: the engine lost or repeated an element.
    """
    ordered = sorted(slices, key=lambda each: each.number)
    found, total = [each.number for each in ordered], ordered[0].total if ordered else 1
    if found != list(range(total)):
        raise ValueError(
            f"found slices {found}, expected 0 to {total - 1}: the runner lost or repeated an "
            "element."
        )
    return ordered[0].data if total == 1 else b"".join(each.data for each in ordered)


def value_to_slices(value: Any) -> Iterator[Slice]:
    """Yields the slices of a pickled value."""
    return cut(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def slices_to_value(slices: Iterable[Slice]) -> Any:
    """Returns the value that ``value_to_slices`` was given; see ``concatenate``."""
    return pickle.loads(concatenate(slices))  # noqa: S301 - from a step of the same job, over the engine
