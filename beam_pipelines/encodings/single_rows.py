"""Applies a plan's encodings to single rows, as functions of Python values.

``apply.encode_batch`` encodes arrays, by an Arrow call or more for every step. For one row that is
milliseconds. Here each chain is one function, made once: of the encodings' ``row_function``, which
share the formulas and the fitted values with ``apply``, or of ``apply`` itself, on arrays of one
value, where an encoding has none. What these functions refuse, the caller gives to
``encode_batch``, whose messages have the value and the place.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.encodings.apply import conversions, to_input
from beam_pipelines.encodings.encoding import Encoding, RowFunction
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.plan import Chain, EncodePlan, Step
from beam_pipelines.encodings.values import LARGEST, narrow, narrowed_value

_DAY_0 = datetime.date(1970, 1, 1).toordinal()
_TIME_0 = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - of timestamps without a zone
_UTC_0 = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MOST = 1 << 63

# Column -> value, of one row -> feature -> value.
EncodeRow = Callable[[Mapping[str, Any]], dict[str, Any]]


class UnusualValueError(ValueError):
    """A value that only ``encode_batch`` takes, or refuses with a good message."""


def row_encoder(plan: EncodePlan, columns: Mapping[str, Feature]) -> EncodeRow:
    """Returns a function that encodes one row.

    Args:
      plan: of the encodings, all fitted.
      columns: the features of the columns before encoding; in one that is ``required``, null is
        refused.

    Returns:
      The function. It takes the values of the columns: bool, int, float, str, bytes,
      ``datetime.date``, ``time`` and ``datetime``, lists, ``None``. It gives the features of
      ``plan.written``: int, float, str, bytes, ``None`` for null, numpy arrays or lists. It raises
      any exception for a value that has no feature, and for some that have one.
    """
    texts, reads = [], []
    for name, convert in conversions(plan).items():
        type_, feature = plan.columns.field(name).type, columns[name]
        if type_ in _TEXTS and not feature.required:
            texts.append((name, _TEXTS[type_]))
        else:
            reads.append((name, _reader(type_, feature, convert)))
    known = plan.known() | dict(columns)
    chains = []
    for chain in plan.chains:
        features = tuple(known[name] for name in chain.inputs)
        function, known[chain.name] = _chain_function(chain, features)
        chains.append((chain.name, chain.inputs, function))
    wide = [name for name in plan.written if pa.types.is_float64(known[name].value_type)]

    def encode(row: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: read(row[name]) for name, read in reads}
        for name, expected in texts:  # without a call: tables of clicks have dozens of them
            values[name] = value = row[name]
            if type(value) is not expected and value is not None:
                raise UnusualValueError
        for name, inputs, function in chains:
            if len(inputs) == 1:
                values[name] = function(values[inputs[0]])
            else:
                values[name] = function(*[values[column] for column in inputs])
        for name in wide:
            values[name] = narrowed_value(values[name])
        return values

    return encode


def _reader(
    type_: pa.DataType, feature: Feature, convert: Callable[[pa.Array], pa.Array]
) -> Callable[[Any], Any]:
    """Returns the function that makes a column's value a feature's value."""
    if type_ in _READERS and (convert is to_input or not pa.types.is_floating(type_)):
        read: Callable[[Any], Any] = _READERS[type_]
    else:
        read = _arrow_reader(type_, feature.length if feature.required else None, convert)

    def read_any(value: Any) -> Any:
        if value is not None:
            return read(value)
        if feature.required:
            raise UnusualValueError
        return None

    return read_any


def _number(value: Any) -> float:
    number = narrow(value) if isinstance(value, float) else math.nan
    if number - number != 0 and (not isinstance(value, float) or math.isfinite(value)):
        raise UnusualValueError
    return number


def _wide_number(value: Any) -> float:
    if not isinstance(value, float) or (abs(value) > LARGEST and math.isfinite(value)):
        raise UnusualValueError
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -_MOST <= value < _MOST:
        raise UnusualValueError
    return value


def _bool(value: Any) -> int:
    if value is not True and value is not False:
        raise UnusualValueError
    return int(value)


def _of_type(expected: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not expected:
            raise UnusualValueError
        return value

    return read


def _date(value: Any) -> int:
    if type(value) is not datetime.date:
        raise UnusualValueError
    return value.toordinal() - _DAY_0


def _time(value: Any) -> int:
    if type(value) is not datetime.time or value.tzinfo is not None:
        raise UnusualValueError
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _timestamp(value: Any) -> int:
    if type(value) is not datetime.datetime or value.tzinfo is not None:
        raise UnusualValueError
    return (value - _TIME_0) // _MICROSECOND


def _zoned_timestamp(value: Any) -> int:
    if type(value) is not datetime.datetime or value.utcoffset() is None:
        raise UnusualValueError
    return (value - _UTC_0) // _MICROSECOND


_TEXTS = {pa.string(): str, pa.binary(): bytes}
_READERS: dict[pa.DataType, Callable[[Any], Any]] = {
    pa.int64(): _integer,
    pa.float32(): _number,
    pa.float64(): _wide_number,
    pa.bool_(): _bool,
    **{type_: _of_type(expected) for type_, expected in _TEXTS.items()},
    pa.date32(): _date,
    pa.time64("us"): _time,
    pa.timestamp("us"): _timestamp,
    pa.timestamp("us", "UTC"): _zoned_timestamp,
}


def _arrow_reader(
    type_: pa.DataType, length: int | None, convert: Callable[[pa.Array], pa.Array]
) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        found = _one_value(convert(pa.array([value], type_)))
        if length is not None and len(found) != length:
            raise UnusualValueError
        return found

    return read


def _chain_function(chain: Chain, features: tuple[Feature, ...]) -> tuple[RowFunction, Feature]:
    """Returns a chain's function of values, and the feature it makes."""
    inputs, functions = features, []
    for step in chain.steps:
        functions.append(_step_function(step, features))
        features = (step.fitted.output(*features),)
    own = [function for function in functions if function is not None]
    if len(own) < len(functions):
        return _arrow_chain(chain.steps, inputs), features[0]
    return _composed(own), features[0]


def _step_function(step: Step, features: tuple[Feature, ...]) -> RowFunction | None:
    encoding = step.fitted
    takes_lists = isinstance(encoding, Encoding) and encoding.inputs
    if any(feature.is_list for feature in features) and not takes_lists:
        return None
    return encoding.row_function(*features)


def _composed(functions: Sequence[RowFunction]) -> RowFunction:
    if not functions:
        return lambda value: value
    first, *others = functions
    if not others:
        return first
    if len(others) == 1:
        (second,) = others
        return lambda *values: second(first(*values))

    def composed(*values: Any) -> Any:
        value = first(*values)
        for function in others:
            value = function(value)
        return value

    return composed


def _arrow_chain(steps: Sequence[Step], inputs: tuple[Feature, ...]) -> RowFunction:
    types = [feature.type for feature in inputs]

    def encoded(*values: Any) -> Any:
        arrays = tuple(pa.array([value], type_) for value, type_ in zip(values, types, strict=True))
        for step in steps:
            arrays = (step.fitted.apply(*arrays),)
        return _one_value(arrays[0])

    return encoded


def _one_value(array: pa.Array) -> Any:
    """Returns the value of an array of one value."""
    if not pa.types.is_list(array.type) or array.null_count:
        return array[0].as_py()
    values = array.flatten()
    is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    return values.to_pylist() if is_text else np.asarray(values)
