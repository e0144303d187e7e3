"""``one_hot`` and ``multi_hot``: ids as a vector of zeros and ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.binary_arrays import byte_lengths, is_valid
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.ragged import from_matrix
from beam_pipelines.encodings.values import MOST_PLACES, as_lists, check_parameters, need_whole

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class OneHot(Fixed):
    """A vector of zeros with a one at the id.

    Null, and ids outside the range, become zeros only. The length is the number of ids: known after
    ``vocabulary``, ``bucketize``, ``hash_bucket``, …, else given by the parameter.

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
        check_parameters(parameters, {"value": expected})
        return cls(
            need_whole(parameters["value"], 1, expected, MOST_PLACES)
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
        self._check_list(features[0])
        if self.size is not None and self.size > MOST_PLACES:
            raise ValueError(
                f"found {self.size:,} ids, expected at most {MOST_PLACES:,} for a vector. Take "
                "fewer, or leave them as ids."
            )
        return Feature(pa.list_(pa.float32()), required=True, length=self.size)

    def _check_list(self, feature: Feature) -> None:
        if feature.is_list:
            raise ValueError(
                f"found {type_name(feature.type)}, expected one id a row. Take 'multi_hot' for "
                "lists."
            )

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
        if pa.types.is_list(array.type):
            rows: npt.NDArray[np.int64] = np.repeat(np.arange(len(array)), byte_lengths(array))
            ids = array.flatten().to_numpy()
        else:
            rows = np.flatnonzero(is_valid(array))
            ids = array.drop_null().to_numpy()
        inside = (ids >= 0) & (ids < size)
        vectors = np.zeros(len(array) * size, np.float32)
        vectors[rows[inside] * size + ids[inside]] = 1
        return as_lists(pa.array(vectors), np.full(len(array), size))

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
        return from_matrix(tf.minimum(counts, 1.0))

    def _known_size(self) -> int:
        if self.size is None:
            raise pa.ArrowInvalid(
                f"the number of ids is not known; give it, as in {{{self.kind}: 12}}"
            )
        return self.size


@dataclasses.dataclass(frozen=True)
class MultiHot(OneHot):
    """A vector with a one at each id of a list.

    The other places are zero. Null and empty lists, and ids outside the range, set no one.
    """

    kind = "multi_hot"

    def _check_list(self, feature: Feature) -> None:
        if not feature.is_list:
            raise ValueError(
                f"found {type_name(feature.type)}, expected a list of ids a row. Take 'one_hot' "
                "for one id."
            )
