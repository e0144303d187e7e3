"""C++ kernels for texts: fingerprints, character weights, similarity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.extension import imported, kernels

__all__ = ["band_hashes", "fingerprints", "similarities", "sum_weights"]


def fingerprints(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns FarmHash's 64-bit fingerprints (``reference_hashes.py``).

    Args:
      texts: n values of a string or binary type, large or not; null counts as the empty text.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
    """
    pair = kernels.fingerprints(texts.__arrow_c_array__())
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return hashes


def sum_weights(texts: pa.Array, weights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Adds up the weights of the bytes of each text, modulo 2**64.

    Args:
      texts: n values of a string or binary type, large or not.
      weights: uint64[256], of each byte.

    Returns:
      uint64[n], read-only; 0 for a null.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves.
    """
    texts.validate()
    table = pa.array(weights).__arrow_c_array__()
    try:
        pair = kernels.sum_weights(texts.__arrow_c_array__(), table)
    except TypeError:
        raise TypeError(f"texts: found {texts.type}, expected a binary or string array") from None
    sums: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return sums


def band_hashes(texts: pa.Array, bands: int, rows: int) -> npt.NDArray[np.uint64]:
    """Hashes bands of MinHash signatures, as ``shingles.py`` of plugins says.

    Args:
      texts: n texts, or dictionaries of them.
      bands, rows: of a signature, 1 to 1024 each.

    Returns:
      uint64[n, bands + 1], read-only; the last one is the hash of the whole text.

    Raises:
      TypeError: no texts.
      ValueError: buffers that contradict themselves, or other bands or rows.
    """
    texts.validate()
    pair = kernels.band_hashes(texts.__arrow_c_array__(), bands, rows)
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy().reshape(len(texts), bands + 1)
    return hashes


def similarities(left: pa.Array, right: pa.Array) -> npt.NDArray[np.float64]:
    """Returns the similarity of pairs of texts, as ``shingles.py`` of plugins says.

    Args:
      left, right: n texts each.

    Returns:
      float64[n], read-only.

    Raises:
      TypeError: no texts.
      ValueError: buffers that contradict themselves, or several lengths.
    """
    left.validate()
    right.validate()
    pair = kernels.similarities(left.__arrow_c_array__(), right.__arrow_c_array__())
    found: npt.NDArray[np.float64] = imported(pair).to_numpy()
    return found
