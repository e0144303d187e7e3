"""Finds the shards and indexes of a split to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from beam_pipelines.core.checked_files import read_checked
from beam_pipelines.core.dataset_layout import MANIFEST, index_path
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.manifest_reader import DatasetManifest
from beam_pipelines.opening.folder import Folder
from beam_pipelines.reader.parts import Indexed, ShardFile, Split, make_split
from beam_pipelines.tfrecord.part_index import IndexedShard, PartIndex, parse_index

if TYPE_CHECKING:
    from beam_pipelines.reader.row_groups import RowGroups
    from beam_pipelines.remote.shards import RemoteShards

# Numbers of generations; ``None``: all.
Generations: TypeAlias = "int | Iterable[int] | None"


def choose_generations(folder: str, there: Sequence[int], wanted: Generations) -> tuple[int, ...]:
    """Returns the wanted numbers of generations, each once, in order.

    Args:
      folder: names the dataset in errors.
      there: numbers of all generations.
      wanted: some of them; ``None``: all.

    Raises:
      ValueError: none is wanted, or one that does not exist.
    """
    if wanted is None:
        return tuple(there)
    numbers = {wanted} if isinstance(wanted, int) else set(wanted)
    if not numbers or not numbers <= set(there):
        shown = ", ".join(str(number) for number in sorted(numbers)) or "none"
        raise ValueError(
            f"generations: found {shown}, expected some of the {len(there)} of "
            f"{mask(folder)}, which are numbered from 1."
        )
    return tuple(sorted(numbers))


def indexed_split(
    folder: Folder,
    manifest: DatasetManifest,
    name: str,
    wanted: Generations = None,
    remote: RemoteShards | None = None,
    row_groups: RowGroups | None = None,
) -> Split:
    """Returns the shards of a split with the parts of their indexes.

    Args:
      folder: of the dataset.
      manifest: of the dataset.
      name: of the split.
      wanted: generations, as for ``choose_generations``.
      remote: reads shards that are not on this machine.
      row_groups: reads Parquet shards.

    Raises:
      DataError: there are no rows, or no index; or the index is damaged, or of other shards; or
        the shards have other rows than the manifest says.
      ValueError: there is no such generation.
    """
    _check_rows(folder, manifest, name)
    is_shuffled = manifest.recipe.get("output", {}).get("shuffle", False) is True
    numbers = [generation.number for generation in manifest.generations] or [1]
    indexed = []
    for number in choose_generations(folder.path, numbers, wanted):
        shards = [shard for shard in manifest.splits[name].shards if shard.generation == number]
        if not any(shard.rows for shard in shards):
            continue
        expected = [
            IndexedShard(shard.path, shard.rows, shard.bytes, shard.crc32c) for shard in shards
        ]
        files = tuple(
            ShardFile(folder.join(shard.path), shard.rows, shard.bytes) for shard in shards
        )
        found = _read_index(folder, index_path(name, number), manifest, expected)
        indexed.append(Indexed(files, found, remote, row_groups, is_shuffled))
    if not indexed:
        raise DataError(
            f"{folder.path}: found no rows in split '{name}'. Change 'split' or 'filter' in the "
            "recipe."
        )
    return make_split(name, indexed)


def _check_rows(folder: Folder, manifest: DatasetManifest, name: str) -> None:
    """Checks that an epoch has the rows that the manifest promises."""
    split = manifest.splits[name]
    rows = sum(shard.rows for shard in split.shards)
    if rows != split.rows:
        raise DataError(
            f"{folder.join(MANIFEST)}: found shards with {rows:,} rows in split '{name}', expected "
            f"{split.rows:,} as it says. Copy the dataset again, or convert again with --overwrite."
        )


def _read_index(
    folder: Folder, path: str, manifest: DatasetManifest, shards: Sequence[IndexedShard]
) -> PartIndex:
    """Reads an index whole."""
    full = folder.join(path)

    def read(path: str) -> bytes:
        content = folder.find(path)
        if content is None:
            raise DataError(
                f"{full}: found no index of the shards' parts, which batches() reads by. Make it "
                f"once: beam-pipelines index {folder.path}"
            )
        return content

    content = read_checked(read, folder.path, manifest, path)
    return parse_index(pa.py_buffer(content), full, manifest.compression, shards)
