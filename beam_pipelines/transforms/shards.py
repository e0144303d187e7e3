"""Plans a dataset's shards, and indexes them.

The plan is made after the first pass, before the write. The worker that writes a shard writes the
index of its parts into a file of its own, which the commit joins to those of the other shards. So
no element that crosses an engine grows with a shard.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.utils.shared import Shared

from beam_pipelines.core.chunks import MergedCounts
from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.core.layout import shard_formats
from beam_pipelines.core.layout.dataset_layout import INDEX, INDEX_SUFFIX, split_folder
from beam_pipelines.files.beam import files
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.output import Output
from beam_pipelines.tfrecord import part_index

# A shard is permuted and compressed in partitions of about this many bytes of framed examples, so
# that a writer's memory depends on neither the shard's size nor how well it compresses.
PARTITION_BYTES = 16 << 20
# A split of more shards or parts gets larger ones. One worker joins the index of 44 bytes a part,
# and readers keep it in memory.
_MOST_SHARDS, _MOST_PARTS = 50_000, 1 << 24

_NUMBER = re.compile(r"-(\d+)-of-\d+\.(tfrecord|parquet)")
_ABOUT = b"shards"
# Requests to an object store at once.
_THREADS = 16


@dataclasses.dataclass(frozen=True, eq=False)
class Offsets(Mapping[tuple[int, int], int]):
    """Address of a chunk -> rows of a split in earlier chunks.

    Attributes:
      ranges, parts: int64[chunks] each: the addresses, ascending.
      rows: int64[chunks].
    """

    ranges: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def __getitem__(self, address: tuple[int, int]) -> int:
        start, end = np.searchsorted(self.ranges, [address[0], address[0] + 1])
        place = start + np.searchsorted(self.parts[start:end], address[1])
        if place == end or self.parts[place] != address[1]:
            raise KeyError(address)
        return int(self.rows[place])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.ranges.tolist(), self.parts.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.rows)


@dataclasses.dataclass(frozen=True)
class SplitShards:
    """The shards of one split.

    Attributes:
      name: the split.
      rows: rows of the split.
      num_shards: its shard files.
      partitions_per_shard: partitions of each shard in the exchange.
      first_shard: number of its first shard among all shards of the dataset.
      part_size: most bytes of records that are compressed alone.
      offsets: of all chunks; the splits of a plan share the addresses.
    """

    name: str
    rows: int
    num_shards: int
    partitions_per_shard: int
    first_shard: int
    part_size: int
    offsets: Offsets


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """The shards of all splits, in the recipe's order.

    Attributes:
      splits: by name.
      finished: numbers, among all shards, of those that an earlier run wrote.
      columns: the features' names and types, if a format of the shards needs them.
    """

    splits: Mapping[str, SplitShards]
    finished: frozenset[int] = frozenset()
    columns: pa.Schema | None = None

    def locate(self, number: int) -> tuple[SplitShards, int]:
        """Returns the split of a shard, and its number within the split.

        Args:
          number: of the shard among all shards.
        """
        for split in self.splits.values():
            if number < split.first_shard + split.num_shards:
                return split, number - split.first_shard
        raise IndexError(number)

    def with_finished(self, shards: Iterable[tuple[str, str]]) -> ShardPlan:
        """Returns the plan with finished shards, given by split and path."""
        numbers = (self.splits[split].first_shard + shard_number(path) for split, path in shards)
        return dataclasses.replace(self, finished=frozenset(numbers))

    @property
    def num_shards(self) -> int:
        """Number of shards of all splits."""
        return sum(split.num_shards for split in self.splits.values())

    def unfinished(self) -> Iterator[int]:
        """Yields the numbers, among all shards, of those to write."""
        return (number for number in range(self.num_shards) if number not in self.finished)


def plan_shards(
    output: Output,
    names: Sequence[str],
    counts: MergedCounts,
    shard_bytes: Mapping[str, float],
    framed_bytes: Mapping[str, float],
) -> ShardPlan:
    """Plans the shards of every split.

    Args:
      output: the recipe's output.
      names: split names in order.
      counts: of all chunks of the first pass.
      shard_bytes: split -> estimated bytes of all its shards, compressed.
      framed_bytes: split -> estimated bytes of all its framed examples before compression.
    """
    splits: dict[str, SplitShards] = {}
    first_shard = 0
    for name in names:
        own = counts.rows_of(name)
        ends = np.cumsum(own)
        offsets, rows = Offsets(counts.ranges, counts.parts, ends - own), int(own.sum())
        shards = count_shards(output, shard_bytes[name])
        partitions = max(1, round(framed_bytes[name] / shards / PARTITION_BYTES))
        part_size = fit_part_size(output, framed_bytes[name])
        splits[name] = SplitShards(name, rows, shards, partitions, first_shard, part_size, offsets)
        first_shard += shards
    return ShardPlan(splits)


def save_shard_plan(plan: ShardPlan, path: str) -> str:
    """Writes a plan to an Arrow file and returns the path.

    A plan has 16 bytes for each chunk, and 8 for each chunk and split, too many for a side input.
    """
    splits = list(plan.splits.values())
    first = splits[0].offsets
    columns = [first.ranges, first.parts, *(split.offsets.rows for split in splits)]
    about = {
        "columns": bytes(plan.columns.serialize()).hex() if plan.columns is not None else None,
        "finished": sorted(plan.finished),
        "splits": [[*vars(split).values()][:-1] for split in splits],  # without the offsets
    }
    schema = pa.schema([(str(number), pa.int64()) for number in range(len(columns))])
    schema = schema.with_metadata({_ABOUT: json.dumps(about)})
    with files.replace(path) as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch([*map(pa.array, columns)], schema=schema))
    return path


def load_shard_plan(path: str) -> ShardPlan:
    """Returns what ``save_shard_plan`` was given; processes share a local file's memory."""
    stored = pa.memory_map(path) if files.is_local(path) else files.read_bytes(path)
    batch = pa.ipc.open_file(stored).get_batch(0)
    about = json.loads(batch.schema.metadata[_ABOUT])
    ranges, parts, *rows = (column.to_numpy() for column in batch.columns)
    splits = {
        split[0]: SplitShards(*[*split, Offsets(ranges, parts, own)])
        for split, own in zip(about["splits"], rows, strict=True)
    }
    stored = about["columns"]
    columns = stored and pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(stored)))
    return ShardPlan(splits, frozenset(about["finished"]), columns)


