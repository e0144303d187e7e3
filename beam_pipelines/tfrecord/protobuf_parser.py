"""Parses tf.SequenceExamples with protobuf's own parser.

It reads what the C++ kernel declines, and everything where the kernels are not built. It also finds
the features of records without a schema. A tf.Example is a tf.SequenceExample without feature
lists.

Format: tensorflow/core/example/{example,feature}.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_TYPE_FOR_KIND = {
    "bytes_list": pa.large_binary(),
    "float_list": pa.float32(),
    "int64_list": pa.int64(),
}
_KIND_FOR_TYPE = {type_: kind for kind, type_ in _TYPE_FOR_KIND.items()}


class Layout(NamedTuple):
    """Features of records: name -> type of values, int64, float32 or large_binary.

    If it is closed, a record with any other feature or feature list is an error.
    """

    context: Mapping[str, pa.DataType]
    lists: Mapping[str, pa.DataType]
    is_closed: bool = False


class Kinds(NamedTuple):
    """Features of some records: name -> type, ``None`` if none has values."""

    context: Mapping[str, pa.DataType | None]
    lists: Mapping[str, pa.DataType | None]


class WireError(ValueError):
    """A record that cannot be decoded.

    Attributes:
      record: its number among those given.
      feature: the feature with other values than expected; empty if the record is damaged.
      found: what was found and expected.
    """

    def __init__(self, record: int, feature: str, found: str) -> None:
        about = f" feature '{feature}'," if feature else ""
        super().__init__(f"in row {record},{about} {found}")
        self.record = record
        self.feature = feature
        self.found = found


def parse_sequences(
    records: Iterable[bytes], layout: Layout
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Parses serialized records; see ``sources.tfrecord.decoder.decode_lists``."""
    messages = list(_parsed(records))
    if layout.is_closed:
        _check_names(messages, layout)
    context: list[pa.Array] = []
    for name, type_ in layout.context.items():
        features = [message.context.entries.get(name) for message in messages]
        context.append(
            _lists([_values(row, name, type_, f) for row, f in enumerate(features)], type_)
        )
    lists: list[pa.Array] = []
    for name, type_ in layout.lists.items():
        found = [message.feature_lists.entries.get(name) for message in messages]
        steps = [
            None if steps is None else [_values(row, name, type_, f) for f in steps.feature]
            for row, steps in enumerate(found)
        ]
        lists.append(_lists(steps, pa.large_list(type_)))
    return context, lists


def _check_names(messages: Sequence[Any], layout: Layout) -> None:
    """Raises ``WireError`` for a feature that the layout lacks."""
    for number, message in enumerate(messages):
        for word, found, known in (
            ("feature", message.context.entries, layout.context),
            ("feature list", message.feature_lists.entries, layout.lists),
        ):
            for name in found:
                if name not in known:
                    raise WireError(number, name, f"found a {word} that is not expected")


def find_layout(records: Iterable[bytes]) -> Layout:
    """Returns the features of records in the order of their names.

    A feature has the first kind that it has in a record, bytes if it has none.

    Raises:
      WireError: a record is damaged.
    """
    context, lists = (
        {name: of[name] or pa.large_binary() for name in sorted(of)} for of in find_kinds(records)
    )
    return Layout(context, lists)


def find_kinds(records: Iterable[bytes]) -> Kinds:
    """Returns the features of records, each with its first kind.

    Raises:
      WireError: a record is damaged.
    """
    kinds: tuple[dict[str, str | None], dict[str, str | None]] = {}, {}
    for message in _parsed(records):
        for name, feature in message.context.entries.items():
            kinds[0][name] = kinds[0].get(name) or feature.WhichOneof("kind")
        for name, steps in message.feature_lists.entries.items():
            found = (step.WhichOneof("kind") for step in steps.feature)
            kinds[1][name] = kinds[1].get(name) or next(filter(None, found), None)
    return Kinds(*({name: _TYPE_FOR_KIND.get(of[name] or "") for name in of} for of in kinds))


def _parsed(records: Iterable[bytes]) -> Iterator[Any]:
    parse = _message_type().FromString
    for number, record in enumerate(records):
        try:
            message = parse(record)
        except DecodeError as error:
            found = (
                "found bytes that are no tf.Example or tf.SequenceExample, expected one. It is "
                "damaged, or something else"
            )
            raise WireError(number, "", found) from error
        yield message


def _values(row: int, name: str, type_: pa.DataType, feature: Any) -> Sequence[Any] | None:
    """Returns the values of a Feature, or ``None``.

    A Feature that is missing or has no kind has no values.
    """
    kind = None if feature is None else feature.WhichOneof("kind")
    if kind is None:
        return None
    if kind != _KIND_FOR_TYPE[type_]:
        shown = (of.removesuffix("_list") for of in (kind, _KIND_FOR_TYPE[type_]))
        raise WireError(row, name, "found {} values, expected {}".format(*shown))
    values: Sequence[Any] = getattr(feature, kind).value
    return values


def _lists(rows: list[Any], type_: pa.DataType) -> pa.LargeListArray:
    return pa.array(rows, pa.large_list(type_))


@functools.cache
def _message_type() -> Any:
    """Returns a message class with the fields of tf.SequenceExample.

    Workers do not load TensorFlow, which has the real one; hence a package of our own.
    """
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="beam_pipelines/sequence.proto", package="beam_pipelines", syntax="proto3"
    )

    def add(parent: Any, name: str, *fields: tuple[str, int | str, int]) -> Any:
        """Adds a message with fields: name, type or message, label."""
        made = parent.add(name=name)
        for number, (field, type_, label) in enumerate(fields, 1):
            added = made.field.add(name=field, number=number, label=label)
            if isinstance(type_, int):
                added.type = type_
            else:
                added.type, added.type_name = kind.TYPE_MESSAGE, f".beam_pipelines.{type_}"
        return made

    one, many = kind.LABEL_OPTIONAL, kind.LABEL_REPEATED
    add(file.message_type, "BytesList", ("value", kind.TYPE_BYTES, many))
    add(file.message_type, "FloatList", ("value", kind.TYPE_FLOAT, many))
    add(file.message_type, "Int64List", ("value", kind.TYPE_INT64, many))
    lists = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
    feature = add(file.message_type, "Feature", *((name, type_, one) for name, type_ in lists))
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    add(file.message_type, "FeatureList", ("feature", "Feature", many))
    for name, value in (("Features", "Feature"), ("FeatureLists", "FeatureList")):
        entries = add(file.message_type, name, ("entries", f"{name}.EntriesEntry", many))
        fields = ("key", kind.TYPE_STRING, one), ("value", value, one)
        add(entries.nested_type, "EntriesEntry", *fields).options.map_entry = True
    fields = ("context", "Features", one), ("feature_lists", "FeatureLists", one)
    add(file.message_type, "SequenceExample", *fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("beam_pipelines.SequenceExample")
    )
    return found
