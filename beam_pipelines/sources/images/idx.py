"""IDX files, such as those of MNIST, and their labels.

Source of the format: http://yann.lecun.com/exdb/mnist/. Two zero bytes, the type, the rank, each
dimension as a big-endian uint32, and then the numbers, big-endian too, the last dimension running
fastest. An *item* is the numbers of one index of the first dimension.
"""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.limits import MIB, exceeded
from beam_pipelines.files.beam import files, listing
from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_texts
from beam_pipelines.sources.files import compression
from beam_pipelines.sources.files.compression import compression_of
from beam_pipelines.sources.format import (
    CHUNK_BYTES,
    Contents,
    Format,
    QuoteStates,
    Rows,
    empty_batch,
    problem,
)
from beam_pipelines.sources.images import pixel_rows
from beam_pipelines.sources.images.pixel_rows import COLOUR_FOR_CHANNELS, Classes
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan

_TYPES = {
    0x08: ("ubyte", "u1"),
    0x09: ("byte", "i1"),
    0x0B: ("short", ">i2"),
    0x0C: ("int", ">i4"),
    0x0D: ("float", ">f4"),
    0x0E: ("double", ">f8"),
}


@dataclasses.dataclass(frozen=True)
class IdxOptions:
    """Labels of an ``idx`` source."""

    classes: tuple[str, ...] = recipe_key(read_texts, (), "none", "Names of the classes, by label.")


@dataclasses.dataclass(frozen=True)
class IdxSourceOptions:
    """The key of IDX sources."""

    idx: IdxOptions = recipe_key(
        section(IdxOptions, "a mapping such as {classes: [zero, one]}"),
        IdxOptions(),
        "see below",
        "Options of `idx` sources.",
    )


def _options(source: Source) -> IdxOptions:
    return source.options_of(IdxSourceOptions).idx


def _problem(source: Source, message: str) -> RecipeProblems:
    return RecipeProblems([problem(source, "idx", message)])


class _Header(NamedTuple):
    """The header of a file.

    Attributes:
      name: of the numbers' type.
      dtype: of the numbers in the file, big-endian.
      dims: sizes of the dimensions, the number of items first.
      values: numbers in an item.
    """

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...]
    values: int

    @property
    def item_bytes(self) -> int:
        return self.values * self.dtype.itemsize

    def place(self, item: int) -> int:
        """Returns where an item begins in the file, uncompressed."""
        return 4 + 4 * len(self.dims) + item * self.item_bytes

    @property
    def prefix(self) -> str:
        """Prefix of columns: pictures are [height, width] or [height, width, channels]."""
        is_picture = self.dims[3:] == () or self.dims[3] in COLOUR_FOR_CHANNELS
        return "image/" if len(self.dims) in (3, 4) and is_picture else ""

    @property
    def is_png(self) -> bool:
        """Whether an item becomes a PNG: a picture of unsigned bytes."""
        return bool(self.prefix) and self.dtype == np.uint8

    def __str__(self) -> str:
        return f"{self.name} {'×'.join(map(str, self.dims))}"


