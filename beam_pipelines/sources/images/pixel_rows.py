"""Rows from arrays of pixels: PNG files of one size, with classes.

CIFAR and IDX files have them.

Encoding many together takes a third of the time of an encoder of single pictures. Source of the
format: https://www.w3.org/TR/png-3/. Every row of pixels takes the Paeth filter (9.2), which suits
photographs and costs drawings little.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference
from beam_pipelines.sources.files.compression import no_zlib
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import Contents, Rows, problem

# Colour types (11.2.1) by number of channels: grey, grey with alpha, RGB, RGBA.
COLOUR_FOR_CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PAETH = 4
_LEVEL = 3
# Filtering takes about 20 bytes a byte of pixels.
_FILTERED_BYTES = 1 << 20


def encode_pngs(pixels: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    """Encodes pictures without loss.

    Args:
      pixels: uint8[n, height, width, channels], of 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
        channels.

    Returns:
      n PNG files.
    """
    height, width, channels = pixels.shape[1:]
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_FOR_CHANNELS[channels], 0, 0, 0)
    begin, end = _SIGNATURE + _chunk(b"IHDR", header), _chunk(b"IEND", b"")
    step = max(1, _FILTERED_BYTES // max(1, height * width * channels))
    return pa.array(
        [
            begin + _chunk(b"IDAT", isal_zlib.compress(picture, _LEVEL)) + end
            for start in range(0, len(pixels), step)
            for picture in _filter(pixels[start : start + step])
        ],
        pa.binary(),
    )


def _filter(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns uint8[n, bytes]: filter number and filtered pixels of each row."""
    count, height, width, channels = pixels.shape
    # Pixels left of the first column and above the first row count as 0.
    known = np.zeros((count, height + 1, (width + 1) * channels), np.int16)
    known[:, 1:, channels:] = pixels.reshape(count, height, -1)
    left, above, corner = (
        known[:, 1:, :-channels],
        known[:, :-1, channels:],
        known[:, :-1, :-channels],
    )
    by_row: npt.NDArray[Any] = above - corner
    by_column: npt.NDArray[Any] = left - corner
    to_left, to_above, to_corner = abs(by_row), abs(by_column), abs(by_row + by_column)
    predicted = np.where(
        (to_left <= to_above) & (to_left <= to_corner),
        left,
        np.where(to_above <= to_corner, above, corner),
    )
    filtered = np.full((count, height, 1 + width * channels), _PAETH, np.uint8)
    filtered[:, :, 1:] = (known[:, 1:, channels:] - predicted).astype(np.uint8)
    return filtered.reshape(count, -1)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
    )


ENCODED = "image/encoded"
_SHAPE = ("image/height", "image/width", "image/channels")


class Classes(NamedTuple):
    """Columns of the class of each row, and the labels.

    Attributes:
      label: column of the numbers.
      text: column of the names.
      names: by number; empty if unknown, and then there is no column ``text``.
    """

    label: str
    text: str
    names: tuple[str, ...] = ()

    def unknown(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns which of ids [n] have no name."""
        return (ids < 0) | (ids >= len(self.names))

    def columns(self, ids: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Returns the columns of ids [n] and their names, null where unknown."""
        columns = {self.label: pa.array(ids)}
        if self.names:
            numbers = pa.array(ids, mask=self.unknown(ids))
            columns[self.text] = pa.array(self.names, pa.string()).take(numbers)
        return columns


def check(source: Source, name: str) -> list[Problem]:
    """Returns a problem for each option without meaning where types are fixed."""
    message = f"{name} files have types of their own. Leave the option out."
    return [*([problem(source, "types", message)] if source.types else []), *no_zlib(source)]


def contents_of(
    source: Source,
    columns: Mapping[str, pa.Array],
    files: tuple[FileInfo, ...],
    classes: Sequence[Classes],
) -> Contents:
    """Returns the contents of a source with these columns and files."""
    whole = pa.schema([(name, column.type) for name, column in columns.items()])
    read = pa.schema([whole.field(name) for name in inference.selected(source, tuple(columns))])
    labels = {kind.label: kind.names for kind in classes if kind.names}
    return Contents(tuple(columns), whole, read, labels=labels, files=files)


def picture_columns(
    pixels: npt.NDArray[np.uint8], wanted: Sequence[str] | None = None
) -> dict[str, pa.Array]:
    """Returns the columns of pictures; PNG files only if they are wanted.

    Args:
      pixels: uint8[n, height, width, channels].
      wanted: names of columns, of others too; ``None``: all.
    """
    columns = {ENCODED: encode_pngs(pixels)} if wanted is None or ENCODED in wanted else {}
    columns["image/format"] = pa.repeat(pa.scalar("png"), len(pixels))
    for name, size in zip(_SHAPE, pixels.shape[1:], strict=True):
        columns[name] = pa.repeat(pa.scalar(size, pa.int64()), len(pixels))
    return columns


def rows(
    plan: SourcePlan,
    file: FileInfo,
    first: int,
    columns: Mapping[str, pa.Array],
    ids: Mapping[Classes, npt.NDArray[np.int64]],
    reject: bool,
) -> Rows:
    """Returns the rows of columns, without those whose class has no name.

    Args:
      plan: of the source.
      file: file of the rows.
      first: number of the first row in the file, from 0, for messages.
      columns: all that are read but the classes, and maybe others, each of n values.
      ids: the class of each of the n rows.
      reject: whether bad rows are left out and listed.

    Raises:
      DataError: a bad row.
    """
    rejected: dict[int, Rejected] = {}
    for kind, numbers in ids.items():
        columns = {**columns, **kind.columns(numbers)}
        if not kind.names or {kind.label, kind.text}.isdisjoint(plan.schema.names):
            continue
        for row in np.flatnonzero(kind.unknown(numbers)).tolist():
            reason = (
                f"found class {numbers[row]}, expected 0 to {len(kind.names) - 1}, which have "
                "names. Get the file again, or mend the names."
            )
            place = f"image {first + row}"
            bad = Rejected(plan.source.name, file.path, place, kind.label, reason, "")
            if not reject:
                raise DataError(bad.describe())
            rejected.setdefault(row, bad)
    batch = pa.RecordBatch.from_arrays(
        [columns[name] for name in plan.schema.names], schema=plan.schema
    )
    if rejected:
        batch = batch.take(pa.array(np.setdiff1d(np.arange(batch.num_rows), list(rejected))))
    return Rows(batch, tuple(rejected[row] for row in sorted(rejected)))
