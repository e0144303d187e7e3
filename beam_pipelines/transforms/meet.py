"""The one way for rows to meet: by key, in partitions.

What a partition gets is in the order of the rows' addresses. So what it decides depends neither on
the engine nor on the number of workers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import take_rows
from beam_pipelines.core.arrow.ipc import PackedBatch, pack
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.limits import MIB
from beam_pipelines.files.beam import files
from beam_pipelines.transforms import exchange
from beam_pipelines.transforms.merged_files import (
    MergeBins,
    merge_messages,
    receive_merged,
    to_bins,
)

# Another seed than that of indexes and splits.
_PARTITION_SEED = 0x6A6F696E  # "join"
FAN_IN = 16
# Bytes that a piece of a partition has at least, and how many times those that all pieces read: an
# index of a right side takes as long as the joins of two to three times its bytes.
PIECE_BYTES = 16 * MIB
PIECE_TIMES = 4
_MORE = "more"

Send = Callable[[Any], exchange.Message] | None


@dataclasses.dataclass
class MeetByKey(beam.PTransform):
    """Sends elements to partitions, and decides on each partition.

    Input: elements, in one PCollection or several. Output: what ``decide`` yields, in any order;
    with ``tags`` as ``with_outputs`` gives it, whose main output is ``main``.

    Attributes:
      send: makes the message of an element, for each PCollection; ``None``: it is one.
      decide: gets what one partition receives.
      folder: as in ``SendMessages``, used by this step only. In an object store, messages are
        merged on their way.
      tags: of further outputs.
      merges: whether messages are merged in an object store; useless if each has one partition.
      spreads: whether any worker decides on pieces of large partitions, as ``cut_partition`` cuts
        them. Then there are two outputs, of first and of further pieces.
    """

    send: Send | tuple[Send, ...]
    decide: Callable[[exchange.Received], Iterable[Any]]
    folder: str
    tags: tuple[str, ...] = ()
    merges: bool = True
    spreads: bool = False

    def expand(self, elements: beam.PCollection[Any] | tuple[beam.PCollection[Any], ...]) -> Any:
        branches = (elements,) if isinstance(elements, beam.PCollection) else elements
        sends = self.send if isinstance(self.send, tuple) else (self.send,)
        merges = self.merges and files.is_object(self.folder)
        folder, get = self.folder, exchange.receive
        sent = []
        # Flatten after sending: engines materialize its inputs, and a message has no size limit.
        for number, (branch, send) in enumerate(zip(branches, sends, strict=True)):
            messages = branch if send is None else branch | f"ToMessages{number}" >> beam.Map(send)
            if merges:
                messages = messages | f"ToBins{number}" >> beam.Map(to_bins)
            sent.append(messages | f"Send{number}" >> exchange.SendMessages(folder))
        addresses = sent | beam.Flatten()
        if merges:
            merge = partial(merge_messages, folder=folder)
            folder, get = files.join(folder, "merged"), receive_merged
            addresses = addresses | "MergeFiles" >> MergeBins(merge, folder)
        partitions = addresses | "Group" >> beam.GroupByKey()
        decide: Any = beam.FlatMap(partial(_decide, get, folder, self.decide))
        if self.spreads:
            decide = beam.FlatMap(partial(_decide, partial(_piece, get), folder, self.decide))
            cut = partitions | "Cut" >> beam.FlatMapTuple(cut_partition).with_outputs(
                _MORE, main="first"
            )
            more = cut[_MORE] | "Spread" >> beam.GroupByKey()
            return cut["first"] | "Decide" >> decide, more | "DecideMore" >> decide
        if self.tags:
            decide = decide.with_outputs(*self.tags, main="main")
        return partitions | "Decide" >> decide


def _decide(
    get: Callable[..., exchange.Received],
    folder: str,
    decide: Callable[[exchange.Received], Iterable[Any]],
    group: tuple[Any, Iterable[Sequence[exchange.Sent]]],
) -> Iterable[Any]:
    return decide(get(*group, folder))


def cut_partition(partition: int, sent: Iterable[Sequence[exchange.Sent]]) -> Iterator[Any]:
    """Cuts what a partition gets into pieces of some size.

    A piece has all messages of kind 0, and some of kind 1, in order.

    Args:
      partition: its number.
      sent: as in ``exchange.receive``.

    Yields:
      The first piece: ``((partition,), [[Sent]])``; and with the tag of further ones
      ``((partition, *start), [Sent])``, where ``start`` is the order of its first message of kind
      1. Elements of one key are one piece.
    """
    ordered = sorted(itertools.chain.from_iterable(sent))
    shared = [each for each in ordered if each.order[0] == 0]
    rest = ordered[len(shared) :]
    size = sum(each.length for each in rest)
    count = max(1, size // max(PIECE_BYTES, PIECE_TIMES * sum(each.length for each in shared)))
    pieces: dict[int, list[exchange.Sent]] = {0: []}
    start = 0
    for each in rest:
        pieces.setdefault(start * count // size, []).append(each)
        start += each.length
    first, *more = pieces.values()
    yield (partition,), [shared + first]
    for own in more:
        key, whole = (partition, *own[0].order), shared + own
        for at in range(0, len(whole), exchange.MOST_IN_ELEMENT):
            yield beam.pvalue.TaggedOutput(_MORE, (key, whole[at : at + exchange.MOST_IN_ELEMENT]))


def _piece(
    get: Callable[..., exchange.Received], key: tuple[int, ...], sent: Iterable[Any], folder: str
) -> exchange.Received:
    """Returns the payloads of a piece."""
    received = get(key, sent, folder)
    # Merged files may have messages of both kinds; those of kind 1 are the first piece's.
    own = [order[0] == 0 or order >= key[1:] for order in received.orders]
    return exchange.Received(
        key,
        tuple(itertools.compress(received.contents, own)),
        tuple(itertools.compress(received.orders, own)),
    )


def by_number(
    records: npt.NDArray[Any], numbers: npt.NDArray[np.int64], count: int
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yields the records of each number that has some, in order.

    Args:
      records: of a structured dtype, one for each number.
      numbers: from 0, such as partitions.
      count: of the numbers that there may be.
    """
    # NumPy sorts 16-bit numbers in linear time.
    small = numbers.astype(np.uint16) if count <= 1 << 16 else numbers
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    # Indexing copies records field by field, np.take whole ones.
    for number, own in enumerate(np.split(np.take(records, order), ends[:-1])):
        if len(own):
            yield number, own


