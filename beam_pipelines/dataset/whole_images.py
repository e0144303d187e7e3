"""Decodes the images of a dataset as strictly as sources do."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.limits import Limits
from beam_pipelines.core.schema_features import features_of
from beam_pipelines.dataset.decode import IMAGE_FEATURE
from beam_pipelines.dataset.manifest import Manifest
from beam_pipelines.sources.images.pictures import probe
from beam_pipelines.sources.images.wholeness import PictureError


def image_features_of(
    folder: str, manifest: Manifest, schema: schema_pb2.Schema
) -> tuple[str, ...]:
    """Returns the features of images: of an image domain, or ``image/encoded``.

    Raises:
      RecipeError: there are none. Raw records have no features, and each is an image.
    """
    names = tuple(
        feature.name
        for feature in features_of(schema)
        if feature.type == schema_pb2.BYTES
        and (feature.HasField("image_domain") or feature.name == IMAGE_FEATURE)
    )
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
        rows = np.arange(len(values))
        while pa.types.is_nested(values.type):
            rows = rows[pc.list_parent_indices(values).to_numpy(zero_copy_only=False)]
            values = values.flatten()
        _check(zip(rows.tolist(), values, strict=True), limits, path, first, f", feature '{name}'")


def check_raw_images(records: Iterable[bytes], limits: Limits, path: str, first: int) -> None:
    """Decodes records that are images; raises as ``check_images``."""
    _check(enumerate(map(pa.scalar, records)), limits, path, first, "")


def _check(
    images: Iterable[tuple[int, pa.Scalar]], limits: Limits, path: str, first: int, where: str
) -> None:
    for row, image in images:
        if not image.is_valid:
            continue
        try:
            probe(image.as_py(), limits)
        except PictureError as error:
            raise DataError(f"{path}, record {first + row}{where}: {error}") from error
