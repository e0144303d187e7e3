"""Describes the first pass' sample of rows for the report.

The sample is a hash of the rows' addresses (``transforms/size_sample.py``), so that it is the same
on any number of workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.analysis.alerts import UNKNOWN, Alert, find_merged
from beam_pipelines.analysis.report import sampled
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import concat_batches, take_rows
from beam_pipelines.core.arrow.hashing import Hashes
from beam_pipelines.core.arrow.python_values import python_rows
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.formatting import show_cell
from beam_pipelines.core.process import plugins
from beam_pipelines.encodings.apply import conversions, needed, run_chain
from beam_pipelines.encodings.array_values import flattened
from beam_pipelines.encodings.kinds.ids import FittedVocabulary
from beam_pipelines.encodings.labels import labels_behind, labels_of_features
from beam_pipelines.encodings.plan import Chain, EncodePlan

# Of all splits: shares of so many rows are within a third of a per cent of those of all rows.
_MOST_ROWS = 20_000
_MOST_ENCODINGS = 100
_EXAMPLES = 10
# Columns and features of example rows, and characters of a value.
_MOST_NAMES, _CHARACTERS = 200, 80
_Address = tuple[int, int, int, str]


class _Split(NamedTuple):
    """Sampled rows of a split, before and after encoding."""

    raw: pa.RecordBatch
    encoded: pa.RecordBatch


class LabelColumn(NamedTuple):
    """The label of sampled rows.

    Attributes:
      name: its name, or ``None``.
      classes: their names by id.
      weight: column of weights, or ``None``.
    """

    name: str | None = None
    classes: Sequence[str] = ()
    weight: str | None = None


_NO_LABEL = LabelColumn()


def describe_sample(
    plan: EncodePlan,
    splits: Sequence[str],
    raw: Sequence[Chunk],
    encoded: Sequence[Chunk],
    label: LabelColumn = _NO_LABEL,
) -> tuple[sampled.SampledRows, SampledSplits | None]:
    """Describes sampled rows, and returns them for checks.

    Args:
      plan: of the encodings, fitted.
      splits: names.
      raw, encoded: sampled chunks before and after encoding, in any order.
      label: that all columns are compared with.
    """
    whole = _by_split(splits, raw, encoded)
    sample = _thinned(whole)
    if not sample:
        return sampled.SampledRows(), None
    hashes = _hashes(whole)
    found = sampled.SampledRows(
        sum(split.raw.num_rows for split in sample.values()),
        _examples(plan, sample),
        encodings=tuple(_encodings(plan, sample)),
        compared=len(hashes),
        repeats=len(hashes) - len(np.unique(hashes)),
    )
    raw_rows, encoded_rows = (
        concat_batches(batches) for batches in zip(*sample.values(), strict=True)
    )
    alerts = *_merged(plan, raw_rows, encoded_rows), *_unknown(plan, sample)
    rows = SampledSplits(raw_rows, encoded_rows, plan, *label)
    names = () if label.name is None else plugins.installed(plugins.DESCRIPTIONS)
    own = (plugins.load(plugins.DESCRIPTIONS, name)(rows) for name in names)
    described = tuple(one for one in own if one is not None)
    return dataclasses.replace(found, alerts=alerts, described=described), rows


def _merged(plan: EncodePlan, raw: pa.RecordBatch, encoded: pa.RecordBatch) -> Iterator[Alert]:
    """Yields alerts of float32 that merge different numbers of one column."""
    chains, known = {chain.name: chain for chain in plan.chains}, {*raw.schema.names}
    for name in encoded.schema.names:
        chain = chains.get(name, Chain(name, (name,), ()))
        column, kinds = chain.inputs[0], {step.kind for step in chain.steps}
        is_new = column not in known or (column != name and column in chains)
        if is_new or kinds - {"fill", "cast"}:
            continue
        before, after = flattened(raw.column(column)), flattened(encoded.column(name))
        are_numbers = before.type in (pa.int64(), pa.float64()) and pa.types.is_float32(after.type)
        if are_numbers and len(before) == len(after):
            yield from find_merged(name, column, before, after)


def _unknown(plan: EncodePlan, sample: Mapping[str, _Split]) -> Iterator[Alert]:
    """Yields alerts of values that no id of a vocabulary stands for."""
    for chain in plan.chains[:_MOST_ENCODINGS]:
        kinds = [step.encoding for step in chain.steps]
        if any(isinstance(kind, FittedVocabulary) and not kind.num_oov for kind in kinds):
            for split, one in _coverage(plan, chain, sample).items():
                if unknown := one.values - one.known:
                    found = f"{unknown:,} of {one.values:,} sampled values of {split} are -1"
                    cure = "'num_oov: 1' gives them an id"
                    yield Alert(chain.name, UNKNOWN, f"{found}; {cure}")


def _by_split(
    splits: Sequence[str], raw: Sequence[Chunk], encoded: Sequence[Chunk]
) -> dict[str, _Split]:
    """Returns the rows of each split; nothing without any rows.

    A user function may drop rows; chunks of such rows are left out.
    """
    other = {_address(chunk): chunk.batch for chunk in encoded}
    parts: dict[str, list[_Split]] = {}
    for chunk in sorted(raw, key=_address):
        batch = other.get(_address(chunk))
        if batch is not None and 0 < batch.num_rows == chunk.batch.num_rows:
            parts.setdefault(chunk.split, []).append(_Split(chunk.batch, batch))
    joined = {
        name: _Split(*(concat_batches(batches) for batches in zip(*own, strict=True)))
        for name, own in parts.items()
    }
    if not joined:
        return {}
    none = _Split(*(batch.slice(0, 0) for batch in next(iter(joined.values()))))
    return {name: joined.get(name, none) for name in splits}


def _hashes(sample: Mapping[str, _Split]) -> Hashes:
    """Returns a hash of each row's values."""
    parts = [
        _native.hash_rows(split.raw.columns) for split in sample.values() if split.raw.num_columns
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _address(chunk: Chunk) -> _Address:
    return chunk.range_number, chunk.part, chunk.start, chunk.split


def _thinned(sample: Mapping[str, _Split]) -> dict[str, _Split]:
    """Returns every n-th row, so that there are not too many."""
    rows = sum(split.raw.num_rows for split in sample.values())
    step = -(-rows // _MOST_ROWS)
    if step <= 1:
        return dict(sample)
    return {
        name: _Split(*(take_rows(batch, np.arange(0, batch.num_rows, step)) for batch in split))
        for name, split in sample.items()
    }


def _examples(plan: EncodePlan, sample: Mapping[str, _Split]) -> sampled.Examples:
    """Returns ten rows, as many of each split as its share."""
    total = sum(split.raw.num_rows for split in sample.values())
    places = np.arange(min(_EXAMPLES, total)) * total // min(_EXAMPLES, total)
    labels, schemas, start = labels_of_features(plan), next(iter(sample.values())), 0
    names = list(dict.fromkeys(name for one in schemas for name in one.schema.names))
    rows = []
    for split, batches in sample.items():
        own = places[(start <= places) & (places < start + batches.raw.num_rows)] - start
        start += batches.raw.num_rows
        raw, encoded = (
            take_rows(batch.select([name for name in names[:_MOST_NAMES] if name in known]), own)
            for batch, known in ((batch, set(batch.schema.names)) for batch in batches)
        )
        for row, features in zip(python_rows(raw), encoded.to_pylist(), strict=True):
            cells = (_cell(name, row, features, labels) for name in names[:_MOST_NAMES])
            rows.append(sampled.Example(split, tuple(cells)))
    return sampled.Examples(
        tuple(names[:_MOST_NAMES]), tuple(rows), max(0, len(names) - _MOST_NAMES)
    )


def _cell(
    name: str, row: Mapping[str, Any], features: Mapping[str, Any], labels: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    raw = show_cell(row[name], _CHARACTERS) if name in row else None
    if name not in features:
        return raw, None
    value = features[name]
    texts = labels_behind(value if isinstance(value, list) else [value], labels.get(name, ()))
    return raw, show_cell(value, _CHARACTERS) + texts


def _encodings(plan: EncodePlan, sample: Mapping[str, _Split]) -> Iterator[sampled.EncodedFeature]:
    """Yields the encoded features that are written, in the recipe's order."""
    columns: dict[str, dict[str, ColumnStatistics]] = {}
    labels = labels_of_features(plan)
    written = next(iter(sample.values())).encoded.schema.names
    chains = [chain for chain in plan.chains if chain.name in written]
    for chain in chains[:_MOST_ENCODINGS]:
        _, used = needed(_up_to(plan, chain, chain), [chain.name])
        inputs = [name for name in plan.columns.names if name in used]
        for name in inputs:
            if name not in columns:
                columns[name] = _statistics({k: v.raw for k, v in sample.items()}, name)
        yield sampled.describe_encoding(
            chain.name,
            [step.kind for step in chain.steps],
            {name: columns[name] for name in inputs},
            _statistics({k: v.encoded for k, v in sample.items()}, chain.name),
            _coverage(plan, chain, sample),
            labels.get(chain.name, ()),
        )


def _statistics(batches: Mapping[str, pa.RecordBatch], name: str) -> dict[str, ColumnStatistics]:
    return {split: ColumnStatistics.of(batch.column(name)) for split, batch in batches.items()}


def _coverage(
    plan: EncodePlan, chain: Chain, sample: Mapping[str, _Split]
) -> dict[str, sampled.Coverage]:
    """Returns what a chain's vocabulary knows in each split; empty without one."""
    for place, step in enumerate(chain.steps):
        if isinstance(step.encoding, FittedVocabulary):
            return {
                name: _known(step.encoding, _before(plan, chain, place, split.raw))
                for name, split in sample.items()
            }
    return {}


def _before(plan: EncodePlan, chain: Chain, place: int, batch: pa.RecordBatch) -> pa.Array:
    """Returns what a step of a chain encodes."""
    convert = conversions(plan)
    chains, columns = needed(_up_to(plan, chain), chain.inputs)
    features = {name: convert[name](batch.column(name)) for name in columns}
    for one in chains:
        inputs = tuple(features[name] for name in one.inputs)
        features[one.name] = run_chain(one, inputs, "the sample")
    arrays = tuple(features[name] for name in chain.inputs)
    part = Chain(chain.name, chain.inputs, chain.steps[:place])
    return run_chain(part, arrays, "the sample")


def _up_to(plan: EncodePlan, chain: Chain, *more: Chain) -> EncodePlan:
    """Returns the plan with the chains before one, and some more."""
    chains = plan.chains[: plan.chains.index(chain)]
    return dataclasses.replace(plan, chains=(*chains, *more))


def _known(vocabulary: FittedVocabulary, values: pa.Array) -> sampled.Coverage:
    found = vocabulary.apply(flattened(values)).drop_null().to_numpy()
    size = len(vocabulary.tokens)
    known = int(np.count_nonzero((found >= 0) & (found < size)))
    return sampled.Coverage(size, len(found), known)
