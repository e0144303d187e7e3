"""Lower case by one table, for Arrow arrays and for graphs.

Arrow's and TensorFlow's lower-casing of UTF-8 differ: in the version of Unicode, in the final
sigma, and in the use of the locale. Here each code point is mapped by Unicode's simple mapping
(``UnicodeData.txt``, as Python has it), without context: Σ always becomes σ, and İ becomes i.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.binary_arrays import offsets_of

if TYPE_CHECKING:
    import tensorflow as tf

_CodePoints: TypeAlias = npt.NDArray[np.uint32]

# Code points from here on have no lower case.
_END = 0x20000


@functools.cache
def _table() -> _CodePoints:
    """Returns the lower case of each code point below ``_END``."""
    # The full lower case of İ has two code points; its simple one is the first of them.
    return np.array([ord(chr(code).lower()[0]) for code in range(_END)], np.uint32)


def lower(texts: pa.StringArray) -> pa.StringArray:
    """Returns texts without nulls in lower case."""
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        return pc.ascii_lower(texts)
    offsets = offsets_of(texts)
    data = bytes(texts.buffers()[2][int(offsets[0]) : int(offsets[-1])])
    codes = np.frombuffer(data.decode().encode("utf-32-le"), "<u4")
    lowered = np.where(codes < _END, _table()[np.minimum(codes, _END - 1)], codes).astype("<u4")
    firsts = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    places = _running(firsts)[offsets - offsets[0]]
    lengths = 1 + (lowered >= 0x80) + (lowered >= 0x800) + (lowered >= 0x10000)
    new_offsets = pa.array(_running(lengths)[places], pa.int32())
    lowered_data = lowered.tobytes().decode("utf-32-le").encode()
    return pa.StringArray.from_buffers(
        len(texts), new_offsets.buffers()[1], pa.py_buffer(lowered_data)
    )


def _running(counts: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def tensor_lower(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts [n] in lower case.

    Bytes that are not UTF-8 become U+FFFD.
    """
    import tensorflow as tf

    table = _table()
    upper = np.flatnonzero(table != np.arange(_END))
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    places = tf.minimum(
        tf.searchsorted(tf.constant(upper, tf.int32), codes.flat_values), len(upper) - 1
    )
    is_upper = tf.gather(tf.constant(upper, tf.int32), places) == codes.flat_values
    lowered = tf.where(
        is_upper, tf.gather(tf.constant(table[upper], tf.int32), places), codes.flat_values
    )
    return tf.strings.unicode_encode(codes.with_flat_values(lowered), "UTF-8")
