"""Fitting: what the encodings of a recipe learn from one read of the splits to fit on.

Numbers are small: each chunk gives its moments and distributions, which are merged along a fixed
tree. Tallies are as large as there are distinct values: counted per batch, added up per bundle, cut
by a hash of the key into partitions, and merged partition by partition; of each, only what its
encoding selects goes on. Everything that a recipe learns shares the read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.core import files, hashing
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.encodings import Encoding, Feature, Fitted
from beam_pipelines.encodings.learning import (
    Distribution,
    Learned,
    Learns,
    Moments,
    StepKey,
    ValueCounts,
    Weights,
    numbers_from_bytes,
    numbers_to_bytes,
)
from beam_pipelines.encodings.plan import EncodePlan, is_learning, load_fitted, with_fitted
from beam_pipelines.encodings.store import FittedSteps, load_encodings, save_encodings
from beam_pipelines.transforms.encode import Address, apply_step, apply_to, row_folds, to_feature
from beam_pipelines.transforms.exchange import (
    Exchange,
    Message,
    Received,
    SendMessages,
    Sent,
    receive_all,
)
from beam_pipelines.transforms.merge_tree import MergeTree, Node, merge_in_order

# Another seed than that of joins, indexes and splits.
_PARTITION_SEED = 0x74616C6C79  # b"tally"
# Of the base source, for each partition of value counts: bounds what is merged at once.
PARTITION_BYTES = 128 << 20
# Sums of several chunks that wait in a worker to be added up.
_BUFFER_BYTES = 64 << 20

Parts: TypeAlias = Mapping[StepKey, Learned]
Numbers: TypeAlias = Mapping[StepKey, Moments | Distribution]


def learn_batch(
    plan: EncodePlan, read: int, batch: pa.RecordBatch, where: str, address: Address
) -> dict[StepKey, Learned]:
    """Returns what the encodings that are fitted in a read learn from one batch.

    Args:
      plan: with the encodings of earlier reads fitted.
      read: number of the read, from 0.
      batch: the selected columns of rows to fit on.
      where: begins an error's message: the file that the batch came from.
      address: (range number, part) of its chunk.

    Returns:
      For each step: its moments, distribution, or the sums of its value counts.

    Raises:
      DataError: a value that an encoding cannot hold, or a weight that is null or negative.
    """
    weights = _weights(plan, batch, where)
    numbers, names = _needed(plan, read)
    features = {
        name: apply_to(to_feature, (batch.column(name),), f"{where}, column '{name}'")
        for name in batch.schema.names
        if name in names
    }
    learned: dict[StepKey, Learned] = {}
    for number in numbers:
        chain = plan.chains[number]
        arrays = tuple(features[name] for name in chain.inputs)
        for index, step in enumerate(chain.steps):
            if not is_learning(step):
                arrays = (apply_step(step, arrays, f"{where}, feature '{chain.name}'", address),)
                continue
            if step.read > read:
                break
            encoding = step.declared
            target = features[encoding.target] if encoding.target else None
            learned[number, index] = _learn(encoding.learns, arrays[0], target, weights, address)
            if not encoding.fills:
                break
            arrays = (_unfilled(encoding, arrays[0]),)
        else:
            features[chain.name] = arrays[0]
    return learned


def _learn(
    learns: Learns | None,
    array: pa.Array,
    target: pa.Array | None,
    weights: Weights | None,
    address: Address,
) -> Learned:
    if learns in (Moments, Distribution):
        return learns.of(array, weights)
    learns = cast("ValueCounts", learns)
    folds = row_folds(address, len(array), learns.folds) if learns.folds else None
    return learns.count(array, target, weights, folds)


def _needed(plan: EncodePlan, read: int) -> tuple[list[int], set[str]]:
    """Returns the numbers of the chains to evaluate in a read, those that learn and those that they
    need, and of the columns the names.
    """
    numbers: list[int] = []
    names: set[str] = set()
    for number, chain in reversed(list(enumerate(plan.chains))):
        learning = [
            step.encoding for step in chain.steps if is_learning(step) and step.read == read
        ]
        if not learning and chain.name not in names:
            continue
        numbers.insert(0, number)
        names.discard(chain.name)
        names.update(chain.inputs)
        names.update(
            encoding.target
            for encoding in learning
            if isinstance(encoding, Encoding) and encoding.target
        )
    return numbers, names


def _weights(plan: EncodePlan, batch: pa.RecordBatch, where: str) -> Weights | None:
    if plan.fit.weight is None:
        return None
    column = batch.column(plan.fit.weight)
    weights: Weights = column.cast(pa.float64()).fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(
            f"{where}, column '{plan.fit.weight}': found {column[int(wrong[0])].as_py()}, expected "
            "a weight of at least 0. Mend it with "
            "'derive', leave its row out with 'filter', or change 'fit: {weight: …}'."
        )
    return weights


def _unfilled(encoding: Encoding, array: pa.Array) -> pa.Array:
    """Returns what an encoding that fills leaves of all values but those it will fill: null and NaN
    are null.
    """
    array = pc.if_else(pc.is_nan(array), None, array) if pa.types.is_floating(array.type) else array
    return array.cast(
        encoding.output(Feature(array.type)).type, safe=False
    )  # integers that are filled with a mean


def finish_read(plan: EncodePlan, read: int, learned: Parts) -> dict[StepKey, tuple[str, Fitted]]:
    """Fits the encodings of a read to what was learned from all of it.

    Where nulls were to be filled by an encoding of the same read, the next ones now learn what they
    are filled with.

    Raises:
      DataError: nothing can be fitted to what was learned.
    """
    result: dict[StepKey, tuple[str, Fitted]] = {}
    inputs = plan.step_inputs()
    for number, chain in enumerate(plan.chains):
        filled: pa.Array | None = None  # what a null is after the steps so far
        for index, step in enumerate(chain.steps):
            encoding = step.encoding
            if is_learning(step) and step.read == read and isinstance(encoding, Encoding):
                own = learned[number, index]
                if (
                    filled is not None
                    and isinstance(own, Moments | Distribution)
                    and filled[0].is_valid
                ):
                    own = own.with_nulls_as(float(filled[0].as_py()))
                try:
                    fitted = encoding.fit(own)
                except ValueError as error:
                    raise DataError(f"feature '{chain.name}', {step.kind}: {error}") from error
                result[number, index] = step.kind, fitted
                filled = (
                    fitted.apply(pa.nulls(1, inputs[number, index][0].type))
                    if encoding.fills
                    else None
                )
            elif is_learning(step):
                break
            elif filled is not None and isinstance(encoding, Fitted):
                filled = encoding.apply(filled)
    return result


def add_sums(sums: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the sums of all batches by key, each key once; float sums are added in the order of
    the batches.
    """
    table = pa.Table.from_batches(sums)
    names = [name for name in table.schema.names if name != "key"]
    added = table.group_by("key", use_threads=False).aggregate([(name, "sum") for name in names])
    columns = [added.column("key"), *(added.column(f"{name}_sum") for name in names)]
    merged = pa.Table.from_arrays(columns, ["key", *names]).combine_chunks().to_batches()
    return merged[0] if merged else sums[0].slice(0, 0)


