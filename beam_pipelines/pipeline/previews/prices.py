"""Estimates requests of a conversion, and its price by the user's prices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.previews.estimate import Preview, Scale
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import needed_key, read_keys, recipe_key
from beam_pipelines.recipe.text.yaml import parse_yaml
from beam_pipelines.transforms.merged_files import BIN, MERGED_BYTES
from beam_pipelines.transforms.shards import PARTITION_BYTES
from beam_pipelines.transforms.shuffle import MOST_PLACES

# Requests of S3's clients: to write a file, with one more for each UPLOADED_BYTES; to read rows of
# a chunk (its size, its tail, the rows); for statistics and samples of a chunk; to write, read
# back, index and move a shard, with three more for each 2 * UPLOADED_BYTES; and of any run, such as
# merges of statistics and the files next to shards.
WRITE_REQUESTS, READ_REQUESTS, CHUNK_REQUESTS, SHARD_REQUESTS, RUN_REQUESTS = 2.5, 3, 18, 14, 420
UPLOADED_BYTES = 8 << 20
# The CPU time of the suites differs from its estimate by less (docs/scale.md).
_SPREAD = 0.25


_read_price = values.read_share("a number such as 0.17, 0 or more", lambda price: price >= 0)
_read_factor = values.read_share("a number above 0, such as 1.5", lambda factor: factor > 0)


@dataclasses.dataclass(frozen=True)
class Prices:
    """Prices of machines, storage and requests, and the size of a worker."""

    currency: str = needed_key(values.read_text, "The currency of all prices.", "EUR")
    worker_hour: float = needed_key(_read_price, "An hour of a worker.", "0.17")
    worker_cores: int = needed_key(values.read_integer(1), "Cores of a worker.", "4")
    worker_memory: int = needed_key(values.read_bytes, "Memory of a worker.", "16GB")
    storage_gb_month: float = recipe_key(_read_price, 0.0, "0", "A GB of shards for a month.")
    requests_10000: float = recipe_key(_read_price, 0.0, "0", "Requests to the storage.")
    cpu_factor: float = recipe_key(_read_factor, 1.0, "1", "CPU time there, of that in a plan.")


@dataclasses.dataclass(frozen=True)
class Price:
    """The price of a conversion.

    Attributes:
      currency: of all amounts.
      low, high: of the run and a month of storage.
      parts: the middle of ``low`` and ``high``, by cause.
      worker_bytes: memory that the processes of a worker take, one for each core.
      fits: whether a worker has as much.
    """

    currency: str
    low: float
    high: float
    parts: Mapping[str, float]
    worker_bytes: float
    fits: bool


def read_prices(path: str) -> Prices:
    """Reads a file of prices.

    Raises:
      RecipeError: a key is missing, unknown or wrong.
      DataError: the file cannot be read.
    """
    tree, lines, problems = parse_yaml(files.read_document(path).decode(), path)
    found = read_keys(
        Prices, values.Value(tree, (), problems), "a mapping such as {worker_hour: 0.17}"
    )
    with lines.explained():
        if problems:
            raise RecipeProblems(problems)
    return Prices(**found)


def price_of(scale: Scale, requests: float, prices: Prices) -> Price:
    """Returns the price of a conversion of some scale.

    Workers are counted with all cores busy: those that wait cost more. No rows go through the
    engine's shuffle.

    Args:
      scale: of the conversion.
      requests: to an object store.
      prices: of the user.
    """
    secs = sum(scale.cpu_secs.values()) * prices.cpu_factor
    parts = {
        "workers": secs / 3600 / prices.worker_cores * prices.worker_hour,
        "storage a month": scale.shard_bytes / 1e9 * prices.storage_gb_month,
        "requests": requests / 10_000 * prices.requests_10000,
    }
    total, worker = sum(parts.values()), scale.worker_bytes * prices.worker_cores
    low, high = total * (1 - _SPREAD), total * (1 + _SPREAD)
    return Price(prices.currency, low, high, parts, worker, worker <= prices.worker_memory)


def count_requests(plan: Plan, preview: Preview, scale: Scale) -> float:
    """Returns the requests to an object store, for rows and shards."""
    chunks = max(scale.ranges, scale.rows / preview.chunk_rows)
    read = scale.rows * preview.kept_bytes
    shards = sum(split.shards for split in scale.splits.values())
    framed = sum(split.rows for split in scale.splits.values()) * preview.framed_bytes
    places = max(shards, framed / PARTITION_BYTES)
    hashed = [step.partitions for step in plan.joins.steps if step.strategy == "hash"]
    grouped = [plan.groups.partitions] if plan.groups else []
    return (
        _merging(chunks, places, scale.kept_bytes, MOST_PLACES)
        + sum(_merging(chunks, count, read, count) for count in (*hashed, *hashed, *grouped))
        + chunks * CHUNK_REQUESTS
        + RUN_REQUESTS
        + shards * SHARD_REQUESTS
        + 1.5 * scale.shard_bytes / UPLOADED_BYTES
    )


def _merging(chunks: float, partitions: float, size: float, spread: float) -> float:
    """Returns the requests to write, merge and read rows.

    Args:
      chunks: which are written as files.
      partitions: to which the rows go.
      size: bytes of all rows.
      spread: partitions, at most, to which a chunk's rows go.
    """
    bins = math.ceil(partitions / BIN)
    spans = chunks * min(bins, spread / BIN + 1)
    merges = max(bins, size / MERGED_BYTES)
    written = WRITE_REQUESTS * (chunks + merges) + 2 * size / UPLOADED_BYTES
    return written + READ_REQUESTS * spans + 2 * merges * min(BIN, partitions)
