"""HDF5: the datasets of one group as columns.

The first axis are the rows. Nothing outside of a file is opened: links, external storage and
virtual datasets are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import MIB, exceeded, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_text
from beam_pipelines.sources import tables
from beam_pipelines.sources.batch_files import BatchFiles, OpenedFile
from beam_pipelines.sources.files.archives import open_whole
from beam_pipelines.sources.format import (
    CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    QuoteStates,
    Rows,
    check_columns,
    empty_batch,
    problem,
)
from beam_pipelines.sources.options import TableOptions
from beam_pipelines.sources.plan import ByteRange, SourcePlan
from beam_pipelines_plugins.formats.numpy_files import to_arrow

# Filters of the library and of h5py by their registered numbers: deflate, shuffle, Fletcher's
# checksum, szip, n-bit, scale and offset, LZF. For any other the library would load a plugin, which
# is code, from a folder of the machine.
_FILTERS = {1, 2, 3, 4, 5, 6, 32_000}
# A compressed chunk is decoded as a whole.
MOST_CHUNK_BYTES = 256 * MIB
# Bytes of a text or a list of unknown length, to choose how many rows are read at a time.
_VARYING_BYTES = 256
_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError)


@dataclasses.dataclass(frozen=True)
class Hdf5Options(TableOptions):
    """The keys of HDF5 sources."""

    group: str | None = recipe_key(
        read_text, None, "the only one with data", "Group of an `hdf5` source."
    )


class Hdf5(BatchFiles):
    """HDF5 files; a range has whole chunks of rows."""

    title = "HDF5"
    suffixes = (".h5", ".hdf5", ".hdf")
    Options = Hdf5Options
    is_compressed = True

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return True

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[OpenedFile]:
        """Opens a file; see ``BatchFiles``."""
        with _datasets(source, path) as (file, found):
            schema = pa.schema([(one.name, one.type) for one in found])
            rows = len(found[0].data) if found else 0
            batches = (batch for batch, _ in _batches(found, schema, 0, rows))
            yield OpenedFile(file, schema, batches)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        crc32c = 0
        with _datasets(plan.source, byte_range.file.path) as (_, found):
            schema = pa.schema([(one.name, one.type) for one in found])
            tables.check_file(plan, byte_range.file, schema)
            row, end = _rows_of(found, byte_range)
            for batch, checksummed in _batches(found, schema, row, end):
                for data in checksummed:
                    crc32c = google_crc32c.extend(crc32c, data)
                yield from tables.rows_of(batch, plan, byte_range.file, row + 1, reject)
                row += batch.num_rows
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``row``, and the number of a range's first one, from 1."""
        with _datasets(plan.source, byte_range.file.path) as (_, found):
            return "row", 1 + _rows_of(found, byte_range)[0]


class _Dataset(NamedTuple):
    """A column.

    Attributes:
      name: of the dataset.
      data: the dataset of h5py.
      type: of the column.
      kind: ``numbers``, ``texts``, or ``lists`` of numbers.
    """

    name: str
    data: Any
    type: pa.DataType
    kind: str

    @property
    def row_bytes(self) -> int:
        """Bytes of a row; a guess where they vary."""
        size = math.prod(self.data.shape[1:])
        return int(size * (self.data.dtype.itemsize if self.kind == "numbers" else _VARYING_BYTES))


@contextlib.contextmanager
def _datasets(source: Source, path: str) -> Iterator[tuple[BinaryIO, list[_Dataset]]]:
    """Opens a file, and finds its columns."""
    try:
        import h5py
    except ImportError as error:
        raise DataError(
            f"{path}: found no package h5py, which reads HDF5. Install it: pip install "
            "'./plugins[hdf5]' in a clone."
        ) from error
    with open_whole(path) as file, contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(h5py.File(file, "r"))
            found = _columns(source, path, _group(source, path, opened))
            _check(source, path, found, file.seek(0, 2))
            yield file, found
        except _DAMAGED as error:
            raise DataError(
                f"{path}: found damaged HDF5 data, expected a whole file: {error}. Get the file "
                "again, or set 'format'."
            ) from error


