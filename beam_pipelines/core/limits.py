"""What no file of a source may exceed, so that a damaged or malicious one is an error with a cure
and not a worker without memory.
"""

from __future__ import annotations

import dataclasses

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """The recipe's ``limits``. Exceeding one stops the run, whatever ``on_error`` says; only an
    image of too many pixels is a bad row.

    Attributes:
      line_bytes: of a record of text (a line, or several if line ends are quoted) or of a TFRecord,
        without its end.
      cell_bytes: of one value of a column, of whatever format; of a list, of all values in it.
      nesting_depth: of lists and mappings in each other: JSON, nested columns, pickles.
      image_pixels: height times width of an image.
      decompression_ratio: decompressed bytes for each compressed one, of what was read so far; the
        first ``FREE_BYTES`` do not count.
      columns: of a source, nested ones flat.
      archive_files: files in one archive.
    """

    line_bytes: int = 64 * MIB
    cell_bytes: int = 64 * MIB
    nesting_depth: int = 64
    image_pixels: int = 50_000_000
    decompression_ratio: int = 900
    columns: int = 50_000
    archive_files: int = 100_000


# So much may come out of any compressed file or archive: no ratio makes it dangerous.
FREE_BYTES = 64 * MIB
# Parsers of nested values call themselves once for each level, and Python's stack ends at about a
# thousand.
MOST_NESTING_DEPTH = 200


def exceeded(limits: Limits, name: str, found: str) -> str:
    """Returns the message, without its place, for something beyond a limit.

    Args:
      limits: of the recipe.
      name: of the limit.
      found: what was found, with its unit.
    """
    most = getattr(limits, name)
    return (
        f"found {found}, expected at most {most:,} (the limit '{name}'). If the file is to be "
        "trusted, raise it in the recipe: "
        f"'limits: {{{name}: …}}'."
    )


def exceeds_ratio(limits: Limits, compressed: int, decompressed: int) -> bool:
    """Whether so many bytes are more than so many compressed ones may become."""
    return decompressed > max(FREE_BYTES, limits.decompression_ratio * compressed)


def ratio_exceeded(limits: Limits, compressed: int, decompressed: int) -> str:
    """Returns the message, without its place, for data that grows too much when it is
    decompressed.
    """
    return exceeded(
        limits,
        "decompression_ratio",
        f"{decompressed:,} bytes decompressed from {compressed:,}, "
        f"{decompressed // max(1, compressed):,} for each",
    )
