"""TFDV's statistics of a column: its definitions as loops over tfx-bsl's sketch."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx_bsl.sketches import QuantilesSketch

STANDARD, QUANTILES = statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES


def flat(proto: Message, path: str = "") -> dict[str, Any]:
    """Returns all set fields of a message by their paths, without ``custom_stats``."""
    found: dict[str, Any] = {}
    for field, value in proto.ListFields():
        if field.name == "custom_stats":
            continue
        values = list(enumerate(value)) if field.is_repeated else [("", value)]
        for index, item in values:
            here = f"{path}.{field.name}{index}"
            found |= flat(item, here) if isinstance(item, Message) else {here: item}
    return found


def feature_of(
    rows: Sequence[Any], kind: int, weights: Sequence[float] | None, is_categorical: bool = False
) -> statistics_pb2.FeatureNameStatistics:
    """Returns the statistics of a column without null items.

    It has scalars or lists. ``kind`` is INT, FLOAT, STRING or BYTES.
    """
    proto = statistics_pb2.FeatureNameStatistics(type=kind)
    lists = [(row if isinstance(row, list) else [row]) if row is not None else None for row in rows]
    row_weights = [1.0] * len(rows) if weights is None else weights
    items = [item for row in lists if row is not None for item in row]
    item_weights = [
        weight
        for row, weight in zip(lists, row_weights, strict=True)
        if row is not None
        for _ in row
    ]
    given = None if weights is None else item_weights
    if kind == statistics_pb2.FeatureNameStatistics.BYTES:
        stats = proto.bytes_stats
        _bytes(stats, items)
    elif kind == statistics_pb2.FeatureNameStatistics.STRING or is_categorical:
        stats = proto.string_stats
        _texts(stats, [item if isinstance(item, str) else str(item) for item in items], given)
    else:
        stats = proto.num_stats
        _numbers(stats, items, given)
    _common(stats.common_stats, lists, weights)
    return proto


def _common(proto: Any, lists: Sequence[list[Any] | None], weights: Sequence[float] | None) -> None:
    lengths = [len(row) for row in lists if row is not None]
    proto.num_non_missing = len(lengths)
    proto.num_missing = len(lists) - len(lengths)
    proto.tot_num_values = sum(lengths)
    if lengths:
        proto.min_num_values, proto.max_num_values = min(lengths), max(lengths)
        proto.avg_num_values = sum(lengths) / len(lengths)
        quantiles_histogram(proto.num_values_histogram, *sketched(lengths, None, 10))
    if weights is not None:
        present = [
            (row, weight) for row, weight in zip(lists, weights, strict=True) if row is not None
        ]
        weighted = proto.weighted_common_stats
        weighted.num_non_missing = math.fsum(weight for _, weight in present)
        weighted.num_missing = math.fsum(
            w for row, w in zip(lists, weights, strict=True) if row is None
        )
        weighted.tot_num_values = math.fsum(len(row) * weight for row, weight in present)
        if weighted.num_non_missing:
            weighted.avg_num_values = weighted.tot_num_values / weighted.num_non_missing


def _bytes(proto: Any, items: Sequence[bytes]) -> None:
    lengths = [len(item) for item in items]
    if items:
        proto.avg_num_bytes = sum(lengths) / len(lengths)
        proto.min_num_bytes, proto.max_num_bytes = min(lengths), max(lengths)
        proto.max_num_bytes_int = max(lengths)
        proto.unique = len(set(items))


def _texts(proto: Any, items: Sequence[str], weights: Sequence[float] | None) -> None:
    proto.unique = len(set(items))
    if items:
        proto.avg_length = sum(len(item.encode()) for item in items) / len(items)
    _ranks(proto, collections.Counter(items), 1)
    if weights is not None:
        sums: dict[str, list[float]] = {}
        for item, weight in zip(items, weights, strict=True):
            sums.setdefault(item, []).append(weight)
        _ranks(
            proto.weighted_string_stats,
            {item: math.fsum(parts) for item, parts in sums.items()},
            1.0,
        )


def _ranks(proto: Any, counts: dict[str, float], threshold: float) -> None:
    ordered = sorted(counts.items(), key=lambda pair: (pair[1], pair[0].encode()), reverse=True)
    for rank, (value, count) in enumerate(ordered[:1000]):
        if count < threshold:
            break
        if rank < 20:
            proto.top_values.add(value=value, frequency=count)
        proto.rank_histogram.buckets.add(
            low_rank=rank, high_rank=rank, label=value, sample_count=count
        )


def _numbers(proto: Any, items: Sequence[float], weights: Sequence[float] | None) -> None:
    values = np.array(items, np.float64)
    numbers = values[~np.isnan(values)]
    nans = len(values) - len(numbers)
    if not len(numbers):
        if nans:
            proto.histograms.add(type=STANDARD, num_nan=nans)
            proto.histograms.add(type=QUANTILES, num_nan=nans)
        return
    with np.errstate(invalid="ignore"):
        # The mean of what has infinities is NaN in TFDV, and max(0, NaN) is 0.
        mean = numbers.mean() if np.isfinite(numbers).all() else math.nan
        proto.mean, proto.std_dev = mean, max(0.0, numbers.std())
    proto.num_zeros = int((numbers == 0).sum())
    proto.min, proto.max = numbers.min(), numbers.max()
    proto.median = _histograms(proto, numbers, None, nans)
    if weights is not None:
        chosen = np.array(weights)[~np.isnan(values)]
        proto.weighted_numeric_stats.SetInParent()
        counted, chosen = numbers[chosen > 0], chosen[chosen > 0]
        if len(counted):
            with np.errstate(invalid="ignore"):
                mean = np.average(counted, weights=chosen)
                mean = mean if np.isfinite(counted).all() else math.nan
                variance = max(0.0, np.average((counted - mean) ** 2, weights=chosen))
                proto.weighted_numeric_stats.mean = mean
                proto.weighted_numeric_stats.std_dev = math.sqrt(variance)
            edges = numbers[np.isfinite(numbers)]
            median = _histograms(proto.weighted_numeric_stats, counted, chosen, nans, edges)
            proto.weighted_numeric_stats.median = median


def _histograms(proto: Any, numbers: Any, weights: Any, nans: int, edges: Any = None) -> float:
    quantiles, cumulated = sketched(numbers, weights, 1000)
    ones = np.ones(len(numbers)) if weights is None else weights
    finite = numbers[np.isfinite(numbers)] if edges is None else edges
    standard = proto.histograms.add(type=STANDARD, num_nan=nans)
    standard_histogram(standard, quantiles, cumulated, finite, float(ones[numbers == np.inf].sum()))
    deciles = proto.histograms.add(num_nan=nans)
    quantiles_histogram(deciles, quantiles[::100], cumulated[::100])
    return quantiles[500]


def sketched(
    numbers: Iterable[float], weights: Any, number: int
) -> tuple[list[float], list[float]]:
    """Returns quantiles and cumulated weights like TFDV's sketch of few numbers."""
    sketch = QuantilesSketch(0.01, 1 << 32, 1)
    values = pa.array(np.array(numbers, np.float64))
    sketch.AddValues(values) if weights is None else sketch.AddValues(values, pa.array(weights))
    quantiles, cumulated = sketch.GetQuantilesAndCumulativeWeights(number)
    return quantiles.flatten().to_pylist(), cumulated.flatten().to_pylist()


