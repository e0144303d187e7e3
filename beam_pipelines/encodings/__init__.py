"""Encodings: how a column becomes a feature. One file for each kind, found through one dictionary.

An encoding is a frozen value. One that learns something from the data gets it in the first read, and is whole before the
second read starts; ``cast`` learns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from beam_pipelines.encodings.cast import Cast


class Encoding(Protocol):
    """What every kind of encoding can do."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Encoding:
        """Returns the encoding that a recipe's parameters describe. Raises ValueError with what to do when they are wrong."""

    def output_type(self, column_type: pa.DataType) -> pa.DataType:
        """Returns the type that ``apply`` gives for a column type. Raises ValueError if it cannot take the type."""

    def apply(self, array: pa.Array) -> pa.Array:
        """Encodes one array. Nulls stay null. Raises pa.ArrowInvalid for a value that has no encoding."""


ENCODING_FOR_KIND: dict[str, type[Encoding]] = {"cast": Cast}
