"""Fits a recipe's encodings in one pass over the data.

The pass runs the analyzers of the encodings over the splits to fit on. Moments and quantiles are
small: one per chunk, merged along a fixed tree. Keyed sums grow with the number of distinct values:
computed per batch, added per bundle, partitioned by a hash of the key and merged per partition;
only the rows that the analyzer selects go on. All analyzers of a recipe share the pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings import Encoding, Feature, Fitted, analyzers, apply
from beam_pipelines.encodings.plan import EncodePlan, needs_fit, with_fitted
from beam_pipelines.encodings.stored import FittedSteps
from beam_pipelines.files.beam import files
from beam_pipelines.transforms import exchange
from beam_pipelines.transforms.encode import load_encodings, load_fitted, save_encodings
from beam_pipelines.transforms.meet import MeetByKey, MergeTree, Node, merge_in_order

# Another seed than that of joins, indexes and splits.
_PARTITION_SEED = 0x74616C6C79
# Bytes of the base source per partition of keyed sums; bounds the memory of a merge.
PARTITION_BYTES = 128 << 20
# Keyed sums that a worker keeps before it adds them up.
_BUFFER_BYTES = 64 << 20

Analyses: TypeAlias = Mapping[analyzers.StepKey, analyzers.Analysis]
Numbers: TypeAlias = Mapping[analyzers.StepKey, analyzers.Moments | analyzers.Quantiles]


def analyze_batch(
    plan: EncodePlan, read: int, batch: pa.RecordBatch, where: str
) -> dict[analyzers.StepKey, analyzers.Analysis]:
    """Returns one batch's analysis for each encoding that a pass fits.

    Args:
      plan: with the encodings of earlier passes fitted.
      read: number of the pass, from 0.
      batch: the selected columns of rows to fit on.
      where: the file of the batch, for error messages.

    Returns:
      For each step: its moments, quantiles, or keyed sums.

    Raises:
      DataError: an encoding cannot take a value.
    """
    numbers, names = _needed(plan, read)
    convert = apply.conversions(plan)
    features = {
        name: apply.apply_to(
            convert.get(name, apply.to_input),
            (batch.column(name),),
            f"{where}, column '{name}'",
            name,
        )
        for name in batch.schema.names
        if name in names
    }
    analyses: dict[analyzers.StepKey, analyzers.Analysis] = {}
    for number in numbers:
        chain = plan.chains[number]
        arrays = tuple(features[name] for name in chain.inputs)
        for index, step in enumerate(chain.steps):
            if not needs_fit(step):
                place = f"{where}, feature '{chain.name}'"
                arrays = (apply.apply_to(step.fitted.apply, arrays, place),)
                continue
            if step.read > read:
                break
            encoding = step.declared
            analyzer = encoding.analyzer
            analyses[number, index] = (
                analyzer.of(arrays[0])
                if isinstance(analyzer, type)
                else cast("analyzers.KeyedSums", analyzer).count(arrays[0])
            )
            if not encoding.fills:
                break
            arrays = (_unfilled(encoding, arrays[0]),)
        else:
            features[chain.name] = arrays[0]
    return analyses


def _needed(plan: EncodePlan, read: int) -> tuple[list[int], set[str]]:
    """Returns the numbers of chains to evaluate, and the columns' names.

    These are the chains with an encoding to fit, and the chains on which those depend.
    """
    numbers: list[int] = []
    names: set[str] = set()
    for number, chain in reversed(list(enumerate(plan.chains))):
        is_read = any(needs_fit(step) and step.read == read for step in chain.steps)
        if not is_read and chain.name not in names:
            continue
        numbers.insert(0, number)
        names.discard(chain.name)
        names.update(chain.inputs)
    return numbers, names


def _unfilled(encoding: Encoding, array: pa.Array) -> pa.Array:
    """Returns the output of an unfitted ``fill``.

    It is null where the fitted one will fill null and NaN.
    """
    array = pc.if_else(pc.is_nan(array), None, array) if pa.types.is_floating(array.type) else array
    # Filling integers with a mean makes them float64.
    return array.cast(encoding.output(Feature(array.type)).type, safe=False)


def finish_read(
    plan: EncodePlan, read: int, analyses: Analyses
) -> dict[analyzers.StepKey, tuple[str, Fitted]]:
    """Fits the encodings of a pass to the merged analyses.

    Where an encoding of the same pass fills nulls, the analyses of the next steps of the chain
    count these nulls as the fill value.

    Raises:
      DataError: an encoding cannot be fitted (no values, say).
    """
    result: dict[analyzers.StepKey, tuple[str, Fitted]] = {}
    inputs = plan.step_inputs()
    for number, chain in enumerate(plan.chains):
        filled: pa.Array | None = None  # the value of a null after the steps so far
        for index, step in enumerate(chain.steps):
            encoding = step.encoding
            if needs_fit(step) and step.read == read and isinstance(encoding, Encoding):
                analysis = analyses[number, index]
                if (
                    filled is not None
                    and isinstance(analysis, analyzers.Moments | analyzers.Quantiles)
                    and filled[0].is_valid
                ):
                    analysis = analysis.with_nulls_as(float(filled[0].as_py()))
                try:
                    fitted = encoding.fit(analysis)
                except ValueError as error:
                    raise DataError(f"feature '{chain.name}', {step.kind}: {error}") from error
                result[number, index] = step.kind, fitted
                filled = (
                    fitted.apply(pa.nulls(1, inputs[number, index][0].type))
                    if encoding.fills
                    else None
                )
            elif needs_fit(step):
                break
            elif filled is not None and isinstance(encoding, Fitted):
                filled = encoding.apply(filled)
    return result


def add_sums(sums: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the sums of all batches by key."""
    table = pa.Table.from_batches(sums)
    names = [name for name in table.schema.names if name != "key"]
    added = table.group_by("key", use_threads=False).aggregate([(name, "sum") for name in names])
    columns = [added.column("key"), *(added.column(f"{name}_sum") for name in names)]
    merged = pa.Table.from_arrays(columns, ["key", *names]).combine_chunks().to_batches()
    return merged[0] if merged else sums[0].slice(0, 0)


