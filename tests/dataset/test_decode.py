"""Images of ``bp.load``, compared with Pillow's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import beam_pipelines as bp
from beam_pipelines.dataset import loader
from tests.reader.datasets import write_records
from tests.support.wire import example

REQUIRED = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }"
SCHEMA = f"""
feature {{ name: "image/encoded" type: BYTES {REQUIRED} }}
feature {{ name: "other" type: BYTES {REQUIRED} }}
feature {{ name: "label" type: INT {REQUIRED} }}
"""


def compressed(pixels: np.ndarray, kind: str) -> bytes:
    """Pixels as an image file without loss."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


def write_dataset(folder: Path, contents: Sequence[bytes]) -> str:
    """Writes two shards with the contents in both bytes features.

    The label numbers the rows.
    """
    records = [
        example(
            {name: ("bytes", [content]) for name in ("image/encoded", "other")}
            | {"label": ("int64", [number])}
        )
        for number, content in enumerate(contents)
    ]
    return write_records(folder, SCHEMA, records, label="label")


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP"])
def test_images_are_dense_pixels(tmp_path: Path, kind: str) -> None:
    """Images of lossless formats come back pixel by pixel; others stay bytes.

    A batch's shape is known except for its size.
    """
    pixels = np.random.default_rng(0).integers(0, 256, (10, 5, 7, 3), np.uint8)
    folder = write_dataset(tmp_path, [compressed(image, kind) for image in pixels])
    images = {"image/encoded": bp.Image((5, 7))}
    batches = loader.load(folder, batch_size=3, images=images)
    found = {}
    for features, label in batches:
        found |= dict(zip(label[:, 0].numpy(), features["image/encoded"].numpy(), strict=True))
    np.testing.assert_array_equal([found[number] for number in range(10)], pixels, strict=True)
    features, _ = batches.element_spec
    assert features["image/encoded"] == tf.TensorSpec([None, 5, 7, 3], tf.uint8)
    full, _ = loader.load(folder, batch_size=3, remainder="drop").element_spec
    assert full["image/encoded"] == full["other"] == tf.TensorSpec([3, 1], tf.string)


def test_features_are_chosen(tmp_path: Path) -> None:
    """A feature that is not asked for is not there, nor decoded."""
    folder = write_dataset(tmp_path, [b"no image"] * 2)
    for name in ("other", "label"):
        assert set(loader.load(folder, features=[name], label=False).element_spec) == {name}
    with pytest.raises(ValueError, match="image/encoded"):
        loader.load(folder, features=["other"], images={"image/encoded": bp.Image((5, 7))})
