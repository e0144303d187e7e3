"""Which texts are numbers or truth values, as TFDV reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

# TFDV's (bool_domain_util.cc), the empty string included.
_TRUE_VALUES = frozenset(("TRUE", "true", "SET", "set", "1", ""))
_FALSE_VALUES = frozenset(("FALSE", "false", "CLEAR", "clear", "0"))
# absl::SimpleAtoi and SimpleAtof, which TFDV reads texts with: spaces around, a sign, decimal
# digits.
_INTEGER = r"^\s*[+-]?[0-9]+\s*$"
_SURELY_INT64 = r"^\s*[+-]?[0-9]{1,18}\s*$"
_FLOAT = r"(?i)^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)\s*$"


def true_and_false(values: Sequence[str]) -> tuple[str | None, str | None] | None:
    """Returns which of one or two texts means true and which false, or ``None`` if they are not a
    pair of truth values.
    """
    trues = [value for value in values if value in _TRUE_VALUES]
    falses = [value for value in values if value in _FALSE_VALUES]
    if not values or len(trues) > 1 or len(falses) > 1 or len(trues) + len(falses) != len(values):
        return None
    return (trues[0] if trues else None), (falses[0] if falses else None)


def are_integers(values: pa.Array) -> Mask:
    """Returns bool[n]: which texts (no nulls) are integers within int64."""
    mask = _matches(values, _SURELY_INT64)
    for place in np.flatnonzero(~mask & _matches(values, _INTEGER)):
        mask[place] = -(1 << 63) <= int(values[int(place)].as_py()) < 1 << 63
    return mask


def are_floats(values: pa.Array) -> Mask:
    """Returns bool[n]: which texts (no nulls) are numbers, NaN or infinities."""
    return _matches(values, _FLOAT)


def integers(values: pa.Array) -> list[int]:
    """Returns texts, all of which are integers, as numbers."""
    return [int(value) for value in values.to_pylist()]


def floats(values: pa.Array) -> npt.NDArray[np.float32]:
    """Returns texts, all of which are floats, as float32[n], to which TFDV and the domains' bounds
    are rounded.
    """
    with np.errstate(over="ignore"):
        return np.array([float(value) for value in values.to_pylist()], np.float64).astype(
            np.float32
        )


def _matches(values: pa.Array, pattern: str) -> Mask:
    matches: Mask = (
        pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False).astype(bool)
    )
    return matches
