"""Finds rows with similar values, by bands that meet in partitions.

Texts are compared by sets of characters (``shingles.py``). One row *precedes* another if its split
is an earlier one, or, without splits, if its position is. A row is near if a row that
precedes it is similar, whether or not that one is near itself.

Three exchanges move no more than hashes, addresses and values:

1. Hashes of bands go to partitions. Rows that agree in a band are candidates, each with at most
   ``_MOST_FIRST`` different values that precede it in its band. Of equal values the first one is
   enough.
2. Requests go to the ranges of the earlier rows, where they meet the ranges' values.
3. These values, and the candidates, go to the ranges of the later rows, which compare them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.checks.meet import hash_name
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import concat_batches, take_rows
from beam_pipelines.core.chunks import PLACE, Chunk
from beam_pipelines.transforms.exchange import Message, Received, load_payload
from beam_pipelines.transforms.meet import by_number
from beam_pipelines_plugins.near import shingles

# Partitions for each one of hashes of whole rows: a row has a hash of each of some 20 bands.
PARTITIONS = 32
# Values that a row is compared with in one band: of thousands that are all similar, a few will do.
_MOST_FIRST = 16
# Pairs that are compared at a time.
_BLOCK = 1 << 16
# Candidates that are held before those that occur twice are left out.
_MOST_ADDED = 1 << 20
_SENT = np.dtype([("band", "<u8"), ("value", "<u8"), ("row", "<u4"), ("split", "u1")])
_ADDRESS = [("range", "<u4"), ("part", "<u4"), ("row", "<u4")]
# A row whose value another range asks for.
_REQUEST = np.dtype([("to", "<u4"), *_ADDRESS[1:]])
# A candidate: the later row in its range, and the address of the earlier one, with its split.
_PAIR = np.dtype(
    [("own_part", "<u4"), ("own_row", "<u4"), ("own_split", "u1"), ("split", "u1"), *_ADDRESS]
)
# First numbers in the order of messages to a range.
REQUESTS, PAIRS, VALUES, ROWS = range(4)

Array = npt.NDArray[Any]


class NearRule(NamedTuple):
    """How values are compared.

    Attributes:
      meet: its name.
      similarity: the least of similar rows.
      partitions: of the hashes.
    """

    meet: str
    similarity: float
    partitions: int

    @property
    def column(self) -> str:
        """The column of values that chunks carry."""
        return hash_name(self.meet)


def send_bands(
    chunk: Chunk, rule: NearRule, splits: npt.NDArray[np.uint8] | None = None
) -> Message:
    """Sends the hashes of a chunk's bands to their partitions.

    Rows without a value have none.

    Args:
      chunk: with the column of values.
      rule: how they are compared.
      splits: of the rows, or ``None``.
    """
    rows, bands, values = _bands_of(chunk.batch.column(rule.column), rule.similarity)
    table = np.empty(bands.shape, _SENT)
    table["band"], table["value"] = bands, values[:, None]
    table["row"] = numbers_of(chunk)[rows, None]
    table["split"] = 0 if splits is None else splits[rows, None]
    sent = table.ravel()
    # The rows stay in order in each partition.
    parts = (sent["band"] % np.uint64(rule.partitions)).astype(np.int64)
    payloads = {part: own.tobytes() for part, own in by_number(sent, parts, rule.partitions)}
    return Message((chunk.range_number, chunk.part), payloads)


def _bands_of(
    values: pa.Array, similarity: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Returns rows with a value, hashes of bands, and of values."""
    found = _native.band_hashes(values, *shingles.plan_bands(similarity))
    rows = np.flatnonzero(found[:, -1] != 0)
    return rows, found[rows, :-1], found[rows, -1]


def numbers_of(chunk: Chunk) -> npt.NDArray[np.int64]:
    """Returns the numbers of a chunk's rows after selection, ascending."""
    if PLACE in chunk.batch.schema.names:
        numbers: npt.NDArray[np.int64] = chunk.batch.column(PLACE).to_numpy()
        return numbers
    return np.arange(chunk.batch.num_rows)


