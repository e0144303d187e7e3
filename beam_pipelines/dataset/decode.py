"""Decodes images and raw numbers of records in TensorFlow.

Decoders are functions of a string tensor [batch] that run in ``tf.data``. For trainers: no Beam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_pipelines.core.errors import DataError, nearest

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

    Decoder = Callable[[tf.Tensor], tf.Tensor]

# The name that the object detection API, TFDS and our own sources use.
IMAGE_FEATURE = "image/encoded"
# Number of examples that are decoded for the size of images, before the first batch.
LOOKED_AT = 16
_CHANNELS = {1: "grey", 3: "RGB", 4: "RGB with alpha"}


class DecodeOptions(NamedTuple):
    """Options of decoding images.

    Attributes:
      features: names; ``True``: those with an ``image_domain`` in the schema, and
        ``image/encoded``; ``False``: none.
      size: (height, width) that images are resized to; ``None``: all have one size already.
      channels: 1, 3 or 4; ``None`` keeps them.
    """

    features: bool | str | Iterable[str] = True
    size: tuple[int, int] | None = None
    channels: int | None = None


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


def check_options(options: DecodeOptions) -> None:
    """Checks the arguments alone.

    Raises:
      ValueError: a wrong size or number of channels.
    """
    if options.channels not in (None, *_CHANNELS):
        known = ", ".join(f"{number} ({name})" for number, name in _CHANNELS.items())
        raise ValueError(f"image_channels: found {options.channels!r}, expected one of {known}.")
    if options.size is not None and (len(options.size) != 2 or min(options.size) < 1):
        raise ValueError(f"image_size: found {options.size!r}, expected (height, width) in pixels.")


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


def image_decoder(
    name: str, contents: Sequence[bytes], where: str, options: DecodeOptions
) -> Decoder:
    """Returns the decoder of a feature of images.

    It takes string [batch] and gives uint8 [batch, height, width, channels], static but for the
    batch. BMP, GIF (the first picture of an animation), JPEG, PNG (16 bits become 8) and WebP are
    told apart by their bytes, as by ``tf.io.decode_image``. While an epoch runs, an image that
    cannot be decoded or has another size is an ``InvalidArgumentError``.

    Args:
      name: of the feature, for messages.
      contents: of the first examples, which give size and channels.
      where: their file.
      options: with ``size``, images are resized: bilinear, antialiased, not keeping proportions.

    Raises:
      DataError: one of the contents is not an image.
      ValueError: sizes or channels differ, and the options do not make them equal.
    """
    shape = _shape(name, _shapes(name, contents, where, options), options)

    def decode(batch: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        animated = tf.strings.regex_full_match(
            tf.strings.substr(batch, 0, _WEBP_FLAGS_END), _ANIMATED_WEBP
        )
        with tf.control_dependencies(
            [tf.debugging.assert_equal(animated, False, f"{name}: {_NO_ANIMATION}")]
        ):
            batch = tf.identity(batch)

        def one(content: tf.Tensor) -> tf.Tensor:
            image = _with_channels(
                tf.io.decode_image(content, expand_animations=False), options.channels
            )
            if options.size is not None:
                image = _resized(image, options.size)
            message = (
                f"{name}: found an image of another height, width or number of channels "
                f"than the first, whose are {shape}."
            )
            with tf.control_dependencies(
                [tf.debugging.assert_equal(tf.shape(image), shape, message + _ADVICE)]
            ):
                return tf.reshape(image, shape)

        return tf.map_fn(one, batch, fn_output_signature=tf.TensorSpec(shape, tf.uint8))

    return decode


# TensorFlow's decoder (2.21) writes out of bounds for an extended WebP file with the flag of an
# animation, which ends the program. Source:
# https://developers.google.com/speed/webp/docs/riff_container, extended file format.
_WEBP_FLAGS_END = 21
_ANIMATION_FLAG = 0x02
_ANIMATED_WEBP = (
    r"(?s)RIFF\C{4}WEBPVP8X\C{4}["
    + "".join(rf"\x{n:02x}" for n in range(64) if n & _ANIMATION_FLAG)
    + "]"
)
_NO_ANIMATION = (
    "found an animated WebP image, which TensorFlow cannot decode, expected one picture. Re-encode "
    "images by the recipe, "
    "'image: {format: png}', or load the bytes: images=False."
)
_ADVICE = " Give load image_size=(height, width) and image_channels=3 to make them equal."


def _shapes(
    name: str, contents: Sequence[bytes], where: str, options: DecodeOptions
) -> dict[tuple[int, int, int], int]:
    """Returns decoded shape -> number of the first example that has it."""
    import tensorflow as tf

    shapes: dict[tuple[int, int, int], int] = {}
    for number, content in enumerate(contents):
        if re.match(
            _ANIMATED_WEBP.replace(r"\C", "."), content[:_WEBP_FLAGS_END].decode("latin-1")
        ):
            raise DataError(f"{where}, example {number}, feature '{name}': {_NO_ANIMATION}")
        try:
            height, width, channels = tf.io.decode_image(content, expand_animations=False).shape
        except tf.errors.InvalidArgumentError as error:
            raise DataError(
                f"{where}, example {number}, feature '{name}': found {len(content):,} bytes that "
                "TensorFlow does not decode, expected a "
                "BMP, GIF, JPEG, PNG or WebP image "
                f"({str(error.message).rpartition('}} ')[2]}). Re-encode images by the recipe, or "
                "load the bytes: images=False."
            ) from error
        shapes.setdefault(
            (*(options.size or (height, width)), options.channels or channels), number
        )
    return shapes


def _shape(
    name: str, shapes: Mapping[tuple[int, int, int], int], options: DecodeOptions
) -> tuple[int, int, int]:
    if len(shapes) > 1:
        (first, second), differ = list(shapes)[:2], "number of channels" if options.size else "size"
        raise ValueError(
            f"{name}: found images of {' × '.join(map(str, first))} and of "
            f"{' × '.join(map(str, second))} (height × width × channels), "
            f"expected one {differ}.{_ADVICE}"
        )
    return next(iter(shapes))


def _with_channels(image: tf.Tensor, wanted: int | None) -> tf.Tensor:
    """Changes the channels of an image uint8 [height, width, 1 to 4].

    ``tf.io.decode_image`` can do so for some formats only. The number of channels tells grey and
    RGB, with or without alpha, apart. Dropped alpha is not blended; missing alpha is opaque.
    """
    import tensorflow as tf

    if wanted is None:
        return image
    found = tf.shape(image)[2]
    color = image[:, :, : found - 1 + found % 2]
    is_grey = found <= 2
    if wanted == 1:
        return tf.cond(is_grey, lambda: color, lambda: tf.image.rgb_to_grayscale(color))
    rgb = tf.cond(is_grey, lambda: tf.repeat(color, 3, axis=2), lambda: color)
    if wanted == 3:
        return rgb
    alpha = tf.cond(
        found % 2 == 0, lambda: image[:, :, -1:], lambda: tf.ones_like(image[:, :, :1]) * 255
    )
    return tf.concat([rgb, alpha], axis=2)


def _resized(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Returns an image uint8 [height, width, channels] of another size.

    An image that has the size stays as it is, bit for bit.
    """
    import tensorflow as tf

    def resize() -> tf.Tensor:
        return tf.saturate_cast(tf.round(tf.image.resize(image, size, antialias=True)), tf.uint8)

    return tf.cond(tf.reduce_all(tf.shape(image)[:2] == size), lambda: image, resize)


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
