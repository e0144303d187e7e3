"""Limits on a source's files.

A damaged or malicious file must not exhaust a worker's memory.
"""

from __future__ import annotations

import dataclasses
import decimal
import fractions
import math

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """The recipe's ``limits``.

    A file beyond a limit stops the run, whatever ``on_error`` is; but an image with too many pixels
    is a bad row.

    Attributes:
      line_bytes: of a text record (a line, or several with quoted line ends) or of a TFRecord
        record, without its end.
      cell_bytes: of a value in any format, or of all values of a list.
      nesting_depth: of lists and mappings: JSON, nested columns.
      image_pixels: height times width of an image.
      decompression_ratio: decompressed bytes per compressed byte, so far; the first ``FREE_BYTES``
        do not count.
      columns: of a source, nested columns flattened.
      archive_files: files in one archive.
      derived_bytes: of the values of a derived column in a chunk of rows.
    """

    line_bytes: int = 64 * MIB
    cell_bytes: int = 64 * MIB
    nesting_depth: int = 64
    image_pixels: int = 50_000_000
    decompression_ratio: int = 900
    columns: int = 50_000
    archive_files: int = 100_000
    # Left out of hashes of recipes with the default, which are older than the limit.
    derived_bytes: int = dataclasses.field(default=512 * MIB, metadata={"omitted": True})


# Formats that Pillow may decode. It has decoders of dozens more, and starts Ghostscript for
# PostScript.
IMAGE_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP")
# Decompressed bytes that are harmless at any ratio.
FREE_BYTES = 64 * MIB
# Parsers recurse once per level; Python's stack ends at about a thousand.
MOST_NESTING_DEPTH = 200


def exceeded(limits: Limits, name: str, found: str) -> str:
    """Returns the message, without the place, for a value beyond a limit.

    Args:
      limits: of the recipe.
      name: of the limit.
      found: what was found, with its unit.
    """
    most = getattr(limits, name)
    return (
        f"found {found}, expected at most {most:,} (the limit '{name}'). If the file is to be "
        f"trusted, raise it in the recipe: 'limits: {{{name}: …}}'."
    )


def exceeds_ratio(limits: Limits, compressed: int, decompressed: int) -> bool:
    """Whether compressed bytes have become more bytes than allowed."""
    return decompressed > max(FREE_BYTES, limits.decompression_ratio * compressed)


def ratio_exceeded(limits: Limits, compressed: int, decompressed: int) -> str:
    """Returns the message for a decompression ratio beyond the limit.

    It does not name the place.
    """
    return exceeded(
        limits,
        "decompression_ratio",
        f"{decompressed:,} bytes decompressed from {compressed:,}, "
        f"{decompressed // max(1, compressed):,} for each",
    )


def allowed_rows(budget: float, total: int) -> int:
    """Returns how many of ``total`` rows a budget allows.

    A share is computed exactly from its decimals, and rounded down.
    """
    return (
        budget if isinstance(budget, int) else math.floor(fractions.Fraction(repr(budget)) * total)
    )


def show_budget(budget: float) -> str:
    """Returns a budget as a recipe writes it: 100 or 0.1%."""
    if isinstance(budget, int):
        return str(budget)
    return f"{(decimal.Decimal(repr(budget)) * 100).normalize():f}%"
