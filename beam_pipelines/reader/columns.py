"""Turns parsed features into the arrays of batches.

A feature that the schema never lacks and gives a shape is dense: the parser's memory is the array.
Any other is ragged, or dense with a fill value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.schema_features import feature_lists_of

_TYPES = {
    schema_pb2.BYTES: pa.large_binary(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.INT: pa.int64(),
}


class Ragged(NamedTuple):
    """Values of a feature that may be missing, or has several lengths.

    The values of row i are ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
      values: of all rows: int64, float32, or objects (bytes).
      offsets: int64[rows + 1], from 0.
      is_present: bool[rows], false where the feature is missing; it may be there without values.
    """

    values: Any
    offsets: Any
    is_present: Any


class Feature(NamedTuple):
    """A feature to read.

    Attributes:
      name: of the feature.
      type: int64, float32 or large_binary.
      shape: of a row's values; ``None``: they are ragged.
      fill: of a row without values; ``None``: no row lacks them.
    """

    name: str
    type: pa.DataType
    shape: tuple[int, ...] | None
    fill: Any = None


class WrongRowError(ValueError):
    """A row with other values than the schema or ``fill`` promises.

    Attributes:
      row: its number.
      message: feature, found and expected.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row, self.message = row, message


class Column(Protocol):
    """A feature's values in some rows."""

    def cut(self, start: int, end: int) -> Any:
        """Returns the values of neighbouring rows."""


def wanted_features(
    folder: str,
    schema: schema_pb2.Schema,
    columns: Iterable[str] | None,
    fill: Mapping[str, Any] | None,
) -> list[Feature]:
    """Returns the features to read, in the order of ``columns``.

    Args:
      folder: names the dataset in errors.
      schema: of tf.Examples.
      columns: names; ``None``: all.
      fill: feature -> value of rows without one.

    Raises:
      DataError: the schema has no features, or a type of its own.
      ValueError: there is no such feature, or a fill value of another type.
    """
    known = {feature.name: feature for feature in schema.feature}
    names = list(known) if columns is None else list(columns)
    fill = dict(fill or {})
    if isinstance(columns, str):
        raise ValueError(f"columns: found the text '{columns}', expected a list: ['{columns}'].")  # noqa: TRY004
    if feature_lists_of(schema) or not known:
        raise DataError(f"{folder}: found no schema of tf.Examples. Load it with bp.load.")
    for name in [*names, *fill]:
        if name not in known:
            raise ValueError(
                f"{folder}: found no feature '{name}', expected one of the "
                f"schema's.{nearest(name, known)}"
            )
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"columns: found {names}, expected one or more names, each once.")
    for name in fill:
        if name not in names:
            raise ValueError(f"fill: found '{name}', which is not in columns. Leave it out.")
    return [_feature(folder, known[name], fill.get(name)) for name in names]


def _feature(folder: str, feature: schema_pb2.Feature, fill: Any) -> Feature:
    if feature.type not in _TYPES:
        raise DataError(
            f"{folder}: feature '{feature.name}' has the type "
            f"{schema_pb2.FeatureType.Name(feature.type)} in the schema, expected INT, FLOAT or "
            "BYTES. Leave it out of 'columns'."
        )
    type_ = _TYPES[feature.type]
    has_shape = feature.HasField("shape")
    shape = tuple(dim.size for dim in feature.shape.dim) if has_shape else ()
    shape = () if shape == (1,) else shape
    if has_shape and feature.presence.min_fraction == 1:
        return Feature(feature.name, type_, shape)
    if fill is None:
        return Feature(feature.name, type_, None)
    return Feature(feature.name, type_, shape, _fill_value(feature.name, type_, fill))


def _fill_value(name: str, type_: pa.DataType, fill: Any) -> Any:
    kinds: dict[pa.DataType, tuple[type, ...]] = {
        pa.int64(): (int, np.integer),
        pa.float32(): (int, float, np.integer, np.floating),
        pa.large_binary(): (bytes,),
    }
    if isinstance(fill, bool) or not isinstance(fill, kinds[type_]):
        wanted = {pa.int64(): "an integer", pa.float32(): "a number"}.get(type_, "bytes")
        raise ValueError(f"fill: found {fill!r} for feature '{name}', expected {wanted}.")  # noqa: TRY004
    return fill


