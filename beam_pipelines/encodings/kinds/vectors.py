"""``one_hot``, ``multi_hot`` and ``vector``: features as vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import byte_lengths
from beam_pipelines.core.arrow.columns import type_name, value_type
from beam_pipelines.core.errors import nearest
from beam_pipelines.encodings import array_values, formula
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.tokens import flat_values, row_numbers

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class OneHot(Fixed):
    """A vector of zeros with a one at each id.

    An id a row, or a list of them. Null, empty lists, and ids outside the range set no one. The
    length is the number of ids: known after ``vocabulary``, ``bucketize``, ``hash_bucket``, …, else
    given by the parameter.

    Attributes:
      size: length of the vector; ``None`` while unknown.
    """

    size: int | None = None

    kind = "one_hot"

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> OneHot:
        """Takes the number of ids: ``{one_hot: 12}``.

        It is needed if the encoding before does not give it.
        """
        expected = f"the number of ids, as in {{{cls.kind}: 12}}"
        array_values.check_parameters(parameters, {"value": expected})
        return cls(
            array_values.need_whole(parameters["value"], 1, expected, array_values.MOST_PLACES)
            if "value" in parameters
            else None
        )

    def given(self, *features: Feature) -> Fixed:
        """Takes the size of the feature unless the recipe gave one."""
        return self if self.size is not None else dataclasses.replace(self, size=features[0].size)

    def output(self, *features: Feature) -> Feature:
        """Ids become a vector of float32."""
        if not pa.types.is_int64(features[0].value_type):
            raise ValueError(
                f"found {type_name(features[0].type)}, expected ids, as 'vocabulary' or "
                "'bucketize' give."
            )
        if self.size is not None and self.size > array_values.MOST_PLACES:
            raise ValueError(
                f"found {self.size:,} ids, expected at most {array_values.MOST_PLACES:,} for a "
                "vector. Take fewer, or leave them as ids."
            )
        return Feature(pa.list_(pa.float32()), required=True, length=self.size)

    def check_known(self) -> None:
        """Needs the number of ids."""
        if self.size is None:
            raise ValueError(
                "found ids without their number, expected it in the recipe, as in "
                f"{{{self.kind}: 12}}."
            )

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Sets the ones of n ids, or of n lists of ids."""
        (array,) = arrays
        size = self._known_size()
        rows, ids = row_numbers(array), flat_values(array).to_numpy()
        inside = (ids >= 0) & (ids < size)
        vectors = np.zeros(len(array) * size, np.float32)
        vectors[rows[inside] * size + ids[inside]] = 1
        return array_values.as_lists(pa.array(vectors), np.full(len(array), size))

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Adds the vectors of each row's ids and caps at one."""
        import tensorflow as tf

        (x,) = features
        size = self._known_size()
        ids = x.flat_values
        inside = (ids >= 0) & (ids < size)
        places = tf.stack(
            [tf.boolean_mask(x.value_rowids(), inside), tf.boolean_mask(ids, inside)], axis=1
        )
        shape = tf.stack([x.nrows(), tf.constant(size, tf.int64)])
        counts = tf.scatter_nd(places, tf.ones_like(places[:, 0], tf.float32), shape)
        return formula.from_matrix(tf.minimum(counts, 1.0))

    def _known_size(self) -> int:
        if self.size is None:
            raise pa.ArrowInvalid(
                f"the number of ids is not known; give it, as in {{{self.kind}: 12}}"
            )
        return self.size


@dataclasses.dataclass(frozen=True)
class MultiHot(OneHot):
    """The same, by its name for lists."""

    kind = "multi_hot"


_COLUMNS = "a list of features, as in {vector: [age, income]}"
_LENGTHS = "the lengths of features that are lists, as in {pixels: 784}"