def fit_batch(plan: EncodePlan, batch: pa.RecordBatch, where: str) -> EncodePlan:
    """Returns the plan fitted to one batch in all passes, without Beam.

    Args:
      plan: of the encodings.
      batch: the selected columns of rows to fit on.
      where: the file of the batch, for error messages.

    Raises:
      DataError: see ``analyze_batch`` and ``finish_read``.
    """
    for read in range(plan.reads):
        analyses = analyze_batch(plan, read, batch, where)
        for (number, index), value in analyses.items():
            if isinstance(value, pa.RecordBatch):
                analyzer = cast(
                    "analyzers.KeyedSums", plan.chains[number].steps[index].declared.analyzer
                )
                analyses[number, index] = analyzer.select(add_sums([value]))
        plan = with_fitted(plan, finish_read(plan, read, analyses))
    return plan


@dataclasses.dataclass
class FitEncodings(beam.PTransform):
    """Fits the encodings of one pass.

    Input: ``Chunk`` elements of all splits. Output: one element, the folder of the fitted
    encodings, with those of earlier passes. Its bytes depend on neither the order of the chunks nor
    the number of workers.

    Attributes:
      plan: of the encodings.
      read: number of the pass, from 0.
      earlier: folder of the pass before, complete when the first chunk arrives; ``""`` in the
        first pass.
      num_ranges: number of ranges of the base source.
      size_bytes: of the base source.
      folder: where the fitted encodings are written.
      scratch: folder for numbers and selected keyed sums, used by this step alone.
      exchange: folder of ``Exchange`` for keyed sums, which grow with the distinct values.
      after: checks that pass before the encodings are fitted.
    """

    plan: EncodePlan
    read: int
    earlier: str
    num_ranges: int
    size_bytes: int
    folder: str
    scratch: str
    exchange: str
    after: tuple[beam.PCollection[None], ...] = ()

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[str]:
        partitions = 1 + self.size_bytes // PARTITION_BYTES
        analyze = _AnalyzeChunks(self.plan, self.read, self.earlier, partitions)
        analyses = (
            chunks
            | "ToFitOn"
            >> beam.Filter(lambda chunk, splits: chunk.split in splits, self.plan.fit.splits)
            | "Analyze" >> beam.ParDo(analyze).with_outputs("sums", main="numbers")
        )
        numbers = analyses.numbers | "MergeNumbers" >> MergeTree(
            self.num_ranges, _merge_received, files.join(self.scratch, "numbers")
        )
        selected = (
            analyses.sums
            | "Select" >> MeetByKey(None, partial(select_partition, plan=self.plan), self.exchange)
            | "Send" >> exchange.SendMessages(files.join(self.scratch, "selected"))
        )
        return (
            chunks.pipeline
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.Map(
                lambda _, *own: _finish(*own[:7]),
                self.plan,
                self.read,
                self.folder,
                beam.pvalue.AsList(numbers),
                beam.pvalue.AsList(selected),
                self.scratch,
                self.earlier,
                *map(beam.pvalue.AsList, self.after),
            )
        )


