"""Merges values along a fixed tree.

So the result depends neither on the order of arrival nor on the number of workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from beam_pipelines.storage import files
from beam_pipelines.transforms.exchange import Exchange, Message, Received, SendMessages, Sent

FAN_IN = 16


class Node(NamedTuple):
    """A value with the address of its first chunk, which orders it."""

    order: tuple[int, ...]
    value: Any


@dataclasses.dataclass
class MergeTree(beam.PTransform):
    """Merges 16 neighbours at a time, level by level.

    Input: ``Message`` elements with partitions ``(group, leaf number)`` and values as bytes;
    several may have one leaf. Output: as ``SendMessages`` gives it, with at most 16 numbers for
    each group; ``receive_all`` returns the values in order.

    Attributes:
      leaves: number of leaves; leaf numbers are below it.
      merge: merges the values of a ``Received``, in order.
      folder: as in ``SendMessages``.
    """

    leaves: int
    merge: Callable[[Received], bytes]
    folder: str | None

    def expand(
        self, messages: beam.PCollection[Message]
    ) -> beam.PCollection[tuple[Any, list[Sent]]]:
        width, level = self.leaves, 0
        while width > FAN_IN:
            folder = None if self.folder is None else files.join(self.folder, f"level{level}")
            messages = (
                messages
                | f"ToParent{level}" >> beam.Map(_to_parents)
                | f"Gather{level}" >> Exchange(folder)
                | f"Merge{level}"
                >> beam.Map(
                    lambda own, merge: Message(own.orders[0], {own.partition: merge(own)}),
                    self.merge,
                )
            )
            width, level = -(-width // FAN_IN), level + 1
        return messages | "Send" >> SendMessages(self.folder)


def _to_parents(message: Message) -> Message:
    return message._replace(
        payloads={
            (group, number // FAN_IN): payload
            for (group, number), payload in message.payloads.items()
        }
    )


def merge_in_order(nodes: Iterable[Node], merge: Callable[[Sequence[Any]], Any]) -> Node:
    """Returns one node of at least one, merged in order."""
    ordered = sorted(nodes, key=lambda node: node.order)
    return Node(ordered[0].order, merge([node.value for node in ordered]))