def bins_of(
    quantiles: Sequence[float], cumulated: Sequence[float]
) -> list[tuple[float, float, float]]:
    """Returns the bins between quantiles; the minimum's weight goes to the first.

    Equal upper ends share their weight evenly.
    """
    steps = list(zip(quantiles[:-1], quantiles[1:], np.diff(cumulated).tolist(), strict=True))
    ending: dict[float, list[float]] = {}
    for _, high, weight in steps:
        ending.setdefault(high, []).append(weight)
    weights = [sum(ending[high]) / len(ending[high]) for _, high, _ in steps]
    first = 0
    while first < len(steps) and steps[first][:2] == steps[0][:2]:
        first += 1
    weights = [
        w + (cumulated[0] / first if place < first else 0) for place, w in enumerate(weights)
    ]
    return [(low, high, weight) for (low, high, _), weight in zip(steps, weights, strict=True)]


def quantiles_histogram(proto: Any, quantiles: Sequence[float], cumulated: Sequence[float]) -> None:
    """Fills in a QUANTILES histogram."""
    proto.type = QUANTILES
    for low, high, weight in bins_of(quantiles, cumulated):
        proto.buckets.add(low_value=low, high_value=high, sample_count=weight)


def standard_histogram(
    proto: Any, quantiles: Any, cumulated: Any, finite: Any, plus: float
) -> None:
    """Fills in a STANDARD histogram.

    Bins spread evenly over ten buckets, with infinities apart.
    """
    if not len(finite):
        proto.buckets.add(low_value=math.inf, high_value=-math.inf, sample_count=cumulated[-1])
        return
    pairs = list(zip(quantiles, cumulated, strict=True))
    minus = max((weight for value, weight in pairs if value == -math.inf), default=0.0)
    inner = [(value, weight - minus) for value, weight in pairs if value != -math.inf]
    if plus:
        inner = [(value, weight) for value, weight in inner if value != math.inf]
        inner.append((finite.max(), cumulated[-1] - minus - plus))
        proto_plus = (math.inf, math.inf, plus)
    if minus:
        proto.buckets.add(low_value=-math.inf, high_value=-math.inf, sample_count=minus)
    low, high = finite.min(), finite.max()
    edges = [low, high] if low == high else np.linspace(low, high, 11).tolist()
    source = bins_of([value for value, _ in inner], [weight for _, weight in inner])
    for place, (start, end) in enumerate(itertools.pairwise(edges)):
        count = 0.0
        for bin_low, bin_high, weight in source:
            if bin_low == bin_high:
                count += (
                    weight if start < bin_high <= end or (place == 0 and bin_high == start) else 0.0
                )
            else:
                count += (
                    weight
                    * max(0.0, min(bin_high, end) - max(bin_low, start))
                    / (bin_high - bin_low)
                )
        proto.buckets.add(low_value=start, high_value=end, sample_count=count)
    if plus:
        proto.buckets.add(
            low_value=proto_plus[0], high_value=proto_plus[1], sample_count=proto_plus[2]
        )