@dataclasses.dataclass
class FitEncodings(beam.PTransform):
    """Fits the encodings of one read.

    Input: ``Chunk`` elements of all splits. Output: the folder of the fitted encodings, those of
    earlier reads among them, as one element. The same bytes whatever the order of the chunks and
    the number of workers.

    Attributes:
      plan: of the encodings.
      read: number of the read, from 0.
      earlier: the folder of the read before, complete when the first chunk comes; an empty text in
        the first.
      num_ranges: number of ranges of the base source.
      size_bytes: of the base source.
      folder: where the fitted encodings are written.
      scratch: folder for numbers and selected value counts, of this step alone.
      exchange: the folder of ``Exchange`` for value counts, which grow with the distinct values.
    """

    plan: EncodePlan
    read: int
    earlier: str
    num_ranges: int
    size_bytes: int
    folder: str
    scratch: str
    exchange: str | None

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[str]:
        partitions = 1 + self.size_bytes // PARTITION_BYTES
        folders = _Scratch(
            files.join(self.scratch, "numbers"), files.join(self.scratch, "selected")
        )
        learned = (
            chunks
            | "ToFitOn"
            >> beam.Filter(lambda chunk, splits: chunk.split in splits, self.plan.fit.splits)
            | "Learn"
            >> beam.ParDo(_Learn(self.plan, self.read, self.earlier, partitions)).with_outputs(
                "value_counts", main="numbers"
            )
        )
        numbers = learned.numbers | "MergeNumbers" >> MergeTree(
            self.num_ranges, _merge_received, folders.numbers
        )
        selected = (
            learned.value_counts
            | "Meet" >> Exchange(self.exchange)
            | "Select" >> beam.Map(select_partition, self.plan)
            | "Send" >> SendMessages(folders.selected)
        )
        return (
            chunks.pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.Map(
                lambda _, *own: _finish(*own),
                self.plan,
                self.read,
                self.folder,
                beam.pvalue.AsList(numbers),
                beam.pvalue.AsList(selected),
                folders,
                self.earlier,
            )
        )


