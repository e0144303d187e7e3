"""Turns parsed features into the values of batches.

A dense feature is an array in the parser's memory. Any other is a ``Ragged``, or padded. Texts are
Arrow arrays: numpy's own have no bytes, and objects of Python take 40 times as long to make.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import is_valid, offsets_of
from beam_pipelines.reader import arrays
from beam_pipelines.reader.features import ReadFeature

Offsets = npt.NDArray[np.int64]
# Numbers, or an Arrow array of texts.
Values: TypeAlias = "npt.NDArray[Any] | pa.Array"


class Ragged(NamedTuple):
    """Values of a feature that may be missing, or has several lengths.

    The values of row i are ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
      values: of all rows: numbers, or an Arrow array of bytes; of a feature list whose steps have
        any number of values, a ``Ragged`` of the steps.
      offsets: int64[rows + 1], from 0.
      is_present: bool[rows], false where the feature is missing; it may be there without values.
    """

    values: Any
    offsets: Any
    is_present: Any

    def nested(self) -> Any:
        """Returns tensors as a nested one of PyTorch, jagged, without a copy.

        Raises:
          TypeError: the values are no tensor. Give ``as_='torch'``; and ``padding``, if they are
            steps of several values.
        """
        import torch

        if not isinstance(self.values, torch.Tensor):
            raise TypeError(
                f"nested: found values of type {type(self.values).__name__}, expected a tensor. "
                "Give batches() as_='torch'; of steps with several values, give it 'padding'."
            )
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def segments(self) -> Any:
        """Returns the row of each value, int[values], as ``jax.ops.segment_sum`` takes it."""
        return _places(self.offsets[1:] - self.offsets[:-1], len(self.values))


class Keyed(NamedTuple):
    """Values of several features, as ``KeyedJaggedTensor`` of TorchRec takes them.

    Attributes:
      values: all values of the first feature, row by row, then those of the next one.
      lengths: int64[features * rows], the number of values of each feature and row, in this order.
    """

    values: Any
    lengths: Any

    def segments(self) -> Any:
        """Returns feature * rows + row of each value, int[values]."""
        return _places(self.lengths, len(self.values))


def _places(lengths: Any, count: int) -> Any:
    """Returns each place as often as its length says; also within ``jax.jit``."""
    if isinstance(lengths, np.ndarray):
        return np.repeat(np.arange(len(lengths)), lengths)
    if hasattr(lengths, "repeat_interleave"):
        places = lengths.new_ones(len(lengths)).cumsum(0) - 1
        return places.repeat_interleave(lengths, output_size=count)
    import jax.numpy as jnp

    return jnp.repeat(jnp.arange(len(lengths)), lengths, total_repeat_length=count)


class FeatureValues(Protocol):
    """A feature's values in some rows."""

    def cut(self, start: int, end: int) -> Any:
        """Returns the values of neighbouring rows."""


def make_column(lists: pa.Array, feature: ReadFeature, as_: str) -> FeatureValues:
    """Returns the values of a feature, ready to be cut into batches.

    Args:
      lists: the parsed values: null where the feature is missing; or of the feature's size.
      feature: as the schema has it; no feature list but one with one value a step.
      as_: ``arrow``; any other: numpy arrays, and Arrow arrays of texts.

    Raises:
      WrongRowError: a row has another number of values than the feature's shape, or a value does
        not fit in the type.
    """
    is_fixed = pa.types.is_fixed_size_list(lists.type)
    size = math.prod(feature.shape or ())
    if feature.shape is None:
        offsets = offsets_of(lists)
        if as_ == "arrow":
            return DenseColumn(arrow_lists(lists, feature, offsets))
        values = values_of(lists.values, feature, offsets)
        if feature.padding is None:
            return RaggedColumn(DenseColumn(values), offsets, is_valid(lists))
        if isinstance(values, pa.Array):
            sizes = PaddedColumn(np.diff(offsets_of(values)), offsets, 0, feature.length)
            return PaddedTexts(sizes, values, offsets)
        return PaddedColumn(values, offsets, feature.padding, feature.length)
    if feature.fill is not None:
        values = _filled(lists.values, feature, size, offsets_of(lists))
    elif not is_fixed and (
        lists.null_count or not np.array_equal(offsets_of(lists), np.arange(len(lists) + 1) * size)
    ):
        raise _wrong_row(feature, lists, size)
    else:
        step = max(size, 1)
        edges = range(0, (len(lists) + 1) * step, step)  # numpy makes an array of it if it has to
        values = values_of(lists.values, feature, edges)
    if as_ == "arrow" and not isinstance(values, pa.Array):
        values = pa.array(values.reshape(-1), pa.from_numpy_dtype(values.dtype))
    if isinstance(values, pa.Array):
        return DenseColumn(arrow_rows(values, (len(lists), *feature.shape)))
    return DenseColumn(values.reshape(len(lists), *feature.shape))