@dataclasses.dataclass(frozen=True)
class Vector(Fixed):
    """Concatenates numbers and lists of fixed length.

    Integers alone give int64, else float32. A null, a list of another length, or an integer that
    float32 would round, is an error that names the feature.

    Attributes:
      inputs: names of the features.
      consumes: whether these are no longer written themselves.
      as_bytes: whether the vector is one text of raw little-endian numbers, for
        ``tf.io.decode_raw``, not a list.
      lengths: number of values of each feature; 0 while unknown.
    """

    inputs: tuple[str, ...]
    consumes: bool = True
    as_bytes: bool = False
    lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Vector:
        """Takes the features, as a list or with options.

        ``{vector: [a, b]}``, ``{vector: {columns: [a, b], as: bytes, keep: true, lengths: {b:
        10}}}``.
        """
        parameters = array_values.short_form(parameters, "columns")
        known = {
            "columns": _COLUMNS,
            "as": "list or bytes",
            "keep": "true or false",
            "lengths": _LENGTHS,
        }
        array_values.check_parameters(parameters, known)
        columns = parameters.get("columns")
        columns = [columns] if isinstance(columns, str) else columns
        if (
            not isinstance(columns, list | tuple)
            or not columns
            or not all(isinstance(name, str) for name in columns)
        ):
            raise ValueError(f"found {columns!r}, expected {_COLUMNS}.")
        if parameters.get("as", "list") not in ("list", "bytes"):
            raise ValueError(f"found as {parameters['as']!r}, expected list or bytes.")
        lengths = parameters.get("lengths") or {}
        if not hasattr(lengths, "items"):
            raise ValueError(f"found lengths {lengths!r}, expected {_LENGTHS}.")
        for name in lengths:
            if name not in columns:
                raise ValueError(
                    f"found lengths of '{name}', expected {_LENGTHS}.{nearest(str(name), columns)}"
                )
        return cls(
            tuple(columns),
            not array_values.need_flag(parameters, "keep"),
            parameters.get("as") == "bytes",
            tuple(
                array_values.need_whole(lengths[name], 1, _LENGTHS, array_values.MOST_PLACES)
                if name in lengths
                else 0
                for name in columns
            ),
        )

    def given(self, *features: Feature) -> Fixed:
        """Takes the known lengths where the recipe gave none."""
        own = (
            length or (1 if not feature.is_list else feature.length or 0)
            for length, feature in zip(self.lengths, features, strict=True)
        )
        return dataclasses.replace(self, lengths=tuple(own))

    def output(self, *features: Feature) -> Feature:
        """Numbers become one list of a fixed length, or one text."""
        for name, feature in zip(self.inputs, features, strict=True):
            try:
                array_values.need_numbers(feature)
            except ValueError as error:
                raise ValueError(f"'{name}': {error}") from error
        if self.as_bytes:
            return Feature(pa.binary(), required=True)
        is_integer = all(pa.types.is_integer(feature.value_type) for feature in features)
        length = sum(self.lengths) if all(self.lengths) else None
        return Feature(
            pa.list_(pa.int64() if is_integer else pa.float32()), required=True, length=length
        )

    def check_known(self) -> None:
        """Needs the length of every list."""
        for name, length in zip(self.inputs, self.lengths, strict=True):
            if not length:
                raise ValueError(
                    f"found '{name}', a list without a fixed length, expected its length, as in "
                    f"{{vector: {{columns: [{', '.join(self.inputs)}], lengths: {{{name}: 10}}}}}}."
                )

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Copies each feature into its columns of a matrix."""
        types = [value_type(array.type) for array in arrays]
        dtype = np.dtype("<i8" if all(map(pa.types.is_integer, types)) else "<f4")
        matrix = np.empty((len(arrays[0]), sum(self.lengths)), dtype)
        start = 0
        for name, array, length in zip(self.inputs, arrays, self.lengths, strict=True):
            matrix[:, start : start + length] = _rows(name, array, length, dtype)
            start += length
        if not self.as_bytes:
            return array_values.as_lists(pa.array(matrix.ravel()), np.full(len(matrix), start))
        offsets = pa.array(np.arange(len(matrix) + 1) * (start * dtype.itemsize)).cast(pa.int32())
        return pa.BinaryArray.from_buffers(
            pa.binary(), len(matrix), [None, offsets.buffers()[1], pa.py_buffer(matrix)]
        )

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Concatenates the rows."""
        import tensorflow as tf

        dtype = tf.int64 if all(feature.dtype.is_integer for feature in features) else tf.float32
        columns = []
        for name, x, length in zip(self.inputs, features, self.lengths, strict=True):
            values = formula.checked(x.flat_values, x.row_lengths() == length, _wrong(name, length))
            if dtype.is_floating:
                values = formula.narrowed_tensor(formula.exact_floats_tensor(values, dtype, name))
            columns.append(tf.reshape(values, [x.nrows(), length]))
        matrix = tf.concat(columns, axis=1)
        if self.as_bytes:
            # No kernel turns numbers into raw bytes: a table of one-byte texts has each byte.
            table = tf.constant([bytes([number]) for number in range(256)])
            octets = tf.reshape(
                tf.bitcast(matrix, tf.uint8), [tf.shape(matrix)[0], sum(self.lengths) * dtype.size]
            )
            matrix = tf.strings.reduce_join(
                tf.gather(table, tf.cast(octets, tf.int32)), axis=1, keepdims=True
            )
        return formula.from_matrix(matrix)


def _rows(name: str, array: pa.Array, length: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns numbers [n, length] of n rows.

    Raises:
      pa.ArrowInvalid: a null, a list of another length, or an integer that no float32 equals.
    """
    if array.null_count or (pa.types.is_list(array.type) and (byte_lengths(array) != length).any()):
        raise pa.ArrowInvalid(_wrong(name, length))
    values = array.flatten() if pa.types.is_list(array.type) else array
    if dtype.kind == "f":
        values = array_values.narrowed(formula.exact_floats(values, pa.float32(), name))
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(array), length)
    return numbers


def _wrong(name: str, length: int) -> str:
    if not length:
        return (
            f"'{name}' is a list whose length is not known; give it, as in {{vector: "
            f"{{columns: …, lengths: {{{name}: 10}}}}}}"
        )
    if length == 1:
        return f"'{name}' is null; fill it first, as in {{fill: 0}}"
    return f"'{name}' is null or has not {length} values"