class _Scratch(NamedTuple):
    """Folders of what one read has learned: merged numbers, and selected value counts."""

    numbers: str
    selected: str


class _Learn(beam.DoFn):
    """Learns from chunks: numbers of each, value counts of as many as fit the buffer."""

    def __init__(self, plan: EncodePlan, read: int, earlier: str, partitions: int) -> None:
        self._plan, self._read, self._earlier, self._partitions = plan, read, earlier, partitions
        self._loaded: EncodePlan | None = None

    def start_bundle(self) -> None:
        self._waiting: dict[StepKey, list[pa.RecordBatch]] = {}
        self._first: Address | None = None

    def process(self, chunk: Chunk) -> Iterator[Any]:
        if self._loaded is None:
            self._loaded = load_fitted(self._plan, self._earlier)
        address = (chunk.range_number, chunk.part)
        learned = learn_batch(self._loaded, self._read, chunk.batch, chunk.path, address)
        numbers = {
            key: value for key, value in learned.items() if not isinstance(value, pa.RecordBatch)
        }
        if numbers:
            yield Message(address, {(0, chunk.range_number): numbers_to_bytes(numbers)})
        value_counts = {
            key: value for key, value in learned.items() if isinstance(value, pa.RecordBatch)
        }
        # Float sums depend on the order, so they are added where the order is known.
        ordered = {key: [sums] for key, sums in value_counts.items() if _has_floats(sums)}
        if ordered:
            yield beam.pvalue.TaggedOutput(
                "value_counts", pack_sums((*address, 0), ordered, self._partitions)
            )
        self._first = self._first or address
        for key, sums in value_counts.items():
            if key not in ordered:
                self._waiting.setdefault(key, []).append(sums)
        if (
            sum(sums.nbytes for waiting in self._waiting.values() for sums in waiting)
            > _BUFFER_BYTES
        ):
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        for output in self._flush():
            yield beam.pvalue.TaggedOutput(
                "value_counts", GlobalWindows.windowed_value(output.value)
            )

    def _flush(self) -> Iterator[beam.pvalue.TaggedOutput]:
        if self._waiting and self._first is not None:
            yield beam.pvalue.TaggedOutput(
                "value_counts", pack_sums((*self._first, 1), self._waiting, self._partitions)
            )
        self._waiting, self._first = {}, None


def _has_floats(sums: pa.RecordBatch) -> bool:
    return any(pa.types.is_floating(field.type) for field in sums.schema if field.name != "key")