def _group(source: Source, path: str, opened: Any) -> Any:
    """Returns the recipe's group, or the only one with data."""
    import h5py

    found = list(_groups_with_data(opened, source.limits.nesting_depth))
    group = source.options_of(Hdf5Options).group
    if group is not None:
        wanted = group.strip("/")
        if wanted in found:
            return opened[wanted] if wanted else opened
        message = f"there is no group '{group}' with datasets in {path}. It has: {found}."
        raise RecipeProblems([problem(source, "group", message)])
    if len(found) == 1:
        return opened[found[0]] if found[0] else opened
    if not found:
        keys = list(opened.keys())[:5]
        is_link = any(not isinstance(opened.get(key, getlink=True), h5py.HardLink) for key in keys)
        hint = "; links are not followed" if is_link else ""
        raise DataError(f"{path}: found no dataset{hint}, expected some. Check 'path'.")
    shown = ", ".join(f"'{name or '/'}'" for name in found[:20])
    message = (
        f"found datasets in {len(found)} groups of {path}: {shown}. Say which to read: "
        f"'group: {found[0] or '/'}' in a recipe, or '{path}#{found[0] or '/'}'."
    )
    raise RecipeProblems([problem(source, "group", message)])


def _groups_with_data(group: Any, depth: int, name: str = "") -> Iterator[str]:
    """Yields the paths of groups that have datasets; follows no links."""
    import h5py

    if depth < 0:
        raise ValueError("groups are nested too deeply, or in a circle")
    inner = []
    has_data = False
    for key in group:
        if isinstance(group.get(key, getlink=True), h5py.HardLink):
            kind = group.get(key, getclass=True)
            has_data |= kind is h5py.Dataset
            inner += [key] if kind is h5py.Group else []
    if has_data:
        yield name
    for key in inner:
        yield from _groups_with_data(group[key], depth - 1, f"{name}/{key}".strip("/"))


def _columns(source: Source, path: str, group: Any) -> list[_Dataset]:
    import h5py

    found = []
    check_columns(source, path, len(group))
    for name in group:
        if source.columns and name not in source.columns:
            continue
        where = f"{path}, dataset '{name}'"
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise DataError(
                f"{where}: found a link, expected data in the file itself. {_leave_out(name)}"
            )
        data = group[name]
        if isinstance(data, h5py.Dataset):
            found.append(_dataset(where, name, data))
    return found


def _leave_out(name: str) -> str:
    return f"Leave '{name}' out: name the others in 'columns'."


def _dataset(where: str, name: str, data: Any) -> _Dataset:
    """Returns a dataset as a column."""
    import h5py

    if data.is_virtual or data.external:
        raise DataError(
            f"{where}: found values in other files, expected them in this one. {_leave_out(name)}"
        )
    pipeline = data.id.get_create_plist()
    for number, *_, title in map(pipeline.get_filter, range(pipeline.get_nfilters())):
        if number not in _FILTERS:
            raise DataError(
                f"{where}: found filter {number} ({title.decode(errors='replace') or 'no name'}), "
                "which is a plugin, expected one of HDF5's own. Write it again with gzip. "
                f"{_leave_out(name)}"
            )
    if data.shape is None or not data.shape:
        raise DataError(
            f"{where}: found a single value, expected an array whose first axis are the rows. "
            f"{_leave_out(name)}"
        )
    if h5py.check_string_dtype(data.dtype) is not None:
        return _Dataset(name, data, _nested(pa.string(), data.shape), "texts")
    inner = h5py.check_vlen_dtype(data.dtype)
    if inner is not None and inner.kind in "biuf" and len(data.shape) == 1:
        return _Dataset(name, data, pa.list_(to_arrow(np.empty(0, inner)).type), "lists")
    if data.dtype.kind in "biuf" and 0 not in data.shape[1:]:
        type_ = to_arrow(np.empty((0, *data.shape[1:]), data.dtype)).type
        return _Dataset(name, data, type_, "numbers")
    what = "records with fields, as PyTables and pandas write them" if data.dtype.names else ""
    raise DataError(
        f"{where}: found {what or f'values of type {data.dtype} in the shape {data.shape}'}, "
        "expected numbers, bools, texts, or lists of numbers. Save it in another form, or leave "
        f"it out. {_leave_out(name)}"
    )


