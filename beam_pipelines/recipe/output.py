"""The section ``output`` of a recipe."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from beam_pipelines.core.layout.shard_formats import SUFFIX_FOR_FORMAT, Compression, ShardFormat
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import recipe_key

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
    shards_multiple_of: int = recipe_key(
        values.read_integer(1, MOST_SHARDS), 1, "1", "Rounds the number of shards up to a multiple."
    )
    shard_name: str | None = recipe_key(
        values.read_shard_name,
        None,
        "`name`",
        "Start of the shards' names; {split} and {date}.",
    )
    compression: Compression = recipe_key(
        values.read_choice(get_args(Compression)), "gzip", "`gzip`", "Compression of shard files."
    )
    level: int = recipe_key(
        values.read_integer(0, 9),
        1,
        "1",
        "Compression level: 0-3 are alike and fast; 4-9 by zlib-ng, slower.",
    )
    part_size: int = recipe_key(
        values.read_bytes, MIB // 4, "`256 KiB`", "Bytes of records that are compressed alone."
    )
    shuffle: bool = recipe_key(
        values.read_flag, True, "true", "Global shuffle; false keeps source order."
    )
    shuffle_seed: int = recipe_key(
        values.read_integer(0, (1 << 63) - 1), 0, "0", "Seed of the shuffle and of nothing else."
    )
    floats: Floats = recipe_key(
        values.read_choice(get_args(Floats)),
        "round",
        "`round`",
        "A float64 without an equal float32: round takes the nearest, exact is an error.",
    )
    record: str | None = recipe_key(
        values.read_text, None, "none", "Column of the records themselves, instead of tf.Examples."
    )
    format: ShardFormat = recipe_key(
        values.read_choice(get_args(ShardFormat)),
        "tfrecord",
        "`tfrecord`",
        "Format of the shards.",
        omitted=True,
    )
    also: tuple[str, ...] = recipe_key(
        values.read_choices(SUFFIX_FOR_FORMAT),
        (),
        "none",
        "Formats that the rows are written in as well.",
        omitted=True,
    )
    serving: bool = recipe_key(
        values.read_flag,
        False,
        "false",
        "Build the serving graph with the dataset, not on request.",
    )
