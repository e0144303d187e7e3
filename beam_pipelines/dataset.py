"""Reading a dataset in TensorFlow: ``load`` makes a ``tf.data.Dataset`` of a split, ``info`` says what there is.

For trainers: neither Apache Beam nor a module of ours that needs it is imported. The dataset's folder may be a URL that
TensorFlow's filesystems know.

What costs in ``tf.data`` is the element (microseconds), so that records are elements nowhere: they are read in blocks, shuffled
in windows and parsed in batches (``benchmarks/bench_load.py``).
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_pipelines import decode, parse_sequences
from beam_pipelines.errors import DataError, nearest
from beam_pipelines.schema_features import SEQUENCE, feature_lists_of

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

# One dataset, or several that are read as one: paths or URLs.
Folders: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

FILE_NAME = "dataset.json"
FORMAT_VERSION = 1
SHUFFLE_BYTES = 16 << 20
BLOCK_BYTES = 64 << 10
SHARDS_AT_ONCE = 16
# What TensorFlow calls them.
_COMPRESSION_TYPE = {"gzip": "GZIP", "zlib": "ZLIB", "none": ""}


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of records: its path or URL, rows, and size in bytes."""

    path: str
    rows: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Split:
    """A split: rows, bytes of its records before compression, and its shards, in order."""

    rows: int
    framed_bytes: int
    shards: tuple[Shard, ...]


@dataclasses.dataclass(frozen=True)
class Info:
    """What a dataset is, as its manifest says.

    Attributes:
      folder: path or URL.
      splits: name -> split, in the recipe's order.
      label: name of the label's feature, or ``None``.
      compression: ``gzip``, ``zlib`` or ``none``.
      schema_path: of the schema that parses the records.
      labels: feature -> class names, by id, as the sources know them.
      record: what the records are: ``example``, ``sequence_example``, or ``raw`` if they are no examples.
      encodings: fingerprint of what the encodings have learned, or ``None``; datasets with the same one have the same ids.
      others: folders of more datasets that are read as one with it. Splits are those that all of them have.
    """

    folder: str
    splits: Mapping[str, Split]
    label: str | None
    compression: str
    schema_path: str
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    record: str = "example"
    encodings: str | None = None
    others: tuple[str, ...] = ()

    def split(self, name: str | None = None) -> Split:
        """Returns a split; without a name, the first.

        Raises:
          ValueError: there is none of that name.
          DataError: it has no rows.
        """
        name = next(iter(self.splits)) if name is None else name
        if name not in self.splits:
            raise ValueError(
                f"{', '.join((self.folder, *self.others))}: found no split '{name}', expected one of {', '.join(self.splits)}.{nearest(name, self.splits)}"
            )
        if not self.splits[name].rows:
            raise DataError(
                f"{self.folder}: found no rows in split '{name}'. Change 'split' or 'filter' in the recipe."
            )
        return self.splits[name]

    def steps_per_epoch(self, split: str | None = None, *, batch_size: int, drop_remainder: bool = False) -> int:
        """Returns the number of batches of a split, as ``len(load(…))`` does."""
        return _steps(self.split(split).rows, batch_size, drop_remainder)

    def schema(self) -> schema_pb2.Schema:
        """Reads the schema that parses the records."""
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        return text_format.Parse(_read(self.schema_path), schema_pb2.Schema())

    def feature_spec(self) -> dict[str, Any]:
        """Returns what ``tf.io.parse_example`` needs to parse the records: feature -> ``tf.io.FixedLenFeature`` and others.

        Of tf.SequenceExamples it is what ``tf.io.parse_sequence_example`` needs to parse the context.
        They follow from the schema by tfx-bsl's rules: a feature that is never missing and has a shape is dense, any other one
        sparse, or ragged if the schema says so.
        """
        return _feature_spec(self.schema())

    def sequence_spec(self) -> dict[str, Any]:
        """Returns what ``tf.io.parse_sequence_example`` needs to parse the feature lists: name -> ``tf.io.RaggedFeature``.

        Each gives a ragged tensor [batch, steps, values]. Of records that are no tf.SequenceExamples, nothing.
        """
        return dict(parse_sequences.feature_lists(self.schema()).spec)

    def class_names(self) -> tuple[str, ...]:
        """Returns the label's classes; none if they have no names.

        They are what the source calls its ids, such as the names of folders; or the tokens of the label's vocabulary, by id, if the recipe
        encodes it by one; else the values of the domain that the schema gives a text label, in its order, or of a truth value the texts of
        false and true.
        """
        if self.label is not None and self.label in self.labels:
            return self.labels[self.label]
        schema = self.schema()
        domains = {domain.name: tuple(domain.value) for domain in schema.string_domain}
        for feature in schema.feature:
            if feature.name == self.label:
                if feature.HasField("bool_domain"):
                    names = (feature.bool_domain.false_value, feature.bool_domain.true_value)
                    return names if any(names) else ()
                return (
                    tuple(feature.string_domain.value) or domains.get(feature.domain) or self._vocabulary(feature.name)
                )
        return ()

    def _vocabulary(self, feature: str) -> tuple[str, ...]:
        """Returns the tokens of a feature's vocabulary, by id; none if it has none. They lie where tf.Transform puts them."""
        import tensorflow as tf

        folder = os.path.dirname(self.schema_path)
        asset_map = os.path.join(folder, "asset_map")
        names = json.loads(_read(asset_map)) if tf.io.gfile.exists(asset_map) else {}
        if feature not in names:
            return ()
        return tuple(
            _read(os.path.join(folder, "..", "transform_fn", "assets", names[feature])).removesuffix("\n").split("\n")
        )