class LoadedShardPlan:
    """A plan in a file, which each worker process loads once.

    Attributes:
      path: of the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._shared = Shared()
        self._plan: ShardPlan | None = None  # Shared keeps only the last object of a process

    def get(self) -> ShardPlan:
        """Returns the plan."""
        if self._plan is None:
            self._plan = self._shared.acquire(lambda: load_shard_plan(self.path))
        return self._plan


def count_shards(output: Output, split_bytes: float) -> int:
    """Returns the number of shards of a split.

    With two shards or more, sizes are within 20 % of ``shard_size``. That leaves 5 % for errors of
    the estimate: one shard up to 1.6 times the size, three above 2.4 times. A split of very many
    shards has larger ones.

    Args:
      output: the recipe's output.
      split_bytes: compressed bytes of the split.
    """
    if output.num_shards is not None:
        count = output.num_shards
    else:
        ratio = split_bytes / output.shard_size
        count = 1 if ratio < 1.6 else max(3 if ratio > 2.4 else 2, round(ratio))
        count = min(count, _MOST_SHARDS)
    multiple = output.shards_multiple_of
    return -(-count // multiple) * multiple


def fit_part_size(output: Output, framed_bytes: float) -> int:
    """Returns the most bytes of a part: the recipe's, or more.

    Args:
      output: the recipe's output.
      framed_bytes: of the split's framed examples before compression.
    """
    times = framed_bytes / output.part_size / _MOST_PARTS
    return output.part_size << math.ceil(math.log2(max(times, 1)))


def shard_name(name: str, date: datetime.date | None) -> str:
    """Returns the first part of shards' names, with a place for splits.

    Args:
      name: of the recipe, or of its ``output``.
      date: the recipe's.

    Raises:
      RecipeProblems: the name has a date, and the recipe has none.
    """
    if date is not None:
        name = path_dates.fill_date(name, date)
    elif path_dates.has_date(name):
        message = (
            f"found a date in '{name}', expected the day on the command line, as in --date "
            "2026-11-21."
        )
        raise RecipeProblems([Problem(("output", "shard_name"), message)])
    return name


def shard_path(
    name: str,
    split: str,
    number: int,
    count: int,
    compression: shard_formats.Compression,
    format_: str = shard_formats.TFRECORD,
) -> str:
    """Returns a shard's path within the dataset.

    It is ``examples/Split-train/flights-00000-of-00008.tfrecord.gz``, say.
    """
    folder = split_folder(shard_formats.folder_of(format_), split)
    suffix = shard_formats.suffix_of(format_, compression)
    return f"{folder}/{name.replace('{split}', split)}-{number:05d}-of-{count:05d}{suffix}"


def shard_number(path: str) -> int:
    """Returns a shard's number within its split; 0 for an only shard."""
    found = _NUMBER.search(path)
    return 0 if found is None else int(found[1])


