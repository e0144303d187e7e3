"""Structs that are sparse vectors, as in Spark ML's files.

A struct ``x`` of ``indices`` and ``values``, perhaps with ``size`` and ``type``, becomes the
columns ``x.indices`` and ``x.values`` of a sparse tensor ``x``. Spark writes a dense vector in the
same column: values without indices. It gets the indices 0, 1, ….
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import is_list
from beam_pipelines.core.arrow.sparse_columns import MOST_INDEX, SparseColumns
from beam_pipelines.sources.nesting import shapes

EXPECTED = "ascending indices from 0, below 'size', each once, and as many values"
CURE = "Mend the row, or leave out 'indices' or 'values' with 'columns'."
_INDICES, _VALUES, _SIZE, _TYPE = "indices", "values", "size", "type"


def read_as_sparse(schema: pa.Schema, read_schema: pa.Schema) -> tuple[SparseColumns, ...]:
    """Returns the sparse tensors whose indices and values are read, as numbers.

    Args:
      schema: of a file, nested.
      read_schema: the flat columns to read.
    """
    types = {field.name: field.type for field in read_schema}
    return tuple(
        columns
        for columns in _sparse_structs(schema)
        if set(columns.columns) <= types.keys()
        and _is_sparse({_INDICES: types[columns.indices[0]], _VALUES: types[columns.value]})
    )


def _sparse_structs(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[SparseColumns]:
    for field in fields:
        if pa.types.is_struct(field.type):
            name = f"{prefix}{field.name}"
            if _is_sparse({child.name: child.type for child in field.type}):
                size = f"{name}.{_SIZE}" if field.type.get_field_index(_SIZE) >= 0 else ""
                yield SparseColumns(
                    name, (f"{name}.{_INDICES}",), f"{name}.{_VALUES}", (None,), size
                )
            else:
                yield from _sparse_structs(field.type, f"{name}.")


def _is_sparse(types: Mapping[str, pa.DataType]) -> bool:
    if not {_INDICES, _VALUES} <= types.keys() <= {_INDICES, _VALUES, _SIZE, _TYPE}:
        return False
    whole = [types[name] for name in (_SIZE, _TYPE) if name in types]
    indices, values = types[_INDICES], types[_VALUES]
    return bool(
        shapes.depth(indices) == shapes.depth(values) == 1
        and all(map(pa.types.is_integer, [*whole, shapes.leaf(indices)]))
        and (pa.types.is_integer(leaf := shapes.leaf(values)) or pa.types.is_floating(leaf))
    )


def with_indices(
    flat: Mapping[str, pa.Array], sparse: Iterable[SparseColumns]
) -> dict[str, pa.Array]:
    """Returns flat columns with the indices of dense vectors.

    Args:
      flat: the columns of n rows.
      sparse: the sparse tensors; those without both columns are left out.
    """
    columns = dict(flat)
    for name, indices, values in _pairs(flat, sparse):
        is_dense = pc.and_(indices.is_null(), values.is_valid())
        if not is_list(indices.type) or not pc.any(is_dense).as_py():
            continue
        dense = is_dense.to_numpy(zero_copy_only=False)
        lengths = np.where(dense, _lengths(values), _lengths(indices))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        numbers = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        numbers[np.repeat(~dense, lengths)] = _numbers(indices)
        mask = pc.and_(indices.is_null(), values.is_null())
        columns[name] = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(numbers), mask=mask
        )
    return columns


def bad_vectors(
    flat: Mapping[str, pa.Array], sparse: Iterable[SparseColumns]
) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yields columns of indices, with flags of bad rows, bool[n].

    Args:
      flat: the columns of n rows, after ``with_indices``. A null inside a list is bad.
      sparse: the sparse tensors.
    """
    by_name = {columns.indices[0]: columns for columns in sparse}
    for name, indices, values in _pairs(flat, by_name.values()):
        lengths = _lengths(indices)
        wrong = lengths != _lengths(values)
        numbers = _numbers(indices)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        most = np.full(len(lengths), MOST_INDEX)
        if by_name[name].size in flat:
            size = flat[by_name[name].size].cast(pa.int64())
            most = pc.fill_null(pc.subtract(size, 1), MOST_INDEX).to_numpy(zero_copy_only=False)
        bad = (numbers < 0) | (numbers > most[rows])
        bad[1:] |= (numbers[1:] <= numbers[:-1]) & (rows[1:] == rows[:-1])
        wrong[rows[bad]] = True
        yield name, wrong


def _pairs(
    flat: Mapping[str, pa.Array], sparse: Iterable[SparseColumns]
) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    for columns in sparse:
        (name,) = columns.indices
        if name in flat and columns.value in flat:
            yield name, flat[name], flat[columns.value]


def _numbers(indices: pa.Array) -> npt.NDArray[np.int64]:
    """Returns all indices; those that are null or beyond int64 are negative."""
    whole = pc.cast(pc.list_flatten(indices), pa.int64(), safe=False)
    numbers: npt.NDArray[np.int64] = pc.fill_null(whole, -1).to_numpy()
    return numbers


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.fill_null(
        pc.list_value_length(lists).cast(pa.int64()), 0
    ).to_numpy()
    return lengths
