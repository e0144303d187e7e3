"""``tokenize``: texts split into words."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import offsets_of
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings.array_values import as_lists, check_parameters, need_flag
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.tokens import flat_values, row_numbers

if TYPE_CHECKING:
    import tensorflow as tf


# Replaces each match of ``split`` until texts are cut at it: ASCII's unit separator, which texts do
# not contain.
_CUT = "\x1f"
_EXPECTED = {
    "split": "a regular expression (RE2) of the text between tokens, as in {split: '[,;]'}",
    "lower": "true or false",
}


@dataclasses.dataclass(frozen=True)
class Tokenize(Fixed):
    """Splits texts into tokens, never empty; null and empty texts have none.

    Attributes:
      split: regular expression of the separators; ``""`` for white space: blank, tab, new line,
        vertical tab, form feed, carriage return. With an expression U+001F is a separator, too.
      lower: whether to put texts in lower case first (``lower``).
    """

    split: str = ""
    lower: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Tokenize:
        """Takes ``split`` and ``lower``."""
        check_parameters(parameters, _EXPECTED)
        return cls(
            _expression(parameters["split"]) if "split" in parameters else "",
            need_flag(parameters, "lower"),
        )

    def output(self, *features: Feature) -> Feature:
        """A list of texts in every row."""
        if not pa.types.is_string(features[0].value_type):
            raise ValueError(
                f"found {type_name(features[0].type)}, expected text or lists of it. Take {{cast: "
                f"text}} first."
            )
        return Feature(pa.list_(pa.string()), required=True)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Cuts each text into tokens.

        The tokens of a list of texts follow each other.
        """
        texts, rows = flat_values(arrays[0]), row_numbers(arrays[0])
        chunks = self._cut(lower(texts) if self.lower else texts)
        tokens, rows = chunks.flatten(), rows[pc.list_parent_indices(chunks).to_numpy()]
        filled = pc.greater(pc.binary_length(tokens), 0)
        tokens, rows = tokens.filter(filled), rows[filled.to_numpy(zero_copy_only=False)]
        return as_lists(tokens, np.bincount(rows, minlength=len(arrays[0])))

    def _cut(self, texts: pa.StringArray) -> pa.ListArray:
        if not self.split:
            return pc.ascii_split_whitespace(texts)
        return pc.split_pattern(pc.replace_substring_regex(texts, self.split, _CUT), _CUT)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Cuts the flat values; both TensorFlow and Arrow use RE2."""
        import tensorflow as tf

        (x,) = features
        texts = tensor_lower(x.flat_values) if self.lower else x.flat_values
        if self.split:
            chunks = tf.strings.split(tf.strings.regex_replace(texts, self.split, _CUT), _CUT)
            chunks = tf.ragged.boolean_mask(chunks, chunks != "")
        else:
            chunks = tf.strings.split(texts)
        return x.with_flat_values(chunks).merge_dims(1, 2)


def _expression(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"found {value!r}, expected {_EXPECTED['split']}.")
    try:
        pc.replace_substring_regex(pa.array([""]), value, _CUT)
    except pa.ArrowInvalid as error:
        raise ValueError(f"found {value!r} ({error}), expected {_EXPECTED['split']}.") from error
    return value


_CodePoints: TypeAlias = npt.NDArray[np.uint32]

# Code points from here on have no lower case.
_END = 0x20000


@functools.cache
def _table() -> _CodePoints:
    """Returns the lower case of each code point below ``_END``."""
    # The full lower case of İ has two code points; its simple one is the first of them.
    return np.array([ord(chr(code).lower()[0]) for code in range(_END)], np.uint32)


def lower(texts: pa.StringArray) -> pa.StringArray:
    """Returns texts without nulls in lower case, as ``tensor_lower`` does.

    Arrow's and TensorFlow's own differ in the version of Unicode, the final sigma, and the use of
    the locale. Each code point is mapped by Unicode's simple mapping (``UnicodeData.txt``, as
    Python has it), without context: Σ always becomes σ, and İ becomes i.
    """
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