def pack_sums(
    order: tuple[int, ...], sums: Mapping[StepKey, Sequence[pa.RecordBatch]], partitions: int
) -> Message:
    """Adds up sums by key and sends them to the partitions of their keys."""
    cut: dict[int, list[tuple[StepKey, pa.RecordBatch]]] = {}
    for key, batches in sums.items():
        added = add_sums(batches)
        numbers = hashing.hash_column(added.column("key"), _PARTITION_SEED) % np.uint64(partitions)
        for partition in range(partitions):
            part = added if partitions == 1 else added.filter(pa.array(numbers == partition))
            if part.num_rows:
                cut.setdefault(partition, []).append((key, part))
    return Message(order, {partition: _to_bytes(parts) for partition, parts in cut.items()})


def select_partition(received: Received, plan: EncodePlan) -> Message:
    """Adds up the sums of one partition and keeps what the encodings select of them."""
    selected = []
    for (number, index), batches in _by_step(received.payloads()).items():
        value_counts = cast("ValueCounts", plan.chains[number].steps[index].declared.learns)
        selected.append(((number, index), value_counts.select(add_sums(batches))))
    return Message((received.partition,), {0: _to_bytes(selected)})


def _merge_received(received: Received) -> bytes:
    return numbers_to_bytes(
        merge_numbers([numbers_from_bytes(payload) for payload in received.payloads()])
    )


def merge_numbers(parts: Sequence[Numbers]) -> Numbers:
    """Merges moments and distributions in order, step by step."""
    merged: dict[StepKey, Any] = {}
    for key in parts[0]:
        own: list[Any] = [part[key] for part in parts]
        merged[key] = type(own[0]).merged(own)
    return merged


def _finish(
    plan: EncodePlan,
    read: int,
    folder: str,
    numbers: Iterable[tuple[Any, Sequence[Sent]]],
    selected: Iterable[tuple[Any, Sequence[Sent]]],
    folders: _Scratch,
    earlier: str,
) -> str:
    before: FittedSteps = load_encodings(earlier) if earlier else {}
    plan = with_fitted(plan, before)
    # Of no rows, so that steps are there of which no chunk had anything to say.
    nothing = learn_batch(
        plan, read, pa.RecordBatch.from_pylist([], plan.columns), "no rows", (0, 0)
    )
    learned: dict[StepKey, Learned] = dict(nothing)
    nodes = [
        Node(order, numbers_from_bytes(payload))
        for own in receive_all(numbers, folders.numbers)
        for order, payload in zip(own.orders, own.payloads(), strict=True)
    ]
    if nodes:
        learned.update(merge_in_order(nodes, merge_numbers).value)
    for received in receive_all(selected, folders.selected):
        for key, batches in _by_step(received.payloads()).items():
            table = pa.Table.from_batches(batches).combine_chunks()
            learned[key] = table.to_batches()[0] if table.num_rows else batches[0]
    return save_encodings(folder, {**before, **finish_read(plan, read, learned)})


def _by_step(payloads: Iterable[bytes]) -> dict[StepKey, list[pa.RecordBatch]]:
    batches: dict[StepKey, list[pa.RecordBatch]] = {}
    for payload in payloads:
        for key, batch in _from_bytes(payload):
            batches.setdefault(key, []).append(batch)
    return batches


def _to_bytes(parts: Sequence[tuple[StepKey, pa.RecordBatch]]) -> bytes:
    """Returns a line of JSON, [chain, step, length] of each part, and then the parts as Arrow
    streams.
    """
    streams = [batches_to_bytes([batch], "lz4") for _, batch in parts]
    head = [[*key, len(stream)] for (key, _), stream in zip(parts, streams, strict=True)]
    return b"".join([json.dumps(head).encode(), b"\n", *streams])


def _from_bytes(payload: bytes) -> Iterator[tuple[StepKey, pa.RecordBatch]]:
    start = payload.index(b"\n") + 1
    for chain, step, length in json.loads(payload[:start]):
        for batch in bytes_to_batches(pa.py_buffer(payload).slice(start, length)):
            yield (chain, step), batch
        start += length
