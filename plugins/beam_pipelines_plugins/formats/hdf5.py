"""HDF5: the datasets of one group as columns.

The first axis are the rows. Nothing outside of a file is opened: links, external storage and
virtual datasets are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.limits import MIB, exceeded, exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_text
from beam_pipelines.sources.options import TextsOptions
from beam_pipelines.sources.plan import ByteRange
from beam_pipelines.sources.source_format import CHUNK_BYTES, MAX_CHUNK_ROWS, check_columns, problem
from beam_pipelines_plugins.extras import needed
from beam_pipelines_plugins.formats.numpy_files import to_arrow
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

# Filters of the library and of h5py by their registered numbers: deflate, shuffle, Fletcher's
# checksum, szip, n-bit, scale and offset, LZF. For any other the library would load a plugin, which
# is code, from a folder of the machine.
_FILTERS = {1, 2, 3, 4, 5, 6, 32_000}
# A compressed chunk is decoded as a whole.
MOST_CHUNK_BYTES = 256 * MIB
# Bytes of a text or a list of unknown length, to choose how many rows are read at a time.
_VARYING_BYTES = 256


@dataclasses.dataclass(frozen=True)
class Hdf5Options(TextsOptions):
    """The keys of HDF5 sources."""

    group: str | None = recipe_key(read_text, None, "the root", "Group of an `hdf5` source.")


class Hdf5(PartFiles):
    """HDF5 files; a range has whole chunks of rows."""

    title = "HDF5"
    suffixes = (".h5", ".hdf5", ".hdf")
    Options = Hdf5Options
    is_compressed = True

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a range, or a file; see ``PartFiles``."""
        with needed(path, "hdf5"):
            import h5py
        with h5py.File(file, "r") as opened:
            found = _columns(source, path, _group(source, path, opened))
            rows = _check(source, path, found, file.seek(0, 2))
            start, end = _rows_of(found, rows, part[1]) if part else (0, rows)
            schema = pa.schema([(one.name, one.type) for one in found])
            yield OpenedPart(schema, _batches(found, schema, start, end), 1 + start)


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


def _group(source: Source, path: str, opened: Any) -> Any:
    """Returns the recipe's group, or the root; follows no links."""
    import h5py

    def kinds_in(group: Any) -> dict[str, Any]:
        own = (key for key in group if isinstance(group.get(key, getlink=True), h5py.HardLink))
        return {key: group.get(key, getclass=True) for key in own}

    name, group, place = source.options_of(Hdf5Options).group or "/", opened, ""
    for part in filter(None, name.split("/")):
        if kinds_in(group).get(part) is not h5py.Group:
            break
        group, place = group[part], f"{place}{part}/"
    else:
        if h5py.Dataset in kinds_in(group).values():
            return group
    groups = [f"{place}{key}" for key, kind in kinds_in(group).items() if kind is h5py.Group]
    message = f"found no dataset in the group '{name}' of {path}, expected some, and no links."
    if groups:
        message += (
            f" The groups in '/{place}' are {', '.join(groups[:20])}. Say which to read: 'group: "
            f"{groups[0]}' in a recipe, or '{path}#{groups[0]}'."
        )
    raise RecipeProblems([problem(source, "group", message)])


def _columns(source: Source, path: str, group: Any) -> list[_Dataset]:
    import h5py

    found = []
    check_columns(source, path, len(group))
    for name in group:
        if source.columns and name not in source.columns:
            continue
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise _refused(path, name, "a link, expected data in the file itself")
        if isinstance(group[name], h5py.Dataset):
            found.append(_dataset(path, name, group[name]))
    return found


def _refused(path: str, name: str, found: str) -> DataError:
    return DataError(
        f"{path}, dataset '{name}': found {found}. Leave '{name}' out: name the others in "
        "'columns'."
    )


