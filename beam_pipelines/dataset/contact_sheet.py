"""Draws images in a grid, each above a line of text."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import unicodedata
import warnings
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from PIL import Image, ImageDraw, ImageFont

from beam_pipelines.core.limits import IMAGE_FORMATS

CELL_PIXELS = 128
# An image whose header claims more is not decoded.
MOST_PIXELS = 100_000_000
_GAP_PIXELS = 8
_CAPTION_PIXELS = 18
_FONT_PIXELS = 12
_BACKGROUND, _INK, _ALARM, _EMPTY = "#ffffff", "#202020", "#c02020", "#e8e8e8"

# Files of fonts with many scripts, as Linux distributions and macOS name them.
_SYSTEM_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "wqy-zenhei.ttc",
    "wqy-microhei.ttc",
    "DroidSansFallbackFull.ttf",
    "uming.ttc",
    "unifont.otf",
    "unifont.ttf",
    "Arial Unicode.ttf",
)
# A character that no font has.
_MISSING = "\uffff"

Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont
# A font and the text that it draws.
Run: TypeAlias = tuple[Font, str]


class Thumbnail(NamedTuple):
    """A compressed image and its caption; without an image, ``None``."""

    content: bytes | None
    caption: str


def draw_contact_sheet(thumbnails: Sequence[Thumbnail]) -> Image.Image:
    """Draws images row by row, in a roughly square grid.

    Images keep their proportions: large ones are shrunk, tiny ones enlarged by a whole number
    with sharp pixels. An image that cannot be decoded is a note in its cell.
    """
    columns = max(1, math.ceil(math.sqrt(len(thumbnails))))
    rows = max(1, math.ceil(len(thumbnails) / columns))
    step_x, step_y = CELL_PIXELS + _GAP_PIXELS, CELL_PIXELS + _CAPTION_PIXELS + _GAP_PIXELS
    sheet = Image.new(
        "RGB", (columns * step_x + _GAP_PIXELS, rows * step_y + _GAP_PIXELS), _BACKGROUND
    )
    draw = ImageDraw.Draw(sheet)
    for number, thumbnail in enumerate(thumbnails):
        left, top = (
            _GAP_PIXELS + number % columns * step_x,
            _GAP_PIXELS + number // columns * step_y,
        )
        image = None if thumbnail.content is None else _shrunk(thumbnail.content)
        if image is None:
            text = "(missing)" if thumbnail.content is None else "(not decodable)"
            _draw_gap(draw, left, top, text)
        else:
            sheet.paste(
                image,
                (left + (CELL_PIXELS - image.width) // 2, top + CELL_PIXELS - image.height),
            )
        _draw_caption(draw, left, top + CELL_PIXELS + 3, thumbnail.caption)
    return sheet


def _draw_gap(draw: ImageDraw.ImageDraw, left: int, top: int, text: str) -> None:
    draw.rectangle((left, top, left + CELL_PIXELS - 1, top + CELL_PIXELS - 1), _EMPTY)
    draw.text(
        (left + CELL_PIXELS / 2, top + CELL_PIXELS / 2), text, _ALARM, _fonts()[0], anchor="mm"
    )


def _shrunk(content: bytes) -> Image.Image | None:
    """Returns an image that fits into a cell.

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


@functools.lru_cache
def _fonts() -> tuple[Font, ...]:
    """Returns Pillow's own font, and the system's fonts that are installed.

    Pillow's font has only the letters of ASCII.
    """
    found: list[Font] = [ImageFont.load_default(_FONT_PIXELS)]
    for name in _SYSTEM_FONTS:
        with contextlib.suppress(OSError):
            found.append(ImageFont.truetype(name, _FONT_PIXELS))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _font(letter: str) -> Font | None:
    """Returns the first font that draws a letter, and not a box."""
    for font in _fonts()[: 1 if letter.isascii() else None]:
        if letter.isascii() or bytes(font.getmask(letter)) != bytes(font.getmask(_MISSING)):
            return font
    return None


def _draw_caption(draw: ImageDraw.ImageDraw, left: int, top: int, text: str) -> None:
    """Draws a text on one line in the middle of a cell.

    Each letter is drawn in a font that has it.
    """
    runs = _runs(text)
    at = left + (CELL_PIXELS - _length(runs)) / 2
    for font, run in runs:
        draw.text((at, top + _FONT_PIXELS), run, _INK, font, anchor="ls")
        at += font.getlength(run)


def _length(runs: Sequence[Run]) -> float:
    return sum(font.getlength(run) for font, run in runs)


def _runs(text: str) -> list[Run]:
    """Clips a text to one line of a cell.

    Each run has one font. A letter that no font has loses its accents, or becomes its number.
    """
    text = "".join(
        letter if _font(letter) else _plain(letter)
        for letter in unicodedata.normalize("NFC", " ".join(text.split()))
    )
    runs, rest = _cut(text), text
    while rest and _length(runs) > CELL_PIXELS:
        rest = rest[:-1]
        runs = _cut(rest + "...")
    return runs


def _cut(text: str) -> list[Run]:
    own = _fonts()[0]
    return [
        (font, "".join(run))
        for font, run in itertools.groupby(text, lambda letter: _font(letter) or own)
    ]


def _plain(letter: str) -> str:
    """Returns a letter without accents; of another script, its escaped number."""
    base = "".join(
        part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)
    )
    return (base if base.isascii() else letter).encode("ascii", "backslashreplace").decode()
