"""Decodes the images of a dataset as strictly as sources do."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.limits import Limits
from beam_pipelines.dataset.decode import IMAGE_FEATURE
from beam_pipelines.dataset.manifest import Manifest
from beam_pipelines.sources.images.columns import damaged_images, image_features

_CURE = "Convert again; 'on_error' rejects rows with such images."


def image_features_of(
    folder: str, manifest: Manifest, schema: schema_pb2.Schema
) -> tuple[str, ...]:
    """Returns the features of images: of an image domain, or ``image/encoded``.

    Raises:
      RecipeError: there are none. Raw records have no features, and each is an image.
    """
    names = image_features(schema)
    if not names and manifest["record"] != "raw":
        raise RecipeError(
            f"{folder}: found no feature of images, expected '{IMAGE_FEATURE}', or one with an "
            "image_domain in the schema."
        )
    return names


def limits_of(manifest: Manifest) -> Limits:
    """Returns the limits of the run that made a dataset."""
    limits = manifest["recipe"].get("limits", {})
    pixels = limits.get("image_pixels", Limits().image_pixels)
    if not isinstance(pixels, int):
        raise DataError(
            f"{MANIFEST}: found limits of {pixels!r} pixels, expected a whole number. Convert "
            "again with --overwrite."
        )
    return Limits(image_pixels=pixels)


def check_images(
    batch: pa.RecordBatch, names: Collection[str], limits: Limits, path: str, first: int
) -> None:
    """Decodes the images of a block of records.

    Args:
      batch: lists of binary, or lists of such lists.
      names: of the columns of images.
      limits: of an image's pixels.
      path: of the shard, for messages.
      first: number of the first record.

    Raises:
      DataError: an image is not whole, or TensorFlow does not decode it.
    """
    for name in names:
        values = batch.column(batch.schema.get_field_index(name))
        _check(values, limits, path, first, f", feature '{name}'")


def check_raw_images(records: Iterable[bytes], limits: Limits, path: str, first: int) -> None:
    """Decodes records that are images; raises as ``check_images``."""
    _check(pa.array(records, pa.large_binary()), limits, path, first, "")


def _check(images: pa.Array, limits: Limits, path: str, first: int, where: str) -> None:
    for row, error in damaged_images(images, limits):
        found = f"{error.found}. {_CURE}" if error.cure else error.found
        raise DataError(f"{path}, record {first + row}{where}: {found}") from error
