"""Statistics of a feature as an Arrow struct with the proto's fields."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor, descriptor_pb2
from google.protobuf.message import Message
from tensorflow_metadata.proto.v0 import statistics_pb2

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
