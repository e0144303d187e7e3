"""IDX files of pictures, such as those of MNIST, and their labels.

Source of the format: http://yann.lecun.com/exdb/mnist/. Two zero bytes, the type, the rank, each
dimension as a big-endian uint32, and then the numbers, the last dimension running fastest. Pictures
and labels are unsigned bytes. An *item* is the numbers of one index of the first dimension.
"""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.core.limits import MIB, exceeded
from beam_pipelines.files.beam import files, listing
from beam_pipelines.recipe.keys import plain_key, recipe_key, section
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_texts
from beam_pipelines.sources import source_format
from beam_pipelines.sources.files import compression
from beam_pipelines.sources.files.compression import compression_of
from beam_pipelines.sources.images import pixel_rows
from beam_pipelines.sources.images.pixel_rows import COLOUR_FOR_CHANNELS, Classes
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan

# Code of a type -> numpy's name.
_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_CLASSES = "image/class/label", "image/class/text"


@dataclasses.dataclass(frozen=True)
class IdxOptions:
    """Labels of an ``idx`` source."""

    classes: tuple[str, ...] = plain_key(read_texts, (), "Names of the classes, by label.")


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
    return RecipeProblems([source_format.problem(source, "idx", message)])


class _Header(NamedTuple):
    """The header of a file.

    Attributes:
      dims: sizes of the dimensions, the number of items first.
    """

    dims: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        return math.prod(self.dims[1:])

    def place(self, item: int) -> int:
        """Returns where an item begins in the file, uncompressed."""
        return 4 + 4 * len(self.dims) + item * self.item_bytes

    def __str__(self) -> str:
        return "×".join(map(str, self.dims))


class Idx(source_format.Format):
    """Pictures.

    A file that is not compressed is cut at its items, any other is one range.
    """

    suffixes = (".idx", *(f"idx{rank}-ubyte" for rank in (1, 3, 4)))
    Options = IdxSourceOptions
    checks_images = True  # it makes them of pixels

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return pixel_rows.check(source, "IDX")

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return compression_of(source, path) == "none"

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds the files of labels, and the columns; see ``Format``."""
        # Files of labels that the path also matches are not read as rows.
        labels = {_label_path(file.path) for file in files}
        arrays = tuple(file for file in files if file.path not in labels)
        headers = [_picture_header(source, file) for file in arrays]
        first = headers[0]
        for file, header in zip(arrays, headers, strict=True):
            if header.dims[1:] != first.dims[1:]:
                raise DataError(
                    f"{file.path}: found {header}, expected items as those of {arrays[0].path}, "
                    f"which has {first}. Make two sources of them."
                )
        if not any(header.dims[0] for header in headers):
            raise DataError(
                f"{arrays[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        columns = pixel_rows.picture_columns(_pixels(np.empty(0, np.uint8), first))
        kind = Classes(*_CLASSES, _options(source).classes)
        kinds = [kind] if _check_labels(source, kind, arrays, headers) else []
        for kind in kinds:
            columns |= kind.columns(np.empty(0, np.int64))
        return pixel_rows.contents_of(source, columns, arrays, kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        source, file = plan.source, byte_range.file
        header = _picture_header(source, file)
        classes = Classes(*_CLASSES, _options(source).classes)
        row, end = _items_of(source, byte_range, header)
        ids = np.empty(0, np.int64)
        has_labels = classes.label in plan.file_schema.names
        if has_labels:
            path = _label_path(file.path)
            blocks = _read_items(source, path, _label_header(source, path), row, end)
            ids = np.concatenate([ids, *blocks], dtype=np.int64)
        crc32c, first = 0, row
        for numbers in _read_items(source, file.path, header, row, end):
            crc32c = google_crc32c.extend(crc32c, numbers.tobytes())
            pixels = _pixels(numbers, header)
            columns = pixel_rows.picture_columns(pixels, plan.schema.names)
            own = {classes: ids[row - first :][: len(pixels)]} if has_labels else {}
            yield pixel_rows.rows(plan, file, row, columns, own, reject)
            row += len(pixels)
        yield source_format.Rows(
            empty_batch(plan.schema),
            crc32c=google_crc32c.extend(crc32c, ids.tobytes()),
        )

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of the files of labels; see ``Format``."""
        if _CLASSES[0] in plan.file_schema.names:
            yield from (_label_path(file.path) for file in plan.files[:])

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a range's first item, from 0."""
        header = _picture_header(plan.source, byte_range.file)
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


def _pixels(numbers: npt.NDArray[np.uint8], header: _Header) -> npt.NDArray[np.uint8]:
    """Returns pictures [n, height, width, channels] of their numbers."""
    return numbers.reshape(-1, *(*header.dims[1:], 1)[:3])


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
    return _read_header(source, path, None, lambda dims: len(dims) == 1, "labels, n")


def _picture_header(source: Source, file: FileInfo) -> _Header:
    return _read_header(
        source,
        file.path,
        file.size_bytes,
        lambda dims: len(dims) == 3 or (len(dims) == 4 and dims[3] in COLOUR_FOR_CHANNELS),
        "pictures, n×height×width or with 1 to 4 channels behind",
    )


def _read_header(
    source: Source,
    path: str,
    size_bytes: int | None,
    fits: Callable[[tuple[int, ...]], bool],
    expected: str,
) -> _Header:
    """Reads a header, and compares it with an uncompressed file's size.

    Raises:
      DataError: it is no header, that of a shorter or longer file, or of other numbers than those
        that are expected.
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
    type_, header = _TYPES[start[2]], _Header(struct.unpack_from(f">{rank}I", head, 4))
    if type_ != "u1" or not fits(header.dims):
        name = files.name_of(path).removesuffix(".gz")
        raise DataError(
            f"{path}: found {type_} {header}, expected unsigned bytes of {expected}. Make an array "
            f"of NumPy of it, decompressed: d = open({name!r}, 'rb').read(); "
            f"numpy.save({name + '.npy'!r}, numpy.frombuffer(d, {type_!r}, offset=4 + 4 * d[3])"
            ".reshape(numpy.frombuffer(d, '>u4', d[3], 4)))"
        )
    if not header.item_bytes:
        raise _damaged(path, f"{header}, items without a number, expected numbers")
    if header.item_bytes > source.limits.cell_bytes:
        what = f"{header}, {header.item_bytes:,} bytes an item"
        raise DataError(f"{path}: {exceeded(source.limits, 'cell_bytes', what)}")
    whole = header.place(header.dims[0])
    if packing == "none" and size_bytes not in (None, whole):
        found = f"{size_bytes:,} bytes, expected {whole:,} of {header} as its header says"
        raise _damaged(path, found)
    return header


def _damaged(path: str, found: str) -> DataError:
    return DataError(f"{path}: found {found}. Get the file again.")


def _read_items(
    source: Source, path: str, header: _Header, first: int, end: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yields the bytes of items [first, end), some items at a time.

    Raises:
      DataError: the file ends too early or too late.
    """
    # A number takes at most 8 bytes: as an int64, or while a PNG is made.
    step = max(1, source_format.CHUNK_BYTES // (8 * header.item_bytes))
    packing = compression_of(source, path)
    with files.open_read(path) as opened, compression.explained(path, packing):
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
            yield np.frombuffer(data, np.uint8)
        if end == header.dims[0] and file.read(1):
            found = f"more than the {header.place(end):,} bytes of {header} that its header"
            raise _damaged(path, f"{found} says, expected no more")
