"""Chooses images for the report from sampled rows."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

IMAGE_COLUMN = "image/encoded"
# The recipe's label, or else the first of these columns, labels an image.
_LABEL_COLUMNS = ("image/class/text", "image/class/label", "label")
_NUMBER = 24
_MAX_IMAGE_BYTES = 1 << 16
# Of all images as text, which is a third longer: 768 KiB of images.
_MOST_LETTERS = 1 << 20
# Images up to this width are enlarged with sharp pixels.
_TINY_PIXELS = 64
_MEDIA_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class ImageSample(NamedTuple):
    """An encoded image of a split.

    Attributes:
      split: name of the split.
      label: text, or ``""`` without a label.
      media_type: ``image/png`` or ``image/jpeg``.
      base64: bytes of the file.
      is_tiny: whether this is a PNG of at most 64 pixels in width.
    """

    split: str
    label: str
    media_type: str
    base64: str
    is_tiny: bool = False


def image_column(schema: pa.Schema, rename: Mapping[str, str]) -> str | None:
    """Returns the binary column that is ``image/encoded``, maybe renamed; or ``None``."""
    name = rename.get(IMAGE_COLUMN, IMAGE_COLUMN)
    return name if name in schema.names and pa.types.is_binary(schema.field(name).type) else None


def choose_images(
    rows: Iterable[tuple[str, pa.RecordBatch]],
    label: str | None = None,
    rename: Mapping[str, str] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
) -> tuple[ImageSample, ...]:
    """Returns up to 24 images of sampled rows, 768 KiB in total.

    Splits and labels take turns. Only PNG and JPEG of up to 64 KiB are chosen, because the page
    embeds them unchanged.

    Args:
      rows: (split, sampled rows), in a fixed order. Batches without a binary column
        ``image/encoded`` are skipped.
      label: name of the column that labels an image, or ``None``.
      rename: of the recipe: column -> new name.
      names: column of ids -> the name of each class.
    """
    groups: dict[tuple[str, str], list[ImageSample]] = {}
    for split, batch in rows:
        for image in _images(split, batch, label, rename or {}, names or {}):
            group = groups.setdefault((split, image.label), [])
            if len(group) < _NUMBER:
                group.append(image)
    chosen: list[ImageSample] = []
    size = 0
    for turn in range(_NUMBER):
        for group in groups.values():
            if (
                turn < len(group)
                and len(chosen) < _NUMBER
                and size + len(group[turn].base64) <= _MOST_LETTERS
            ):
                chosen.append(group[turn])
                size += len(group[turn].base64)
    return tuple(chosen)


def _images(
    split: str,
    batch: pa.RecordBatch,
    label: str | None,
    rename: Mapping[str, str],
    class_names: Mapping[str, Sequence[str]],
) -> Iterator[ImageSample]:
    """Yields the small images of a batch of at most some megabytes."""
    names = batch.schema.names
    column = image_column(batch.schema, rename)
    if column is None:
        return
    candidates = (label, *(rename.get(name, name) for name in _LABEL_COLUMNS))
    named_by = next((name for name in candidates if name in names), None)
    labels: Sequence[object] = (
        [None] * batch.num_rows if named_by is None else batch.column(named_by).to_pylist()
    )
    for value, data in zip(labels, batch.column(column), strict=True):
        buffer = data.as_buffer()
        if buffer is None or buffer.size > _MAX_IMAGE_BYTES:
            continue
        image = buffer.to_pybytes()
        media_type = next(
            (kind for magic, kind in _MEDIA_TYPES.items() if image.startswith(magic)), None
        )
        if media_type is not None:
            text = _class_of(value, class_names.get(named_by or "", ()))
            # Bytes 16 to 20 of a PNG hold the width (PNG specification, 11.2.2 IHDR).
            is_tiny = int.from_bytes(image[16:20], "big") <= _TINY_PIXELS
            is_tiny &= media_type == "image/png"
            yield ImageSample(split, text, media_type, base64.b64encode(image).decode(), is_tiny)


def _class_of(value: object, names: Sequence[str]) -> str:
    """Returns the name of a label's class, or the label as text."""
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    return "" if value is None else str(value)
