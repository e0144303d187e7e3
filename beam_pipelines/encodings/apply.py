"""Applies a plan's encodings to batches: columns become features of three types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.columns import has_lists_as_steps, type_name
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.hashing import GOLDEN, mix, mix_int
from beam_pipelines.encodings.encoding import Encoding
from beam_pipelines.encodings.plan import Chain, EncodePlan, Step, needs_fit
from beam_pipelines.recipe.yaml_text import yaml_text

# Characters of a value in a message.
LONGEST_SHOWN = 201
_NOT_EXACT = "no float32 equals it, and 'output' says 'floats: exact'"
# Another stream of random numbers than that of samples and shuffles.
_FOLD_SEED = 0x666F6C64  # "fold"


class ChunkRows(NamedTuple):
    """Consecutive rows of a chunk of the first pass.

    Attributes:
      range_number, part: the chunk's address.
      first: number of the first row in the chunk.
      rows: how many they are.
    """

    range_number: int
    part: int
    first: int
    rows: int


def encode_batch(
    plan: EncodePlan,
    batch: pa.RecordBatch,
    where: str,
    fitted_on: Sequence[ChunkRows] | None = None,
) -> pa.RecordBatch:
    """Encodes the columns of a batch as features.

    Columns without an encoding keep their values: nulls stay null, empty lists empty. A feature
    list without an encoding may hold nulls.

    Args:
      plan: of encodings that are all fitted.
      batch: the selected columns.
      where: file of the batch; first part of an error's message.
      fitted_on: where the rows come from if the encodings were fitted on them; they are then
        encoded out of fold.

    Returns:
      A batch of ``plan.written``, in that order: int64, float32, string or binary, or lists of
        them.

    Raises:
      DataError: an encoding, or float32, cannot hold a value.
    """
    features = {
        name: apply_to(convert, (batch.column(name),), f"{where}, column '{name}'", name)
        for name, convert in conversions(plan).items()
    }
    for chain in plan.chains:
        arrays = tuple(features[name] for name in chain.inputs)
        features[chain.name] = run_chain(chain, arrays, where, fitted_on)
    return pa.RecordBatch.from_arrays([features[name] for name in plan.written], list(plan.written))


def conversions(plan: EncodePlan) -> dict[str, Callable[[pa.Array], pa.Array]]:
    """Returns column -> its conversion to a feature, for used columns."""
    convert = to_feature if plan.floats == "round" else to_exact_feature
    exact = {
        chain.inputs[0]
        for chain in plan.chains
        if chain.steps
        and isinstance(chain.steps[0].encoding, Encoding)
        and chain.steps[0].encoding.needs_exact
    }
    encoded = {name for chain in plan.chains for name in chain.inputs}
    unchanged = set(plan.lists) - encoded
    used = encoded.union(plan.written)
    return {
        name: partial(to_exact_feature, reason=_rounded_id(name))
        if name in exact
        else partial(to_steps, convert)
        if name in unchanged
        else convert
        for name in plan.columns.names
        if name in used
    }


def needed(plan: EncodePlan, names: Collection[str]) -> tuple[list[Chain], set[str]]:
    """Returns the chains that some features need, in order, and the columns."""
    chains, columns = [], set(names)
    for chain in reversed(plan.chains):
        if chain.name in columns:
            chains.append(chain)
            columns.discard(chain.name)
            columns.update(chain.inputs)
    return chains[::-1], columns


class UnencodableError(ValueError):
    """A value cannot be encoded; the message shows it.

    Attributes:
      feature: the feature or column that failed.
    """

    def __init__(self, feature: str, arrays: Sequence[pa.Array], error: Exception) -> None:
        found = ", ".join(
            f"{_shown(array[0].as_py())} of type {type_name(array.type)}" for array in arrays
        )
        super().__init__(f"found {found}, which cannot be encoded: {error}")
        self.feature = feature


def check_encodable(plan: EncodePlan, batch: pa.RecordBatch) -> None:
    """Tries to encode a batch, as far as it needs no fitting.

    Args:
      plan: of the encodings.
      batch: of rows; columns that the split adds are not there yet.

    Raises:
      UnencodableError: a value cannot be encoded; the message shows the first row's.
    """
    features = {
        name: _try_convert(name, convert, (batch.column(name),))
        for name, convert in conversions(plan).items()
        if name in batch.schema.names
    }
    for chain in plan.chains:
        arrays: tuple[pa.Array, ...] | None = None
        if features.keys() >= set(chain.inputs):
            arrays = tuple(features[name] for name in chain.inputs)
        features.pop(chain.name, None)
        for step in chain.steps:
            if arrays is None or step.read or needs_fit(step):
                break
            arrays = (_try_convert(chain.name, step.fitted.apply, arrays),)
        else:
            if arrays is not None:
                features[chain.name] = arrays[0]


def _try_convert(
    feature: str, convert: Callable[..., pa.Array], arrays: tuple[pa.Array, ...]
) -> pa.Array:
    try:
        return convert(*arrays)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnencodableError(feature, arrays, error) from error


def run_chain(
    chain: Chain,
    arrays: tuple[pa.Array, ...],
    where: str,
    fitted_on: Sequence[ChunkRows] | None = None,
) -> pa.Array:
    """Applies the fitted steps of a chain; see ``encode_batch``."""
    for step in chain.steps:
        arrays = (apply_step(step, arrays, f"{where}, feature '{chain.name}'", fitted_on),)
    return arrays[0]


def apply_step(
    step: Step,
    arrays: tuple[pa.Array, ...],
    where: str,
    fitted_on: Sequence[ChunkRows] | None = None,
) -> pa.Array:
    """Applies one fitted step to the arrays of n rows."""
    encoding = step.fitted
    if encoding.folds and fitted_on is not None:
        return encoding.apply_out_of_fold(arrays[0], row_folds(fitted_on, encoding.folds))
    return apply_to(encoding.apply, arrays, where)


def row_folds(chunk_rows: Sequence[ChunkRows], folds: int) -> npt.NDArray[np.int64]:
    """Returns int64[rows]: the fold of each row, from 0.

    It is a hash of the row's identity, the same in every read.
    """
    hashes = [np.empty(0, np.uint64)]
    for rows in chunk_rows:
        seed = mix_int(mix_int(rows.range_number * GOLDEN + rows.part) + _FOLD_SEED)
        numbers = np.arange(rows.first, rows.first + rows.rows, dtype=np.uint64)
        hashes.append(mix(numbers * np.uint64(GOLDEN) + np.uint64(seed)))
    found: npt.NDArray[np.int64] = (np.concatenate(hashes) % np.uint64(folds)).astype(np.int64)
    return found


def to_feature(array: pa.Array) -> pa.Array:
    """Converts one column to its feature type, by the table in ``core/columns.py``.

    Raises:
      pa.ArrowInvalid: a finite float64 is beyond the range of float32, or a list holds a null.
    """
    types = pa.types
    if types.is_list(array.type):
        if array.flatten().null_count:
            raise pa.ArrowInvalid("a list that holds a null, which tf.Example cannot")
        values = to_feature(array.values)
        return pa.ListArray.from_buffers(
            pa.list_(values.type),
            len(array),
            array.buffers()[:2],
            array.null_count,
            array.offset,
            [values],
        )
    if types.is_boolean(array.type):
        return array.cast(pa.int64())
    if types.is_date32(array.type):
        return array.cast(pa.int32()).cast(pa.int64())
    if types.is_time64(array.type) or types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if types.is_float64(array.type):
        narrow = pc.cast(array, pa.float32(), safe=False)
        overflown = pc.and_(pc.is_inf(narrow), pc.is_finite(array))
        if pc.any(overflown).as_py():
            raise pa.ArrowInvalid("a number beyond the range of float32")
        return narrow
    return array


def to_steps(convert: Callable[[pa.Array], pa.Array], array: pa.Array) -> pa.Array:
    """Converts lists to a feature list, which may hold nulls.

    Args:
      convert: converts the values, or a list of them.
      array: the lists, or lists of lists.
    """
    steps = array.flatten()
    if not steps.null_count and not has_lists_as_steps(array.type):
        return convert(array)
    ends = np.cumsum(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    return pa.ListArray.from_arrays(
        offsets, convert(steps), mask=array.is_null() if array.null_count else None
    )


def _rounded_id(name: str) -> str:
    return (
        "no float32 equals it, and 'cast' to an integer takes float32. Read it as an integer: "
        f"'types: {{{yaml_text(name)}: int64}}' of its source, or 'CAST({name} AS BIGINT)'"
    )


def to_exact_feature(array: pa.Array, reason: str = _NOT_EXACT) -> pa.Array:
    """Converts one column as ``to_feature`` does, without rounding.

    Args:
      array: of the column.
      reason: of the error.

    Raises:
      pa.ArrowInvalid: as in ``to_feature``, or no float32 equals a float64.
    """
    feature = to_feature(array)
    wide = array.flatten() if pa.types.is_list(array.type) else array
    if pa.types.is_float64(wide.type):
        narrow = feature.flatten() if pa.types.is_list(feature.type) else feature
        same = pc.or_(pc.equal(narrow.cast(pa.float64()), wide), pc.is_nan(wide))
        if not pc.all(same, min_count=0).as_py():
            raise pa.ArrowInvalid(reason)
    return feature


def apply_to(
    convert: Callable[..., pa.Array], arrays: tuple[pa.Array, ...], where: str, column: str = ""
) -> pa.Array:
    """Converts arrays of n rows.

    Args:
      convert: takes the arrays.
      arrays: of the rows.
      where: first part of an error's message.
      column: of a source, which a recipe may read as text.

    Raises:
      DataError: ``convert`` raised pa.ArrowInvalid or pa.ArrowNotImplementedError; the message
        shows the first failing row.
    """
    try:
        return convert(*arrays)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        values = _first_failure(convert, arrays)
        found = ", ".join(
            f"{_shown(value)} of type {type_name(array.type)}"
            for value, array in zip(values, arrays, strict=True)
        )
        cure = f"Declare 'types: {{{yaml_text(column)}: text}}' if it is a code, m"
        raise DataError(
            f"{where}: found {found}, which cannot be encoded: {error}. "
            f"{cure if column else 'M'}end the value with 'derive', leave its row out with "
            "'filter', or with 'on_error: {reject: 1}', which shows its place, or change 'encode'."
        ) from error


def _shown(value: object) -> str:
    """Returns a value as text for a message.

    Long values are cut: a list may be a whole picture.
    """
    return shorten(repr(value), LONGEST_SHOWN)


def _first_failure(convert: Callable[..., pa.Array], arrays: Sequence[pa.Array]) -> list[object]:
    """Returns the values of the first row that ``convert`` refuses, by bisection."""
    low, high = 0, len(arrays[0])
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(*(array.slice(low, middle - low) for array in arrays))
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return [array[low].as_py() if low < len(array) else None for array in arrays]
