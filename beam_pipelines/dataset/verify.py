"""Verifies every shard of a dataset against manifest and schema."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core.arrow.binary_arrays import byte_lengths, is_valid
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.checked_files import changed_file
from beam_pipelines.core.layout.dataset_layout import MANIFEST, RAW_SCHEMA
from beam_pipelines.core.layout.manifest import CheckedFile, Manifest, ManifestShard
from beam_pipelines.core.layout.schema_features import (
    feature_lists_of,
    features_of,
    has_one_value_a_step,
)
from beam_pipelines.dataset.manifest import changed_files, listed_shards, read_manifest
from beam_pipelines.dataset.shard_records import feature_list_names, read_blocks
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.reader.folders.opened import Opened
from beam_pipelines.reader.parts import Indexed, read_part
from beam_pipelines.sources.tfrecord.decoder import decode_records
from beam_pipelines.tfrecord import part_index


@dataclasses.dataclass(frozen=True)
class Verification:
    """Numbers of a verified dataset.

    Attributes:
      shards, rows, bytes: their numbers.
      files: number of other files whose checksum was checked.
      is_parsed: whether records were parsed; raw ones are not.
    """

    shards: int
    rows: int
    bytes: int
    is_parsed: bool
    files: int = 0


def verify_dataset(folder: str) -> Verification:
    """Reads every shard of a dataset and checks it.

    Checks that the files of the manifest are there and no others, each file's size and CRC-32C,
    the CRCs of every record, the number of records, and that every record parses by the dataset's
    schema, with every required feature (raw records are not parsed). Each part is read again by its
    index. The other files of the manifest have its checksums.

    Raises:
      DataError: lists everything that is wrong, by file.
    """
    manifest = read_manifest(folder)
    changed = dict(changed_files(folder, manifest))
    problems = [str(error) for error in changed.values()]
    if changed.keys() & {manifest.schema, RAW_SCHEMA}:
        raise _error(folder, problems)
    schema = read_schema(files.within(folder, manifest.schema))
    if manifest.schema != RAW_SCHEMA:
        # 'validate' and the next run with a baseline read it.
        read_schema(files.within(folder, RAW_SCHEMA))
    problems += [*_unexpected_files(folder, manifest), *_wrong_sums(manifest)]
    parts = _parts_of_shards(Opened.at(folder, None, 0), changed, problems)
    rows = size = count = 0
    for shard in manifest.shards:
        path = files.within(folder, shard.path)
        try:
            rows += _verify_shard(path, shard, manifest, schema)
            if found := parts.get(shard.path):
                for part in found[0].parts.parts_of_shard(found[1]):
                    read_part(found[0], part)
        except DataError as error:
            problems.append(str(error))
        size, count = size + shard.bytes, count + 1
    if problems:
        raise _error(folder, problems)
    return Verification(count, rows, size, manifest.record != "raw", len(manifest.files))


def _error(folder: str, problems: Sequence[str]) -> DataError:
    return DataError(
        f"{folder}: {len(problems)} problem(s) found:\n"
        + "\n".join(f"  {line}" for line in problems)
    )


def _unexpected_files(folder: str, manifest: Manifest) -> Iterator[str]:
    expected = {files.within(folder, shard.path) for shard in manifest.shards}
    for file in listed_shards(folder).values():
        if file.path not in expected:
            yield (
                f"{file.path}: is not in the manifest, but readers of the examples will read it. "
                "Remove it."
            )


def _wrong_sums(manifest: Manifest) -> Iterator[str]:
    """Yields numbers of the manifest that differ from their sums."""
    for name, split in manifest.splits.items():
        for key in ("rows", "bytes"):
            found, total = getattr(split, key), sum(getattr(shard, key) for shard in split.shards)
            if found != total:
                yield (
                    f"{MANIFEST}, split '{name}': found {found:,} {key}, expected "
                    f"{total:,}, the sum of its shards."
                )
    rows, counts = sum(split.rows for split in manifest.splits.values()), manifest.counts
    for expected, why in (
        (rows, "the sum of the splits"),
        (counts.expected, "what was read less what was left out"),
    ):
        if counts.written != expected:
            yield (
                f"{MANIFEST}, counts: found {counts.written:,} rows written, expected "
                f"{expected:,}, {why}."
            )


def _verify_shard(
    path: str, shard: ManifestShard, manifest: Manifest, schema: schema_pb2.Schema
) -> int:
    if not files.exists(path):
        raise DataError(f"{path}: the shard is missing. Convert again with --overwrite.")
    rows = 0
    for block in read_blocks(path, manifest.compression, feature_list_names(schema)):
        if manifest.record != "raw":
            is_sequence = manifest.record == "sequence_example"
            where = f"{path}, records {rows} to {rows + len(block) - 1}"
            _check_block(block, schema, is_sequence, where)
        rows += len(block)
    if rows != shard.rows:
        raise DataError(
            f"{path}: found {rows} records, expected {shard.rows} as the manifest says."
        )
    size, crc = file_checksums.size_and_crc32c(path)
    found = CheckedFile(bytes=size, crc32c=f"{crc:08x}")
    expected = CheckedFile(bytes=shard.bytes, crc32c=shard.crc32c)
    if found != expected:
        raise changed_file(path, found, expected)
    return rows


def _check_block(
    block: Sequence[bytes], schema: schema_pb2.Schema, is_sequence: bool, where: str
) -> None:
    """Checks the records of a block against the schema."""
    try:
        batch = decode_records(block, schema, is_sequence)
    except ValueError as error:
        raise DataError(f"{where}: do not parse by the schema: {error}") from error
    for feature in features_of(schema):
        column = batch.column(batch.schema.get_field_index(feature.name))
        if feature.presence.min_fraction == 1 and column.null_count:
            raise DataError(
                f"{where}: feature '{feature.name}' is missing in {column.null_count}, expected in "
                "every record."
            )
        size = _fixed_size(
            feature, pa.types.is_nested(column.type) and pa.types.is_nested(column.type.value_type)
        )
        if (
            size is not None
            and pa.types.is_large_list(column.type)
            and (byte_lengths(column)[is_valid(column)] != size).any()
        ):
            raise DataError(
                f"{where}: feature '{feature.name}' has another number of values than its shape, "
                f"{size}."
            )
    for feature in feature_lists_of(schema):
        steps = batch.column(batch.schema.get_field_index(feature.name)).flatten()
        size = _values_a_step(feature)
        if (
            size is not None
            and pc.any(pc.not_equal(pc.list_value_length(steps).fill_null(0), size)).as_py()
        ):
            expected = "one" if size == 1 else f"{size} values"
            raise DataError(
                f"{where}: feature list '{feature.name}' has steps without {expected}"
                f"{' value' if size == 1 else ''}, expected {expected} in every step."
            )


def _values_a_step(feature: schema_pb2.Feature) -> int | None:
    """Returns the number of values of every step; ``None``: any."""
    if has_one_value_a_step(feature):
        return 1
    sizes = [dim.size for dim in feature.shape.dim]
    return sizes[1] if len(sizes) == 2 else None


def _fixed_size(feature: schema_pb2.Feature, is_feature_list: bool) -> int | None:
    """Returns the values or steps of every row; ``None``: any number."""
    if not feature.HasField("shape"):
        return None
    sizes: list[int] = [dim.size for dim in feature.shape.dim]
    return math.prod(sizes[:1] if is_feature_list else sizes)


class _Shards:
    """Reads bytes of shards through Beam; the last one stays open."""

    def __init__(self) -> None:
        self._path, self._last = "", contextlib.ExitStack()

    def read(self, path: str, wanted: range, _extent: range, _check_size: object) -> bytes:
        """Returns bytes of a shard, whose size is checked before."""
        if path != self._path:
            self._last.close()
            self._path, self._file = path, self._last.enter_context(files.open_read(path))
        self._file.seek(wanted.start)
        return self._file.read(len(wanted))


def _parts_of_shards(
    one: Opened, changed: Collection[str], problems: list[str]
) -> dict[str, tuple[Indexed, int]]:
    """Returns a shard's path -> its index, and its number there.

    Adds to the problems. Indexes that are changed are left out, and those that do not exist.
    """
    found, shards = dict[str, tuple[Indexed, int]](), _Shards()
    for name, split in one.fields.splits.items():
        paths = part_index.shards_by_index(name, split.shards)
        if any(
            path in changed or not files.exists(files.within(one.files.path, path))
            for path in paths
        ):
            continue
        try:
            for indexed in one.indexes_of(name):
                remote: Any = shards if indexed.remote else None
                own = indexed._replace(remote=remote)
                found |= {
                    shard.name: (own, number) for number, shard in enumerate(own.parts.shards)
                }
        except DataError as error:
            problems.append(str(error))
    return found
