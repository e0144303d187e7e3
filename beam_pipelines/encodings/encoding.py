"""Defines encodings: declared in a recipe, fitted in a pass, then applied.

A recipe declares an ``Encoding``. Fitting turns it into a ``Fitted``, a frozen value with two faces
that give the same result: ``apply`` on Arrow arrays, for the shards, and ``to_tensorflow``, for the
serving graph. An encoding without an analyzer is both in one class (``Fixed``).

*Values.* Both faces take int64, float32, float64, string or binary, scalars or lists. A float64
column comes as it was read; from a raw tf.Example, which has no float64, the graph takes float32.
Numbers are computed in float64 and rounded to float32 once, at the end of each encoding, so that
both faces round alike.

*Nulls.* ``apply`` takes a null scalar and a missing list as null. In the graph a feature is a
``tf.RaggedTensor`` of shape [batch, None]: a null scalar is a row without values, and a null list
looks like an empty one. So an encoding must treat null and empty lists alike.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.encodings.analyzers import Analysis, Analyzer
from beam_pipelines.encodings.array_values import check_parameters
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


class Encoding(abc.ABC):
    """An encoding as a recipe declares it.

    Subclasses are frozen dataclasses; these are the defaults of their attributes.

    Attributes:
      inputs: names of the input features of an encoding that begins a chain with other features
        than the chain's own column (``vector``, ``cross``); empty: the feature before it in the
        chain.
      consumes: whether ``inputs`` are no longer written themselves.
      analyzer: computes the analysis for ``fit``; ``None``: no analysis.
      elementwise: whether each value is encoded on its own, and nulls stay null.
      fills: whether it replaces nulls and changes nothing else.
      takes_ids: whether ids are made of numbers, which therefore must not be rounded before.
    """

    inputs: tuple[str, ...] = ()
    consumes: bool = False
    analyzer: Analyzer | None = None
    elementwise: bool = False
    fills: bool = False
    takes_ids: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Encoding:
        """Returns the encoding of a recipe's parameters; there are none by default.

        A recipe writes ``kind``, ``{kind: VALUE}`` or ``{kind: {name: value, …}}``; VALUE comes as
        parameter ``value``.

        Raises:
          ValueError: the parameters are wrong; says what was found, what was expected and, as
            ``errors.nearest`` does, which was meant.
        """
        check_parameters(parameters, {})
        return cls()

    def parts(self) -> Mapping[str, Encoding]:
        """Returns the encodings by the suffix of their feature's name.

        It is ``{"": self}`` if the encoding makes one feature.
        """
        return {"": self}

    @abc.abstractmethod
    def output(self, *features: Feature) -> Feature:
        """Returns the output feature, as far as it is known before fitting.

        Raises:
          ValueError: it cannot take them; says which type it takes.
        """

    @abc.abstractmethod
    def fit(self, analysis: Analysis | None) -> Fitted:
        """Returns the fitted encoding.

        Args:
          analysis: of the splits to fit on, by ``analyzer``: an instance of that class, or the
            table of a ``KeyedSums``; ``None`` without an analyzer.

        Raises:
          ValueError: it cannot be fitted (no values, say); says what to do.
        """


class Fitted(abc.ABC):
    """A fitted encoding.

    A frozen dataclass of numbers, texts, bools, tuples of these and Arrow arrays (``store.py``).

    Attributes:
      fills, takes_ids: see ``Encoding``.
    """

    fills: bool = False
    takes_ids: bool = False

    @abc.abstractmethod
    def output(self, *features: Feature) -> Feature:
        """Returns the output feature, complete with ``required``, ``length`` and ``size``.

        Raises:
          ValueError: it cannot take them; says what to do (``fill`` nulls first, say).
        """

    @abc.abstractmethod
    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Encodes arrays of n rows as an array of n rows.

        The result has the type of ``output``.

        Raises:
          pa.ArrowInvalid: a value has no encoding; says why, without the value.
        """

    @abc.abstractmethod
    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Builds the encoding in a graph.

        Import TensorFlow inside the method.

        Args:
          features: ragged tensors [batch, None] of int64, float32, float64 or string; a vector has
            rows of equal length.
        """


class Fixed(Encoding, Fitted):
    """An encoding without an analyzer: declared and fitted in one."""

    def given(self, *features: Feature) -> Fixed:
        """Returns the encoding with facts of its input features.

        It is called after planning and after each pass. An encoding whose faces need more than
        values (``unit`` or ``size`` of a feature, say) keeps it in attributes.
        """
        return self

    def check_known(self) -> None:
        """Checks that the encoding has all facts that it needs.

        Raises:
          ValueError: something is missing; says what, and how the recipe gives it.
        """

    def fit(self, analysis: Analysis | None) -> Fitted:
        """Returns itself."""
        return self
