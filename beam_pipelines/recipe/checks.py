"""Checks of keys that contradict each other, or do without each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_pipelines.core.layout.shard_formats import TFRECORD, is_whole_name, suffix_of

if TYPE_CHECKING:
    from beam_pipelines.recipe.output import Output
    from beam_pipelines.recipe.values import Value


def check_sequence(value: Value, _: object) -> None:
    """Notes keys of groups without ``group_by``."""
    if isinstance(value.tree, dict) and not value.keys & {"features", "group_by"}:
        value.wrong("found neither 'features' nor 'group_by', expected at least one of them.")
    for key in ("order_by", "context", "max_length"):
        if key in value.keys and "group_by" not in value.keys:
            value.wrong(
                f"found '{key}' without 'group_by', expected the key columns whose rows make a "
                "sequence.",
                key,
            )


def check_output(value: Value, output: Output) -> None:
    """Notes numbers, names and levels of shards that contradict each other."""
    if {"num_shards", "shard_size"} <= value.keys:
        value.wrong("found both 'num_shards' and 'shard_size', expected one of them.")
    if output.num_shards is not None and output.num_shards % output.shards_multiple_of:
        value.wrong(
            f"found 'num_shards: {output.num_shards}' and 'shards_multiple_of: "
            f"{output.shards_multiple_of}', expected a multiple of it."
        )
    if is_whole_name(output.shard_name):
        _check_whole_name(value, output)
    _check_formats(value, output)
    if output.compression == "none" and "level" in value.keys:
        value.wrong(
            "found a level with 'compression: none', expected gzip or zlib with it.", "level"
        )


def _check_formats(value: Value, output: Output) -> None:
    """Notes keys that the formats of shards do not have."""
    if output.format in output.also:
        value.wrong(
            f"found the format of the shards, '{output.format}', expected another one. Leave it "
            "out.",
            "also",
        )
    columnar = [name for name in (output.format, *output.also) if name != TFRECORD]
    if output.record is not None and columnar:
        value.wrong(
            f"found it with the format '{columnar[0]}', whose rows have a column for each feature, "
            "expected 'format: tfrecord' alone.",
            "record",
        )
    for key in ("compression", "level", "part_size") if output.format != TFRECORD else ():
        if key in value.keys:
            value.wrong(
                f"found it with 'format: {output.format}', expected it with TFRecords only: pages "
                "of Parquet are always compressed by zstd. Leave it out.",
                key,
            )


def _check_whole_name(value: Value, output: Output) -> None:
    suffix = suffix_of(output.format, output.compression)
    name = output.shard_name or ""
    if output.num_shards != 1:
        value.wrong(
            f"found the whole name of a file, '{name}', expected 'num_shards: 1' with it. Or leave "
            "the suffix out, and each shard gets its number.",
            "shard_name",
        )
    if not name.endswith(suffix):
        is_tfrecord = output.format == TFRECORD
        given = f"compression: {output.compression}" if is_tfrecord else f"format: {output.format}"
        value.wrong(
            f"found '{name}' with '{given}', expected the suffix '{suffix}', or another "
            f"{given.partition(':')[0]}.",
            "shard_name",
        )