def _nested(type_: pa.DataType, shape: Sequence[int]) -> pa.DataType:
    for size in reversed(shape[1:]):
        type_ = pa.list_(type_, size)
    return type_


def _check(source: Source, path: str, found: list[_Dataset], size: int) -> None:
    """Raises ``DataError`` if datasets are no columns, or too large."""
    limits = source.limits
    for one in found:
        where = f"{path}, dataset '{one.name}'"
        if len(one.data) != len(found[0].data):
            raise DataError(
                f"{where}: found {len(one.data):,} rows, expected {len(found[0].data):,} as in "
                f"'{found[0].name}'. {_leave_out(one.name)}"
            )
        if one.kind == "numbers" and one.row_bytes > limits.cell_bytes:
            what = f"rows of {one.row_bytes:,} bytes"
            raise DataError(f"{where}: {exceeded(limits, 'cell_bytes', what)}")
        if exceeds_ratio(limits, size, one.data.size * one.data.dtype.itemsize):
            total = one.data.size * one.data.dtype.itemsize
            raise DataError(f"{where}: {ratio_exceeded(limits, size, total)}")
        chunk = math.prod(one.data.chunks or (0,)) * one.data.dtype.itemsize
        if chunk > MOST_CHUNK_BYTES:
            raise DataError(
                f"{where}: found chunks of {chunk:,} bytes, expected at most "
                f"{MOST_CHUNK_BYTES:,}, because one is held in memory. Write it in smaller chunks."
            )


def _rows_of(found: list[_Dataset], byte_range: ByteRange) -> tuple[int, int]:
    """Returns the first row of a range and of the next one.

    A range of bytes has as large a share of the rows, up to the end of a chunk.
    """
    if not found:
        return 0, 0
    rows, size = len(found[0].data), max(1, byte_range.file.size_bytes)
    step = max((one.data.chunks or (1,))[0] for one in found)

    def aligned(place: int) -> int:
        return min(rows, -(-(rows * place // size) // step) * step)

    return aligned(byte_range.start), rows if byte_range.end >= size else aligned(byte_range.end)


def _batches(
    found: list[_Dataset], schema: pa.Schema, start: int, end: int
) -> Iterator[tuple[pa.RecordBatch, list[bytes]]]:
    """Yields rows, and the bytes of their values."""
    row_bytes = max(1, sum(one.row_bytes for one in found))
    step = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // row_bytes))
    for first in range(start, end, step):
        raw = [one.data[first : min(end, first + step)] for one in found]
        pairs = [_array(one, values) for one, values in zip(found, raw, strict=True)]
        arrays = [array for array, _ in pairs]
        yield (
            pa.RecordBatch.from_arrays(arrays, schema=schema),
            [data for _, data in pairs],
        )


def _array(one: _Dataset, values: npt.NDArray[Any]) -> tuple[pa.Array, bytes]:
    """Returns values as Arrow data, and their bytes."""
    if one.kind == "numbers":
        return to_arrow(values), values.tobytes()
    if one.kind == "texts":
        flat = [
            text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
            for text in values.reshape(-1).tolist()
        ]
        options = pc.CastOptions(pa.string(), allow_invalid_utf8=True)
        array = pc.cast(pa.array(flat, pa.binary()), options=options)
        for size in reversed(values.shape[1:]):
            array = pa.FixedSizeListArray.from_arrays(array, size)
        return array, b"\0".join(flat)
    lengths = [len(item) for item in values]
    inner = one.type.value_type
    joined = np.concatenate([np.asarray(item) for item in values]) if sum(lengths) else None
    items = pa.array([], inner) if joined is None else to_arrow(joined)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = b"" if joined is None else joined.tobytes()
    return pa.ListArray.from_arrays(pa.array(offsets), items.cast(inner)), data + offsets.tobytes()
