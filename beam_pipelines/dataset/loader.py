"""Loads datasets in TensorFlow: ``load`` makes a ``tf.data.Dataset`` of a split.

For trainers: imports neither Apache Beam nor a module of ours that needs it. The dataset's folder
may be a URL of TensorFlow's filesystems.

An element of ``tf.data`` costs microseconds, so a record is never an element: records are read in
blocks, shuffled in windows and parsed in batches (``benchmarks/bench_load.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.compression import PARQUET_COMPRESSION
from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.dataset import decode, sequences
from beam_pipelines.dataset.info import (
    Info,
    Shard,
    Split,
    info,
    is_local,
    steps_of,
)
from beam_pipelines.opening.together import Folders

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Folders", "Info", "Shard", "Split", "info", "load"]

SHUFFLE_BYTES = 16 << 20
BLOCK_BYTES = 64 << 10
SHARDS_AT_ONCE = 16
# TensorFlow's names.
_COMPRESSION_TYPE = {"gzip": "GZIP", "zlib": "ZLIB", "none": ""}


def load(
    folder: Folders,
    split: str | None = None,
    *,
    batch_size: int = 256,
    features: Iterable[str] | None = None,
    label: bool | str = True,
    images: bool | str | Iterable[str] = True,
    image_size: tuple[int, int] | None = None,
    image_channels: int | None = None,
    raw: Mapping[str, tf.TensorSpec] | None = None,
    padding: float | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Loads a split of a dataset as batches of tensors.

    Shards are read in parallel, batches are parsed whole and prepared ahead. One pass over the
    dataset is one epoch. Its length is known (``len(dataset)``); a pass of another length, because
    records are missing, fails.

    Args:
      folder: of the dataset, a path or a URL; or several, as a list or a pattern such as
        ``out/2026-*``, whose rows are read as one dataset's.
      split: default: the first, which is ``train`` in most datasets.
      batch_size: rows of a batch. The last one of an epoch has the rest.
      features: names of those to parse; default: all. A feature that is not parsed costs little.
      label: ``True``: pairs of features and label, if the recipe names a label; ``False``:
        features only, the label among them; or the name of the feature to take as the label.
      images: features to decode to pixels, uint8 [batch, height, width, channels]. ``True``: those
        with an ``image_domain`` in the schema, and ``image/encoded``. ``False``: none, they stay
        compressed. Or names.
      image_size: (height, width) that images are resized to. Needed if they have several sizes.
      image_channels: 1 (grey), 3 (RGB) or 4 (with alpha). Needed if images differ in channels.
      raw: feature -> shape and dtype of the raw little-endian numbers of one row:
        ``{"pixels": tf.TensorSpec([28, 28], tf.uint8)}``.
      padding: of tf.SequenceExamples, fills feature lists up to the longest of the batch, and
        steps without a value; texts are filled with empty ones. ``None``: they stay ragged.
      shuffle: whether rows have another order in every epoch: shards in random order, some at
        once, and rows anew within windows of about 16 MiB of records. Otherwise rows have the
        order of the shards.
      seed: makes the orders of all epochs the same in every program that uses it. Without one,
        batches come as soon as they are ready.
      drop_remainder: leaves out a last batch that is not full, so that all shapes are static.
      shard: ``(index, count)`` takes every count-th file from number ``index``, for the input
        pipelines of several machines. TensorFlow is told not to divide the dataset once more.

    Returns:
      A dataset of dictionaries feature -> tensor, as ``Info.feature_spec`` says or decoded, with
      the batch as the first dimension; or of pairs of such a dictionary and the label. Of raw
      records, string tensors [batch].

    Raises:
      DataError: there is no dataset, the split has no rows, shards are missing or of another size
        than the manifest says, or one of the first images cannot be decoded.
      ValueError: an argument is wrong.
    """
    import tensorflow as tf

    dataset = info(folder)
    if dataset.compression == PARQUET_COMPRESSION:
        raise DataError(
            f"{dataset.folder}: found Parquet shards, expected TFRecords, which TensorFlow reads. "
            "Take bp.open(folder).batches(as_='tf'), or convert with 'also: [parquet]' in place of "
            "'format: parquet'."
        )
    whole = dataset.split(split)
    shards = _own_shards(whole.shards, shard)
    rows = sum(shard.rows for shard in shards)
    steps = steps_of(rows, batch_size, drop_remainder)
    if not steps:
        raise ValueError(
            f"batch_size: found {batch_size:,}, expected at most the {rows:,} rows there are, or "
            "drop_remainder=False."
        )
    _check_files(shards)
    compression = _COMPRESSION_TYPE[dataset.compression]
    paths = [shard.path for shard in shards]
    if dataset.record == "raw":
        _check_no_features(dataset, features, label, raw)
        parse = _unparsed
    else:
        spec, label_name = _wanted(dataset, features, label)
        options = decode.DecodeOptions(images, image_size, image_channels)
        decoders = _raw_decoders(raw or {}, spec) | _image_decoders(
            dataset, spec, paths[0], compression, options
        )
        lists = _feature_lists(dataset, padding)
        parse = partial(_parse, spec, decoders, label_name, lists)
    row_bytes = max(1, whole.framed_bytes // whole.rows)
    records = (
        _shuffled(paths, compression, row_bytes, seed)
        if shuffle
        else _in_order(paths, compression, row_bytes)
    )
    batches = records.rebatch(batch_size, drop_remainder).map(
        parse, num_parallel_calls=tf.data.AUTOTUNE
    )
    batches = batches.apply(tf.data.experimental.assert_cardinality(steps))
    settings = tf.data.Options()
    settings.deterministic = not shuffle or seed is not None
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(settings).prefetch(tf.data.AUTOTUNE)


def _parse(
    spec: Mapping[str, Any],
    decoders: Mapping[str, decode.Decoder],
    label: str | None,
    lists: sequences.FeatureLists | None,
    records: tf.Tensor,
) -> Any:
    """Parses a batch of serialized examples."""
    import tensorflow as tf

    parsed = (
        tf.io.parse_example(records, dict(spec))
        if lists is None
        else sequences.parse_batch(records, spec, lists)
    )
    parsed |= {name: decoder(tf.reshape(parsed[name], [-1])) for name, decoder in decoders.items()}
    return parsed if label is None else (parsed, parsed.pop(label))


def _feature_lists(dataset: Info, padding: float | None) -> sequences.FeatureLists | None:
    """Returns the feature lists of tf.SequenceExamples; of tf.Examples ``None``."""
    if dataset.record == "sequence_example":
        return sequences.feature_lists(dataset.schema(), padding, dataset.columns)
    if padding is not None:
        raise ValueError(
            f"padding: found it for {dataset.folder}, whose records are tf.Examples, expected "
            "tf.SequenceExamples. Leave it out."
        )
    return None


def _unparsed(records: tf.Tensor) -> tf.Tensor:
    """Returns raw records as they are."""
    return records


def _check_no_features(
    dataset: Info, features: Iterable[str] | None, label: bool | str, raw: object
) -> None:
    for name, given in (
        ("features", features is not None),
        ("label", isinstance(label, str)),
        ("raw", bool(raw)),
    ):
        if given:
            raise ValueError(
                f"{name}: found it for {dataset.folder}, whose records are raw: they have no "
                "features. Leave it out, and map a "
                "function over the batches."
            )


def _in_order(paths: Sequence[str], compression: str, row_bytes: int) -> tf.data.Dataset:
    """Returns the records of files in order, as string tensors [some]."""
    import tensorflow as tf

    block = max(1, BLOCK_BYTES // row_bytes)
    files = tf.data.Dataset.from_tensor_slices(list(paths))
    return files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression).batch(block),
        cycle_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,  # opens the next files ahead
    )


