"""Applies a plan's encodings to batches: columns become features of three types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import has_lists_as_steps, type_name
from beam_pipelines.core.arrow.equal_floats import nearest_floats
from beam_pipelines.core.errors import RowError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.encodings.array_values import check_range, flattened, map_together, narrowed
from beam_pipelines.encodings.feature import Feature, feature_type
from beam_pipelines.encodings.kinds.cast import Cast
from beam_pipelines.encodings.plan import Chain, EncodePlan, needs_fit
from beam_pipelines.recipe.text.yaml_text import yaml_text

# Characters of a value in a message: a list may be a whole picture.
LONGEST_SHOWN = 201
# Types of features that may have float64.
_WIDE = {pa.float64().id, pa.list_(pa.float64()).id}
_NOT_EXACT = "no float32 equals it, and 'output' says 'floats: exact'"


class BatchEncoder:
    """Encodes the columns of batches as features.

    Columns without an encoding keep their values: nulls stay null, empty lists empty. A feature
    list without an encoding may hold nulls.

    Args:
      plan: of encodings that are all fitted.
    """

    def __init__(self, plan: EncodePlan) -> None:
        """Finds each column's conversion."""
        self.plan, self._conversions = plan, conversions(plan)
        self._made = {chain.name for chain in plan.chains}
        encoded = {name for chain in plan.chains for name in chain.inputs}
        # Of float64, ``to_input`` checks the range, as ``narrowed`` does.
        self._kept = [
            name
            for name, convert in self._conversions.items()
            if convert is to_input
            and feature_type(kind := plan.columns.field(name).type) is kind
            and not (name in encoded and kind == pa.float64())
        ]
        for name in self._kept:
            del self._conversions[name]

    def __call__(self, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
        """Encodes a batch.

        Args:
          batch: the selected columns.
          where: file of the batch; first part of an error's message.

        Returns:
          A batch of ``plan.written``, in that order: int64, float32, string or binary, or lists
            of them.

        Raises:
          RowError: an encoding, or float32, cannot hold a value.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        features = {name: columns[name] for name in self._kept}
        features |= map_together(self._conversions, columns) or {
            name: apply_to(convert, (columns[name],), f"{where}, column '{name}'", name)
            for name, convert in self._conversions.items()
        }
        for chain in self.plan.chains:
            arrays = tuple(features[name] for name in chain.inputs)
            features[chain.name] = run_chain(chain, arrays, where)
        names = self.plan.written
        narrow = {name: narrowed for name in names if features[name].type.id in _WIDE}
        features |= map_together(narrow, features) or {
            name: apply_to(
                narrowed,
                (features[name],),
                f"{where}, {'feature' if name in self._made else 'column'} '{name}'",
                "" if name in self._made else name,
            )
            for name in narrow
        }
        return pa.RecordBatch.from_arrays([features[name] for name in names], list(names))


def encode_batch(plan: EncodePlan, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Encodes one batch; see ``BatchEncoder``."""
    return BatchEncoder(plan)(batch, where)


def conversions(plan: EncodePlan) -> dict[str, Callable[[pa.Array], pa.Array]]:
    """Returns column -> its conversion to an encoding's input, for used columns."""
    convert = to_input if plan.floats == "round" else to_exact_input
    ids = rounded_ids(plan)
    encoded = {name for chain in plan.chains for name in chain.inputs}
    unchanged = set(plan.lists) - encoded
    used = encoded.union(plan.written)
    return {
        name: partial(to_id, name)
        if name in ids
        else partial(to_steps, convert)
        if name in unchanged
        else convert
        for name in plan.columns.names
        if name in used
    }


def rounded_ids(plan: EncodePlan) -> set[str]:
    """Returns columns of ids that are written as float32."""
    chains, found = {chain.name: chain for chain in plan.chains}, set[str]()
    for name in dict.fromkeys([*plan.written, *chains]) if plan.ids else ():
        chain = chains.get(name, Chain(name, (name,), ()))
        keeps = all(step.encoding.fills or isinstance(step.encoding, Cast) for step in chain.steps)
        if keeps and chain.inputs[0] in plan.ids:
            feature = Feature.of(plan.columns.field(chain.inputs[0]).type)
            for step in chain.steps:
                feature = step.encoding.output(feature)
            if pa.types.is_floating(feature.value_type):
                found.add(chain.inputs[0])
    return found


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
    """A value cannot be encoded; the message shows it and the remedies.

    Attributes:
      feature: the feature or column that failed.
    """

    def __init__(
        self, feature: str, arrays: Sequence[pa.Array], error: Exception, column: str = ""
    ) -> None:
        super().__init__(_refused([array[0].as_py() for array in arrays], arrays, error, column))
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
        name: _try_convert(name, convert, (batch.column(name),), name)
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
    for name in plan.written:
        if name in features:
            _try_convert(name, narrowed, (features[name],))


def _try_convert(
    feature: str, convert: Callable[..., pa.Array], arrays: tuple[pa.Array, ...], column: str = ""
) -> pa.Array:
    try:
        return convert(*arrays)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnencodableError(feature, arrays, error, column) from error


def run_chain(chain: Chain, arrays: tuple[pa.Array, ...], where: str) -> pa.Array:
    """Applies the fitted steps of a chain; see ``encode_batch``."""
    for step in chain.steps:
        arrays = (apply_to(step.fitted.apply, arrays, f"{where}, feature '{chain.name}'"),)
    return arrays[0]


def to_feature(array: pa.Array) -> pa.Array:
    """Converts one column to its feature, by the table in ``core/arrow/columns.py``.

    Raises:
      pa.ArrowInvalid: a finite float64 is beyond the range of float32, or a list holds a null.
    """
    return narrowed(to_input(array))


def to_input(array: pa.Array) -> pa.Array:
    """Converts a column to its feature, but float64 stays.

    Raises:
      pa.ArrowInvalid: as ``to_feature``.
    """
    types = pa.types
    if types.is_list(array.type):
        if array.flatten().null_count:
            raise pa.ArrowInvalid("a list that holds a null, which tf.Example cannot")
        if len(array.values) > array.offsets[-1].as_py() - array.offsets[0].as_py():
            array = pa.concat_arrays([array])  # a slice's own values
        values = to_input(array.values)
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
        check_range(array)
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


def to_id(name: str, array: pa.Array) -> pa.Array:
    """Converts a column of ids, which become float32.

    Args:
      name: of the column, for the error.
      array: of the column.

    Raises:
      pa.ArrowInvalid: as in ``to_input``, or no float32 equals a whole number.
    """
    feature = to_input(array)
    values = flattened(feature)
    if pa.types.is_integer(values.type):
        same = pa.array(nearest_floats(values, pa.float32())[1])
    else:
        same = pc.or_(_is_equal(values), pc.not_equal(pc.trunc(values), values))
    if not pc.all(same, min_count=0).as_py():
        cure = (
            "Leave 'cast: float32' out"
            if pa.types.is_integer(values.type)
            else f"Read it as an integer: 'CAST({name} AS BIGINT)' in 'derive', or, if "
            f"it has digits alone, 'types: {{{yaml_text(name)}: int64}}' of its source"
        )
        raise pa.ArrowInvalid(f"no float32 equals it, and ids must not be rounded. {cure}")
    return feature


def to_exact_input(array: pa.Array) -> pa.Array:
    """Converts one column as ``to_input`` does, where float32 equals it.

    Raises:
      pa.ArrowInvalid: as in ``to_input``, or no float32 equals a float64.
    """
    feature = to_input(array)
    values = flattened(feature)
    if pa.types.is_float64(values.type) and not pc.all(_is_equal(values), min_count=0).as_py():
        raise pa.ArrowInvalid(_NOT_EXACT)
    return feature


def _is_equal(values: pa.Array) -> pa.BooleanArray:
    """Returns whether floats have an equal float32, or are NaN."""
    small = pc.cast(values, pa.float32(), safe=False)
    return pc.or_(pc.equal(small.cast(values.type), values), pc.is_nan(values))


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
      RowError: ``convert`` raised pa.ArrowInvalid or pa.ArrowNotImplementedError; the message
        shows the first failing row.
    """
    try:
        return convert(*arrays)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        values = _first_failure(convert, arrays)
        raise RowError(f"{where}: {_refused(values, arrays, error, column)}") from error


def _refused(
    values: Sequence[object], arrays: Sequence[pa.Array], error: Exception, column: str
) -> str:
    """Returns the message of values that cannot be encoded.

    Args:
      values: of the row, one an array.
      arrays: with their types.
      error: of the conversion.
      column: of a source, which a recipe may read as text; or "".
    """
    found = ", ".join(
        f"{shorten(repr(value), LONGEST_SHOWN)} of type {type_name(array.type)}"
        for value, array in zip(values, arrays, strict=True)
    )
    is_code = column and not pa.types.is_list(arrays[0].type)
    cure = f"Declare 'types: {{{yaml_text(column)}: text}}' if it is a code, m" if is_code else "M"
    return (
        f"found {found}, which cannot be encoded: {error}. {cure}end the value with 'derive', "
        "leave such rows out with 'filter' or 'on_error: {reject: 1}', or change 'encode'."
    )


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
