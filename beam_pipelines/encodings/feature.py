"""Describes the inputs and outputs of encodings, without values."""

from __future__ import annotations

import dataclasses

import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature before or after an encoding.

    Attributes:
      type: int64, float32, float64, string or binary, or a list of one of these. A float64 is
        rounded to float32 where it is written.
      required: no value is null; False until the first pass is complete.
      length: of a list, the number of values in every row; ``None`` if it varies or is unknown.
      size: exclusive upper bound of int64 values that count from 0; ``None`` of other values or if
        unknown.
      lowest: lowest of values with a ``size``: 0, or -1 if that stands for an unseen value.
      unit: ``days`` or ``microseconds`` since 1970-01-01 (UTC) of int64 values that are dates or
        timestamps; else ``""``.
    """

    type: pa.DataType
    required: bool = False
    length: int | None = None
    size: int | None = None
    lowest: int = 0
    unit: str = ""

    @classmethod
    def of(cls, column_type: pa.DataType, required: bool = False) -> Feature:
        """Returns the feature of a column before any encoding (``apply.to_input``)."""
        return cls(feature_type(column_type), required, unit=_unit(column_type))

    @property
    def is_list(self) -> bool:
        """Whether a row holds any number of values."""
        return bool(pa.types.is_list(self.type))

    @property
    def value_type(self) -> pa.DataType:
        """Type of one value: int64, float32, float64, string or binary."""
        return self.type.value_type if self.is_list else self.type

    @property
    def is_number(self) -> bool:
        """Whether values are int64 or float."""
        return not self.is_text

    @property
    def is_text(self) -> bool:
        """Whether values are string or binary."""
        return bool(pa.types.is_string(self.value_type) or pa.types.is_binary(self.value_type))

    @property
    def written(self) -> Feature:
        """The feature as examples have it: float64 values are float32 there."""
        is_wide = pa.types.is_float64(self.value_type)
        return self.with_values(pa.float32()) if is_wide else self

    def with_values(
        self, value_type: pa.DataType, size: int | None = None, lowest: int = 0
    ) -> Feature:
        """Returns the feature with values of another type.

        List lengths and nulls stay.
        """
        type_ = pa.list_(value_type) if self.is_list else value_type
        return dataclasses.replace(self, type=type_, size=size, lowest=lowest, unit="")


def _unit(column_type: pa.DataType) -> str:
    """Returns the unit of dates and times as int64 (``core/arrow/columns.py``)."""
    if pa.types.is_timestamp(column_type):
        return "microseconds"
    return "days" if pa.types.is_date(column_type) else ""


def feature_type(column_type: pa.DataType) -> pa.DataType:
    """Returns the type of a column before any encoding (``apply.to_input``)."""
    types = pa.types
    if types.is_list(column_type):
        return pa.list_(feature_type(column_type.value_type))
    counts = types.is_boolean, types.is_date32, types.is_time64, types.is_timestamp
    return pa.int64() if any(is_such(column_type) for is_such in counts) else column_type