def _shuffled(
    paths: Sequence[str], compression: str, row_bytes: int, seed: int | None
) -> tf.data.Dataset:
    """Returns the records of files in random order, as string tensors [some].

    Files are read in random order, at most half of them at once, so that windows differ between
    epochs. Each window is permuted.
    """
    import tensorflow as tf

    window = max(1, SHUFFLE_BYTES // row_bytes)
    at_once = max(1, min(SHARDS_AT_ONCE, len(paths) // 2))
    block = max(1, min(BLOCK_BYTES // row_bytes, window // at_once))
    files = tf.data.Dataset.from_tensor_slices(list(paths)).shuffle(
        len(paths), seed, reshuffle_each_iteration=True
    )
    records = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression).batch(block),
        cycle_length=at_once,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).batch(2)
    return tf.data.Dataset.zip(records.rebatch(window), seeds).map(
        tf.random.experimental.stateless_shuffle, num_parallel_calls=tf.data.AUTOTUNE
    )


def _own_shards(shards: Sequence[Shard], shard: tuple[int, int]) -> Sequence[Shard]:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard: found {shard}, expected (index, count) with 0 <= index < count.")
    if count > len(shards):
        raise ValueError(
            f"shard: found {shard}, but the split has {len(shards)} shards, too few for {count} "
            "readers. Convert again with "
            f"'num_shards: {count}' or a multiple in the recipe's 'output'."
        )
    own = [shard for shard in shards[index::count] if shard.rows]
    if not own:
        raise DataError(
            f"shard {shard}: found no rows in its files. Convert again with fewer shards."
        )
    return own


def _wanted(
    dataset: Info, features: Iterable[str] | None, label: bool | str
) -> tuple[dict[str, Any], str | None]:
    """Returns the wanted feature spec, and the label's name or ``None``."""
    spec = dataset.feature_spec() | dataset.sequence_spec()
    label_name = (dataset.label if label is True else None) if isinstance(label, bool) else label
    if label is True and dataset.label is not None and dataset.label not in spec:
        raise DataError(
            f"{dataset.folder}: {MANIFEST} names the label '{dataset.label}', which is no feature "
            "of the schema. Convert again with --overwrite."
        )
    names = list(spec) if features is None else list(features)
    for name in [*names, *([] if label_name is None else [label_name])]:
        if name not in spec:
            raise ValueError(
                f"{dataset.folder}: found no feature '{name}', expected one of the "
                f"schema's.{nearest(name, spec)}"
            )
    return {name: spec[name] for name in spec if name in names or name == label_name}, label_name


def _raw_decoders(
    raw: Mapping[str, tf.TensorSpec], spec: Mapping[str, Any]
) -> dict[str, decode.Decoder]:
    for name in raw:
        decode.check_one_text("raw", name, spec)
    return {name: decode.raw_decoder(name, row) for name, row in raw.items()}


def _image_decoders(
    dataset: Info,
    spec: Mapping[str, Any],
    path: str,
    compression: str,
    options: decode.DecodeOptions,
) -> dict[str, decode.Decoder]:
    """Returns the decoders of the features with images.

    The first examples of a file give size and channels.
    """
    import tensorflow as tf

    decode.check_options(options)
    names = decode.image_features(options.features, dataset.schema(), spec)
    for name in names:
        decode.check_one_text("images", name, spec)
    if not names:
        return {}
    (records,) = (
        tf.data.TFRecordDataset(path, compression).take(decode.LOOKED_AT).batch(decode.LOOKED_AT)
    )
    first = tf.io.parse_example(records, {name: spec[name] for name in names})
    return {
        name: decode.image_decoder(name, first[name].numpy().reshape(-1).tolist(), path, options)
        for name in names
    }


def _check_files(shards: Sequence[Shard]) -> None:
    """Checks the sizes of local files.

    TensorFlow reads an empty file as one without records, and does not name a damaged one.
    """
    for shard in shards:
        if not is_local(shard.path):
            continue
        found = os.path.getsize(shard.path) if os.path.exists(shard.path) else None
        if found != shard.bytes:
            what = "nothing" if found is None else f"{found:,} bytes"
            raise DataError(
                f"{shard.path}: found {what}, expected {shard.bytes:,} bytes as {MANIFEST} says. "
                "Copy the dataset again, or "
                "convert again with --overwrite."
            )