def values_of(values: pa.Array, feature: ReadFeature, offsets: Offsets | range) -> Values:
    """Returns numbers in the feature's type, or texts.

    Args:
      values: of all rows.
      feature: of the values.
      offsets: int64[rows + 1], the rows' places in the values.

    Raises:
      WrongRowError: a value does not fit in the type.
    """
    if feature.type == pa.large_binary():
        return values
    return arrays.narrowed(feature.name, arrays.array_of(values), feature.dtype, offsets)


def cut_lists(lists: pa.LargeListArray, most: int) -> pa.LargeListArray:
    """Returns lists without the values behind the first ``most``."""
    offsets = offsets_of(lists)
    lengths = np.diff(offsets)
    if lengths.max(initial=0) <= most:
        return lists
    kept = np.minimum(lengths, most)
    ends = np.cumsum(kept)
    places = np.arange(ends[-1]) + np.repeat(offsets[:-1] - ends + kept, kept)
    mask = pa.array(~is_valid(lists)) if lists.null_count else None
    edges = pa.array(np.concatenate([[0], ends]))
    return pa.LargeListArray.from_arrays(edges, lists.values.take(pa.array(places)), mask=mask)


def _filled(values: pa.Array, feature: ReadFeature, size: int, offsets: Offsets) -> Values:
    """Returns ``size`` values a row, also for rows without any."""
    lengths = np.diff(offsets)
    is_full = lengths == size
    if not (is_full | (lengths == 0)).all():
        row = int(np.argmin(is_full | (lengths == 0)))
        raise arrays.WrongRowError(
            row,
            f"feature '{feature.name}': found {lengths[row]:,} values, expected {size:,} or none, "
            "as it has a fill value. Leave it out of 'fill'",
        )
    found = values_of(values, feature, offsets)
    if isinstance(found, pa.Array):
        places = np.full((len(lengths), size), len(found))  # of the fill value
        places[is_full] = np.arange(len(found)).reshape(-1, size)
        both = pa.concat_arrays([found, pa.array([feature.fill], found.type)])
        batch = pa.RecordBatch.from_arrays([both], ["texts"])
        return _native.take(batch, places.reshape(-1)).column(0)
    array = np.empty((len(lengths), size), found.dtype)
    array[is_full] = found.reshape(-1, size)
    array[~is_full] = feature.fill
    return array


def _wrong_row(feature: ReadFeature, lists: pa.LargeListArray, size: int) -> arrays.WrongRowError:
    row = int(np.argmin((np.diff(offsets_of(lists)) == size) & is_valid(lists)))
    found = lists[row].as_py()
    what = "nothing" if found is None else f"{len(found):,} values"
    if feature.image is not None:
        expected = "one image in every row. Leave other rows out by the recipe's 'filter'"
    else:
        expected = f"{size:,} values as the schema says. Convert again with --overwrite"
    return arrays.WrongRowError(row, f"feature '{feature.name}': found {what}, expected {expected}")


def arrow_lists(lists: pa.Array, feature: ReadFeature, offsets: Offsets) -> pa.Array:
    """Returns lists whose numbers have the feature's type.

    Args:
      lists: of values, or of steps.
      feature: of numbers or bytes.
      offsets: int64[rows + 1], the rows' places in the values.
    """
    values, type_ = lists, feature.type
    if feature.type == pa.large_binary():
        return lists
    wanted = pa.from_numpy_dtype(feature.dtype)
    if wanted == type_:
        return lists
    while pa.types.is_large_list(values.type):
        values, wanted = values.values, pa.large_list(wanted)
    arrays.narrowed(
        feature.name, arrays.array_of(values), feature.dtype, offsets
    )  # checks the values
    return lists.cast(wanted, safe=False)


def arrow_rows(values: pa.Array, shape: Sequence[int]) -> pa.Array:
    """Returns values as an array of a shape; sizes may be 0."""
    for place in range(len(shape) - 1, 0, -1):
        type_, count = pa.list_(values.type, shape[place]), math.prod(shape[:place])
        values = pa.Array.from_buffers(type_, count, [None], children=[values])
    return values


class DenseColumn(NamedTuple):
    """Rows of one shape, or of an Arrow array."""

    array: Values

    def cut(self, start: int, end: int) -> Values:
        """Returns neighbouring rows, without a copy."""
        return self.array[start:end]


