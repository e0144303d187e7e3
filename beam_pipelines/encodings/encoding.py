"""What every encoding is: declared in a recipe, fitted by the first read, applied in the second one
and when serving.

A recipe declares an ``Encoding``. Fitting turns it into a ``Fitted``, a frozen value with two faces
that must give the same: ``apply`` on Arrow arrays, for the shards, and ``to_tensorflow``, for the
serving graph. An encoding that learns nothing from the data is both in one class, and ``fit``
returns the encoding itself.

*Values.* Both faces see features, not columns: int64, float32, string or binary, scalars or lists,
as a reader of the raw examples would. Numbers are computed in float64 and rounded to float32 once,
at the end of each encoding, so that both faces round alike.

*Nulls.* ``apply`` sees a null scalar as null and a missing list as null. In the graph a feature is
a ``tf.RaggedTensor`` of shape [batch, None]: a null scalar is a row of no values, and a null list
cannot be told from an empty one; so an encoding must not tell them apart either, once its result is
parsed.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings.analyzers import Analysis, Analyzer
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


class Encoding(abc.ABC):
    """An encoding as a recipe declares it. Subclasses are frozen dataclasses; attributes have these
    defaults.

    Attributes:
      inputs: names of the features it starts from, for an encoding that begins a chain with others
        than the chain's own column (``vector``, ``cross``); empty for the feature before it in the
        chain.
      consumes: whether ``inputs`` are no longer written by themselves.
      analyzer: what the first read gathers for ``fit``; ``None`` if it learns nothing.
      target: name of the feature that it learns from besides its own (``target_mean``), or ``""``.
      elementwise: whether each value is encoded for itself, and nulls stay null.
      fills: whether it puts a value in the place of nulls, and else changes nothing.
    """

    inputs: tuple[str, ...] = ()
    consumes: bool = False
    analyzer: Analyzer | None = None
    target: str = ""
    elementwise: bool = False
    fills: bool = False

    @classmethod
    @abc.abstractmethod
    def of(cls, parameters: Mapping[str, Any]) -> Encoding:
        """Returns the encoding that a recipe's parameters describe.

        A recipe writes ``kind``, ``{kind: VALUE}`` or ``{kind: {name: value, …}}``; VALUE comes as
        parameter ``value``.

        Raises:
          ValueError: the parameters are wrong; says what was found, what was expected and, as
            ``errors.nearest`` does, which was meant.
        """

    def parts(self) -> Mapping[str, Encoding]:
        """Returns the features it makes: suffix of the name -> encoding. ``{"": self}``, unless it
        makes several.
        """
        return {"": self}

    @abc.abstractmethod
    def output(self, *features: Feature) -> Feature:
        """Returns what it makes of features, as far as is known before fitting.

        Raises:
          ValueError: it cannot take them; says which type it takes.
        """

    @abc.abstractmethod
    def fit(self, analysis: Analysis | None) -> Fitted:
        """Returns the fitted encoding.

        Args:
          analysis: what ``learns`` gathered from the splits to fit on, as a value of that class (of
            a ``KeyedSums``: its table); ``None`` if it learns nothing.

        Raises:
          ValueError: nothing can be analysis from it (no values, say); says what to do.
        """


class Fitted(abc.ABC):
    """A fitted encoding: a frozen dataclass of numbers, texts, bools, tuples of these and Arrow
    arrays (``store.py``).

    Attributes:
      folds: in how many parts the rows it was fitted on are divided, for encodings that may not see
        a row's own target; else 0.
    """

    folds: int = 0

    @abc.abstractmethod
    def output(self, *features: Feature) -> Feature:
        """Returns what it makes of features: complete, with ``required``, ``length`` and ``size``.

        Raises:
          ValueError: it cannot take them; says what to do (``fill`` nulls first, say).
        """

    @abc.abstractmethod
    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Encodes arrays of n rows as one array of n rows, of the type that ``output`` says.

        Raises:
          pa.ArrowInvalid: a value has no encoding; says why, without the value.
        """

    def apply_out_of_fold(self, array: pa.Array, folds: npt.NDArray[np.int64]) -> pa.Array:
        """Encodes rows that it was fitted on, each without what its own fold taught; only where
        ``folds`` is not 0.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Builds the same in a graph, on ragged tensors of shape [batch, None], dtype int64,
        float32 or string.

        TensorFlow is imported inside the method. Vectors are rows of always the same number of
        values.
        """


class Fixed(Encoding, Fitted):
    """An encoding that learns nothing: declared and fitted in one."""

    def given(self, *features: Feature) -> Fixed:
        """Returns the encoding for features of which this much is known: when planned, and again
        after each read.

        An encoding whose faces need more than the values (``unit`` or ``size`` of a feature, say)
        keeps it in attributes.
        """
        return self

    def check_known(self) -> None:
        """Looks whether the encoding has been given all that it needs.

        Raises:
          ValueError: something is missing; says what, and how the recipe tells it.
        """

    def fit(self, analysis: Analysis | None) -> Fitted:
        """Returns itself."""
        return self