def own_index_path(shard: str) -> str:
    """Returns the path of one shard's index in the temporary folder.

    It is ``index/Split-train/flights-00000-of-00008.tfrecord.gz.arrow``, say.
    """
    return f"{INDEX}/{shard.partition('/')[2]}{INDEX_SUFFIX}"


def write_own_index(
    shard: part_index.IndexedShard,
    compression: shard_formats.PartCompression,
    parts: part_index.PartColumns,
    folder: str,
) -> None:
    """Writes the index of one shard.

    Args:
      shard, compression: of the file.
      parts: of the shard, with the number 0.
      folder: of the shards and their indexes.
    """
    with files.replace(files.within(folder, own_index_path(shard.name))) as file:
        part_index.write_index(file, part_index.make_index(compression, [shard], parts))


def read_own_index(
    shard: part_index.IndexedShard, compression: shard_formats.PartCompression, folder: str
) -> part_index.PartIndex:
    """Returns the index of one shard.

    Raises:
      DataError: it is missing, damaged, or of other bytes than the shard's.
    """
    path = files.within(folder, own_index_path(shard.name))
    return part_index.parse_index(pa.py_buffer(files.read_bytes(path)), path, compression, [shard])


def join_indexes(
    shards: Sequence[part_index.IndexedShard],
    compression: shard_formats.PartCompression,
    folder: str,
) -> part_index.PartIndex:
    """Returns the index of a split's shards.

    Its columns are in mapped files without names, as they may be larger than memory.

    Args:
      shards: in the manifest's order.
      compression: of all.
      folder: where the shards' own indexes are.

    Raises:
      DataError: one is missing, damaged, or of other bytes than its shard's.
    """
    read = partial(read_own_index, compression=compression, folder=folder)
    parts = rows = 0
    with contextlib.ExitStack() as stack:
        stored = {name: stack.enter_context(tempfile.TemporaryFile()) for name in part_index.DTYPES}
        executor = stack.enter_context(ThreadPoolExecutor(_THREADS))
        # A few at a time: those of all shards may be larger than memory.
        for start in range(0, len(shards), _THREADS):
            some = executor.map(read, shards[start : start + _THREADS])
            for number, index in enumerate(some, start):
                found = index.columns._asdict()  # a shard's own index numbers it 0
                found |= {"shard": number + found["shard"], "first_row": rows + index.first_row}
                for name, file in stored.items():
                    file.write(found[name].astype(part_index.DTYPES[name], copy=False).data)
                parts, rows = parts + len(index), rows + index.rows
        mapped: dict[str, Any] = {
            name: np.memmap(file, dtype, "r") if parts else np.empty(0, dtype)
            for (name, file), dtype in zip(stored.items(), part_index.DTYPES.values(), strict=True)
        }
    first_row = mapped.pop("first_row")
    columns = part_index.PartColumns(**mapped)
    return part_index.PartIndex("", compression, tuple(shards), columns, first_row)
