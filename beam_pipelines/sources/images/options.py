"""The keys of sources of images, and the error of an image."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import plain_key, recipe_key, section
from beam_pipelines.recipe.model import Source


@dataclasses.dataclass(frozen=True)
class ImageOptions:
    """Changes to the files of an ``images`` source; by default none."""

    resize: tuple[int, ...] = recipe_key(
        values.read_size, (), "unchanged", "(height, width) in pixels of all images, not cropped."
    )
    format: Literal["png", "jpeg"] | None = recipe_key(
        values.read_choice(("png", "jpeg")),
        None,
        "JPEG stays JPEG, others become PNG",
        "Format of images that are encoded anew.",
    )
    mode: Literal["rgb", "grey"] | None = recipe_key(
        values.read_choice(("rgb", "grey")),
        None,
        "unchanged",
        "Channels, without alpha. The default keeps them, but JPEG has no alpha.",
    )
    quality: int = plain_key(values.read_integer(1, 100), 90, "Quality of JPEG.")
    classes: tuple[str, ...] = recipe_key(
        values.read_texts, (), "the folders found", "Names of the class folders, by id."
    )

    @property
    def changes(self) -> bool:
        """Whether images may have to be encoded anew."""
        return bool(self.resize or self.format or self.mode)


def _check(value: values.Value, image: ImageOptions) -> None:
    """Notes a quality of PNG, and classes of the same name."""
    if image.format == "png" and "quality" in value.keys:
        value.wrong(
            "found it with 'format: png', which loses nothing, expected it with JPEG only.",
            "quality",
        )
    twice = sorted({name for name in image.classes if image.classes.count(name) > 1})
    if twice:
        value.wrong(f"found class '{twice[0]}' twice, expected every class once.", "classes")


@dataclasses.dataclass(frozen=True)
class ImagesOptions:
    """The key of sources of images."""

    image: ImageOptions = recipe_key(
        section(ImageOptions, "a mapping such as {resize: [224, 224], mode: rgb}", _check),
        ImageOptions(),
        "see below",
        "Options of `images` and `webdataset` sources.",
    )


def image_options(source: Source) -> ImageOptions:
    """Returns what becomes of a source's images."""
    return source.options_of(ImagesOptions).image


class PictureError(ValueError):
    """Bytes that are no image, or none that may be decoded.

    Attributes:
      found: what was found and expected.
      cure: what to do with a file; empty if ``found`` says it.
    """

    def __init__(self, found: str, cure: str = "") -> None:
        super().__init__(f"{found}. {cure}" if cure else found)
        self.found = found
        self.cure = cure