def info(folder: Folders) -> Info:
    """Reads what a dataset is, or several that are one, such as those of several days.

    Raises:
      DataError: there is no dataset in the folder, or this version cannot read it.
      ValueError: several datasets that do not go together.
    """
    folders = [folder] if isinstance(folder, str | os.PathLike) else list(folder)
    if not folders:
        raise ValueError("folder: found an empty list, expected the folder of a dataset, or several.")
    first, *others = [_info(os.fspath(one)) for one in folders]
    return _together(first, others) if others else first


def _together(first: Info, others: Sequence[Info]) -> Info:
    """Returns several datasets as one: of the splits that all have, the shards of one dataset after the other."""
    for other in others:
        if other.encodings != first.encodings:
            raise ValueError(
                f"{other.folder}: found other encodings than in {first.folder}, so that ids and scales mean something else. Make it by "
                f"'beam-pipelines transform {first.folder} …', which fits nothing again."
            )
        for what in ("label", "labels", "compression", "record"):
            found, wanted = getattr(other, what), getattr(first, what)
            if found != wanted:
                raise ValueError(f"{other.folder}: found {what} {found}, expected {wanted} as in {first.folder}.")
        if other.record == "example" and other.feature_spec() != first.feature_spec():
            raise ValueError(
                f"{other.folder}: found other features than in {first.folder}, or others that may be missing. Convert both with one "
                "schema ('schema' in the recipe)."
            )
    everyone = [first, *others]
    splits = {}
    for name in first.splits:
        own = [one.splits[name] for one in everyone if name in one.splits]
        if len(own) == len(everyone):
            shards = tuple(shard for split in own for shard in split.shards)
            splits[name] = Split(sum(split.rows for split in own), sum(split.framed_bytes for split in own), shards)
    if not splits:
        raise ValueError(f"{', '.join(one.folder for one in everyone)}: found no split that all have, expected one.")
    return dataclasses.replace(first, splits=splits, others=tuple(other.folder for other in others))


