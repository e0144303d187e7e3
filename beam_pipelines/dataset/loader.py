"""Loads datasets in TensorFlow: ``load`` gives the batches of ``Dataset.batches``.

It finds out how images are decoded, and decodes raw numbers of records.

For trainers: imports neither Apache Beam nor a module of ours that needs it.
"""

from __future__ import annotations

import functools
import io
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.limits import IMAGE_FORMATS
from beam_pipelines.dataset.info import spec_of
from beam_pipelines.dataset.tensorflow_batches import as_tensorflow, check_tensorflow
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.images import Image
from beam_pipelines.reader.parse import RECORD

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

    Decoder = Callable[[tf.Tensor], tf.Tensor]


_SEEDS = 1 << 32
# The name that the object detection API, TFDS and our own sources use.
IMAGE_FEATURE = "image/encoded"
# Number of examples whose images give size and channels.
LOOKED_AT = 16
_ADVICE = " Give load image_size=(height, width) and image_channels=3 to make them equal."


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

    ``Dataset.batches`` reads and decodes them. One pass over the dataset is one epoch.
    Its length is known (``len(dataset)``).

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
      image_size: (height, width) that images are resized to. Default: that of the first ones.
      image_channels: 1 (grey) or 3 (RGB). Default: that of the first ones.
      raw: feature -> shape and dtype of the raw little-endian numbers of one row:
        ``{"pixels": tf.TensorSpec([28, 28], tf.uint8)}``.
      padding: fills lists and feature lists up to the longest of the batch, and steps without a
        value; texts are filled with empty ones. ``None``: they stay sparse or ragged.
      shuffle: whether rows have another order in every epoch; else that of the shards.
      seed: makes the orders of all epochs the same in every program that uses it. Default: a new
        one, or 1 if several machines divide the rows.
      drop_remainder: leaves out a last batch that is not full, so that all shapes are static.
      shard: ``(index, count)``: the part of input pipeline ``index`` of ``count`` machines. Each
        gets as many rows of every global batch of ``count * batch_size`` rows. TensorFlow is told
        not to divide the dataset once more.

    Returns:
      A dataset of dictionaries feature -> tensor, as ``Info.feature_spec`` says or decoded, with
      the batch as the first dimension; or of pairs of such a dictionary and the label. Of raw
      records, string tensors [batch].

    Raises:
      DataError: there is no dataset, the split has no rows or no index of parts, shards are missing
        or of another size than the manifest says, or one of the first images cannot be decoded.
      ValueError: an argument is wrong.
    """
    check_tensorflow()
    import tensorflow as tf

    dataset = Dataset(folder)
    if seed is None:  # input pipelines of several machines divide one order
        seed = secrets.randbelow(_SEEDS) if shard[1] == 1 else 1
    options: dict[str, Any] = {
        "shuffle": shuffle,
        "seed": seed,
        "remainder": "drop" if drop_remainder else "short",
        "rank": shard[0],
        "world_size": shard[1],
    }
    if dataset.record == "raw":
        _check_no_features(dataset, features, label, raw)
        make_reader = functools.partial(
            dataset.batches, split, batch_size, as_="records", **options
        )
        records = as_tensorflow(make_reader, (), {}, batch_size if drop_remainder else None, 1)
        return records.map(lambda batch: batch[RECORD])
    spec, label_name = _wanted(dataset, features, label)
    names = image_features(images, dataset.schema, spec)
    decoders = _raw_decoders(raw or {}, spec)
    batches = dataset.batches(
        split,
        batch_size,
        columns=_columns(spec),
        padding=padding,
        images=_images(dataset, split, spec, names, (image_size, image_channels)) or None,
        as_="tf",
        **options,
    )

    def decoded(batch: dict[str, Any]) -> Any:
        batch |= {name: of(tf.reshape(batch[name], [-1])) for name, of in decoders.items()}
        return batch if label_name is None else (batch, batch.pop(label_name))

    if decoders or label_name is not None:
        batches = batches.map(decoded, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE) if decoders else batches


def _check_no_features(
    dataset: Dataset, features: Iterable[str] | None, label: bool | str, raw: object
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


def _wanted(
    dataset: Dataset, features: Iterable[str] | None, label: bool | str
) -> tuple[dict[str, Any], str | None]:
    """Returns the wanted feature spec, and the label's name or ``None``."""
    spec = spec_of(dataset.schema)
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


def _raw_decoders(raw: Mapping[str, tf.TensorSpec], spec: Mapping[str, Any]) -> dict[str, Decoder]:
    for name in raw:
        check_one_text("raw", name, spec)
    return {name: raw_decoder(name, row) for name, row in raw.items()}


def _columns(spec: Mapping[str, Any]) -> list[str]:
    """Returns the columns of features; a sparse feature has several."""
    import tensorflow as tf

    names: dict[str, None] = {}
    for name, feature in spec.items():
        if isinstance(feature, tf.io.SparseFeature):
            keys = feature.index_key
            names |= dict.fromkeys([keys] if isinstance(keys, str) else keys)
            names[feature.value_key] = None
        else:
            names[name] = None
    return list(names)


