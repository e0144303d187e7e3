"""Compares two datasets example by example, joined by a key.

Examples are divided by a hash of their key into temporary files, which are compared one after the
other. So memory does not grow with the datasets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core import hashing
from beam_pipelines.core.errors import DataError, RecipeError, nearest
from beam_pipelines.dataset.inspect import show_values
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.row_pairs import (
    FeatureSkew,
    MatchStats,
    added,
    added_skew,
    column_of,
    compare_column,
    has_several_values,
    pair_rows,
    single_values,
)
from beam_pipelines.dataset.shard_records import read_blocks
from beam_pipelines.sources.tfrecord.decoder import RecordDecoder
from beam_pipelines.storage import files

# Framed bytes of a partition of both datasets.
_PARTITION_BYTES = 64 << 20
# Open files of a dataset.
_MOST_PARTITIONS = 512
# Another hash than that of the index of keys.
_SEED = 1 << 40


class DifferentRow(NamedTuple):
    """Two examples of one key that differ.

    Attributes:
      key: identifier -> value, as text.
      features: feature -> values in the base and in the test example, as text.
    """

    key: Mapping[str, str]
    features: Mapping[str, tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Differences between the examples of two datasets.

    Attributes:
      base, test: folders.
      by: the identifiers.
      match_stats: numbers of rows and keys.
      features: feature -> counts of the pairs, as TFDV's feature skew detector has them.
      examples: some pairs that differ.
    """

    base: str
    test: str
    by: tuple[str, ...]
    match_stats: MatchStats
    features: Mapping[str, FeatureSkew]
    examples: tuple[DifferentRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as values of JSON."""
        return {
            "base": self.base,
            "test": self.test,
            "by": list(self.by),
            "match_stats": dataclasses.asdict(self.match_stats),
            "features": {
                name: {**dataclasses.asdict(skew), "diff_count": skew.diff_count}
                for name, skew in self.features.items()
            },
            "examples": [
                {
                    "key": dict(row.key),
                    "features": {
                        name: {"base": base, "test": test}
                        for name, (base, test) in row.features.items()
                    },
                }
                for row in self.examples
            ],
        }


class _Side(NamedTuple):
    """A dataset to compare."""

    folder: str
    schema: schema_pb2.Schema
    shards: tuple[str, ...]
    compression: str
    framed_bytes: int


def compare(
    base: str, test: str, by: Sequence[str], *, split: str | None = None, examples: int = 5
) -> Comparison:
    """Compares the examples of two datasets that have the same identifiers.

    An example without an identifier, and examples that share one in a dataset, are counted but not
    compared.

    Args:
      base, test: folders of datasets of tf.Examples.
      by: features that together identify an example; one value each, of the same type in both.
      split: the split of both datasets; ``None``: all splits.
      examples: most pairs that differ to return.

    Raises:
      RecipeError: a dataset has no such feature or split, or no tf.Examples.
      DataError: a dataset is damaged, or an identifier has several values.
    """
    sides = [_side(folder, split) for folder in (base, test)]
    types = [_types(side) for side in sides]
    _check_identifiers(sides, types, by)
    names = [name for name in dict.fromkeys([*types[0], *types[1]]) if name not in by]
    size = sum(side.framed_bytes for side in sides)
    partitions = min(_MOST_PARTITIONS, 1 + size // _PARTITION_BYTES)
    with tempfile.TemporaryDirectory() as scratch:
        parts = [
            _partition(side, by, partitions, Path(scratch) / str(number))
            for number, side in enumerate(sides)
        ]
        stats: list[MatchStats] = []
        skews: dict[str, list[FeatureSkew]] = {name: [] for name in names}
        different: list[DifferentRow] = []
        for left, right in zip(*parts, strict=True):
            wanted = examples - len(different)
            different += _compare(_load(left), _load(right), by, stats, skews, wanted)
    return Comparison(
        base,
        test,
        tuple(by),
        added(stats),
        {name: added_skew(found) for name, found in skews.items()},
        tuple(different),
    )


def _side(folder: str, split: str | None) -> _Side:
    """Returns a dataset to compare.

    Raises:
      RecipeError: it has no tf.Examples, or no such split.
    """
    manifest = read_manifest(folder)
    if manifest["record"] != "example":
        raise RecipeError(
            f"{folder}: found records of the kind '{manifest['record']}', expected tf.Examples. "
            "Other records cannot be compared."
        )
    splits = manifest["splits"]
    if split is not None and split not in splits:
        known = ", ".join(splits)
        raise RecipeError(
            f"{folder}: found no split '{split}', expected one of {known}.{nearest(split, splits)}"
        )
    chosen = [entry for name, entry in splits.items() if split in (None, name)]
    shards = tuple(
        files.join(folder, *shard["path"].split("/")) for one in chosen for shard in one["shards"]
    )
    return _Side(
        folder,
        read_schema(files.within(folder, manifest["schema"])),
        shards,
        manifest["compression"],
        sum(one.get("framed_bytes", 0) for one in chosen),
    )


def _types(side: _Side) -> dict[str, str]:
    """Returns feature -> type."""
    return {
        feature.name: schema_pb2.FeatureType.Name(feature.type) for feature in side.schema.feature
    }


def _check_identifiers(
    sides: Sequence[_Side], types: Sequence[Mapping[str, str]], by: Sequence[str]
) -> None:
    """Raises ``RecipeError`` if an identifier is missing or has two types."""
    for name in by:
        for side, known in zip(sides, types, strict=True):
            if name not in known:
                hint = nearest(name, known) or f" There are {', '.join(known)}."
                raise RecipeError(f"{side.folder}: found no feature '{name}' to join by.{hint}")
        base, test = (known[name] for known in types)
        if base != test:
            raise RecipeError(
                f"'{name}': found {base} in {sides[0].folder} and {test} in {sides[1].folder}, "
                "expected one type to join by. Encode it in the same way, or not at all."
            )


def _partition(side: _Side, by: Sequence[str], partitions: int, folder: Path) -> list[Path]:
    """Writes a dataset's examples to a file for each partition.

    Raises:
      DataError: a shard is damaged, or an identifier has several values.
    """
    folder.mkdir()
    paths = [folder / f"{number}.arrow" for number in range(partitions)]
    decoder = RecordDecoder(side.schema, is_sequence=False)
    with contextlib.ExitStack() as stack:
        writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        for batch in _batches(side, decoder):
            keys = _keys(batch, by, side.folder)
            number = hashing.hash_rows(keys, _SEED) % np.uint64(partitions)
            order = np.argsort(number, kind="stable")
            ordered = batch.take(pa.array(order))
            ends = np.searchsorted(number[order], np.arange(partitions, dtype=np.uint64), "right")
            start = 0
            for place, end in enumerate(ends.tolist()):
                if end > start:
                    if place not in writers:
                        options = pa.ipc.IpcWriteOptions(compression="lz4")
                        writers[place] = stack.enter_context(
                            pa.ipc.new_file(str(paths[place]), batch.schema, options=options)
                        )
                    writers[place].write_batch(ordered.slice(start, end - start))
                start = end
    for path in paths:
        if not path.exists():
            empty = pa.RecordBatch.from_pylist([], _empty_schema(decoder))
            with pa.ipc.new_file(str(path), empty.schema) as writer:
                writer.write_batch(empty)
    return paths


def _empty_schema(decoder: RecordDecoder) -> pa.Schema:
    return decoder.decode([]).schema


def _batches(side: _Side, decoder: RecordDecoder) -> Iterator[pa.RecordBatch]:
    for path in side.shards:
        rows = 0
        for block in read_blocks(path, side.compression):
            try:
                yield decoder.decode(block)
            except ValueError as error:
                raise DataError(
                    f"{path}, records {rows} to {rows + len(block) - 1}: do not parse by the "
                    f"schema: {error}. Check the dataset with 'verify'."
                ) from error
            rows += len(block)


def _keys(batch: pa.RecordBatch, by: Sequence[str], folder: str) -> list[pa.Array]:
    """Returns the values of the identifiers.

    Raises:
      DataError: an example has several values of one.
    """
    for name in by:
        if has_several_values(batch.column(name)):
            raise DataError(
                f"{folder}: found several values of '{name}' in an example, expected at most one "
                "to join by. Choose another identifier."
            )
    return [single_values(batch.column(name)) for name in by]


def _load(path: Path) -> pa.RecordBatch:
    """Returns the examples of a partition as one batch."""
    with pa.ipc.open_file(str(path)) as reader:
        table = reader.read_all()
    path.unlink()
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays(column.chunks) for column in table.columns], schema=table.schema
    )


def _compare(
    base: pa.RecordBatch,
    test: pa.RecordBatch,
    by: Sequence[str],
    stats: list[MatchStats],
    skews: Mapping[str, list[FeatureSkew]],
    wanted: int,
) -> Iterator[DifferentRow]:
    """Adds the counts of a partition, and yields pairs that differ."""
    pairs = pair_rows(*([single_values(side.column(name)) for name in by] for side in (base, test)))
    stats.append(pairs.stats)
    masks = {}
    for name, found in skews.items():
        columns = column_of(base, name, pairs.base), column_of(test, name, pairs.test)
        skew, masks[name] = compare_column(*columns)
        found.append(skew)
    any_differs = np.logical_or.reduce([np.zeros(len(pairs.base), bool), *masks.values()])
    for place in np.flatnonzero(any_differs)[: max(0, wanted)].tolist():
        rows = int(pairs.base[place]), int(pairs.test[place])
        yield DifferentRow(
            {name: _shown(base, name, rows[0]) for name in by},
            {
                name: (_shown(base, name, rows[0]), _shown(test, name, rows[1]))
                for name, mask in masks.items()
                if mask[place]
            },
        )


def _shown(batch: pa.RecordBatch, name: str, row: int) -> str:
    if name not in batch.schema.names:
        return show_values(None)
    return show_values(batch.column(name)[row].as_py())