def _dataset(path: str, name: str, data: Any) -> _Dataset:
    """Returns a dataset as a column."""
    import h5py

    if data.is_virtual or data.external:
        raise _refused(path, name, "values in other files, expected them in this one")
    pipeline = data.id.get_create_plist()
    for number, *_, title in map(pipeline.get_filter, range(pipeline.get_nfilters())):
        if number not in _FILTERS:
            what = title.decode(errors="replace") or "no name"
            own = "which is a plugin, expected one of HDF5's own, such as gzip"
            raise _refused(path, name, f"filter {number} ({what}), {own}")
    if not data.shape:
        own = "an array whose first axis are the rows"
        raise _refused(path, name, f"a single value, expected {own}")
    if h5py.check_string_dtype(data.dtype) is not None:
        type_ = pa.string()
        for size in reversed(data.shape[1:]):
            type_ = pa.list_(type_, size)
        return _Dataset(name, data, type_, "texts")
    inner = h5py.check_vlen_dtype(data.dtype)
    if inner is not None and inner.kind in "biuf" and len(data.shape) == 1:
        return _Dataset(name, data, pa.list_(to_arrow(np.empty(0, inner)).type), "lists")
    if data.dtype.kind in "biuf" and 0 not in data.shape[1:]:
        type_ = to_arrow(np.empty((0, *data.shape[1:]), data.dtype)).type
        return _Dataset(name, data, type_, "numbers")
    what = f"values of type {data.dtype} in the shape {data.shape}"
    if data.dtype.names:
        what = "records with fields, as PyTables and pandas write them"
    raise _refused(path, name, f"{what}, expected numbers, bools, texts, or lists of numbers")


def _check(source: Source, path: str, found: list[_Dataset], size: int) -> int:
    """Returns the number of rows.

    Args:
      source, path: for limits and messages.
      found: the columns.
      size: bytes of the file.

    Raises:
      DataError: datasets are no columns of one table, or too large.
    """
    limits, rows = source.limits, len(found[0].data) if found else 0
    for one in found:
        where = f"{path}, dataset '{one.name}'"
        if len(one.data) != rows:
            own = f"{len(one.data):,} rows, expected {rows:,} as in '{found[0].name}'"
            raise _refused(path, one.name, own)
        if one.kind == "numbers" and one.row_bytes > limits.cell_bytes:
            what = f"rows of {one.row_bytes:,} bytes"
            raise DataError(f"{where}: {exceeded(limits, 'cell_bytes', what)}")
        total = one.data.size * one.data.dtype.itemsize
        if exceeds_ratio(limits, size, total):
            raise DataError(f"{where}: {ratio_exceeded(limits, size, total)}")
        chunk = math.prod(one.data.chunks or (0,)) * one.data.dtype.itemsize
        if chunk > MOST_CHUNK_BYTES:
            raise DataError(
                f"{where}: found chunks of {chunk:,} bytes, expected at most "
                f"{MOST_CHUNK_BYTES:,}, because one is held in memory. Write it in smaller chunks."
            )
    return rows


def _rows_of(found: list[_Dataset], rows: int, byte_range: ByteRange) -> tuple[int, int]:
    """Returns the first row of a range and of the next one.

    A range of bytes has as large a share of the rows, up to the end of a chunk.
    """
    size = max(1, byte_range.file.size_bytes)
    step = max(((one.data.chunks or (1,))[0] for one in found), default=1)
    start, end = (
        min(rows, -(-(rows * place // size) // step) * step)
        for place in (byte_range.start, byte_range.end)
    )
    return start, rows if byte_range.end >= size else end


def _batches(
    found: list[_Dataset], schema: pa.Schema, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    row_bytes = max(1, sum(one.row_bytes for one in found))
    step = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // row_bytes))
    for first in range(start, end, step):
        arrays = [_array(one, one.data[first : min(end, first + step)]) for one in found]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(one: _Dataset, values: npt.NDArray[Any]) -> pa.Array:
    if one.kind == "numbers":
        return to_arrow(values)
    if one.kind == "lists":
        dtype = one.type.value_type.to_pandas_dtype()
        return pa.array([np.asarray(item, dtype) for item in values], one.type)
    # Texts that are no UTF-8 are bad rows.
    array = pa.array(values.reshape(-1).tolist(), pa.binary()).view(pa.string())
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array
