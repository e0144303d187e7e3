"""What is known of a feature without its values: what an encoding takes, and what it gives."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

# What int64 values of dates and times count (columns.py).
_UNITS = {"date32[day]": "days", "timestamp[us]": "microseconds"}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature between two encodings, and after the last one.

    Attributes:
      type: int64, float (32 bits), string or binary, or a list of one of these.
      required: no value is null. Not known before the first read, and false until then.
      length: of a list, the number of values that every row has; ``None`` if it varies or is not
        known yet.
      size: of int64 values that count from 0, how many there can be: they are below it; ``None`` of
        other values, or if it is not known yet.
      lowest: the least of values with a ``size``: 0, or -1 where that stands for a value that was
        not seen.
      unit: ``days`` or ``microseconds`` since 1970-01-01 (UTC) where int64 values are a date or a
        timestamp; else empty.
    """

    type: pa.DataType
    required: bool = False
    length: int | None = None
    size: int | None = None
    lowest: int = 0
    unit: str = ""

    @classmethod
    def of(cls, column_type: pa.DataType, required: bool = False) -> Feature:
        """Returns the feature that a column is before any encoding (``encode.to_feature``)."""
        return cls(feature_type(column_type), required, unit=_UNITS.get(str(column_type), ""))

    @property
    def is_list(self) -> bool:
        """Whether a row holds any number of values."""
        return bool(pa.types.is_list(self.type))

    @property
    def value_type(self) -> pa.DataType:
        """Type of one value: int64, float, string or binary."""
        return self.type.value_type if self.is_list else self.type

    @property
    def is_number(self) -> bool:
        """Whether values are int64 or float."""
        return not self.is_text

    @property
    def is_text(self) -> bool:
        """Whether values are string or binary."""
        return bool(pa.types.is_string(self.value_type) or pa.types.is_binary(self.value_type))

    def with_values(
        self, value_type: pa.DataType, size: int | None = None, lowest: int = 0
    ) -> Feature:
        """Returns the feature with other values in the same places: lists stay lists of the same
        length, nulls stay null.
        """
        type_ = pa.list_(value_type) if self.is_list else value_type
        return dataclasses.replace(self, type=type_, size=size, lowest=lowest, unit="")


def feature_type(column_type: pa.DataType) -> pa.DataType:
    """Returns the type in which a column is written, as the table in ``core/columns.py`` says."""
    types = pa.types
    if types.is_list(column_type):
        return pa.list_(feature_type(column_type.value_type))
    if (
        types.is_boolean(column_type)
        or types.is_date32(column_type)
        or types.is_time64(column_type)
    ):
        return pa.int64()
    if types.is_timestamp(column_type):
        return pa.int64()
    return pa.float32() if types.is_float64(column_type) else column_type
