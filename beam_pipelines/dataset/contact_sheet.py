"""Draws images in a grid, each above a line of text."""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from PIL import Image, ImageDraw, ImageFont

CELL_PIXELS = 128
# A picture whose header claims more is not decoded.
MOST_PIXELS = 100_000_000
_GAP_PIXELS = 8
_CAPTION_PIXELS = 18
_FONT_PIXELS = 12
_BACKGROUND, _INK, _ALARM, _EMPTY = "#ffffff", "#202020", "#c02020", "#e8e8e8"

Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont


class Thumbnail(NamedTuple):
    """A compressed image and its caption; without an image, ``None``."""

    content: bytes | None
    caption: str


def draw_contact_sheet(thumbnails: Sequence[Thumbnail]) -> Image.Image:
    """Draws images row by row, in a roughly square grid.

    Pictures keep their proportions: large ones are shrunk, tiny ones enlarged by a whole number
    with sharp pixels. A picture that cannot be decoded is a note in its cell.
    """
    columns = max(1, math.ceil(math.sqrt(len(thumbnails))))
    rows = max(1, math.ceil(len(thumbnails) / columns))
    step_x, step_y = CELL_PIXELS + _GAP_PIXELS, CELL_PIXELS + _CAPTION_PIXELS + _GAP_PIXELS
    sheet = Image.new(
        "RGB", (columns * step_x + _GAP_PIXELS, rows * step_y + _GAP_PIXELS), _BACKGROUND
    )
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_FONT_PIXELS)
    for number, picture in enumerate(thumbnails):
        left, top = (
            _GAP_PIXELS + number % columns * step_x,
            _GAP_PIXELS + number // columns * step_y,
        )
        thumbnail = None if picture.content is None else _thumbnail(picture.content)
        if thumbnail is None:
            _draw_gap(
                draw, left, top, "(missing)" if picture.content is None else "(not decodable)", font
            )
        else:
            sheet.paste(
                thumbnail,
                (left + (CELL_PIXELS - thumbnail.width) // 2, top + CELL_PIXELS - thumbnail.height),
            )
        caption = _clipped(picture.caption, font)
        draw.text((left + CELL_PIXELS / 2, top + CELL_PIXELS + 3), caption, _INK, font, anchor="ma")
    return sheet


def _draw_gap(draw: ImageDraw.ImageDraw, left: int, top: int, text: str, font: Font) -> None:
    draw.rectangle((left, top, left + CELL_PIXELS - 1, top + CELL_PIXELS - 1), _EMPTY)
    draw.text((left + CELL_PIXELS / 2, top + CELL_PIXELS / 2), text, _ALARM, font, anchor="mm")


def _thumbnail(content: bytes) -> Image.Image | None:
    """Returns a picture that fits into a cell.

    ``None`` if it cannot be decoded or has more than ``MOST_PIXELS``.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as image:
                if image.width * image.height > MOST_PIXELS:
                    return None
                # Pillow then decodes a JPEG at a fraction of its size.
                image.draft("RGB", (CELL_PIXELS, CELL_PIXELS))
                return _fitted(_in_color(image))
    except Exception:  # noqa: BLE001 - Pillow's decoders raise whatever damaged files lead them to
        return None


def _in_color(image: Image.Image) -> Image.Image:
    """Returns an image as RGB, transparent pixels on the background."""
    if image.mode.startswith("I;16"):
        # Pillow would clip 16 bits instead of scaling them.
        return image.point(lambda value: value / 256, "L").convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, _BACKGROUND), image).convert("RGB")


def _fitted(image: Image.Image) -> Image.Image:
    factor = CELL_PIXELS // max(image.size)
    if factor > 1:
        return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    image.thumbnail((CELL_PIXELS, CELL_PIXELS))
    return image


def _clipped(text: str, font: Font) -> str:
    """Clips a text to one line of ASCII within a cell.

    ASCII, because Pillow's own font has no other letters.
    """
    text = "".join(
        _plain(letter) for letter in unicodedata.normalize("NFC", " ".join(text.split()))
    )
    if font.getlength(text) <= CELL_PIXELS:
        return text
    while text and font.getlength(text + "...") > CELL_PIXELS:
        text = text[:-1]
    return text + "..."


def _plain(letter: str) -> str:
    """Returns a letter without accents; of another script, its escaped number."""
    base = "".join(
        part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)
    )
    return (base if base.isascii() else letter).encode("ascii", "backslashreplace").decode()
