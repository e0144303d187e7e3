"""Files of one CSV source are written as its first file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.csv.options import CsvOptions
from beam_pipelines.sources.csv.resolve import resolve
from beam_pipelines.sources.files.compression import compression_of, read_head
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import encodings

_HEAD_BYTES = 1 << 17
# Encodings in which ASCII is ASCII.
_LIKE_ASCII = ("cp1252", "latin-1", encodings.UTF_8)


def check_agreement(asked: Source, source: Source, files: Sequence[FileInfo], default: str) -> None:
    """Checks that files are written like the first one.

    Args:
      asked: the source as the recipe has it; its options are not doubted.
      source: with what the first file shows.
      files: the first one, and others to look at.
      default: the format's delimiter.

    Raises:
      DataError: one is written in another way; the message names both files.
    """
    for file in files[1:]:
        head = read_head(file.path, compression_of(asked, file.path), _HEAD_BYTES, asked.limits)
        other = None
        with contextlib.suppress(DataError):  # what cannot be read is reported when it is
            other, _, _ = resolve(asked, file, default)
        if other is None:
            continue
        for found, expected, key in _differences(asked, source, other, head, default):
            raise DataError(
                f"{file.path}: found {found}, expected {expected} as in {files[0].path}. Make them "
                f"two sources, mend one, or set '{key}' if the files do agree."
            )


def _differences(
    asked: Source, source: Source, other: Source, head: bytes, default: str
) -> Iterator[tuple[str, str, str]]:
    """Yields what differs: found, expected, and the key that says it."""
    said, own, their = (one.options_of(CsvOptions) for one in (asked, source, other))
    known, found = own.encoding or encodings.UTF_8, their.encoding or encodings.UTF_8
    may_be_both = head.isascii() and known in _LIKE_ASCII
    may_be_both |= (known, found) == ("cp1252", "latin-1")  # it has no letter of the former alone
    if said.encoding is None and known != found and not may_be_both:
        yield found, known, "encoding"
    lines, number = own.skip_lines or 0, their.skip_lines or 0
    if said.skip_lines is None and lines != number:
        yield f"{number} line{'' if number == 1 else 's'} above the table", str(lines), "skip_lines"
    mark, own_mark = own.delimiter or default, their.delimiter or default
    first = re.split(rb"[\r\n]", head.lstrip(b"\xef\xbb\xbf"), maxsplit=1)[0]
    is_certain = their.delimiter is not None or (
        own_mark.encode() in first and mark.encode() not in first
    )
    if said.delimiter is None and mark != own_mark and is_certain:
        yield f"{own_mark!r} between cells", repr(mark), "delimiter"