def _images(
    dataset: Dataset,
    split: str | None,
    spec: Mapping[str, Any],
    names: Sequence[str],
    wanted: tuple[tuple[int, int] | None, int | None],
) -> dict[str, Image]:
    """Returns how the features with images are decoded.

    The first examples of a split give the size and the channels that are not wanted.
    """
    for name in names:
        check_one_text("images", name, spec)
    if not names:
        return {}
    split = next(iter(dataset.splits)) if split is None else split
    first, where = dataset.head(LOOKED_AT, split), f"{dataset.shown}, split '{split}'"
    contents = {name: [row[0] for row in first[name].to_pylist() if row] for name in names}
    return {name: image_of(name, contents[name], where, *wanted) for name in names}


def image_features(
    wanted: bool | str | Iterable[str], schema: schema_pb2.Schema, parsed: Iterable[str]
) -> list[str]:
    """Returns the names of the parsed features to decode."""
    known = list(parsed)
    if isinstance(wanted, bool):
        found = [
            f.name for f in schema.feature if f.HasField("image_domain") or f.name == IMAGE_FEATURE
        ]
        return [name for name in found if wanted and name in known]
    return [wanted] if isinstance(wanted, str) else list(wanted)


def check_one_text(argument: str, name: str, specs: Mapping[str, Any]) -> None:
    """Checks that a feature is loaded, one byte string a row.

    Raises:
      ValueError: it is not.
    """
    import tensorflow as tf

    if name not in specs:
        raise ValueError(
            f"{argument}: found '{name}', expected a feature that is loaded.{nearest(name, specs)}"
        )
    spec = specs[name]
    is_dense = isinstance(spec, tf.io.FixedLenFeature)
    if getattr(spec, "dtype", None) != tf.string:
        raise ValueError(
            f"{argument}: found '{name}', a feature of numbers, expected one of bytes."
        )
    if not is_dense or tf.TensorShape(spec.shape).num_elements() != 1:
        raise ValueError(
            f"{argument}: found '{name}' with no or several values in a row, expected one in "
            "every row. Leave other rows out by the "
            "recipe's 'filter', or load it as bytes"
            + (" (images=False)." if argument == "images" else ".")
        )


def image_of(
    name: str,
    contents: Sequence[bytes],
    where: str,
    size: tuple[int, int] | None,
    channels: int | None,
) -> Image:
    """Returns how a feature of images is decoded.

    Args:
      name: of the feature, for messages.
      contents: of the first examples, which give what is not given.
      where: their file.
      size: (height, width) that images are resized to, not keeping proportions.
      channels: 1 or 3.

    Raises:
      DataError: one of the contents is not an image.
      ValueError: sizes or channels differ, and the arguments do not make them equal.
    """
    found = [
        _shape(content, f"{where}, example {number}, feature '{name}'")
        for number, content in enumerate(contents)
    ]
    shapes = dict.fromkeys((*(size or own[:2]), channels or own[2]) for own in found)
    if len(shapes) > 1:
        (first, second), differ = list(shapes)[:2], "number of channels" if size else "size"
        raise ValueError(
            f"{name}: found images of {' × '.join(map(str, first))} and of "
            f"{' × '.join(map(str, second))} (height × width × channels), "
            f"expected one {differ}.{_ADVICE}"
        )
    height, width, channels = next(iter(shapes))
    return Image((height, width), None, channels)


def _shape(content: bytes, where: str) -> tuple[int, int, int]:
    """Returns height, width and channels of an image, by its head."""
    import PIL.Image

    try:
        with PIL.Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
            is_grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
            return image.height, image.width, 1 if is_grey else 3
    except Exception as error:  # Pillow raises errors of many kinds
        raise DataError(
            f"{where}: found {len(content):,} bytes that are no image ({error}), expected a BMP, "
            "GIF, JPEG, PNG or WebP image. Re-encode images by the recipe, or load the bytes: "
            "images=False."
        ) from error


def raw_decoder(name: str, spec: tf.TensorSpec) -> Decoder:
    """Returns the decoder of a feature of raw little-endian numbers.

    It takes string [batch] and gives numbers [batch, *shape].

    Args:
      name: of the feature, for messages.
      spec: shape, all known, and dtype of one row's numbers.

    Raises:
      ValueError: the shape is not known, or the numbers have no fixed size.
    """
    import tensorflow as tf

    length = tf.TensorShape(spec.shape).num_elements()
    if length is None or not spec.dtype.size or spec.dtype == tf.string:
        raise ValueError(
            f"raw: found {spec} for '{name}', expected numbers of a known shape, as "
            "tf.TensorSpec([28, 28], tf.uint8)."
        )
    size = length * spec.dtype.size

    def decode(batch: tf.Tensor) -> tf.Tensor:
        message = (
            f"{name}: found another number of bytes than the {size:,} of {spec.dtype.name} "
            f"{tuple(spec.shape)}."
        )
        with tf.control_dependencies(
            [tf.debugging.assert_equal(tf.strings.length(batch), size, message)]
        ):
            numbers = tf.io.decode_raw(tf.identity(batch), spec.dtype)
        return tf.reshape(numbers, [-1, *spec.shape])

    return decode
