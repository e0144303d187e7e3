"""``date_parts``: year, month, weekday, hour, … of dates and timestamps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import nearest
from beam_pipelines.encodings.array_values import map_exact, only_value
from beam_pipelines.encodings.encoding import Encoding, Fixed
from beam_pipelines.encodings.feature import Feature

if TYPE_CHECKING:
    import tensorflow as tf


_DAY = 86_400_000_000  # microseconds

# Integers are int64 arrays of numpy, or tensors. Division rounds down in both, also before 1970.
_Formula = Callable[[Any], Any]


def _year_and_day(days: Any) -> tuple[Any, Any]:
    """Returns the year that begins in March, and its day from 0.

    Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
    """
    days = days + 719_468  # since 0000-03-01
    era = days // 146_097  # of 400 years
    day = days - era * 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    return year + era * 400, day - (365 * year + year // 4 - year // 100)


def _year(days: Any) -> Any:
    year, day = _year_and_day(days)
    return year + day // 306


def _month(days: Any) -> Any:
    month = (5 * _year_and_day(days)[1] + 2) // 153  # 0 is March
    return month + 3 - 12 * (month // 10)


def _day(days: Any) -> Any:
    day = _year_and_day(days)[1]
    month = (5 * day + 2) // 153
    return day - (153 * month + 2) // 5 + 1


def _day_of_year(days: Any) -> Any:
    last = _year(days) - 1
    return days - (365 * last + last // 4 - last // 100 + last // 400 - 719_162) + 1


def _weekday(days: Any) -> Any:
    shifted = days + 3  # 1970-01-01 was a Thursday
    return shifted - shifted // 7 * 7


def _week(days: Any) -> Any:
    return (
        _day_of_year(days - _weekday(days) + 3) - 1
    ) // 7 + 1  # the week belongs to the year of its Thursday


# Part -> function of days, and exclusive upper bound (``None``: none).
_OF_DAYS: dict[str, tuple[_Formula, int | None]] = {
    "year": (_year, None),
    "quarter": (lambda days: (_month(days) + 2) // 3, 5),
    "month": (_month, 13),
    "week": (_week, 54),
    "day_of_year": (_day_of_year, 367),
    "day": (_day, 32),
    "weekday": (_weekday, 7),
}
# Part -> the same, of the microseconds of a day.
_OF_TIME: dict[str, tuple[_Formula, int | None]] = {
    "hour": (lambda time: time // 3_600_000_000, 24),
    "minute": (lambda time: time // 60_000_000 - time // 3_600_000_000 * 60, 60),
    "second": (lambda time: time // 1_000_000 - time // 60_000_000 * 60, 60),
}
PARTS = (*_OF_DAYS, *_OF_TIME)
_EXPECTED = f"one or several of {', '.join(PARTS)}, as in {{date_parts: [month, weekday]}}"


@dataclasses.dataclass(frozen=True)
class DateParts(Fixed):
    """Extracts parts of dates and timestamps (UTC); null stays null.

    The calendar is the proleptic Gregorian. ``month``, ``day`` and ``day_of_year`` count from 1;
    ``weekday`` from 0, Monday; ``week`` is that of ISO 8601.

    Attributes:
      names: of the parts. One part keeps the feature's name, several become ``<feature>_<part>``.
      unit: of the feature, see ``Feature.unit``; empty while unknown.
    """

    names: tuple[str, ...]
    unit: str = ""

    elementwise = True

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> DateParts:
        """Takes a part or a list of them: ``{date_parts: weekday}``."""
        value = only_value(parameters, _EXPECTED)
        names = [value] if isinstance(value, str) else value
        if (
            not isinstance(names, list | tuple)
            or not names
            or len(set(map(str, names))) < len(names)
        ):
            raise ValueError(f"found {value!r}, expected {_EXPECTED}.")
        for name in names:
            if name not in PARTS:
                raise ValueError(
                    f"found {name!r}, expected {_EXPECTED}.{nearest(str(name), PARTS)}"
                )
        return cls(tuple(names))

    def parts(self) -> Mapping[str, Encoding]:
        """Makes one feature per part."""
        if len(self.names) == 1:
            return {"": self}
        return {f"_{name}": dataclasses.replace(self, names=(name,)) for name in self.names}

    def given(self, *features: Feature) -> Fixed:
        """Takes the unit of the feature."""
        return dataclasses.replace(self, unit=features[0].unit)

    def output(self, *features: Feature) -> Feature:
        """Becomes int64."""
        feature = features[0]
        if not feature.unit:
            raise ValueError(
                f"found {type_name(feature.type)}, expected a date or timestamp column. Make one "
                "with 'types' or 'derive'."
            )
        (name,) = self.names[:1]
        if name in _OF_TIME and feature.unit == "days":
            raise ValueError(f"found dates, which have no {name}; expected timestamps.")
        return feature.with_values(pa.int64(), (_OF_DAYS | _OF_TIME)[name][1])

    def apply(self, *arrays: pa.Array) -> pa.Array:
        """Computes the part of int64 values, or of the items of lists."""
        return map_exact(arrays[0], self._formula)

    def to_tensorflow(self, *features: tf.RaggedTensor) -> tf.RaggedTensor:
        """Computes the part of the flat values."""
        (x,) = features
        return x.with_flat_values(self._formula(x.flat_values))

    def _formula(self, x: Any) -> Any:
        (name,) = self.names
        if name in _OF_TIME:
            return _OF_TIME[name][0](x - x // _DAY * _DAY)
        return _OF_DAYS[name][0](x // _DAY if self.unit == "microseconds" else x)
