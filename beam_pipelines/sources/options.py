"""Keys of sources that several formats have, for their ``Options``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.recipe.cell_formats import (
    read_character,
    read_encoding,
    read_formats,
    read_quote,
)
from beam_pipelines.recipe.keys import FOUND, recipe_key
from beam_pipelines.recipe.values import read_flag, read_integer


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """A format whose sources have no keys of their own."""


@dataclasses.dataclass(frozen=True)
class TextsOptions:
    """Formats with texts that people wrote (``formatted.py``)."""

    formats: Mapping[str, str] = recipe_key(
        read_formats, {}, FOUND, "How the numbers, dates or booleans of a column are written."
    )
    trim: bool | None = recipe_key(
        read_flag, None, "no", "Whether white space around texts is taken off."
    )


@dataclasses.dataclass(frozen=True)
class EncodedOptions:
    """Files of text."""

    encoding: str | None = recipe_key(
        read_encoding, None, FOUND, "Encoding of text files, of Python's codecs."
    )


@dataclasses.dataclass(frozen=True)
class HeaderOptions:
    """Tables of cells, whose first line may name the columns."""

    header: bool | None = recipe_key(
        read_flag, None, FOUND, "Whether the first line names the columns, exactly as written."
    )
    skip_lines: int | None = recipe_key(
        read_integer(0, 10_000), None, FOUND, "Lines above the table of each CSV file."
    )


@dataclasses.dataclass(frozen=True)
class CsvOptions(TextsOptions, EncodedOptions, HeaderOptions):
    """How cells and lines are written."""

    delimiter: str | None = recipe_key(read_character, None, FOUND, "One character between cells.")
    quote: str | None = recipe_key(
        read_quote, None, FOUND, "One character around cells; an empty text turns quoting off."
    )