def cut_by_key(
    batch: pa.RecordBatch, on: Sequence[str], partitions: int
) -> dict[int, pa.RecordBatch]:
    """Cuts a batch into partitions by the hash of its key columns.

    Rows keep their order; nulls hash as one value.
    """
    hashes = _native.hash_rows([batch.column(name) for name in on], _PARTITION_SEED)
    numbers = (hashes % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=partitions)
    grouped = take_rows(batch, order)
    starts = np.cumsum(sizes) - sizes
    return {
        partition: grouped.slice(int(starts[partition]), int(size))
        for partition, size in enumerate(sizes)
        if size
    }


def send_rows(
    order: tuple[int, ...],
    parts: Mapping[int, pa.RecordBatch],
    about: Mapping[str, Any] | None = None,
) -> exchange.Message:
    """Sends rows to their partitions, as ``core.ipc.pack`` packs them.

    Args:
      order: of the message.
      parts: partition -> its rows.
      about: JSON data for each partition.
    """
    return exchange.Message(
        order, {part: pack([PackedBatch(rows, about or {})]) for part, rows in parts.items()}
    )


def send_chunk(chunk: Chunk, kind: int) -> exchange.Message:
    """Sends a chunk to its range.

    Args:
      chunk: with all columns that come back.
      kind: first number of the message's order.
    """
    # A file stays in the page cache, where compression costs more than it saves.
    payload = pack([PackedBatch(chunk.batch, chunk.about())], None)
    return exchange.Message((kind, chunk.range_number, chunk.part), {chunk.range_number: payload})


def send_counts(chunk: Chunk, kind: int = 0) -> exchange.Message:
    """Sends a chunk without its rows to its range."""
    nothing = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    return send_chunk(chunk._replace(batch=nothing), kind)


class Node(NamedTuple):
    """A value with the address of its first chunk, which orders it."""

    order: tuple[int, ...]
    value: Any


@dataclasses.dataclass
class MergeTree(beam.PTransform):
    """Merges 16 neighbours at a time, level by level.

    So the result depends neither on the order of arrival nor on the number of workers.

    Input: ``Message`` elements with partitions ``(group, leaf number)`` and values as bytes;
    several may have one leaf. Output: as ``SendMessages`` gives it; ``receive_all`` returns the
    values in order.

    Attributes:
      leaves: number of leaves; leaf numbers are below it.
      merge: merges the values of a ``Received``, in order.
      folder: as in ``SendMessages``.
      most: numbers that may be left for each group.
    """

    leaves: int
    merge: Callable[[exchange.Received], bytes]
    folder: str
    most: int = FAN_IN

    def expand(
        self, messages: beam.PCollection[exchange.Message]
    ) -> beam.PCollection[tuple[Any, list[exchange.Sent]]]:
        width, level = self.leaves, 0
        while width > self.most:
            folder = files.join(self.folder, f"level{level}")
            merge = partial(_merge_node, merge=self.merge)
            messages = messages | f"Merge{level}" >> MeetByKey(
                _to_parents, merge, folder, merges=False
            )
            width, level = -(-width // FAN_IN), level + 1
        return messages | "Send" >> exchange.SendMessages(self.folder)


def _merge_node(
    received: exchange.Received, merge: Callable[[exchange.Received], bytes]
) -> Iterator[exchange.Message]:
    yield exchange.Message(received.orders[0], {received.partition: merge(received)})


def _to_parents(message: exchange.Message) -> exchange.Message:
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