def find_candidates(received: Received, has_splits: bool) -> Iterator[Message]:
    """Yields the requests and the candidates of one partition of hashes.

    Args:
      received: of ``send_bands``.
      has_splits: whether the earlier row has to be in an earlier split.
    """
    contents = [np.frombuffer(payload, _SENT) for payload in received.payloads()]
    sent = np.concatenate(contents)
    messages = np.repeat(np.arange(len(contents)), [len(content) for content in contents])
    firsts, laters = _pairs(sent, has_splits)
    ids = messages << 32 | sent["row"].astype(np.int64)
    pairs = np.unique(np.stack([ids[laters], ids[firsts]]), axis=1, return_index=True)[1]
    firsts, laters = firsts[pairs], laters[pairs]
    orders = np.array(received.orders, np.int64).reshape(-1, 2)[messages]
    if not len(firsts):
        return
    found = np.empty(len(firsts), _PAIR)
    found["own_part"], found["own_row"] = orders[laters, 1], sent["row"][laters]
    found["own_split"], found["split"] = sent["split"][laters], sent["split"][firsts]
    found["range"], found["part"] = orders[firsts].T
    found["row"] = sent["row"][firsts]
    ranges = orders[laters, 0]
    count = int(orders[:, 0].max()) + 1
    order = (PAIRS, received.partition, 0)
    yield Message(order, {n: own.tobytes() for n, own in by_number(found, ranges, count)})
    asked = np.unique(np.stack([found["range"], ranges, found["part"], found["row"]]), axis=1)
    requests = np.empty(asked.shape[1], _REQUEST)
    requests["to"], requests["part"], requests["row"] = asked[1:]
    of = by_number(requests, asked[0].astype(np.int64), count)
    yield Message((REQUESTS, received.partition, 0), {n: own.tobytes() for n, own in of})


def _pairs(sent: Array, has_splits: bool) -> tuple[Array, Array]:
    """Returns earlier and later rows that agree in a band.

    Each row is compared with the first row of its value, if that one precedes it; else with the
    first row of each of the first values of the band.
    """
    order = _several(sent["band"])
    order = order[np.lexsort((sent["split"][order], sent["band"][order]))]
    own = sent[order]
    places = np.arange(len(order))
    by_value = np.lexsort((places, own["value"], own["band"]))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (own["band"][by_value][1:] != own["band"][by_value][:-1]) | (
        own["value"][by_value][1:] != own["value"][by_value][:-1]
    )
    first = np.empty(len(order), np.int64)
    first[by_value] = by_value[np.maximum.accumulate(np.where(is_new, places, 0))]
    precedes = own["split"][first] < own["split"] if has_splits else first < places
    firsts, laters = [first[precedes]], [places[precedes]]
    starts = np.maximum.accumulate(
        np.where(np.r_[True, own["band"][1:] != own["band"][:-1]][: len(order)], places, 0)
    )
    # The first rows of the values, and for each row those of its band.
    heads = np.flatnonzero(first == places)
    begin = np.searchsorted(heads, starts)
    left = np.flatnonzero(~precedes)
    for number in range(_MOST_FIRST):
        at = begin[left] + number
        inside = at < len(heads)
        left, at = left[inside], at[inside]
        head = heads[at]
        is_before = head < left
        if has_splits:
            is_before &= own["split"][head] < own["split"][left]
        # A band's later heads precede no row that an earlier one does not precede.
        left, head = left[is_before], head[is_before]
        if not len(left):
            break
        firsts.append(head)
        laters.append(left)
    return order[np.concatenate(firsts)], order[np.concatenate(laters)]