def _info(folder: str) -> Info:
    import tensorflow as tf

    path = os.path.join(folder, FILE_NAME)
    if not tf.io.gfile.exists(path):
        raise DataError(f"{folder}: found no {FILE_NAME}, so there is no dataset, or none that was finished.")
    try:
        manifest = json.loads(_read(path))
        version = manifest["format_version"]
        if version != FORMAT_VERSION:
            raise DataError(
                f"{path}: format version {version}, expected {FORMAT_VERSION}. Load it with the version that wrote it."
            )
        splits = {name: _split(folder, split) for name, split in manifest["splits"].items()}
        schema_path = os.path.join(folder, manifest["schema"])
        labels = {name: tuple(names) for name, names in manifest["labels"].items()}
        record, encodings = manifest.get("record", "example"), manifest.get("encodings")
        return Info(folder, splits, manifest["label"], manifest["compression"], schema_path, labels, record, encodings)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: is not a manifest ({error!r}). Convert again with --overwrite.") from error


def _split(folder: str, split: Mapping[str, Any]) -> Split:
    shards = [Shard(os.path.join(folder, shard["path"]), shard["rows"], shard["bytes"]) for shard in split["shards"]]
    return Split(split["rows"], split["framed_bytes"], tuple(shards))


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

    Shards are read in parallel, batches are parsed whole and prepared ahead. One pass over the dataset is one epoch; its length
    is known (``len(dataset)``), and a pass of another one, because records are missing, fails.

    Args:
      folder: of the dataset; a path or a URL. Or several, whose rows are read as of one dataset: those of several days.
      split: default: the first, which is ``train`` in most datasets.
      batch_size: rows of a batch. The last one of an epoch has what is left.
      features: those to parse, by name; default: all. What is not parsed costs little.
      label: ``True`` for pairs of features and label, if the recipe names a label; ``False`` for features only, the label among
        them; or the name of the feature that is to be the label.
      images: features to decode to pixels, uint8 [batch, height, width, channels]. ``True``: those with an ``image_domain`` in the
        schema, and ``image/encoded``. ``False``: none, they stay compressed. Or names.
      image_size: (height, width) that images are resized to. Needed if they are of several sizes.
      image_channels: 1 (grey), 3 (RGB) or 4 (with alpha). Needed if some images have others than the first.
      raw: feature -> shape and dtype of the numbers that it holds as raw little-endian bytes, for one row:
        ``{"pixels": tf.TensorSpec([28, 28], tf.uint8)}``.
      padding: of tf.SequenceExamples, what fills feature lists up to the longest of the batch, in place of the values of steps that have
        none as well; texts are filled up with empty ones. ``None``: they stay ragged.
      shuffle: whether rows come in another order in every epoch: shards in random order, some at once, and rows anew within windows
        of about 16 MiB of records. Otherwise they come as they lie in the shards.
      seed: makes the orders of all epochs the same in every program that uses it. Without one, batches come as soon as they are ready.
      drop_remainder: leaves out a last batch that is not full, so that the shape of all is known.
      shard: ``(index, count)`` takes every count-th file from number ``index``, for the input pipelines of several machines. TensorFlow
        is told not to divide the dataset once more.

    Returns:
      A dataset of dictionaries, feature -> tensor as ``Info.feature_spec`` says, or decoded, of which the first dimension is the batch; or of pairs of
      such a dictionary and the label. Of raw records, string tensors [batch].

    Raises:
      DataError: there is no dataset, the split has no rows, shards are missing or of another size than the manifest says, or one of
        the first images cannot be decoded.
      ValueError: an argument is wrong.
    """
    import tensorflow as tf

    dataset = info(folder)
    whole = dataset.split(split)
    shards = _own_shards(whole.shards, shard)
    rows = sum(shard.rows for shard in shards)
    steps = _steps(rows, batch_size, drop_remainder)
    if not steps:
        raise ValueError(
            f"batch_size: found {batch_size:,}, expected at most the {rows:,} rows there are, or drop_remainder=False."
        )
    _check_files(shards)
    compression = _COMPRESSION_TYPE[dataset.compression]
    paths = [shard.path for shard in shards]
    if dataset.record == "raw":
        _check_no_features(dataset, features, label, raw)
        parse = _unparsed
    else:
        spec, label_name = _wanted(dataset, features, label)
        options = decode.ImageOptions(images, image_size, image_channels)
        decoders = _raw_decoders(raw or {}, spec) | _image_decoders(dataset, spec, paths[0], compression, options)
        lists = _feature_lists(dataset, padding)
        parse = partial(_parse, spec, decoders, label_name, lists)
    row_bytes = max(1, whole.framed_bytes // whole.rows)
    records = _shuffled(paths, compression, row_bytes, seed) if shuffle else _in_order(paths, compression, row_bytes)
    batches = records.rebatch(batch_size, drop_remainder).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    batches = batches.apply(tf.data.experimental.assert_cardinality(steps))
    settings = tf.data.Options()
    settings.deterministic = not shuffle or seed is not None
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(settings).prefetch(tf.data.AUTOTUNE)


def _parse(
    spec: Mapping[str, Any],
    decoders: Mapping[str, decode.Decoder],
    label: str | None,
    lists: parse_sequences.FeatureLists | None,
    records: tf.Tensor,
) -> Any:
    """Parses a batch of serialized examples."""
    import tensorflow as tf

    if lists is None:
        parsed = tf.io.parse_example(records, dict(spec))
    else:
        parsed = parse_sequences.parse_batch(records, spec, lists)
    parsed |= {name: decoder(tf.reshape(parsed[name], [-1])) for name, decoder in decoders.items()}
    return parsed if label is None else (parsed, parsed.pop(label))


def _feature_lists(dataset: Info, padding: float | None) -> parse_sequences.FeatureLists | None:
    """Returns the feature lists of tf.SequenceExamples; of tf.Examples ``None``."""
    if dataset.record == "sequence_example":
        return parse_sequences.feature_lists(dataset.schema(), padding)
    if padding is not None:
        raise ValueError(
            f"padding: found it for {dataset.folder}, whose records are tf.Examples, expected tf.SequenceExamples. Leave it out."
        )
    return None


def _unparsed(records: tf.Tensor) -> tf.Tensor:
    """Returns raw records as they are."""
    return records


def _check_no_features(dataset: Info, features: Iterable[str] | None, label: bool | str, raw: object) -> None:
    for name, given in (("features", features is not None), ("label", isinstance(label, str)), ("raw", bool(raw))):
        if given:
            raise ValueError(
                f"{name}: found it for {dataset.folder}, whose records are raw: they have no features. Leave it out, and map a "
                "function over the batches."
            )


def _in_order(paths: Sequence[str], compression: str, row_bytes: int) -> tf.data.Dataset:
    """Returns the records of files, one after the other, as string tensors [some]."""
    import tensorflow as tf

    block = max(1, BLOCK_BYTES // row_bytes)
    files = tf.data.Dataset.from_tensor_slices(list(paths))
    return files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression).batch(block),
        cycle_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,  # opens the next files ahead
    )


def _shuffled(paths: Sequence[str], compression: str, row_bytes: int, seed: int | None) -> tf.data.Dataset:
    """Returns the records of files in random order, as string tensors [some].

    Files are read in random order, half of them at most at once, so that the windows of another epoch are made of others; and
    each window is permuted.
    """
    import tensorflow as tf

    window = max(1, SHUFFLE_BYTES // row_bytes)
    at_once = max(1, min(SHARDS_AT_ONCE, len(paths) // 2))
    block = max(1, min(BLOCK_BYTES // row_bytes, window // at_once))
    files = tf.data.Dataset.from_tensor_slices(list(paths)).shuffle(len(paths), seed, reshuffle_each_iteration=True)
    records = files.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression).batch(block),
        cycle_length=at_once,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).batch(2)
    return tf.data.Dataset.zip(records.rebatch(window), seeds).map(
        tf.random.experimental.stateless_shuffle, num_parallel_calls=tf.data.AUTOTUNE
    )


def _steps(rows: int, batch_size: int, drop_remainder: bool) -> int:
    if batch_size < 1:
        raise ValueError(f"batch_size: found {batch_size}, expected at least 1.")
    return rows // batch_size if drop_remainder else -(-rows // batch_size)


def _own_shards(shards: Sequence[Shard], shard: tuple[int, int]) -> Sequence[Shard]:
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard: found {shard}, expected (index, count) with 0 <= index < count.")
    if count > len(shards):
        raise ValueError(
            f"shard: found {shard}, but the split has {len(shards)} shards, too few for {count} readers. Convert again with "
            f"'num_shards: {count}' or a multiple in the recipe's 'output'."
        )
    own = [shard for shard in shards[index::count] if shard.rows]
    if not own:
        raise DataError(f"shard {shard}: found no rows in its files. Convert again with fewer shards.")
    return own


def _wanted(dataset: Info, features: Iterable[str] | None, label: bool | str) -> tuple[dict[str, Any], str | None]:
    """Returns the feature spec of what is asked for, the label included, and the label's name or ``None``."""
    spec = dataset.feature_spec() | dataset.sequence_spec()
    label_name = (dataset.label if label is True else None) if isinstance(label, bool) else label
    names = list(spec) if features is None else list(features)
    for name in [*names, *([] if label_name is None else [label_name])]:
        if name not in spec:
            raise ValueError(
                f"{dataset.folder}: found no feature '{name}', expected one of the schema's.{nearest(name, spec)}"
            )
    return {name: spec[name] for name in spec if name in names or name == label_name}, label_name


