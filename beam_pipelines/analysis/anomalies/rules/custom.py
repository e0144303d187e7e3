"""Conditions in SQL on the statistics of features, as TFDV's custom validations.

Type and wording are TFDV's (custom_validation.cc). TFDV evaluates GoogleSQL on the proto; here
DuckDB evaluates the expression on the proto as a struct.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf import descriptor, descriptor_pb2
from google.protobuf.message import Message
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.view import Statistics
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.schema_features import name_of
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.expressions import Expression, evaluate, parse_expression

_Field = descriptor.FieldDescriptor
_TYPES = {
    _Field.CPPTYPE_INT32: pa.int32(),
    _Field.CPPTYPE_INT64: pa.int64(),
    _Field.CPPTYPE_UINT32: pa.uint32(),
    _Field.CPPTYPE_UINT64: pa.uint64(),
    _Field.CPPTYPE_DOUBLE: pa.float64(),
    _Field.CPPTYPE_FLOAT: pa.float32(),
    _Field.CPPTYPE_BOOL: pa.bool_(),
    _Field.CPPTYPE_ENUM: pa.string(),
}


def to_struct(feature: statistics_pb2.FeatureNameStatistics) -> pa.StructArray:
    """Returns a struct array with one value, of ``FEATURE_TYPE``.

    As in GoogleSQL, a scalar that is not set has its default value, and a message that is not set
    is null. An enum is its name.
    """
    return pa.array([_value(feature)], FEATURE_TYPE)


def _type(message: descriptor.Descriptor) -> pa.StructType:
    return pa.struct([(field.name, _field_type(field)) for field in message.fields])


def _field_type(field: descriptor.FieldDescriptor) -> pa.DataType:
    if field.message_type is not None:
        type_: pa.DataType = _type(field.message_type)
    elif field.type == _Field.TYPE_BYTES:
        type_ = pa.binary()
    else:
        type_ = _TYPES.get(field.cpp_type, pa.string())
    return pa.list_(type_) if _is_repeated(field) else type_


@functools.cache
def _repeated(message: descriptor.Descriptor) -> frozenset[str]:
    """Returns the names of a message's repeated fields."""
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    repeated = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    return frozenset(field.name for field in proto.field if field.label == repeated)


def _is_repeated(field: descriptor.FieldDescriptor) -> bool:
    return field.name in _repeated(field.containing_type)


def _value(message: Message) -> dict[str, Any]:
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Message, field: descriptor.FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_repeated(field):
        return [_scalar(item, field) for item in value]
    if field.message_type is not None and not message.HasField(field.name):
        return None
    return _scalar(value, field)


