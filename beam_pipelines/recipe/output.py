"""The section ``output`` of a recipe."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from beam_pipelines.core.layout import shard_formats
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import plain_key, recipe_key

Floats = Literal["round", "exact"]
# The largest number of shards of a split: 128 TB of the usual size.
MOST_SHARDS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Output:
    """How shards are written."""

    shard_size: int = recipe_key(
        values.read_bytes, 128 * MIB, "`128 MiB`", "Target bytes of a shard file, compressed."
    )
    num_shards: int | None = recipe_key(
        values.read_integer(1, MOST_SHARDS),
        None,
        "by `shard_size`",
        "Shards of every split; overrides shard_size.",
    )
    shards_multiple_of: int = plain_key(
        values.read_integer(1, MOST_SHARDS), 1, "Rounds the number of shards up to a multiple."
    )
    shard_name: str | None = recipe_key(
        values.read_shard_name, None, "`name`", "Start of the shards' names; {split} and {date}."
    )
    compression: shard_formats.Compression = plain_key(
        values.read_choice(get_args(shard_formats.Compression)),
        "gzip",
        "Compression of shard files.",
    )
    level: int = plain_key(
        values.read_integer(0, 9),
        1,
        "Compression level: 0-3 are alike and fast; 4-9 by zlib-ng, slower.",
    )
    part_size: int = recipe_key(
        values.read_bytes, MIB // 4, "`256 KiB`", "Bytes of records that are compressed alone."
    )
    shuffle: bool = plain_key(values.read_flag, True, "Global shuffle; false keeps source order.")
    shuffle_seed: int = plain_key(
        values.read_integer(0, (1 << 63) - 1), 0, "Seed of the shuffle and of nothing else."
    )
    floats: Floats = plain_key(
        values.read_choice(get_args(Floats)),
        "round",
        "A float64 without an equal float32: round takes the nearest, exact is an error.",
    )
    record: str | None = plain_key(
        values.read_text, None, "Column of the records themselves, instead of tf.Examples."
    )
    format: shard_formats.ShardFormat = plain_key(
        values.read_choice(get_args(shard_formats.ShardFormat)),
        "tfrecord",
        "Format of the shards.",
        omitted=True,
    )
    serving: bool = plain_key(
        values.read_flag, False, "Build the serving graph with the dataset, not on request."
    )


def check_output(value: values.Value, output: Output) -> None:
    """Notes numbers, names and levels of shards that contradict each other."""
    if {"num_shards", "shard_size"} <= value.keys:
        value.wrong("found both 'num_shards' and 'shard_size', expected one of them.")
    if output.num_shards is not None and output.num_shards % output.shards_multiple_of:
        value.wrong(
            f"found 'num_shards: {output.num_shards}' and 'shards_multiple_of: "
            f"{output.shards_multiple_of}', expected a multiple of it."
        )
    _check_formats(value, output)
    if output.compression == "none" and "level" in value.keys:
        value.wrong(
            "found a level with 'compression: none', expected gzip or zlib with it.", "level"
        )


def _check_formats(value: values.Value, output: Output) -> None:
    """Notes keys that the formats of shards do not have."""
    if output.format == shard_formats.TFRECORD:
        return
    if output.record is not None:
        value.wrong(
            f"found it with the format '{output.format}', whose rows have a column for each "
            "feature, expected 'format: tfrecord'.",
            "record",
        )
    for key in ("compression", "level", "part_size"):
        if key in value.keys:
            value.wrong(
                f"found it with 'format: {output.format}', expected it with TFRecords only: pages "
                "of Parquet are always compressed by zstd. Leave it out.",
                key,
            )
