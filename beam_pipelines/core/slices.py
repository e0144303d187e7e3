"""Cuts bytes and values into slices that every engine's shuffle takes.

Engines limit an element's size. Flink fails on a record that is larger than a sort buffer
(``Cannot write record to fresh sort buffer``); a job divides a slot's managed memory, 64 to 512 MB
by default, among all of its sorts. gRPC sends an element in one message. Dataflow's shuffle takes
values of some MB.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

# The largest encoded element that may cross an engine.
MAX_ELEMENT_BYTES = 1 << 20
# For a message's keys, orders and numbers.
_HEADER_BYTES = 16 << 10
SLICE_BYTES = MAX_ELEMENT_BYTES - _HEADER_BYTES

# Bytes, or buffers to concatenate.
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
    """Yields the slices of bytes or of concatenated buffers.

    Empty data have one slice.
    """
    whole: bytes = data if isinstance(data, bytes) else b"".join(data)  # type: ignore[arg-type]  # Arrow's buffers are such
    total = max(1, math.ceil(len(whole) / SLICE_BYTES))
    for number in range(total):
        yield Slice(number, total, whole[number * SLICE_BYTES : (number + 1) * SLICE_BYTES])


def concatenate(slices: Iterable[Slice]) -> bytes:
    """Returns the bytes from ``cut`` from their slices, in any order.

    Raises:
      ValueError: the engine lost or repeated a slice.
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
    """Returns the value from ``value_to_slices``; raises as ``concatenate``."""
    return pickle.loads(concatenate(slices))  # noqa: S301 - from a step of the same job, over the engine