class _AnalyzeChunks(beam.DoFn):
    """Analyzes chunks, and yields numbers and keyed sums.

    Yields numbers for each chunk, and keyed sums for as many chunks as fit the buffer.
    """

    def __init__(self, plan: EncodePlan, read: int, earlier: str, partitions: int) -> None:
        self._plan, self._read, self._earlier, self._partitions = plan, read, earlier, partitions
        self._loaded: EncodePlan | None = None

    def start_bundle(self) -> None:
        self._waiting: dict[analyzers.StepKey, list[pa.RecordBatch]] = {}
        self._first: tuple[int, int] | None = None

    def process(self, chunk: Chunk) -> Iterator[Any]:
        if self._loaded is None:
            self._loaded = load_fitted(self._plan, self._earlier)
        address = (chunk.range_number, chunk.part)
        analyses = analyze_batch(self._loaded, self._read, chunk.batch, chunk.path)
        numbers = {
            key: value for key, value in analyses.items() if not isinstance(value, pa.RecordBatch)
        }
        if numbers:
            yield exchange.Message(
                address, {(0, chunk.range_number): analyzers.numbers_to_bytes(numbers)}
            )
        sums = {key: value for key, value in analyses.items() if isinstance(value, pa.RecordBatch)}
        self._first = self._first or address
        for key, batch in sums.items():
            self._waiting.setdefault(key, []).append(batch)
        waiting = (batch for batches in self._waiting.values() for batch in batches)
        if sum(batch.nbytes for batch in waiting) > _BUFFER_BYTES:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        for output in self._flush():
            yield beam.pvalue.TaggedOutput("sums", GlobalWindows.windowed_value(output.value))

    def _flush(self) -> Iterator[beam.pvalue.TaggedOutput]:
        if self._waiting and self._first is not None:
            message = pack_sums(self._first, self._waiting, self._partitions)
            yield beam.pvalue.TaggedOutput("sums", message)
        self._waiting, self._first = {}, None


def pack_sums(
    order: tuple[int, ...],
    sums: Mapping[analyzers.StepKey, Sequence[pa.RecordBatch]],
    partitions: int,
) -> exchange.Message:
    """Adds up sums by key, for the partitions of their steps.

    The key determines the partition.
    """
    cut: dict[tuple[int, ...], bytes] = {}
    for step, batches in sums.items():
        added = add_sums(batches)
        numbers = _native.hash_column(added.column("key"), _PARTITION_SEED) % np.uint64(partitions)
        for partition in range(partitions):
            part = added if partitions == 1 else added.filter(pa.array(numbers == partition))
            key = (*step, partition)
            if part.num_rows:
                cut[key] = batches_to_bytes([part], "lz4")
    return exchange.Message(order, cut)


def select_partition(received: exchange.Received, plan: EncodePlan) -> Iterator[exchange.Message]:
    """Adds up one partition's sums; yields the rows that are selected."""
    number, index, partition = received.partition
    analyzer = cast("analyzers.KeyedSums", plan.chains[number].steps[index].declared.analyzer)
    selected = analyzer.select(add_sums(_batches(received)))
    yield exchange.Message((partition,), {(number, index): batches_to_bytes([selected], "lz4")})


def _batches(received: exchange.Received) -> list[pa.RecordBatch]:
    return [bytes_to_batches(payload)[0] for payload in received.payloads()]


def _merge_received(received: exchange.Received) -> bytes:
    return analyzers.numbers_to_bytes(
        merge_numbers([analyzers.numbers_from_bytes(payload) for payload in received.payloads()])
    )


def merge_numbers(parts: Sequence[Numbers]) -> Numbers:
    """Merges moments and quantiles in order, step by step."""
    merged: dict[analyzers.StepKey, Any] = {}
    for key in parts[0]:
        own: list[Any] = [part[key] for part in parts]
        merged[key] = type(own[0]).merged(own)
    return merged


def _finish(
    plan: EncodePlan,
    read: int,
    folder: str,
    numbers: Iterable[tuple[Any, Sequence[exchange.Sent]]],
    selected: Iterable[tuple[Any, Sequence[exchange.Sent]]],
    scratch: str,
    earlier: str,
) -> str:
    before: FittedSteps = load_encodings(earlier) if earlier else {}
    plan = with_fitted(plan, before)
    # The analyses of no rows: no chunk may have sent any for a step.
    empty = pa.RecordBatch.from_pylist([], plan.columns)
    analyses = analyze_batch(plan, read, empty, "no rows")
    nodes = [
        Node(order, analyzers.numbers_from_bytes(payload))
        for own in exchange.receive_all(numbers, files.join(scratch, "numbers"))
        for order, payload in zip(own.orders, own.payloads(), strict=True)
    ]
    if nodes:
        analyses.update(merge_in_order(nodes, merge_numbers).value)
    for received in exchange.receive_all(selected, files.join(scratch, "selected")):
        batches = _batches(received)
        table = pa.Table.from_batches(batches).combine_chunks()
        analyses[received.partition] = table.to_batches()[0] if table.num_rows else batches[0]
    return save_encodings(folder, {**before, **finish_read(plan, read, analyses)})
