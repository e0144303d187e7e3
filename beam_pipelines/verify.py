"""Verifying a dataset: every shard is read again, and held against the manifest and the schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beam_pipelines import files
from beam_pipelines.errors import DataError
from beam_pipelines.manifest import read_manifest
from beam_pipelines.schema import read_schema
from beam_pipelines.tfrecord import READ_BYTES, read_record_blocks


@dataclasses.dataclass(frozen=True)
class Verification:
    """What was verified: number of shards, of rows and of bytes."""

    shards: int
    rows: int
    bytes: int


def verify_dataset(folder: str) -> Verification:
    """Reads every shard of a dataset and checks it.

    Checked are the files that the manifest names and that there are no others, each file's size and CRC-32C, the CRCs of
    every record, the number of records, and that every record parses by the dataset's schema, with every required feature.

    Raises:
      DataError: lists everything that is wrong, by file.
    """
    manifest = read_manifest(folder)
    schema = read_schema(files.join(folder, *manifest["schema"].split("/")))
    problems = list(_unexpected_files(folder, manifest))
    rows = size = count = 0
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            path = files.join(folder, *shard["path"].split("/"))
            try:
                rows += _verify_shard(path, shard, manifest["compression"], schema)
            except DataError as error:
                problems.append(str(error))
            size, count = size + shard["bytes"], count + 1
    if problems:
        raise DataError(f"{folder}: {len(problems)} problem(s) found:\n" + "\n".join(f"  {line}" for line in problems))
    return Verification(count, rows, size)


def _unexpected_files(folder: str, manifest: dict[str, Any]) -> Iterator[str]:
    expected = {shard["path"].split("/")[-1] for split in manifest["splits"].values() for shard in split["shards"]}
    for split in manifest["splits"]:
        for path, _ in files.list_files(files.join(folder, "examples", f"Split-{split}", "*")):
            if path.replace("\\", "/").split("/")[-1] not in expected:
                yield f"{path}: is not in the manifest, but readers of the split will read it. Remove it."


def _verify_shard(path: str, shard: dict[str, Any], compression: str, schema: schema_pb2.Schema) -> int:
    if not files.exists(path):
        raise DataError(f"{path}: the shard is missing. Convert again with --overwrite.")
    decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())
    rows = 0
    with files.open_read(path) as file:
        for block in read_record_blocks(file, path, compression):
            _check_block(decoder, block, schema, f"{path}, records {rows} to {rows + len(block) - 1}")
            rows += len(block)
    if rows != shard["rows"]:
        raise DataError(f"{path}: found {rows} records, expected {shard['rows']} as the manifest says.")
    size, crc = _size_and_crc(path)
    if (size, f"{crc:08x}") != (shard["bytes"], shard["crc32c"]):
        raise DataError(
            f"{path}: found {size} bytes with CRC-32C {crc:08x}, expected {shard['bytes']} bytes with {shard['crc32c']}. "
            "The file was changed after the conversion."
        )
    return rows


def _check_block(
    decoder: ExamplesToRecordBatchDecoder, block: list[bytes], schema: schema_pb2.Schema, where: str
) -> None:
    try:
        batch = decoder.DecodeBatch(block)
    except Exception as error:  # tfx-bsl raises RuntimeError and ValueError alike
        raise DataError(f"{where}: do not parse by the schema: {error}") from error
    for feature in schema.feature:
        column = batch.column(batch.schema.get_field_index(feature.name))
        if feature.presence.min_fraction == 1 and column.null_count:
            raise DataError(
                f"{where}: feature '{feature.name}' is missing in {column.null_count}, expected in every record."
            )
        if feature.HasField("shape") and pa.types.is_large_list(column.type):
            size = 1
            for dim in feature.shape.dim:
                size *= dim.size
            lengths = pc.drop_null(pc.list_value_length(column))
            if pc.any(pc.not_equal(lengths, size)).as_py():
                raise DataError(
                    f"{where}: feature '{feature.name}' has another number of values than its shape, {size}."
                )


def _size_and_crc(path: str) -> tuple[int, int]:
    size = crc = 0
    with files.open_read(path) as file:
        while data := file.read(READ_BYTES):
            size, crc = size + len(data), google_crc32c.extend(crc, data)
    return size, crc
