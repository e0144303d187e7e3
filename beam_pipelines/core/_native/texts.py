"""C++ kernels for texts: fingerprints, ids, character weights, similarity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native.shared import imported, kernels

__all__ = [
    "band_hashes",
    "fingerprints",
    "index_texts",
    "look_up",
    "similarities",
    "sum_weights",
]


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


def index_texts(known: pa.Array) -> pa.Array:
    """Returns the index of distinct texts that ``look_up`` takes.

    Args:
      known: n values of a string or binary type, large or not, without nulls.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves, or 2^32 texts.
    """
    return imported(kernels.index_texts(known.__arrow_c_array__()))


def look_up(texts: pa.Array, known: pa.Array, index: pa.Array, num_oov: int) -> pa.Array:
    """Returns the ids of texts.

    Args:
      texts: n values of a string or binary type, large or not.
      known: texts whose ids are their places.
      index: of them, by ``index_texts``; with ``KERNELS_AVAILABLE`` as it is here.
      num_oov: number of ids for others: ``len(known)`` + fingerprint modulo ``num_oov``. With 0
        their id is -1.

    Returns:
      int64[n]; -1 for a null.

    Raises:
      TypeError: the values are of another type.
      ValueError: buffers that contradict themselves, or an index of other texts.
    """
    arrays = (one.__arrow_c_array__() for one in (texts, known, index))
    return imported(kernels.look_up(*arrays, num_oov))


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
