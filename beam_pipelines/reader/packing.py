"""Packs the arrays of a group into one block of memory.

Another process shares a block, and one call copies it to a device.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_pipelines.reader.columns import DenseColumn
from beam_pipelines.reader.frameworks import Batch, mapped
from beam_pipelines.reader.pipeline import Group
from beam_pipelines.reader.sequence import StreamPlace

# Packed arrays begin at multiples of it, so no cache line has two.
_ALIGNMENT = 64

# Arrays, and the first byte of each in a block.
Contents = list[tuple[int, npt.NDArray[Any]]]


@dataclasses.dataclass(frozen=True)
class PackedArray:
    """An array in a block.

    Attributes:
      start: its first byte.
      dtype: of numpy.
      shape: of the array.
    """

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """The byte behind the array."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


class PackedGroup(NamedTuple):
    """The batches of a group.

    Attributes:
      features: their names, in order.
      behind: the place behind each batch.
      edges: the edges of the batches in the rows of the group.
      stacks: features of one type and shape, and an array [features, rows, ...].
      others: other features -> a list with the values of each batch: an array, ``Ragged`` or
        ``Keyed``.
      bytes: size of the block, a multiple of the sizes of all numbers.
    """

    features: list[str]
    behind: tuple[StreamPlace, ...]
    edges: list[int]
    stacks: list[tuple[list[str], Any]]
    others: dict[str, list[Any]]
    bytes: int

    def unpacked(self, view: Callable[[PackedArray], Any]) -> PackedGroup:
        """Returns the same with arrays instead of each ``PackedArray``."""
        return self._replace(
            stacks=[(names, view(stack)) for names, stack in self.stacks],
            others={
                name: [mapped(view, value) for value in values]
                for name, values in self.others.items()
            },
        )

    def batch(self, number: int) -> Batch:
        """Returns a batch of unpacked arrays, without a copy."""
        start, stop = self.edges[number], self.edges[number + 1]
        found = {name: values[number] for name, values in self.others.items()}
        for names, stack in self.stacks:
            found.update(zip(names, stack[:, start:stop], strict=True))
        return {name: found[name] for name in self.features}


def pack(group: Group) -> tuple[PackedGroup, Contents]:
    """Plans the block of a group, and returns the block's contents."""
    contents: Contents = []
    end = 0

    def place(arrays: Sequence[npt.NDArray[Any]], shape: tuple[int, ...]) -> PackedArray:
        """Plans arrays of one type and shape, one behind the other."""
        nonlocal end
        packed = PackedArray(end, arrays[0].dtype, shape)
        for number, array in enumerate(arrays):
            contents.append((end + number * array.nbytes, array))
        end = -(-packed.end // _ALIGNMENT) * _ALIGNMENT
        return packed

    def alone(array: npt.NDArray[Any]) -> Any:
        return place([array], array.shape)

    dense: dict[Any, dict[str, npt.NDArray[Any]]] = {}
    others: dict[str, list[Any]] = {}
    for name, column in group.columns.items():
        if isinstance(column, DenseColumn):
            array = column.cut(0, group.edges[-1])
            dense.setdefault((array.dtype, array.shape), {})[name] = array
        else:
            cuts = itertools.pairwise(group.edges)
            others[name] = [mapped(alone, column.cut(*edges)) for edges in cuts]
    stacks: list[tuple[list[str], Any]] = []
    for (_, shape), found in dense.items():
        arrays = list(found.values())
        stacks.append((list(found), place(arrays, (len(arrays), *shape))))
    return PackedGroup(
        list(group.columns), group.behind, group.edges, stacks, others, end
    ), contents


def fill(block: npt.NDArray[np.uint8], contents: Contents) -> None:
    """Copies the contents that ``pack`` returns to a block."""
    for start, array in contents:
        place = block[start : start + array.nbytes].view(array.dtype)
        np.copyto(place.reshape(array.shape), array)
