"""Draws a dataset's pictures on a page, each above its caption."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from PIL import Image
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.report.page import page_environment, page_file
from beam_pipelines.core.errors import DataError, RecipeError, nearest
from beam_pipelines.core.limits import IMAGE_FORMATS
from beam_pipelines.dataset.inspect import (
    MISSING,
    Found,
    decode_examples,
    find,
    first_records,
    show_values,
)
from beam_pipelines.encodings.labels import label_texts
from beam_pipelines.sources.images.pixel_rows import ENCODED
from beam_pipelines.storage import files

MOST_PICTURES = 1024
# The first of these features is the caption of a picture whose label has no texts.
_CAPTION_FEATURES = ("image/class/text", "image/class/label", "image/filename")
CELL_PIXELS = 128
# An image whose header claims more is not decoded.
MOST_PIXELS = 100_000_000


class Thumbnail(NamedTuple):
    """A compressed image and its caption; without an image, ``None``."""

    content: bytes | None
    caption: str


def write_contact_sheet(
    path: str,
    output: str,
    number: int,
    split: str | None = None,
    feature: str | None = None,
) -> int:
    """Draws the first examples' pictures on one page, with labels.

    Args:
      path, split: as in ``inspect_examples``. Raw records are taken for pictures
        themselves.
      output: the HTML file to write.
      number: of pictures at most.
      feature: the one with compressed images; default: the one with an ``image_domain`` in the
        schema, or ``image/encoded``.

    Returns:
      The number of pictures on it. One that cannot be decoded has its cell.

    Raises:
      RecipeError: there is nothing at the path, or no such split or feature, or the output has
        another suffix.
      DataError: there are no examples, or the file is damaged or cannot be written.
    """
    if not output.lower().endswith(".html"):
        raise RecipeError(
            f"--images {output}: found another suffix, expected the name of a .html file to write."
        )
    if number > MOST_PICTURES:
        raise RecipeError(
            f"-n {number}: found more pictures than fit on a page, expected at most "
            f"{MOST_PICTURES:,}."
        )
    found = find(path, split)
    pictures = []
    for shard, records in first_records(found, number):
        pictures += (
            _raw_thumbnails(records)
            if found.is_raw
            else _thumbnails(shard, records, found, feature)
        )
    if not pictures:
        raise DataError(f"{path}: found no examples, expected some to draw.")
    files.write_bytes(output, draw_contact_sheet(path, pictures).encode())
    return len(pictures)


def _raw_thumbnails(records: list[bytes]) -> list[Thumbnail]:
    return [Thumbnail(record, f"{len(record):,} bytes") for record in records]


def _thumbnails(
    path: str, records: list[bytes], found: Found, feature: str | None
) -> list[Thumbnail]:
    batch = decode_examples(records, path, found.schema)
    column = batch.column(_image_feature(path, batch, found.schema, feature))
    contents = [values[0] if values else None for values in column.to_pylist()]
    return [
        Thumbnail(content, caption)
        for content, caption in zip(contents, _captions(batch, found), strict=True)
    ]


def _image_feature(
    path: str, batch: pa.RecordBatch, schema: schema_pb2.Schema | None, wanted: str | None
) -> str:
    domains = (
        [] if schema is None else [f.name for f in schema.feature if f.HasField("image_domain")]
    )
    name = wanted or next(iter(domains), ENCODED)
    known = [
        field.name
        for field in batch.schema
        if pa.types.is_large_binary(getattr(field.type, "value_type", None))
    ]
    if name not in known:
        expected = (
            f"expected one of {', '.join(known)}" if known else "and no other feature of bytes"
        )
        raise RecipeError(
            f"{path}: found no feature '{name}' of bytes, {expected}. Name it by "
            f"--feature.{nearest(name, known)}"
        )
    return name


def _captions(batch: pa.RecordBatch, found: Found) -> list[str]:
    """Returns the captions: the label's text, the label, or the file's name."""
    label, labels = (found.manifest and found.manifest.label) or "", found.labels
    candidates = [
        *([label] if label in labels else []),
        _CAPTION_FEATURES[0],
        label,
        *_CAPTION_FEATURES[1:],
    ]
    for name in candidates:
        if name in batch.schema.names:
            return [
                _caption(values, labels.get(name, [])) for values in batch.column(name).to_pylist()
            ]
    return [""] * batch.num_rows


def _caption(values: list[Any] | None, names: Sequence[str]) -> str:
    """Returns a label as text, without quotes."""
    if not values:
        return MISSING
    found = label_texts(values, names)
    if found:
        return ", ".join(found)
    value = values[0] if len(values) == 1 else None
    return value.decode(errors="replace") if isinstance(value, bytes) else show_values(values)


def draw_contact_sheet(title: str, thumbnails: Sequence[Thumbnail]) -> str:
    """Draws images in rows, as one HTML page that loads nothing.

    Images keep their proportions: large ones are shrunk, tiny ones enlarged with sharp pixels. An
    image that cannot be decoded is a note in its place.
    """
    environment = page_environment()
    cells = []
    for content, caption in thumbnails:
        found = None if content is None else _shrunk(content)
        note = "missing" if content is None else "not decodable"
        cells.append((caption, "" if found else note, found))
    style = page_file(environment, "page.css")
    return environment.get_template("pictures.html").render(title=title, cells=cells, style=style)


def _shrunk(content: bytes) -> tuple[str, bool] | None:
    """Returns a PNG in base64, and whether it is tiny.

    ``None`` if it cannot be decoded or has more than ``MOST_PIXELS``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    return None
                # Pillow then decodes a JPEG at a fraction of its size.
                image.draft("RGB", (CELL_PIXELS, CELL_PIXELS))
                shrunk, file = _in_color(image), io.BytesIO()
                shrunk.thumbnail((CELL_PIXELS, CELL_PIXELS))
                shrunk.save(file, "PNG")
                return base64.b64encode(file.getvalue()).decode(), max(image.size) < CELL_PIXELS / 2
    except Exception:  # noqa: BLE001 - Pillow's decoders raise whatever damaged files lead them to
        return None


def _in_color(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        # Pillow would clip 16 bits instead of scaling them.
        return image.point(lambda value: value / 256, "L").convert("RGB")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")
