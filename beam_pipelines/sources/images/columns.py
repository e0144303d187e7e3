"""Checks images in columns, as strictly as image files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.layout.schema_features import features_of
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.images.options import PictureError
from beam_pipelines.sources.images.pixel_rows import ENCODED

# A row of a table has no file to get again.
_CURE = "Mend the image or encode it as PNG, or let 'on_error' reject such rows."


def image_features(schema: schema_pb2.Schema) -> tuple[str, ...]:
    """Returns the features of images: of an image domain, or ``image/encoded``."""
    return tuple(
        feature.name
        for feature in features_of(schema)
        if feature.type == schema_pb2.BYTES
        and (feature.HasField("image_domain") or feature.name == ENCODED)
    )


def image_columns(
    columns: pa.Schema,
    contract: schema_pb2.Schema,
    rename: Mapping[str, str],
    prefixes: Collection[str] = ("",),
) -> tuple[str, ...]:
    """Returns a source's columns of images.

    Args:
      columns: of the source.
      contract: the recipe's schema, empty if it has none.
      rename: of the recipe: column -> new name.
      prefixes: of the source's columns in the joined rows.
    """
    names = {ENCODED, *image_features(contract)}

    def is_image(name: str) -> bool:
        joined = [prefix + name for prefix in prefixes]
        return name == ENCODED or any(rename.get(one, one) in names for one in joined)

    return tuple(
        field.name
        for field in columns
        if is_image(field.name) and pa.types.is_binary(value_type(field.type))
    )


def damaged_images(values: pa.Array, limits: Limits) -> Iterator[tuple[int, PictureError]]:
    """Decodes images; yields row and error of each that is not whole.

    Args:
      values: binary, lists of binary, or lists of such lists. A null is no image.
      limits: of an image's pixels.
    """
    from beam_pipelines.sources.images.pictures import probe  # not before there are images

    rows = np.arange(len(values))
    while pa.types.is_nested(values.type):
        rows = rows[pc.list_parent_indices(values).to_numpy(zero_copy_only=False)]
        values = values.flatten()
    for row, image in zip(rows.tolist(), values, strict=True):
        if image.is_valid:
            try:
                probe(image.as_py(), limits)
            except PictureError as error:
                yield row, error


def first_damage(
    batch: pa.RecordBatch, names: Collection[str], limits: Limits
) -> dict[int, tuple[str, str]]:
    """Returns row -> column and error of its first damaged image.

    Rows ascend.
    """
    found: dict[int, tuple[str, str]] = {}
    for name in names:
        for row, error in damaged_images(batch.column(name), limits):
            found.setdefault(row, (name, f"{error.found}. {_CURE}" if error.cure else error.found))
    return dict(sorted(found.items()))
