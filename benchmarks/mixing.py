"""Measures how well orders of rows are mixed.

On rows that are sorted by a label of ten equal classes, and on rows that were shuffled when they
were written, it computes for each order of one epoch: the correlation of the labels of neighbours
in a global batch; how far the labels of a batch are from those of all rows, as chi squared over its
expected value in a full shuffle (1 is as good as one, 0 is an even share of each class); the
correlation of a row's position with its stored position; and the share of the pairs of a batch that
were in one batch in the epoch before.

  python benchmarks/mixing.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from beam_pipelines.reader.order import MOST_PARTS, divide, make_epoch, spread, take
from beam_pipelines.tfrecord.part_index import EXTENT_BYTES, RUN_BYTES

Int64s = npt.NDArray[np.int64]

CLASSES = 10
# A dataset of 40 columns: rows of a part of 256 KiB, and parts of a shard of 128 MiB.
PART_ROWS, SHARD_PARTS = 420, 512
PART_BYTES = 256 << 10


def by_parts(
    rows: int, batch_size: int, rng: np.random.Generator, is_shuffled: bool, ranks: int = 1
) -> Int64s:
    """Returns the order of ``Dataset.batches``, of shuffled rows or others.

    One rank's batches of ``batch_size`` follow those of the other.
    """
    parts = rows // PART_ROWS
    extents, runs = (
        np.append(np.arange(0, parts, size // PART_BYTES if is_shuffled else 1), parts)
        for size in (EXTENT_BYTES, RUN_BYTES)
    )
    rows_of_parts, seed = np.full(parts, PART_ROWS), int(rng.integers(1 << 30))
    epoch = make_epoch(rows_of_parts, extents, runs, PART_BYTES * parts, seed, 0, True)
    starts = np.arange(0, parts * PART_ROWS - batch_size * ranks + 1, batch_size * ranks)
    sizes = np.full(len(starts), batch_size * ranks)
    taken = take(epoch, 0, np.arange(len(starts)), starts, starts + sizes)
    orders = np.concatenate(
        [
            epoch.permutation(places) + np.repeat(_shift(epoch.parts[places]), PART_ROWS)
            for places in np.split(np.arange(parts), range(MOST_PARTS, parts, MOST_PARTS))
        ]
    )
    found = []
    for rank in range(ranks):
        own, own_sizes = divide([taken], sizes, rank, ranks)
        counts = own.ends - own.starts
        begins = own.places * PART_ROWS + own.starts - np.cumsum(counts) + counts
        places = np.arange(int(counts.sum())) + np.repeat(begins, counts)
        found.append(orders[places][spread(7, own_sizes)])
    return np.concatenate(found)


def _shift(parts: Int64s) -> Int64s:
    """Returns what to add to rows of a block of parts."""
    return (parts - np.arange(len(parts))) * PART_ROWS


def by_buffer(rows: int, rng: np.random.Generator, buffer: int) -> Int64s:
    """Returns the order of tf.data: shards in random order, then ``shuffle(buffer)``."""
    shard_rows = PART_ROWS * SHARD_PARTS
    shards = rng.permutation(-(-rows // shard_rows))
    stored = np.concatenate(
        [np.arange(shard * shard_rows, min(rows, (shard + 1) * shard_rows)) for shard in shards]
    )
    order = np.empty(rows, np.int64)
    held = stored[:buffer].tolist()
    random = rng.integers(0, buffer, rows)
    for place, row in enumerate(stored[buffer:].tolist()):
        at = random[place]
        order[place], held[at] = held[at], row
    order[rows - len(held) :] = rng.permutation(held)
    return order


def by_blocks(rows: int, rng: np.random.Generator, block: int, nodes: int) -> Int64s:
    """Returns the order of MosaicML's py1e.

    Samples move to a random place at most half a block from their own, in a random order of shards
    that canonical nodes divide; a batch takes turns at the nodes.
    """
    shard_rows = PART_ROWS * SHARD_PARTS // 2  # 64 MiB, its default
    shards = rng.permutation(-(-rows // shard_rows))
    stored = np.concatenate(
        [np.arange(shard * shard_rows, min(rows, (shard + 1) * shard_rows)) for shard in shards]
    )
    parts = []
    for part in np.array_split(stored, nodes):
        shifts = rng.uniform(-block / 2, block / 2, len(part))
        parts.append(part[np.argsort(np.arange(len(part)) + shifts)])
    length = min(map(len, parts))
    return np.stack([part[:length] for part in parts], axis=1).reshape(-1)


def measures(order: Int64s, labels: Int64s, batch_size: int) -> tuple[float, float, float]:
    """Returns the three measures of an order."""
    found = labels[order]
    batches = found[: len(found) // batch_size * batch_size].reshape(-1, batch_size)
    neighbours = np.corrcoef(batches[:, :-1].ravel(), batches[:, 1:].ravel())[0, 1]
    counts = np.stack([(batches == number).sum(axis=1) for number in range(CLASSES)], axis=1)
    expected = np.bincount(labels, minlength=CLASSES) / len(labels) * batch_size
    chi = ((counts - expected) ** 2 / expected).sum(axis=1).mean() / (CLASSES - 1)
    position = np.corrcoef(np.arange(len(order)), order)[0, 1]
    return float(neighbours), float(chi), float(position)


def met_again(order: Int64s, before: Int64s, batch_size: int) -> float:
    """Returns the share of a batch's pairs that one earlier batch had.

    Args:
      order, before: of this epoch and of the one before.
      batch_size: of both.
    """
    batches = len(order) // batch_size
    batch_before = np.full(int(max(order.max(), before.max())) + 1, -1)
    batch_before[before] = np.arange(len(before)) // batch_size
    found = batch_before[order[: batches * batch_size]]
    number = np.arange(batches * batch_size) // batch_size
    _, counts = np.unique(number * (batches + 1) + found, return_counts=True)
    pairs = batches * batch_size * (batch_size - 1)
    return float((counts * (counts - 1)).sum() / pairs)


def orders(rows: int, batch_size: int) -> Iterator[tuple[str, Callable[[], Int64s]]]:
    """Yields the orders to compare; each call is another epoch."""
    rng = np.random.default_rng(1)
    yield "full shuffle", lambda: rng.permutation(rows)
    yield "`batches`, extents of 4 MiB", lambda: by_parts(rows, batch_size, rng, True)
    yield "the same, a rank of 8", lambda: by_parts(rows, batch_size, rng, True, 8)
    yield "`batches`, parts of 256 KiB", lambda: by_parts(rows, batch_size, rng, False)
    yield "the same, a rank of 8", lambda: by_parts(rows, batch_size, rng, False, 8)
    yield "tf.data, `shuffle(10_000)`", lambda: by_buffer(rows, rng, 10_000)
    yield "tf.data, `shuffle(54_000)`, 32 MiB", lambda: by_buffer(rows, rng, 54_000)
    yield "py1e, blocks of 500,000 for 8 nodes", lambda: by_blocks(rows, rng, 500_000, 8)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_300_800)
    parser.add_argument("--batch_size", type=int, default=1024)
    arguments = parser.parse_args()
    rows = arguments.rows // PART_ROWS * PART_ROWS
    is_sorted = np.arange(rows) * CLASSES // rows
    kinds = {
        "shuffled when written": np.random.default_rng(2).permutation(is_sorted),
        "sorted by the label": is_sorted,
    }
    found = [(name, make(), make()) for name, make in orders(rows, arguments.batch_size)]
    for title, labels in kinds.items():
        print(f"\n{title}\n\n| | neighbours | labels of a batch | position | met again |")
        print("|---|---:|---:|---:|---:|")
        for name, order, before in found:
            neighbours, chi, position = measures(order, labels, arguments.batch_size)
            again = met_again(order, before, arguments.batch_size)
            print(f"| {name} | {neighbours:.3f} | {chi:.2f} | {position:.3f} | {again:.3%} |")


if __name__ == "__main__":
    main()
