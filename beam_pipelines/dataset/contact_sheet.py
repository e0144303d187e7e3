"""Draws images on a page, each above a line of text."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from beam_pipelines.analysis.report.page import page_environment, page_file
from beam_pipelines.core.limits import IMAGE_FORMATS

CELL_PIXELS = 128
# An image whose header claims more is not decoded.
MOST_PIXELS = 100_000_000


class Thumbnail(NamedTuple):
    """A compressed image and its caption; without an image, ``None``."""

    content: bytes | None
    caption: str


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