class Idx(Format):
    """Items of arrays.

    A file that is not compressed is cut at its items, any other is one range.
    """

    suffixes = (
        ".idx",
        *(f"idx{rank}-{_TYPES[code][0]}" for rank in range(1, 10) for code in (8, 9, 11, 12)),
    )
    Options = IdxSourceOptions
    checks_images = True  # it makes them of pixels

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return pixel_rows.check(source, "IDX")

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return compression_of(source, path) == "none"

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds the files of labels, and the columns; see ``Format``."""
        # Files of labels that the path also matches are not read as rows.
        labels = {_label_path(file.path) for file in files}
        arrays = tuple(file for file in files if file.path not in labels)
        headers = [_read_header(source, file.path, file.size_bytes) for file in arrays]
        first = headers[0]
        for file, header in zip(arrays, headers, strict=True):
            if (header.name, header.dims[1:]) != (first.name, first.dims[1:]):
                raise DataError(
                    f"{file.path}: found {header}, expected items as those of {arrays[0].path}, "
                    f"which has {first}. Make two sources of them."
                )
        if not any(header.dims[0] for header in headers):
            raise DataError(
                f"{arrays[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        columns = _columns(np.empty((0, first.values), first.dtype), first)
        kind = _classes(source, first)
        kinds = [kind] if _check_labels(source, kind, arrays, headers) else []
        for kind in kinds:
            columns |= kind.columns(np.empty(0, np.int64))
        return pixel_rows.contents_of(source, columns, arrays, kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        source, file = plan.source, byte_range.file
        header = _read_header(source, file.path, file.size_bytes)
        classes = _classes(source, header)
        row, end = _items_of(source, byte_range, header)
        ids = np.empty(0, np.int64)
        has_labels = classes.label in plan.file_schema.names
        if has_labels:
            path = _label_path(file.path)
            blocks = _read_items(source, path, _label_header(source, path), row, end)
            ids = np.concatenate([ids, *(block.ravel() for block in blocks)], dtype=np.int64)
        crc32c, first = 0, row
        for numbers in _read_items(source, file.path, header, row, end):
            crc32c = google_crc32c.extend(crc32c, numbers.tobytes())
            columns = _columns(numbers, header, plan.schema.names)
            own = {classes: ids[row - first :][: len(numbers)]} if has_labels else {}
            yield pixel_rows.rows(plan, file, row, columns, own, reject)
            row += len(numbers)
        yield Rows(empty_batch(plan.schema), crc32c=google_crc32c.extend(crc32c, ids.tobytes()))

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of the files of labels; see ``Format``."""
        if any(name.endswith("class/label") for name in plan.file_schema.names):
            yield from (_label_path(file.path) for file in plan.files[:])

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a range's first item, from 0."""
        header = _read_header(plan.source, byte_range.file.path, byte_range.file.size_bytes)
        return "image", _items_of(plan.source, byte_range, header)[0]


