"""C++ kernels for texts: fingerprints, character weights, similarity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native import _kernels, imported


def fingerprints(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns FarmHash's 64-bit fingerprints, as ``farmhash.fingerprints`` does.

    Args:
      texts: n values of a string or binary type, large or not; null counts as the empty text.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
    """
    pair = _kernels.fingerprints(texts.__arrow_c_array__())
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return hashes


def fingerprint(text: bytes) -> int:
    """Returns the fingerprint of one text."""
    number: int = _kernels.fingerprint(text)
    return number
