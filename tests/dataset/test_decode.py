"""Images and raw numbers of ``bp.load``, compared with Pillow and numpy.

Some are refused.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from PIL import Image

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset import loader
from tests.reader.datasets import write_records
from tests.support.wire import example

REQUIRED = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }"
SCHEMA = f"""
feature {{ name: "image/encoded" type: BYTES {REQUIRED} }}
feature {{ name: "other" type: BYTES {REQUIRED} }}
feature {{ name: "label" type: INT {REQUIRED} }}
"""
LOSSLESS = ("PNG", "BMP", "WEBP")


def compressed(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options) -> bytes:
    """Pixels as an image file."""
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, kind, **({"lossless": True} if kind == "WEBP" else {}) | options)
    return file.getvalue()


def random_pixels(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Noise of a shape."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def write_dataset(folder: Path, contents: Sequence[bytes | None], schema: str = SCHEMA) -> str:
    """Writes two shards with the contents in both bytes features.

    The label numbers the rows; None is no value.
    """
    records = [
        example(
            {
                name: ("bytes", None if content is None else [content])
                for name in ("image/encoded", "other")
            }
            | {"label": ("int64", [number])}
        )
        for number, content in enumerate(contents)
    ]
    return write_records(folder, schema, records, label="label")


def loaded(folder: str, feature: str = "image/encoded", **arguments) -> np.ndarray:
    """The feature of all rows, in the order of their labels."""
    batches = list(loader.load(folder, batch_size=3, **arguments))
    order = np.argsort(np.concatenate([label[:, 0] for _, label in batches]))
    return np.concatenate([features[feature] for features, _ in batches])[order]


@pytest.mark.parametrize("kind", LOSSLESS)
def test_images_of_one_size_are_dense_pixels(tmp_path, kind):
    """Images of lossless formats come back pixel by pixel.

    A batch's shape is known except for its size.
    """
    pixels = [random_pixels(5, 7, seed=seed) for seed in range(10)]
    folder = write_dataset(tmp_path, [compressed(image, kind) for image in pixels])
    np.testing.assert_array_equal(loaded(folder), pixels, strict=True)
    features, _ = loader.load(folder, batch_size=3).element_spec
    assert features["image/encoded"] == tf.TensorSpec([None, 5, 7, 3], tf.uint8)
    full, _ = loader.load(folder, batch_size=3, drop_remainder=True).element_spec
    assert full["other"].shape == (3, 1)


@pytest.mark.parametrize(
    ("images", "arguments", "message"),
    [
        (
            [(5, 7, 3), (6, 7, 3)],
            {},
            r"found images of 5 × 7 × 3 and of 6 × 7 × 3 .*expected one size.*image_size=\(height",
        ),
        (
            [(5, 7, 3), (5, 7, 1)],
            {"image_size": (4, 4)},
            "of 4 × 4 × 3 and of 4 × 4 × 1 .* expected one number of channels",
        ),
        (
            [(5, 7, 3)] * 2,
            {"image_channels": 2},
            r"channels=2.* expected channels of 1 \(grey\) or 3 \(RGB\)",
        ),
        (
            [(5, 7, 3)] * 2,
            {"image_size": (0, 4)},
            r"size=\(0, 4\).* expected a size of \(height, width\)",
        ),
        (
            [(5, 7, 3)] * 2,
            {"images": "lable"},
            "images: found 'lable', expected a feature that is loaded",
        ),
        (
            [(5, 7, 3)] * 2,
            {"images": ["label"]},
            "images: found 'label', a feature of numbers, expected one of bytes",
        ),
        (
            [(5, 7, 3)] * 2,
            {"raw": {"other": tf.TensorSpec([None], tf.uint8)}},
            "raw: found .* of a known shape",
        ),
        (
            [(5, 7, 3)] * 2,
            {"raw": {"othr": tf.TensorSpec([1], tf.uint8)}},
            "raw: found 'othr', .* Did you mean 'other'",
        ),
    ],
)
def test_what_cannot_be_a_batch_is_explained(tmp_path, images, arguments, message):
    """Before the first batch, with what to do."""
    folder = write_dataset(
        tmp_path, [compressed(random_pixels(*shape)) for shape in [*images, *images]]
    )
    with pytest.raises(ValueError, match=message):
        loader.load(folder, **arguments)


@pytest.mark.parametrize(
    "content", [b"", b"no image", compressed(random_pixels(5, 7))[:40], b"II*\0\10\0\0\0"]
)
def test_what_is_no_image_is_named(tmp_path, content):
    """A value that is no image is named with file and number.

    The error says how to load the bytes all the same.
    """
    folder = write_dataset(tmp_path, [compressed(random_pixels(5, 7)), content] * 2)
    message = rf"split 'train', example 1, feature 'image/encoded': found {len(content)} bytes that are no image"
    with pytest.raises(DataError, match=message):
        loader.load(folder)
    assert (
        loaded(folder, images=False).tolist() == [[compressed(random_pixels(5, 7))], [content]] * 2
    )


def test_features_to_decode_are_chosen(tmp_path):
    """The schema, the name or the caller chooses the features to decode.

    The schema has ``image_domain``, the name is ``image/encoded``; other features stay bytes.
    """
    contents = [compressed(random_pixels(5, 7))] * 2
    folder = write_dataset(
        tmp_path,
        contents,
        SCHEMA.replace('"other" type: BYTES', '"other" type: BYTES image_domain {}'),
    )
    for images, wanted in (
        (True, (4, 4)),
        (False, (2, 2)),
        ("other", (2, 4)),
        (["image/encoded"], (4, 2)),
    ):
        features, _ = loader.load(folder, images=images).element_spec
        assert tuple(features[name].shape.rank for name in ("image/encoded", "other")) == wanted
    assert set(loader.load(folder, features=["other"], label=False).element_spec) == {"other"}
    assert set(loader.load(folder, features=["label"], label=False).element_spec) == {"label"}


def test_images_that_some_rows_lack_are_explained(tmp_path):
    """Images that some rows lack are an error.

    No picture can take their place; the bytes can be loaded.
    """
    schema = SCHEMA.replace(REQUIRED, "value_count { min: 1 max: 1 }", 1)
    folder = write_dataset(
        tmp_path, [None, compressed(random_pixels(5, 7))], schema.replace('"other"', '"unused"')
    )
    with pytest.raises(
        ValueError,
        match=r"'image/encoded' with no or several values in a row.*'filter'.*images=False",
    ):
        loader.load(folder, features=["image/encoded"])
    assert loader.load(folder, features=["image/encoded"], images=False)


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(
        [tf.uint8, tf.int8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64, tf.bool]
    ),
    shape=st.lists(st.integers(1, 4), max_size=3),
    rows=st.integers(1, 5),
)
def test_raw_numbers_have_their_shape_and_values(dtype, shape, rows):
    """Little-endian numbers equal those that numpy reads.

    They have any type and rank.
    """
    values = np.random.default_rng(rows).integers(0, 2, (rows, *shape)).astype(dtype.as_numpy_dtype)
    contents = [row.astype(values.dtype.newbyteorder("<")).tobytes() for row in values]
    found = loader.raw_decoder("pixels", tf.TensorSpec(shape, dtype))(tf.constant(contents))
    np.testing.assert_array_equal(found, values, strict=True)


def test_raw_numbers_are_loaded_beside_others(tmp_path):
    """``raw`` names features with the shape and dtype of a row.

    A row of another length ends the epoch with both lengths.
    """
    pixels = random_pixels(4, 4, seed=1)[:, :, 0]
    folder = write_dataset(tmp_path, [pixels.tobytes()] * 4)
    found = loaded(folder, "other", images=False, raw={"other": tf.TensorSpec([4, 4], tf.uint8)})
    np.testing.assert_array_equal(found, [pixels] * 4)
    batches = loader.load(folder, images=False, raw={"other": tf.TensorSpec([2, 4], tf.uint8)})
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"other: found another number of bytes than the 8 of uint8",
    ):
        list(batches)