def _items_of(source: Source, byte_range: ByteRange, header: _Header) -> tuple[int, int]:
    """Returns the items of a range; the first has the header."""
    if compression_of(source, byte_range.file.path) != "none":
        return 0, header.dims[0]
    first, end = (
        min(header.dims[0], max(0, -(-(place - header.place(0)) // header.item_bytes)))
        for place in (byte_range.start, byte_range.end)
    )
    return first, end


def _columns(
    numbers: npt.NDArray[Any], header: _Header, wanted: Sequence[str] | None = None
) -> dict[str, pa.Array]:
    """Returns the wanted columns of numbers [n, values]."""
    columns = {}
    if header.prefix:
        pixels = numbers.reshape(len(numbers), *(*header.dims[1:], 1)[:3])
        if header.is_png:
            return pixel_rows.picture_columns(pixels, wanted)
        columns = pixel_rows.shape_columns(pixels)
    type_ = header.dtype.newbyteorder("=") if header.dtype.kind == "f" else np.int64
    values = pa.array(numbers.ravel().astype(type_))
    if len(header.dims) == 1:
        return {"value": values}
    values = pa.FixedSizeListArray.from_arrays(values, header.values)
    return {f"{header.prefix}values": values.cast(pa.list_(values.type.value_type)), **columns}


def _classes(source: Source, header: _Header) -> Classes:
    label, text = f"{header.prefix}class/label", f"{header.prefix}class/text"
    return Classes(label, text, _options(source).classes)


def _label_path(path: str) -> str:
    """Returns the customary path of an array's labels: ``labels-idx1`` for ``images-idx3``.

    Empty if the array's name does not follow this custom. Dots are as good as hyphens, and the two
    files may be compressed in different ways.
    """
    named, count = re.subn(r"images([-.])idx[0-9](?=[^/]*$)", r"labels\1idx1", path)
    if not count:
        return ""
    plain = re.sub(r"\.(gz|bz2|zst)$", "", named)
    others = [named, plain, *(plain + suffix for suffix in compression.COMPRESSION_FOR_SUFFIX)]
    return next(filter(listing.exists, others), named)


def _check_labels(
    source: Source, kind: Classes, arrays: tuple[FileInfo, ...], headers: list[_Header]
) -> bool:
    """Checks the labels of all arrays, and returns whether they are read.

    Either all arrays have labels, as many as items, or none has.

    Raises:
      RecipeProblems: a name is not followed, of some arrays or with classes.
      DataError: a file of labels does not exist, is none, or has another number of labels.
    """
    paths = [_label_path(file.path) for file in arrays]
    is_left_out = {kind.label, kind.text}.isdisjoint(source.columns or (kind.label,))
    if is_left_out or not (any(paths) or kind.names):
        return False
    if "" in paths:
        raise _problem(
            source,
            f"found no file with labels for {arrays[paths.index('')].path}, expected one as "
            "x-labels-idx1-ubyte is for x-images-idx3-ubyte. Rename both files, or link to them "
            "by such names.",
        )
    for file, header, path in zip(arrays, headers, paths, strict=True):
        if not listing.exists(path):
            raise DataError(
                f"{path}: found no such file, expected the labels of {file.path}. Put it there, "
                "link to it by this name, or name other columns than classes in 'columns'."
            )
        count = _label_header(source, path).dims[0]
        if count != header.dims[0]:
            raise DataError(
                f"{path}: found {count:,} labels, expected {header.dims[0]:,}, as many as "
                f"{file.path} has items. Get both files again."
            )
    return True


def _label_header(source: Source, path: str) -> _Header:
    header = _read_header(source, path)
    if len(header.dims) != 1 or header.dtype.kind == "f":
        raise DataError(
            f"{path}: found {header}, expected labels: integers of one dimension. Check 'labels', "
            "or read the file as a source of its own."
        )
    return header


def _read_header(source: Source, path: str, size_bytes: int | None = None) -> _Header:
    """Reads a header, and compares it with an uncompressed file's size.

    Raises:
      DataError: it is no header, or that of a shorter or longer file.
    """
    packing = compression_of(source, path)
    head = compression.read_head(path, packing, 4 + 4 * 255, source.limits)
    start, rank = head[:4], head[3] if len(head) > 3 else 0
    if not rank or start[:2] != b"\0\0" or start[2] not in _TYPES:
        name, hint = compression.name_of_start(head), "Check 'path' of the source."
        if name:
            hint = f"It is a file of {name}: decompress it."
        if name in compression.CODEC_FOR_COMPRESSION:
            hint = f"It is compressed: set 'compression: {name}'."
        raise DataError(
            f"{path}: found {start.hex(' ') or 'nothing'} at the beginning, expected an IDX "
            f"file: 00 00, a type from 08 to 0e, a rank. {hint}"
        )
    if len(head) < 4 + 4 * rank:
        raise _damaged(path, f"a header that is cut off, expected {rank} dimensions")
    dims = struct.unpack_from(f">{rank}I", head, 4)
    type_name, code = _TYPES[start[2]]
    header = _Header(type_name, np.dtype(code), dims, math.prod(dims[1:]))
    if not header.item_bytes:
        raise _damaged(path, f"{header}, items without a number, expected numbers")
    if header.item_bytes > source.limits.cell_bytes:
        what = f"{header}, {header.item_bytes:,} bytes an item"
        raise DataError(f"{path}: {exceeded(source.limits, 'cell_bytes', what)}")
    expected = header.place(header.dims[0])
    if packing == "none" and size_bytes not in (None, expected):
        found = f"{size_bytes:,} bytes, expected {expected:,} of {header} as its header says"
        raise _damaged(path, found)
    return header


def _damaged(path: str, found: str) -> DataError:
    return DataError(f"{path}: found {found}. Get the file again.")


def _read_items(
    source: Source, path: str, header: _Header, first: int, end: int
) -> Iterator[npt.NDArray[Any]]:
    """Yields items [first, end), as numbers [n, values] of the header's type.

    Raises:
      DataError: the file ends too early or too late.
    """
    # A number takes at most 8 bytes: as an int64, or while a PNG is made.
    step = max(1, CHUNK_BYTES // (8 * header.values))
    packing = compression_of(source, path)
    with files.open_read(path) as opened:
        try:
            file: Any = compression.decompressed(opened, path, packing, source.limits)
            skip = header.place(first)
            if packing == "none":
                file.seek(skip)
            else:
                while skip and (skipped := len(file.read(min(skip, MIB)))):
                    skip -= skipped
            for start in range(first, end, step):
                wanted = min(step, end - start)
                data = file.read(wanted * header.item_bytes)
                items = start + len(data) // header.item_bytes
                if items < start + wanted:
                    found = f"{items:,} items before the file ends, expected {header.dims[0]:,}"
                    raise _damaged(path, f"{found} ({header})")
                yield np.frombuffer(data, header.dtype).reshape(wanted, header.values)
            if end == header.dims[0] and file.read(1):
                found = f"more than the {header.place(end):,} bytes of {header} that its header"
                raise _damaged(path, f"{found} says, expected no more")
        except OSError as error:
            raise DataError(
                f"{path}: found damaged {packing} data, expected a whole file: {error}. Get the "
                "file again, or set 'compression' of the source if it is compressed otherwise."
            ) from error