def _scalar(value: Any, field: descriptor.FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _value(value)
    return value if field.enum_type is None else field.enum_type.values_by_number[value].name


FEATURE_TYPE = _type(statistics_pb2.FeatureNameStatistics.DESCRIPTOR)


# TFDV's name of the rows that are not a slice; an empty name means it too.
_ALL_EXAMPLES = "All Examples"


class FeaturePlace(NamedTuple):
    """A feature in a dataset of statistics.

    ``dataset`` is the name of a slice, empty for all rows; ``path`` has the steps of the feature.
    """

    dataset: str
    path: tuple[str, ...]


class CustomValidation(NamedTuple):
    """A condition on a feature's statistics.

    Attributes:
      test: the feature.
      base: the feature of the baseline that it is compared with, or ``None``.
      expression: is true unless there is an anomaly. Its columns are ``feature``, or
        ``feature_test`` and ``feature_base``.
      severity: ``AnomalyInfo.Severity`` of the anomaly.
      description: of the anomaly.
      environments: the environments in which it is evaluated; empty: always.
    """

    test: FeaturePlace
    base: FeaturePlace | None
    expression: Expression
    severity: int
    description: str
    environments: tuple[str, ...] = ()


def parse_validation(sql: str, is_pair: bool) -> Expression:
    """Checks a condition, its fields and its type without statistics.

    Raises:
      ExpressionError: it is not an expression of one row, names an unknown field, or is not
        boolean.
    """
    names = ("feature_test", "feature_base") if is_pair else ("feature",)
    expression = parse_expression("validation", sql, names, are_structs=True)
    nothing = pa.RecordBatch.from_arrays([pa.array([], FEATURE_TYPE)] * len(names), list(names))
    found = evaluate(nothing, expression).type
    if not pa.types.is_boolean(found):
        raise ExpressionError(f"found a value of type {found}, expected true or false")
    return expression


def custom_reasons(
    validations: Sequence[CustomValidation],
    environment: str | None,
    split: str,
    statistics: Statistics,
    baseline: Mapping[str, Statistics] | None,
) -> Iterator[tuple[str, Reason]]:
    """Yields feature and reason of each condition that is false.

    Args:
      validations: the conditions.
      environment: of the run; ``None`` evaluates those without environments.
      split: name of the split.
      statistics: of the split.
      baseline: split -> statistics of an earlier dataset, or ``None``.

    Raises:
      DataError: statistics that a condition needs are missing, or it has no value on them.
    """
    chosen = [
        validation
        for validation in validations
        if not validation.environments or environment in validation.environments
    ]
    if not chosen:
        return
    tests = _features(statistics)
    bases = _features(None if baseline is None else baseline.get(split))
    for validation in chosen:
        test = _statistics_of(validation.test, tests, f"split '{split}'")
        if validation.base is None:
            inputs = {"feature": test}
        else:
            base = _statistics_of(validation.base, bases, f"split '{split}' of the baseline")
            inputs = {"feature_test": test, "feature_base": base}
        if not _holds(validation, inputs, split):
            yield name_of(validation.test.path), _reason(validation)


_Features = dict[str, dict[tuple[str, ...], statistics_pb2.FeatureNameStatistics]]


def _features(statistics: Statistics | None) -> _Features:
    """Returns dataset -> path -> statistics."""
    if statistics is None:
        return {}
    if isinstance(statistics, statistics_pb2.DatasetFeatureStatistics):
        datasets = [statistics]
    else:
        datasets = list(to_proto({"": statistics})[""].datasets)
    return {
        dataset.name: {
            tuple(feature.path.step) or (feature.name,): feature for feature in dataset.features
        }
        for dataset in datasets
    }


def _statistics_of(
    place: FeaturePlace, datasets: _Features, where: str
) -> statistics_pb2.FeatureNameStatistics:
    name = place.dataset
    if not name and name not in datasets:
        name = _ALL_EXAMPLES
    if name not in datasets:
        known = f"one of {', '.join(datasets)}" if datasets else "statistics"
        raise DataError(
            f"--validation_config: found no dataset '{name}' in the statistics of {where}, "
            f"expected {known}."
        )
    if place.path not in datasets[name]:
        feature = ".".join(place.path)
        hint = nearest(feature, [".".join(path) for path in datasets[name]])
        raise DataError(
            f"--validation_config: found no feature '{feature}' in the statistics of {where}, "
            f"dataset '{name}', expected one.{hint}"
        )
    return datasets[name][place.path]


def _holds(
    validation: CustomValidation,
    inputs: Mapping[str, statistics_pb2.FeatureNameStatistics],
    split: str,
) -> bool:
    batch = pa.RecordBatch.from_pydict(
        {name: to_struct(feature) for name, feature in inputs.items()}
    )
    where = (
        f"--validation_config: '{validation.expression.sql}' on feature "
        f"'{name_of(validation.test.path)}' of split '{split}'"
    )
    try:
        value = evaluate(batch, validation.expression)[0].as_py()
    except ExpressionError as error:
        raise DataError(f"{where}: {error}.") from error
    if value is None:
        raise DataError(
            f"{where}: found null, expected true or false. A message that the statistics do not "
            "have is null, with all of its fields: COALESCE(…, true) lets it pass."
        )
    return bool(value)


def _reason(validation: CustomValidation) -> Reason:
    sql, test, base = validation.expression.sql, validation.test, validation.base
    description = (
        f"Custom validation triggered anomaly. Query: {sql} "
        f"Test dataset: {test.dataset or 'default slice'}"
    )
    if base is not None:
        description += f" Base dataset: {base.dataset} Base path: {'.'.join(base.path)}"
    return Reason(
        Info.CUSTOM_VALIDATION,
        validation.description,
        description,
        sql,
        "false",
        severity=validation.severity,
    )
