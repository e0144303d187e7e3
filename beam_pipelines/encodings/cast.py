"""``cast``: the same value in another type, exactly, or an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.columns import column_type, parse_type, type_name
from beam_pipelines.errors import nearest


@dataclasses.dataclass(frozen=True)
class Cast:
    """Casts to another column type.

    To an integer type only whole numbers in its range go, to a smaller float the nearest value; text is parsed; any scalar
    becomes text as it is written in JSON. Date and time become integers as ``columns.py`` counts them.

    Attributes:
      to: the target, as ``columns.parse_type`` reads it.
    """

    to: str

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Cast:
        """Returns the cast that ``{cast: TYPE}`` or ``{cast: {value: TYPE}}`` describes."""
        unknown = sorted(set(parameters) - {"value"})
        if unknown or not isinstance(parameters.get("value"), str):
            hint = nearest(unknown[0], ["value"]) if unknown else ""
            raise ValueError(f"expected a type, as in {{cast: float32}}.{hint}")
        parse_type(parameters["value"])
        return cls(parameters["value"])

    def output_type(self, column_type_: pa.DataType) -> pa.DataType:
        """Returns the target's column type, if the cast is possible at all."""
        target = column_type(parse_type(self.to))
        try:
            self.apply(pa.array([], column_type_))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"{type_name(column_type_)} cannot be cast to {self.to}") from error
        return target

    def apply(self, array: pa.Array) -> pa.Array:
        """Casts one array; nulls stay null. Raises pa.ArrowInvalid where a value does not fit."""
        target = parse_type(self.to)
        is_temporal = pa.types.is_temporal(array.type)
        if is_temporal and (pa.types.is_integer(target) or pa.types.is_floating(target)):
            array = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array.cast(pa.int64())
        # Arrow calls integers above 2**24 in a float32 unsafe; the recipe asked for the nearest float.
        is_rounding = pa.types.is_floating(target) and (
            pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
        )
        cast = pc.cast(array, target, safe=not is_rounding)
        return pc.cast(cast, column_type(target))