def make_column(lists: pa.LargeListArray, feature: Feature, as_: str) -> Column:
    """Returns the values of a feature, ready to be cut into batches.

    Args:
      lists: the parsed values: null where the feature is missing; or of the feature's size.
      feature: as the schema has it.
      as_: ``numpy``, ``torch`` or ``arrow``.

    Raises:
      WrongRowError: a row has another number of values than the feature's shape.
    """
    if feature.shape is None:
        return _ArrowColumn(lists) if as_ == "arrow" else _RaggedColumn(lists, as_)
    size = int(np.prod(feature.shape, dtype=np.int64))
    values = lists.values
    if pa.types.is_fixed_size_list(lists.type):
        if as_ == "arrow":
            return _ArrowColumn(_arrow_rows(values, feature.shape))
        return _DenseColumn(_array_of(values).reshape(len(lists), *feature.shape), as_)
    offsets = lists.offsets.to_numpy()
    if feature.fill is not None:
        array = _filled(values, feature, size, offsets)
    elif lists.null_count or not np.array_equal(offsets, np.arange(len(offsets)) * size):
        raise _wrong_row(feature, lists, size)
    elif as_ == "arrow":
        return _ArrowColumn(_arrow_rows(values, feature.shape))
    else:
        array = _array_of(values)
    array = array.reshape(len(lists), *feature.shape)
    if as_ == "arrow":
        flat = pa.array(array.reshape(-1), feature.type)
        return _ArrowColumn(_arrow_rows(flat, feature.shape))
    return _DenseColumn(array, as_)


def _filled(
    values: pa.Array, feature: Feature, size: int, offsets: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Returns [rows, size] values, with the fill value in rows without any."""
    lengths = np.diff(offsets)
    is_full = lengths == size
    if not (is_full | (lengths == 0)).all():
        row = int(np.argmin(is_full | (lengths == 0)))
        raise WrongRowError(
            row,
            f"feature '{feature.name}': found {lengths[row]:,} values, expected {size:,} or none, "
            "as it has a fill value. Leave it out of 'fill'",
        )
    found = _array_of(values)
    array = np.empty((len(lengths), size), found.dtype)
    array[is_full] = found.reshape(-1, size)
    array[~is_full] = feature.fill
    return array


def _wrong_row(feature: Feature, lists: pa.LargeListArray, size: int) -> WrongRowError:
    row = int(np.argmin(np.diff(lists.offsets.to_numpy()) == size))
    found = lists[row].as_py()
    what = "nothing" if found is None else f"{len(found):,} values"
    return WrongRowError(
        row,
        f"feature '{feature.name}': found {what}, expected {size:,} values as the schema says. "
        "Convert again with --overwrite",
    )


class _Memory:
    """The memory of an Arrow array, for an array that is writable.

    Nothing else uses the Arrow array.
    """

    def __init__(self, values: pa.Array, array: npt.NDArray[Any]) -> None:
        self._values = values
        self.__array_interface__ = {
            "data": (array.__array_interface__["data"][0], False),
            "shape": array.shape,
            "typestr": array.dtype.str,
            "version": 3,
        }


def _array_of(values: pa.Array) -> npt.NDArray[Any]:
    """Returns writable numbers without a copy; texts as bytes objects."""
    # Arrow's `to_numpy` imports pandas, which takes longer than the first batch.
    if pa.types.is_large_binary(values.type):
        objects = np.empty(len(values), object)
        objects[:] = values.to_pylist()
        return objects
    dtype = np.dtype(np.int64 if values.type == pa.int64() else np.float32)
    if not len(values):
        return np.empty(0, dtype)
    start = values.offset * dtype.itemsize
    array = np.frombuffer(values.buffers()[1], dtype, len(values), start)
    return np.asarray(_Memory(values, array))


def _arrow_rows(values: pa.Array, shape: Sequence[int]) -> pa.Array:
    for size in reversed(shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def _finish(array: npt.NDArray[Any], as_: str) -> Any:
    """Returns numbers as a tensor of the wanted kind, without a copy."""
    if as_ != "torch" or array.dtype == object:
        return array
    import torch

    return torch.from_numpy(array)


class _DenseColumn:
    def __init__(self, array: npt.NDArray[Any], as_: str) -> None:
        self._array = _finish(array, as_)

    def cut(self, start: int, end: int) -> Any:
        return self._array[start:end]


class _RaggedColumn:
    def __init__(self, lists: pa.LargeListArray, as_: str) -> None:
        self._as = as_
        self._offsets = lists.offsets.to_numpy()
        self._values = _finish(_array_of(lists.values), as_)
        self._is_present = _finish(
            lists.is_valid().to_numpy(zero_copy_only=False)
            if lists.null_count
            else np.ones(len(lists), np.bool_),
            as_,
        )

    def cut(self, start: int, end: int) -> Ragged:
        offsets = self._offsets[start : end + 1]
        values = self._values[offsets[0] : offsets[-1]]
        return Ragged(values, _finish(offsets - offsets[0], self._as), self._is_present[start:end])


class _ArrowColumn:
    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def cut(self, start: int, end: int) -> pa.Array:
        return self._values[start:end]
