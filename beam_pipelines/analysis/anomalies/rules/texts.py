"""Recognizes texts that are numbers or truth values, by TFDV's rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]

# As in TFDV (bool_domain_util.cc), with the empty string.
_TRUE_VALUES = frozenset(("TRUE", "true", "SET", "set", "1", ""))
_FALSE_VALUES = frozenset(("FALSE", "false", "CLEAR", "clear", "0"))
# As in TFDV, which uses absl::SimpleAtoi and SimpleAtof: outer spaces, a sign, decimal digits.
_INTEGER = r"^[\s\v]*(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})[\s\v]*$"
_MOST = pa.scalar((1 << 63) - 1, pa.uint64())
_FLOAT = r"(?i)^[\s\v]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)[\s\v]*$"


def true_and_false(values: Sequence[str]) -> tuple[str | None, str | None] | None:
    """Returns the text that means true and the text that means false.

    Returns ``None`` if the texts are not one or two truth values.
    """
    trues = [value for value in values if value in _TRUE_VALUES]
    falses = [value for value in values if value in _FALSE_VALUES]
    if not values or len(trues) > 1 or len(falses) > 1 or len(trues) + len(falses) != len(values):
        return None
    return (trues[0] if trues else None), (falses[0] if falses else None)


def are_integers(values: pa.Array) -> Mask:
    """Returns bool[n]: whether each text (no nulls) is an integer within int64."""
    mask: Mask = integers(values).is_valid().to_numpy(zero_copy_only=False)
    return mask


def integers(values: pa.Array) -> pa.Array:
    """Returns int64[n]: integers of texts; null for other texts."""
    parts = pc.extract_regex(values, _INTEGER)
    digits = pc.struct_field(parts, "digits").cast(pa.string()).cast(pa.uint64())
    is_negative = pc.equal(pc.struct_field(parts, "sign").cast(pa.string()), "-")
    fits = pc.less_equal(digits, pc.add(is_negative.cast(pa.uint64()), _MOST))
    numbers = digits.view(pa.int64())
    return pc.if_else(fits, pc.if_else(is_negative, pc.negate(numbers), numbers), None)


def are_floats(values: pa.Array) -> Mask:
    """Returns bool[n]: whether each text is a number, NaN or infinity.

    ``values`` has no nulls.
    """
    mask: Mask = pc.match_substring_regex(values, _FLOAT).to_numpy(zero_copy_only=False)
    return mask


def floats(values: pa.Array) -> npt.NDArray[np.float32]:
    """Returns texts that are floats as float32[n].

    TFDV and the bounds of domains have this precision.
    """
    with np.errstate(over="ignore"):
        return np.array([float(value) for value in values.to_pylist()], np.float64).astype(
            np.float32
        )
