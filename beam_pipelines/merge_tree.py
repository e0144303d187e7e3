"""Merges values along a fixed tree, so that the result depends on neither arrival order nor the number of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import apache_beam as beam

FAN_IN = 16

T = TypeVar("T")


class Node(NamedTuple):
    """A value and its place among its neighbours: the address of the first piece in it."""

    order: tuple[int, ...]
    value: Any


@dataclasses.dataclass
class MergeTree(beam.PTransform, Generic[T]):
    """Merges each 16 neighbours until a few are left.

    Input: ``((group, leaf number), Node)``; several nodes may have one leaf. Output: ``((group, number), Node)``, at most
    16 numbers for each group; ``merge_in_order`` makes one of them.

    Attributes:
      leaves: number of leaves; their numbers are below it.
      merge: merges values, in order.
    """

    leaves: int
    merge: Callable[[Sequence[T]], T]

    def expand(self, nodes: beam.PCollection[Any]) -> beam.PCollection[Any]:
        width, level = self.leaves, 0
        while width > FAN_IN:
            nodes = (
                nodes
                | f"Parent{level}" >> beam.MapTuple(lambda key, node: ((key[0], key[1] // FAN_IN), node))
                | f"Group{level}" >> beam.GroupByKey()
                | f"Merge{level}"
                >> beam.Map(lambda group, merge: (group[0], merge_in_order(group[1], merge)), self.merge)
            )
            width, level = -(-width // FAN_IN), level + 1
        return nodes


def merge_in_order(nodes: Iterable[Node], merge: Callable[[Sequence[Any]], Any]) -> Node:
    """Returns one node of at least one, merged in their order."""
    ordered = sorted(nodes, key=lambda node: node.order)
    return Node(ordered[0].order, merge([node.value for node in ordered]))