class RaggedColumn(NamedTuple):
    """Rows, or steps, of several lengths.

    A row's values are neighbours in a column, which may itself be ragged.
    """

    values: FeatureValues
    offsets: Offsets
    is_present: npt.NDArray[np.bool_]

    def cut(self, start: int, end: int) -> Ragged:
        """Returns neighbouring rows; their values are not copied."""
        offsets = self.offsets[start : end + 1]
        values = self.values.cut(int(offsets[0]), int(offsets[-1]))
        return Ragged(values, offsets - offsets[0], self.is_present[start:end])


class PaddedColumn(NamedTuple):
    """Rows that are padded to the longest, or to a length."""

    values: npt.NDArray[Any]
    offsets: Offsets
    padding: Any
    length: int | None

    def cut(self, start: int, end: int) -> npt.NDArray[Any]:
        """Returns [rows, most values of a row]."""
        return padded(self.values, self.offsets[start : end + 1], self.padding, self.length)


class PaddedTexts(NamedTuple):
    """Texts that are padded with empty ones, without a copy.

    Attributes:
      sizes: of the texts in bytes, padded with 0.
      texts: of all rows.
      firsts: int64[rows + 1], the rows' places in the texts.
    """

    sizes: FeatureValues
    texts: pa.Array
    firsts: Offsets

    def cut(self, start: int, end: int) -> pa.Array:
        """Returns neighbouring rows, as fixed-size lists."""
        sizes = self.sizes.cut(start, end)
        edges = np.full(sizes.size + 1, offsets_of(self.texts)[self.firsts[start]])
        edges[1:] += np.cumsum(sizes)
        data = self.texts.buffers()[2] or pa.py_buffer(b"")
        buffers = [None, pa.py_buffer(edges), data]
        return arrow_rows(pa.Array.from_buffers(self.texts.type, sizes.size, buffers), sizes.shape)


def padded(
    values: npt.NDArray[Any], offsets: Offsets, padding: Any, width: int | None = None
) -> npt.NDArray[Any]:
    """Returns rows as one array, padded to the longest.

    Args:
      values: [values, ...].
      offsets: int64[rows + 1], the rows' places in the values.
      padding: behind the values of shorter rows.
      width: of all rows; none is longer.

    Returns:
      [rows, most values of a row, ...].
    """
    lengths = np.diff(offsets)
    width = int(lengths.max(initial=0)) if width is None else width
    array = np.full((len(lengths), width, *values.shape[1:]), padding, values.dtype)
    array[np.arange(width) < lengths[:, None]] = values[offsets[0] : offsets[-1]]
    return array


class KeyedColumn:
    """Rows of several features as ``Keyed``; all batches are laid out once."""

    def __init__(self, columns: Sequence[FeatureValues], edges: Sequence[int]) -> None:
        """Lays the values out.

        Args:
          columns: of numbers of one type.
          edges: of the batches in the rows.
        """
        values, offsets = zip(*(_flat(column.cut(0, edges[-1])) for column in columns), strict=True)
        pairs = list(itertools.pairwise(edges))
        self._keys, self._ends = len(columns), np.sum(offsets, axis=0)
        self._values = np.concatenate(
            [own[at[a] : at[b]] for a, b in pairs for own, at in zip(values, offsets, strict=True)]
        )
        lengths = [np.diff(one) for one in offsets]
        self._lengths = np.concatenate([own[a:b] for a, b in pairs for own in lengths])

    def cut(self, start: int, end: int) -> Keyed:
        """Returns the rows of a batch, without a copy."""
        return Keyed(
            self._values[self._ends[start] : self._ends[end]],
            self._lengths[start * self._keys : end * self._keys],
        )


def _flat(rows: Any) -> tuple[npt.NDArray[Any], Offsets]:
    """Returns values, and the rows' places in them."""
    if isinstance(rows, Ragged):
        return rows.values, rows.offsets
    size = math.prod(rows.shape[1:])
    return rows.reshape(-1), np.arange(len(rows) + 1) * size


def with_keyed(
    columns: Mapping[str, FeatureValues], features: Sequence[ReadFeature], edges: Sequence[int]
) -> dict[str, FeatureValues]:
    """Returns the columns of batches, with those of each ``Keyed`` as one.

    Args:
      columns: feature -> its values.
      features: that were parsed; none: of serialized records.
      edges: of the batches in the rows.
    """
    own: dict[str, list[FeatureValues]] = {}
    for feature in features:
        if feature.keyed is not None:
            own.setdefault(feature.keyed, []).append(columns[feature.name])
    names = {feature.name for feature in features if feature.keyed is not None}
    alone = {name: column for name, column in columns.items() if name not in names}
    return alone | {name: KeyedColumn(found, edges) for name, found in own.items()}
