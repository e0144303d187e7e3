"""Turns parsed feature lists into ragged or padded steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.reader.arrays import (
    WrongRowError,
    array_of,
    narrowed,
    offsets_of,
    validity_of,
)
from beam_pipelines.reader.columns import (
    ArrowColumn,
    Column,
    DenseColumn,
    Offsets,
    RaggedColumn,
    arrow_lists,
    padded,
    ragged_column,
)
from beam_pipelines.reader.features import Feature

Values = npt.NDArray[Any]


def make_steps(lists: pa.LargeListArray, feature: Feature, as_: str) -> Column:
    """Returns a feature list's steps, ready to be cut into batches.

    Steps that the schema gives one value each are the values of a ``Ragged``. Other steps are a
    ``Ragged`` themselves, within that of the rows.

    Args:
      lists: rows of steps: null where the feature list is missing, or a step has no kind.
      feature: as the schema has it.
      as_: ``arrow``; any other: numpy arrays.

    Raises:
      WrongRowError: a step has other than one value, or a value does not fit in the type.
    """
    steps = lists.values
    rows, places = offsets_of(lists), offsets_of(steps)
    if feature.steps == "one":
        _check_steps(feature, rows, places, 1)
    values_of_rows = places[rows]
    if as_ == "arrow":
        if feature.steps == "one":
            mask = pa.array(~validity_of(lists)) if lists.null_count else None
            flat = pa.LargeListArray.from_arrays(pa.array(rows), steps.values, mask=mask)
            return ArrowColumn(arrow_lists(flat, feature, rows))
        return ArrowColumn(arrow_lists(lists, feature, values_of_rows))
    values = narrowed(feature.name, array_of(steps.values), feature.dtype, values_of_rows)
    if feature.steps == "one":
        return ragged_column(values, rows, validity_of(lists), feature.padding)
    if feature.padding is None:
        inner = RaggedColumn(DenseColumn(values), places, validity_of(steps))
        return RaggedColumn(inner, rows, validity_of(lists))
    if feature.steps == "some":
        _check_steps(feature, rows, places, 0)
        # A step without a value is padding.
        whole = np.full(len(steps), feature.padding, values.dtype)
        whole[np.diff(places) == 1] = values
        return ragged_column(whole, rows, validity_of(lists), feature.padding)
    return _PaddedSteps(values, rows, places, feature.padding)


class _PaddedSteps:
    """Steps with any number of values, padded in both dimensions."""

    def __init__(self, values: Values, rows: Offsets, places: Offsets, padding: Any) -> None:
        self._values, self._rows, self._places, self._padding = values, rows, places, padding

    def cut(self, start: int, end: int) -> Values:
        """Returns [rows, most steps of a row, most values of a step]."""
        rows = self._rows[start : end + 1]
        steps = padded(self._values, self._places[rows[0] : rows[-1] + 1], self._padding)
        return padded(steps, rows - rows[0], self._padding)


def _check_steps(feature: Feature, rows: Offsets, places: Offsets, least: int) -> None:
    """Checks that each step has ``least`` to one values."""
    lengths = np.diff(places)
    is_wrong = (lengths > 1) | (lengths < least)
    if not is_wrong.any():
        return
    step = int(np.argmax(is_wrong))
    row = int(np.searchsorted(rows, step, side="right")) - 1
    expected = "one" if least else "one or none"
    raise WrongRowError(
        row,
        f"feature '{feature.name}': found {lengths[step]:,} values in step {step - rows[row]:,}, "
        f"expected {expected} as the schema says. Convert again with --overwrite",
    )
