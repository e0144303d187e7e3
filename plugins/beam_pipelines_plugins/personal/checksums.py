"""Check digits of card numbers and IBANs, in arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import offsets_of

Mask = npt.NDArray[np.bool_]
Digits = npt.NDArray[np.int64]

_ZERO, _LETTER = ord("0"), ord("A")


def characters(texts: pa.Array, width: int) -> tuple[npt.NDArray[np.uint8], Digits]:
    """Returns the bytes of texts, aligned to the right, and their lengths.

    Args:
      texts: n ASCII texts without nulls.
      width: most bytes of a text; a longer one loses its first bytes.

    Returns:
      uint8[n, width], zeros before a text; and int64[n].
    """
    offsets = offsets_of(texts)
    lengths = np.diff(offsets)
    data = np.zeros(int(offsets[-1]) + 1, np.uint8)
    if offsets[-1]:
        data[:-1] = np.frombuffer(texts.buffers()[2], np.uint8, int(offsets[-1]))
    places = offsets[1:, None] + np.arange(-width, 0)[None, :]
    is_inside = places >= offsets[:-1, None]
    return np.where(is_inside, data[np.where(is_inside, places, 0)], 0).astype(np.uint8), lengths


def luhn(texts: pa.Array) -> Mask:
    """Returns whether numbers have the check digit of Luhn.

    Args:
      texts: n texts of digits.
    """
    found, _ = characters(texts, 19)
    digits = np.where(found >= _ZERO, found.astype(np.int64) - _ZERO, 0)
    doubled = digits[:, -2::-2] * 2
    total = digits[:, ::-2].sum(axis=1) + (doubled - 9 * (doubled > 9)).sum(axis=1)
    valid: Mask = total % 10 == 0
    return valid


def mod_97(texts: pa.Array) -> Mask:
    """Returns whether IBANs leave 1 when divided by 97.

    Args:
      texts: n texts of 5 to 34 capital letters and digits, without spaces.
    """
    found, lengths = characters(texts, 34)
    first = 34 - lengths
    # The first four characters go to the end.
    columns = np.arange(34)[None, :]
    order = np.concatenate([columns.repeat(len(found), 0), first[:, None] + np.arange(4)], axis=1)
    is_used = order >= np.concatenate(
        [(first + 4)[:, None].repeat(34, 1), first[:, None].repeat(4, 1)], axis=1
    )
    values = np.take_along_axis(found, np.minimum(order, 33), axis=1).astype(np.int64)
    rest = np.zeros(len(found), np.int64)
    for place in range(values.shape[1]):
        value = values[:, place]
        is_letter = value >= _LETTER
        number = np.where(is_letter, value - _LETTER + 10, value - _ZERO)
        following = (rest * np.where(is_letter, 100, 10) + number) % 97
        rest = np.where(is_used[:, place], following, rest)
    valid: Mask = rest == 1
    return valid