def _several(band: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Returns the places of bands that occur several times, ascending."""
    order = np.argsort(band)
    ordered = band[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    occurs = np.zeros(len(band), bool)
    occurs[order[same]] = True
    occurs[order[same + 1]] = True
    return np.flatnonzero(occurs)


def send_values(chunk: Chunk, column: str) -> Message:
    """Sends the values of a chunk to its own range."""
    columns = [pa.array(numbers_of(chunk)), chunk.batch.column(column)]
    payload = _written(pa.RecordBatch.from_arrays(columns, ["row", "value"]))
    return Message((VALUES, chunk.range_number, chunk.part), {chunk.range_number: payload})


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _read(payload: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


class _Distinct:
    """Rows of several payloads, each once, thinned out in time."""

    def __init__(self, kind: np.dtype[Any]) -> None:
        self._kind, self._kept, self._added = kind, np.empty(0, kind), list[Array]()

    def add(self, payload: bytes) -> None:
        """Adds the rows of a payload."""
        self._added.append(np.frombuffer(payload, self._kind))
        if sum(map(len, self._added)) > max(_MOST_ADDED, len(self._kept)):
            self.rows()

    def rows(self) -> Array:
        """Returns the rows, ordered by their fields from the last one on."""
        if self._added:
            every = np.concatenate([self._kept, *self._added])
            ordered = every[np.lexsort([every[name] for name in every.dtype.names or ()])]
            is_new = np.ones(len(ordered), bool)
            is_new[1:] = False
            for name in ordered.dtype.names or ():
                is_new[1:] |= ordered[name][1:] != ordered[name][:-1]
            self._kept, self._added = ordered[is_new], []
        return self._kept


def answer_requests(received: Received) -> Iterator[Message]:
    """Yields the values of a range that ranges ask for.

    Args:
      received: requests, then the values of the range's chunks.
    """
    asked = _Distinct(_REQUEST)
    for content, order in zip(received.contents, received.orders, strict=True):
        payload = load_payload(content)
        if order[0] == REQUESTS:
            asked.add(payload)
            continue
        requests = asked.rows()
        own = requests[requests["part"] == order[2]]
        if not len(own):
            continue
        batch, payloads = _read(payload), {}
        numbers = batch.column("row").to_numpy()
        for to, some in by_number(own, own["to"].astype(np.int64), int(own["to"].max()) + 1):
            rows = np.searchsorted(numbers, some["row"])
            payloads[to] = _written(take_rows(batch, rows))
        yield Message((VALUES, received.partition, order[2]), payloads)


class Near(NamedTuple):
    """Near rows of one chunk.

    Attributes:
      rows: their numbers after selection, ascending.
      splits: of the rows.
      firsts: the address of the first similar row: range, part, row, split; int64[n, 4].
      similarities: of both rows.
    """

    rows: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float64]


class Candidates:
    """The candidates of one range, and the values before them."""

    def __init__(self) -> None:
        self._pairs = _Distinct(_PAIR)
        self._keys = np.empty((3, 0), np.int64)
        self._batches: list[pa.RecordBatch] = []
        self._addresses: list[tuple[int, int]] = []
        self._values: pa.Array | None = None

    def add_pairs(self, payload: bytes) -> None:
        """Adds candidates of one partition; each one counts once."""
        self._pairs.add(payload)

    def add_values(self, payload: bytes, order: Sequence[int]) -> None:
        """Adds values of one chunk, in the order of chunks."""
        self._batches.append(_read(payload))
        self._addresses.append((order[1], order[2]))

    def near_rows(self, chunk: Chunk, rule: NearRule) -> Near:
        """Returns the near rows of one chunk of the range."""
        values, numbers = chunk.batch.column(rule.column), numbers_of(chunk)
        pairs = self._pairs.rows()
        pairs = pairs[pairs["own_part"] == chunk.part]
        if not len(pairs):
            nothing = np.empty(0, np.int64)
            return Near(nothing, nothing, np.empty((0, 4), np.int64), np.empty(0))
        places = self._places_of(pairs)
        found = np.empty(len(pairs))
        for start in range(0, len(pairs), _BLOCK):
            block = slice(start, start + _BLOCK)
            left = values.take(pa.array(np.searchsorted(numbers, pairs["own_row"][block])))
            right = self._table().take(pa.array(places[block]))
            found[block] = _native.similarities(left, right)
        keeps = found >= rule.similarity - 1e-12
        pairs, found = pairs[keeps], found[keeps]
        order = np.lexsort([pairs[name] for name in ("row", "part", "range", "split", "own_row")])
        pairs, found = pairs[order], found[order]
        rows, first = np.unique(pairs["own_row"], return_index=True)
        firsts = np.stack(
            [pairs[name][first].astype(np.int64) for name in ("range", "part", "row", "split")], 1
        )
        splits = pairs["own_split"][first].astype(np.int64)
        return Near(rows.astype(np.int64), splits, firsts, found[first])

    def _table(self) -> pa.Array:
        if self._values is None:
            batch = concat_batches(self._batches)
            self._values = batch.column("value")
            sizes = [own.num_rows for own in self._batches]
            addresses = np.repeat(np.array(self._addresses, np.int64), sizes, axis=0)
            self._keys = np.vstack([addresses.T, batch.column("row").to_numpy()])
            self._batches = []
        return self._values

    def _places_of(self, pairs: Array) -> npt.NDArray[np.int64]:
        """Returns where the values of the earlier rows are."""
        self._table()
        names = ("range", "part", "row")
        wanted = np.stack([pairs[name].astype(np.int64) for name in names])
        both = np.concatenate([self._keys, wanted], axis=1)
        order = np.lexsort(both[::-1])
        ordered = both[:, order]
        is_new = np.r_[True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)]
        # The known key comes first, since lexsort is stable.
        known = order[np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))]
        places = np.empty(len(order), np.int64)
        places[order] = known
        return places[self._keys.shape[1] :]
