"""IDX files, such as those of MNIST, and their labels."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_any_texts, read_choice, read_texts
from beam_pipelines.sources.compression import (
    COMPRESSION_FOR_SUFFIX,
    compression_of,
    no_zlib,
)
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
from beam_pipelines.sources.images.idx_file import IdxHeader, read_idx_header, read_items
from beam_pipelines.sources.images.pixel_rows import PICTURE_TYPES, SHAPE, Classes
from beam_pipelines.sources.images.png import COLOUR_FOR_CHANNELS
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.storage import input_files

# Form of a row's numbers -> the name of their column.
_COLUMN_FOR_FORM = {"png": "encoded", "bytes": "raw", "floats": "pixels", "values": "values"}


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


@dataclasses.dataclass(frozen=True)
class IdxSourceOptions:
    """The key of IDX sources."""

    idx: IdxOptions = recipe_key(
        section(IdxOptions, "a mapping such as {as: floats, labels: train-labels-idx1-ubyte.gz}"),
        IdxOptions(),
        "see below",
        "Options of `idx` sources.",
    )


def _options(source: Source) -> IdxOptions:
    return source.options_of(IdxSourceOptions).idx


class Idx(Format):
    """Items of arrays.

    A file that is not compressed is cut at its items, any other is one range.
    """

    suffixes = (
        ".idx",
        *(
            f"idx{rank}-{name}"
            for rank in range(1, 10)
            for name in ("ubyte", "byte", "short", "int")
        ),
    )

    Options = IdxSourceOptions
    checks_images = True  # it makes them of pixels

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return [*pixel_rows.check(source, "IDX"), *no_zlib(source)]

    def paths_of(self, source: Source) -> Mapping[str, tuple[str, ...]]:
        """Returns the files of labels that the options name; see ``Format``."""
        return {"idx.labels": _options(source).labels or ()}

    def placed(self, source: Source, place: Callable[[str], str]) -> Source:
        """Returns the source with other paths of labels; see ``Format``."""
        labels = _options(source).labels
        return _with_labels(source, map(place, labels)) if labels else source

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return compression_of(source, path) == "none"

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds the files of labels, and the columns; see ``Format``."""
        # Files of labels that the path also matches are not read as rows.
        label_paths = (
            {_label_path_by_name(file.path) for file in files}
            if _options(source).labels is None
            else set()
        )
        arrays = tuple(file for file in files if file.path not in label_paths)
        headers = [
            read_idx_header(
                file.path, compression_of(source, file.path), source.limits, file.size_bytes
            )
            for file in arrays
        ]
        first = headers[0]
        for file, header in zip(arrays, headers, strict=True):
            if (header.code, header.dims[1:]) != (first.code, first.dims[1:]):
                raise DataError(
                    f"{file.path}: found {header}, expected items as those of {arrays[0].path}, "
                    f"which has {first}. "
                    "Make two sources of them."
                )
        if not any(header.dims[0] for header in headers):
            raise DataError(
                f"{arrays[0].path}: found no rows, expected data. Check 'path' of the source."
            )
        form = _checked_form(source, arrays[0].path, first)
        types = _types(first, form)
        kinds = []
        if _check_labels(source, arrays, headers):
            kinds = [_classes(source, first)]
            types |= kinds[0].types()
        return pixel_rows.contents_of(source, types, arrays, kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        source, path = plan.source, byte_range.file.path
        compression = compression_of(source, path)
        header = read_idx_header(path, compression, source.limits, byte_range.file.size_bytes)
        form, classes = _form(source, header), _classes(source, header)
        first, end = _items_of(byte_range, header) if compression == "none" else (0, header.dims[0])
        ids: npt.NDArray[np.int64] | None = None
        if classes.label in plan.file_schema.names:
            ids = _read_labels(source, _label_path(source, plan.files, path), first, end)
        crc32c = 0
        # A number takes at most 8 bytes: as an int64, or while a PNG is made.
        step = max(1, CHUNK_BYTES // (8 * header.values))
        for start, numbers in enumerate(
            read_items(path, compression, source.limits, header, first, end, step)
        ):
            row = start * step
            crc32c = google_crc32c.extend(crc32c, numbers.tobytes())
            columns = _columns(numbers, header, form, plan.schema.names)
            if ids is None:
                yield from pixel_rows.rows(plan, byte_range.file, first + row, columns, {}, reject)
                continue
            own = ids[row : row + step]
            columns |= pixel_rows.class_columns(classes, own)
            yield from pixel_rows.rows(
                plan, byte_range.file, first + row, columns, {classes: own}, reject
            )
        if ids is not None:
            crc32c = google_crc32c.extend(crc32c, ids.tobytes())
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of the files of labels; see ``Format``."""
        yield from filter(
            None, (_label_path(plan.source, plan.files, file.path) for file in plan.files[:])
        )

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a range's first item, from 0."""
        file, compression = byte_range.file, compression_of(plan.source, byte_range.file.path)
        header = read_idx_header(file.path, compression, plan.source.limits, file.size_bytes)
        return "image", _items_of(byte_range, header)[0] if compression == "none" else 0


def _items_of(byte_range: ByteRange, header: IdxHeader) -> tuple[int, int]:
    """Returns the items that begin in a range.

    The header counts as part of the first item.
    """
    first, end = (
        min(header.dims[0], max(0, -(-(place - header.size_bytes) // header.item_bytes)))
        for place in (byte_range.start, byte_range.end)
    )
    return first, end


def _with_labels(source: Source, labels: Iterable[str]) -> Source:
    idx = _options(source)
    return source.with_options(idx=dataclasses.replace(idx, labels=tuple(labels)))


def _is_picture(header: IdxHeader) -> bool:
    """Whether items are [height, width], or [height, width, channels of a colour]."""
    return len(header.dims) == 3 or (
        len(header.dims) == 4 and header.dims[3] in COLOUR_FOR_CHANNELS
    )


def _form(source: Source, header: IdxHeader) -> str:
    """Returns the recipe's ``as``; by default PNG for pictures, else numbers."""
    return _options(source).form or (
        "png" if _is_picture(header) and header.dtype == np.uint8 else "values"
    )


def _checked_form(source: Source, path: str, header: IdxHeader) -> str:
    form = _form(source, header)
    if form == "png" and not (_is_picture(header) and header.dtype == np.uint8):
        expected = "unsigned bytes of 2 dimensions, or 3 with 1 to 4 channels"
    elif form == "floats" and header.dtype != np.uint8:
        expected = "unsigned bytes, which 255 scales to 1"
    else:
        return form
    message = (
        f"found 'as: {form}' with {path}, which is {header}, expected items of {expected}. "
        "Take 'as: values' or 'as: bytes'."
    )
    raise RecipeProblems([problem(source, "idx", message)])


def _prefix(header: IdxHeader) -> str:
    return "image/" if _is_picture(header) else ""


def _column(header: IdxHeader, form: str) -> str:
    """Returns the name of the column with the numbers."""
    return (
        "value"
        if (form, len(header.dims)) == ("values", 1)
        else _prefix(header) + _COLUMN_FOR_FORM[form]
    )


def _types(header: IdxHeader, form: str) -> dict[str, pa.DataType]:
    """Returns the columns without labels, by name."""
    if form == "png":
        return dict(PICTURE_TYPES)
    types = {"bytes": pa.binary(), "floats": pa.list_(pa.float32())}
    number = _number_type(header)
    type_ = types.get(form, number if len(header.dims) == 1 else pa.list_(number))
    return {
        _column(header, form): type_,
        **(dict.fromkeys(SHAPE, pa.int64()) if _is_picture(header) else {}),
    }


def _number_type(header: IdxHeader) -> pa.DataType:
    if header.dtype.kind != "f":
        return pa.int64()
    return pa.float32() if header.dtype.itemsize == 4 else pa.float64()


def _columns(
    numbers: npt.NDArray[Any], header: IdxHeader, form: str, wanted: Sequence[str]
) -> dict[str, pa.Array]:
    """Returns the columns of numbers [n, values]: those wanted, and free ones."""
    columns = {}
    if _is_picture(header):
        shape = (*header.dims[1:], 1)[:3]
        pixels = numbers.reshape(len(numbers), *shape)
        columns = (
            pixel_rows.picture_columns(pixels, wanted)
            if form == "png"
            else pixel_rows.shape_columns(pixels)
        )
    name = _column(header, form)
    if name in wanted and form != "png":
        columns[name] = _converted(numbers, header, form)
    return columns


def _converted(numbers: npt.NDArray[Any], header: IdxHeader, form: str) -> pa.Array:
    """Returns n rows of numbers in the form that the recipe asks.

    It is bytes (little-endian), floats from 0 to 1, or the numbers themselves.
    """
    count, values = numbers.shape
    if form == "bytes":
        raw = numbers.astype(header.dtype.newbyteorder("<"), copy=False)
        offsets = pa.array(np.arange(count + 1) * header.item_bytes, pa.int32())
        return pa.BinaryArray.from_buffers(
            pa.binary(), count, [None, offsets.buffers()[1], pa.py_buffer(raw.tobytes())]
        )
    if form == "floats":
        flat = pa.array(numbers.ravel().astype(np.float32) / np.float32(255))
    else:
        flat = pa.array(numbers.ravel().astype(_number_type(header).to_pandas_dtype()))
        if len(header.dims) == 1:
            return flat
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * values, pa.int32()), flat)


def _classes(source: Source, header: IdxHeader) -> Classes:
    prefix = _prefix(header)
    return Classes(f"{prefix}class/label", f"{prefix}class/text", _options(source).classes)


def _label_path_by_name(path: str) -> str:
    """Returns the customary path of an array's labels: ``labels-idx1`` for ``images-idx3``.

    Empty if the array's name does not follow this custom. Dots are as good as hyphens, and the two
    files may be compressed in different ways.
    """
    folder, name = path[: -len(posixpath.basename(path))], posixpath.basename(path)
    named, count = re.subn(r"images([-.])idx[0-9]", r"labels\1idx1", name)
    if not count:
        return ""
    plain = next(
        (named.removesuffix(end) for end in COMPRESSION_FOR_SUFFIX if named.endswith(end)), named
    )
    others = [named, plain, *(plain + suffix for suffix in COMPRESSION_FOR_SUFFIX)]
    return folder + next((other for other in others if input_files.exists(folder + other)), named)


def _label_path(source: Source, arrays: Sequence[FileInfo], path: str) -> str:
    """Returns the path of an array's labels; empty if it has none."""
    labels = _options(source).labels
    if labels is None:
        return _label_path_by_name(path)
    if not labels:
        return ""
    return dict(zip((file.path for file in arrays), labels, strict=True)).get(path, "")


def _check_labels(source: Source, arrays: tuple[FileInfo, ...], headers: list[IdxHeader]) -> bool:
    """Checks the labels of all arrays, and returns whether they have any.

    Either all arrays have labels, as many as items, or none has.

    Raises:
      RecipeProblems: the recipe does not name one file for each array, or names classes without
        labels.
      DataError: a file of labels does not exist, is none, or has another number of labels.
    """
    named = _options(source).labels
    if named and len(named) != len(arrays):
        message = (
            f"found {len(named)} files in 'labels' for {len(arrays)} files in 'path', "
            "expected one for each, in the same order."
        )
        raise RecipeProblems([problem(source, "idx", message)])
    paths = [_label_path(source, arrays, file.path) for file in arrays]
    if not all(paths):
        if any(paths) or _options(source).classes:
            message = (
                f"found no file with labels for {arrays[paths.index('')].path}, expected "
                "one. Name the files in 'labels', in the order of the arrays."
            )
            raise RecipeProblems([problem(source, "idx", message)])
        return False
    for file, header, path in zip(arrays, headers, paths, strict=True):
        if not input_files.exists(path):
            raise DataError(
                f"{path}: found no such file, expected the labels of {file.path}. "
                "Put it there, name another with 'idx: {labels: …}', or set 'idx: {labels: []}' to "
                "read no labels."
            )
        count = _label_header(source, path).dims[0]
        if count != header.dims[0]:
            raise DataError(
                f"{path}: found {count:,} labels, expected {header.dims[0]:,}, as many as "
                f"{file.path} has items. Get both files again."
            )
    return True


def _label_header(source: Source, path: str) -> IdxHeader:
    header = read_idx_header(path, compression_of(source, path), source.limits)
    if len(header.dims) != 1 or header.dtype.kind == "f":
        raise DataError(
            f"{path}: found {header}, expected labels: integers of one dimension. Check 'labels', "
            "or read the file as a source of its own."
        )
    return header


def _read_labels(source: Source, path: str, first: int, end: int) -> npt.NDArray[np.int64]:
    """Returns labels [first, end)."""
    header = _label_header(source, path)
    if header.dims[0] < end:
        raise DataError(
            f"{path}: found {header.dims[0]:,} labels, expected at least {end:,}. Run again."
        )
    blocks = read_items(
        path, compression_of(source, path), source.limits, header, first, end, max(1, end - first)
    )
    return np.concatenate([np.empty((0, 1), np.int64), *blocks]).astype(np.int64).ravel()