def _raw_decoders(raw: Mapping[str, tf.TensorSpec], spec: Mapping[str, Any]) -> dict[str, decode.Decoder]:
    for name in raw:
        decode.check_one_text("raw", name, spec)
    return {name: decode.raw_decoder(name, row) for name, row in raw.items()}


def _image_decoders(
    dataset: Info, spec: Mapping[str, Any], path: str, compression: str, options: decode.ImageOptions
) -> dict[str, decode.Decoder]:
    """Returns the decoders of the features that hold images, made by the look of the first examples of a file."""
    import tensorflow as tf

    decode.check_options(options)
    names = decode.image_features(options.features, dataset.schema(), spec)
    for name in names:
        decode.check_one_text("images", name, spec)
    if not names:
        return {}
    (records,) = tf.data.TFRecordDataset(path, compression).take(decode.LOOKED_AT).batch(decode.LOOKED_AT)
    first = tf.io.parse_example(records, {name: spec[name] for name in names})
    return {name: decode.image_decoder(name, first[name].numpy().reshape(-1).tolist(), path, options) for name in names}


def _check_files(shards: Sequence[Shard]) -> None:
    """Looks at the sizes of local files; TensorFlow reads an empty file as one without records, and names no damaged one."""
    for shard in shards:
        if "://" in shard.path:
            continue
        found = os.path.getsize(shard.path) if os.path.exists(shard.path) else None
        if found != shard.bytes:
            what = "nothing" if found is None else f"{found:,} bytes"
            raise DataError(
                f"{shard.path}: found {what}, expected {shard.bytes:,} bytes as {FILE_NAME} says. Copy the dataset again, or "
                "convert again with --overwrite."
            )


def _feature_spec(schema: schema_pb2.Schema) -> dict[str, Any]:
    # The part of tfx-bsl that tf.Transform asks as well; it needs no Beam.
    from tfx_bsl.tfxio import tensor_representation_util as representations

    types = {feature.name: feature.type for feature in schema.feature}
    lists = {f"{SEQUENCE}.{feature.name}" for feature in feature_lists_of(schema)}
    spec = {}
    for name, representation in representations.InferTensorRepresentationsFromMixedSchema(schema).items():
        if name in lists:
            continue
        column = representations.GetSourceValueColumnFromTensorRepresentation(representation)
        spec[name] = representations.CreateTfExampleParserConfig(representation, types[column.steps()[0]])
    return spec


def _read(path: str) -> str:
    import tensorflow as tf

    with tf.io.gfile.GFile(path) as file:
        return str(file.read())
