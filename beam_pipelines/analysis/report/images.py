"""Chooses some images out of sampled rows, and shows them as a grid."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.analysis.report.markup import SPLIT_COLORS, escape
from beam_pipelines.analysis.report.values import ImageSample
from beam_pipelines.core.formatting import shorten

IMAGE_COLUMN = "image/encoded"
# The first of these that there is names an image; before them, the recipe's label.
_LABEL_COLUMNS = ("image/class/text", "image/class/label", "label")
_NUMBER = 24
_MAX_IMAGE_BYTES = 1 << 16
_MAX_TOTAL_BYTES = 3 << 18
_MEDIA_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
# Images up to this width are enlarged with sharp pixels.
_TINY_PIXELS = 64


def has_images(schema: pa.Schema) -> bool:
    """Whether rows of these columns may hold images that a report shows."""
    return IMAGE_COLUMN in schema.names and pa.types.is_binary(schema.field(IMAGE_COLUMN).type)


def choose_images(
    rows: Iterable[tuple[str, pa.RecordBatch]], label: str | None = None
) -> tuple[ImageSample, ...]:
    """Returns up to 24 images of sampled rows, 768 KiB in all: of as many splits and labels as
    there are, in turn.

    Only PNG and JPEG of up to 64 KiB are taken: the page holds them as they are.

    Args:
      rows: (split, sampled rows), in a fixed order; rows without a binary column ``image/encoded``
        have none.
      label: the column that names an image, if there is one.
    """
    groups: dict[tuple[str, str], list[ImageSample]] = {}
    for split, batch in rows:
        for image in _images(split, batch, label):
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
                and size + len(group[turn].data) <= _MAX_TOTAL_BYTES
            ):
                chosen.append(group[turn])
                size += len(group[turn].data)
    return tuple(chosen)


def _images(split: str, batch: pa.RecordBatch, label: str | None) -> Iterator[ImageSample]:
    """Yields the small images of a batch (a sample: some megabytes at most)."""
    names = batch.schema.names
    if not has_images(batch.schema):
        return
    named_by = next((name for name in (label, *_LABEL_COLUMNS) if name in names), None)
    labels: Sequence[object] = (
        [None] * batch.num_rows if named_by is None else batch.column(named_by).to_pylist()
    )
    for value, data in zip(labels, batch.column(IMAGE_COLUMN), strict=True):
        buffer = data.as_buffer()
        if buffer is None or buffer.size > _MAX_IMAGE_BYTES:
            continue
        image = buffer.to_pybytes()
        media_type = next(
            (kind for magic, kind in _MEDIA_TYPES.items() if image.startswith(magic)), None
        )
        if media_type is not None:
            yield ImageSample(split, "" if value is None else str(value), media_type, image)


def show_images(images: Sequence[ImageSample], splits: Mapping[str, object]) -> str:
    """Returns the grid of images, each with its label and in its split's color; nothing without
    images.
    """
    numbers = {split: number % SPLIT_COLORS for number, split in enumerate(splits)}
    figures = "".join(_figure(image, numbers.get(image.split, 0)) for image in images)
    return f'<div class="images">{figures}</div>' if figures else ""


def _figure(image: ImageSample, number: int) -> str:
    name = escape(shorten(image.label, 40))
    style = ' class="tiny"' if _is_tiny(image) else ""
    data = base64.b64encode(image.data).decode()
    return (
        f'<figure><img{style} alt="{name or "image"}, {escape(image.split)}" '
        f'src="data:{image.media_type};base64,{data}">'
        f'<figcaption class="dot s{number}"><bdi>{name or "–"}</bdi></figcaption></figure>'
    )


def _is_tiny(image: ImageSample) -> bool:
    """Whether it is a PNG of few pixels; its width lies at bytes 16 to 20 (PNG specification,
    11.2.2 IHDR).
    """
    return (
        image.media_type == "image/png" and int.from_bytes(image.data[16:20], "big") <= _TINY_PIXELS
    )
