"""Says how ``bp.load`` decodes images, and decodes raw numbers of records.

For trainers: no Beam.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.limits import IMAGE_FORMATS
from beam_pipelines.reader.images import Image

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

    Decoder = Callable[[tf.Tensor], tf.Tensor]

# The name that the object detection API, TFDS and our own sources use.
IMAGE_FEATURE = "image/encoded"
# Number of examples whose images give size and channels.
LOOKED_AT = 16
_ADVICE = " Give load image_size=(height, width) and image_channels=3 to make them equal."


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
