"""``cast``: the same value in another type, or an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.columns import parse_type, type_name
from beam_pipelines.core.errors import nearest
from beam_pipelines.encodings import array_values
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.formula import checked, narrowed_tensor

if TYPE_CHECKING:
    import tensorflow as tf


# Smallest and largest value of each integer type; a feature of any of them is int64.
_RANGES = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32)},
}
_TARGETS = (*_RANGES, "bool", "float32", "text", "bytes")
_EXPECTED = f"one of {', '.join(_TARGETS)}, as in {{cast: float32}}"

# Numbers that Arrow and TensorFlow parse alike, in RE2 syntax, which both use.
_WHOLE = r"^-?[0-9]+$"
_DECIMAL = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"^(nan|NaN|-?inf)$"


@dataclasses.dataclass(frozen=True)
class Cast(Fixed):
    """Casts to another type; null stays null, lists stay lists.

    To an integer type: whole numbers in its range, and texts of digits. To float32: any number,
    rounded to the nearest, and texts of decimal numbers, ``nan``, ``inf`` and ``-inf``. To bool:
    any number; 0 is false. To text: integers, and bytes in UTF-8. To bytes: text. Anything else is
    an error.

    Attributes:
      to: the target, as recipes name types.
    """

    to: str

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Cast:
        """Takes the type: ``{cast: float32}``."""
        name = array_values.need_text(array_values.only_value(parameters, _EXPECTED), _EXPECTED)
        if name not in _TARGETS:
            hint = (
                " A feature of float64 is float32."
                if name == "float64"
                else nearest(name, _TARGETS)
            )
            raise ValueError(f"found '{name}', expected {_EXPECTED}.{hint}")
        return cls(name)

    @property
    def takes_ids(self) -> bool:  # type: ignore[override]
        """Whether the target is an integer: different ids could round to one."""
        return self.to in _RANGES

    def output(self, *features: Feature) -> Feature:
        """Values become those of the target; lists stay lists."""
        source = features[0].value_type
        is_possible = {
            "text": not pa.types.is_floating(source),
            "bytes": features[0].is_text,
            "bool": features[0].is_number,
        }.get(self.to, not pa.types.is_binary(source))
        if not is_possible:
            hint = (
                " Derive a column instead."
                if self.to in ("text", "bool")
                else " Cast to text first."
            )
            raise ValueError(
                f"found {type_name(features[0].type)}, which cannot be cast to {self.to}.{hint}"
            )
        return features[0].with_values(self._type(), 2 if self.to == "bool" else None)

    def _type(self) -> pa.DataType:
        return pa.int64() if self.to in _RANGES or self.to == "bool" else parse_type(self.to)

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Casts one array.

        Raises:
          pa.ArrowInvalid: a value does not fit.
        """
        return array_values.map_values(arrays[0], self._cast)

    def _cast(self, array: pa.Array) -> pa.Array:
        if self.to == "bool":
            return pc.not_equal(_without_subnormals(array), pa.scalar(0, array.type)).cast(
                pa.int64()
            )
        if self.to == "float32":
            if pa.types.is_string(array.type):
                return _parsed_floats(array)
            return array_values.narrowed(array).cast(pa.float32(), safe=False)
        if self.to not in _RANGES:
            return pc.cast(array, self._type())
        if pa.types.is_string(array.type):
            _need(pc.match_substring_regex(array, _WHOLE), "not a whole number")
        elif pa.types.is_floating(array.type):
            array = _without_subnormals(array)
            _need(
                pc.and_(pc.equal(pc.trunc(array), array), pc.less(pc.abs(array), 2.0**64)),
                "not a whole number",
            )
        numbers = pc.cast(array, pa.int64())
        low, high = _RANGES[self.to]
        _need(
            pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)),
            f"beyond the range of {self.to}",
        )
        return numbers

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Casts the flat values.

        A value that does not fit fails an assertion.
        """
        (x,) = features
        return x.with_flat_values(self._graph(x.flat_values))

    def _graph(self, x: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        if x.dtype.is_floating and self.to != "float32":
            least = array_values.smallest_normal(x.dtype.as_numpy_dtype)
            x = tf.where(tf.abs(x) < least, tf.zeros_like(x), x)
        if self.to == "bool":
            return tf.cast(x != tf.zeros_like(x), tf.int64)
        if self.to == "float32":
            if x.dtype == tf.string:
                return _parsed_floats_graph(x)
            return tf.cast(narrowed_tensor(x), tf.float32)
        if self.to == "text":
            return tf.strings.as_string(x) if x.dtype == tf.int64 else _need_utf8(x)
        if self.to == "bytes":
            return x
        if x.dtype == tf.string:
            x = tf.strings.to_number(
                checked(x, tf.strings.regex_full_match(x, _WHOLE), "not a whole number"), tf.int64
            )
        elif x.dtype.is_floating:
            in_range = (x >= -(2.0**63)) & (x < 2.0**63)
            x = tf.cast(checked(x, in_range & (tf.floor(x) == x), "not a whole number"), tf.int64)
        low, high = _RANGES[self.to]
        return checked(x, (x >= low) & (x <= high), f"beyond the range of {self.to}")


def _need(holds: pa.BooleanArray, message: str) -> None:
    """Raises pa.ArrowInvalid unless a condition holds for each non-null value."""
    if not pc.all(holds, min_count=0).as_py():
        raise pa.ArrowInvalid(message)


def _without_subnormals(array: pa.Array) -> pa.Array:
    """Returns numbers with subnormal floats as 0, as TensorFlow's kernels compute them."""
    if not pa.types.is_floating(array.type):
        return array
    is_tiny = pc.less(pc.abs(array), array_values.smallest_normal(array.type))
    return pc.if_else(is_tiny, pa.scalar(0, array.type), array)


def _parsed_floats(texts: pa.StringArray) -> pa.FloatArray:
    is_finite = pc.match_substring_regex(texts, _DECIMAL)
    _need(pc.or_(is_finite, pc.match_substring_regex(texts, _NOT_FINITE)), "not a number")
    numbers = pc.cast(pc.cast(texts, pa.float64()), pa.float32(), safe=False)
    _need(pc.invert(pc.and_(is_finite, pc.is_inf(numbers))), "beyond the range of float32")
    return numbers


def _parsed_floats_graph(texts: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    is_finite = tf.strings.regex_full_match(texts, _DECIMAL)
    texts = checked(
        texts, is_finite | tf.strings.regex_full_match(texts, _NOT_FINITE), "not a number"
    )
    numbers = tf.cast(tf.strings.to_number(texts, tf.float64), tf.float32)
    return checked(numbers, ~(is_finite & tf.math.is_inf(numbers)), "beyond the range of float32")


def _need_utf8(octets: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    decoded = tf.strings.unicode_transcode(octets, "UTF-8", "UTF-8", errors="strict")
    return checked(octets, decoded == octets, "not UTF-8")
