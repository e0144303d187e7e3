"""The keys of sources of images and of numbers in IDX files."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.values import (
    read_any_texts,
    read_choice,
    read_integer,
    read_size,
    read_texts,
)


@dataclasses.dataclass(frozen=True)
class ImageOptions:
    """Changes to the files of an ``images`` source; by default none."""

    resize: tuple[int, ...] = recipe_key(
        read_size, (), "unchanged", "(height, width) in pixels of all images, not cropped."
    )
    format: Literal["png", "jpeg"] | None = recipe_key(
        read_choice(("png", "jpeg")),
        None,
        "JPEG stays JPEG, others become PNG",
        "Format of images that are encoded anew.",
    )
    mode: Literal["rgb", "grey"] | None = recipe_key(
        read_choice(("rgb", "grey")),
        None,
        "unchanged",
        "Channels, without alpha. The default keeps them, but JPEG has no alpha.",
    )
    quality: int = recipe_key(read_integer(1, 100), 90, "90", "Quality of JPEG.")
    classes: tuple[str, ...] = recipe_key(
        read_texts, (), "the folders found", "Names of the class folders, by id."
    )

    @property
    def changes(self) -> bool:
        """Whether images may have to be encoded anew."""
        return bool(self.resize or self.format or self.mode)


@dataclasses.dataclass(frozen=True)
class IdxOptions:
    """Form and labels of the numbers of an ``idx`` source."""

    form: Literal["png", "bytes", "floats", "values"] | None = recipe_key(
        read_choice(("png", "bytes", "floats", "values")),
        None,
        "`png` for pictures of unsigned bytes, else `values`",
        "What the numbers become.",
        name="as",
    )
    labels: tuple[str, ...] | None = recipe_key(
        read_any_texts,
        None,
        "found by name",
        "Files with the labels, one for each file of the source, in order; []: none.",
    )
    classes: tuple[str, ...] = recipe_key(read_texts, (), "none", "Names of the classes, by label.")
