"""Decodes serialized tf.SequenceExamples into columns, whole blocks at a time, every value as it
is.

tfx-bsl's decoder keeps 32 bits of the integers in feature lists, and TensorFlow's is not for
workers. This one walks the bytes with numpy (``tfrecord/wire_format.py``), as every writer that is
known lays them out: a field once, a map's key before its value, numbers packed. Records that are
laid out in another of the ways that protobuf allows are parsed and written again by protobuf first.

Format: tensorflow/core/example/{example,feature}.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from beam_pipelines.tfrecord.wire_format import (
    Bytes,
    Fields,
    Flags,
    Places,
    fields_of,
    gather,
    lengths_at,
    packed_integers,
    padded,
)

_FIELD_1, _FIELD_2 = 0x0A, 0x12
# Arrow type of values -> tag of the list of a Feature that holds them.
TAG_FOR_TYPE = {pa.large_binary(): 0x0A, pa.float32(): 0x12, pa.int64(): 0x1A}
_NAME_FOR_TAG = {0x0A: "bytes", 0x12: "float", 0x1A: "int64"}


class Layout(NamedTuple):
    """What records have in them: name -> Arrow type of values (``TAG_FOR_TYPE``)."""

    context: Mapping[str, pa.DataType]
    lists: Mapping[str, pa.DataType]


class WireError(ValueError):
    """A record that cannot be decoded: its number among those given, and the feature, which is
    empty if it is all of it.
    """

    def __init__(self, record: int, feature: str, found: str) -> None:
        about = f" feature '{feature}'," if feature else ""
        super().__init__(f"in row {record},{about} {found}")
        self.record = record
        self.feature = feature
        self.found = found


class _UnusualError(Exception):
    """Records are laid out unlike most."""


def decode_sequences(
    records: Sequence[bytes], layout: Layout
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Decodes serialized tf.SequenceExamples.

    Args:
      records: serialized.
      layout: the features to decode; others are skipped.

    Returns:
      For each feature of the context a large_list, null where the feature is missing or without a
      kind; and for each feature list a
      large_list of large_lists: of its steps, null where it is missing, of which each is null that
        has no kind.

    Raises:
      WireError: a record is damaged, or a feature holds values of another kind.
    """
    try:
        return _decode(records, layout)
    except _UnusualError:
        return _decode(_written_again(records), layout)


def find_layout(records: Sequence[bytes]) -> Layout:
    """Returns the features that records have, in the order of their names; of the first kind that
    they have, bytes if they have none.

    Raises:
      WireError: a record is damaged.
    """
    try:
        found = _Records(records)
    except _UnusualError:
        found = _Records(_written_again(records))
    type_for_tag = {tag: type_ for type_, tag in TAG_FOR_TYPE.items()}
    data = found.data

    def kinds(entries: _Entries, is_list: bool) -> dict[str, pa.DataType]:
        types = {}
        for name in sorted(set(entries.names.unique().to_pylist())):
            _, starts, ends = entries.named(name)
            if is_list:
                steps = fields_of(data, starts, ends)
                starts, ends = steps.start, steps.end
            tags = data[starts[starts < ends]]
            types[name] = type_for_tag.get(int(tags[0]) if len(tags) else 0, pa.large_binary())
        return types

    return Layout(kinds(found.context, False), kinds(found.lists, True))


def _decode(records: Sequence[bytes], layout: Layout) -> tuple[list[pa.Array], list[pa.Array]]:
    found = _Records(records)
    return (
        [found.feature(name, type_) for name, type_ in layout.context.items()],
        [found.feature_list(name, type_) for name, type_ in layout.lists.items()],
    )


class _Entries:
    """The entries of a map in all records: whose they are, their keys, and where their values
    lie.
    """

    def __init__(self, data: Bytes, record: Places, starts: Places, ends: Places) -> None:
        entries = fields_of(data, starts, ends)
        _check(not entries.wrong.any() and (entries.tag == _FIELD_1).all())
        key_start, key_length = lengths_at(data, entries.start + 1)
        key_end = key_start + key_length
        # Of an entry that is cut short, what lies behind it is read here, and then found to be
        # wrong.
        place = np.minimum(key_end, len(data) - 8)
        value_start, value_length = lengths_at(data, place + 1)
        is_usual = (data[np.minimum(entries.start, len(data) - 1)] == _FIELD_1) & (
            data[place] == _FIELD_2
        )
        _check(
            (is_usual & (value_start + value_length == entries.end) & (key_end < entries.end)).all()
        )
        self.record, self._start, self._end = record[entries.message], value_start, entries.end
        keys, offsets = gather(data, key_start, key_end)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(keys)]
        self.names = pa.Array.from_buffers(pa.large_binary(), len(key_start), buffers)
        try:
            self.names = self.names.cast(pa.large_string())
        except pa.ArrowInvalid:  # which protobuf refuses, and says of which record
            _check(False)

    def named(self, name: str) -> tuple[Places, Places, Places]:
        """Returns the records that have a key, and where its values begin and end."""
        chosen = np.flatnonzero(
            pc.equal(self.names, pa.scalar(name, pa.large_string())).to_numpy(zero_copy_only=False)
        )
        record = self.record[chosen]
        _check(not (record[1:] == record[:-1]).any())  # a key twice
        return record, self._start[chosen], self._end[chosen]


class _Records:
    """Records of which is known where each feature lies."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self.count = len(records)
        self.data, starts, ends = padded(records)
        top = fields_of(self.data, starts, ends)
        is_context, is_lists = top.tag == _FIELD_1, top.tag == _FIELD_2
        _check(not top.wrong.any() and (is_context | is_lists).all())
        self.context, self.lists = (self._entries(top, chosen) for chosen in (is_context, is_lists))

    def _entries(self, top: Fields, chosen: Flags) -> _Entries:
        record = top.message[chosen]
        _check(not (record[1:] == record[:-1]).any())
        return _Entries(self.data, record, top.start[chosen], top.end[chosen])

    def feature(self, name: str, type_: pa.DataType) -> pa.Array:
        """Returns a feature of the context: a large_list of its values for each record."""
        record, starts, ends = self.context.named(name)
        present, counts, values = self._values(name, type_, record, starts, ends)
        return _lists(self.count, record, present, counts, values)

    def feature_list(self, name: str, type_: pa.DataType) -> pa.Array:
        """Returns a feature list: a large_list of its steps for each record, large_lists
        themselves.
        """
        record, starts, ends = self.lists.named(name)
        steps = fields_of(self.data, starts, ends)
        _check(not steps.wrong.any() and (steps.tag == _FIELD_1).all())
        present, counts, values = self._values(
            name, type_, record[steps.message], steps.start, steps.end
        )
        inner = _lists(len(present), np.arange(len(present)), present, counts, values)
        return _lists(
            self.count,
            record,
            np.ones(len(record), bool),
            np.bincount(steps.message, minlength=len(record)),
            inner,
        )

    def _values(
        self, name: str, type_: pa.DataType, record: Places, starts: Places, ends: Places
    ) -> tuple[Flags, Places, pa.Array]:
        """Returns of Features whether they have a kind, how many values each has, and all
        values.
        """
        data = self.data
        present = starts < ends
        tag = np.where(present, data[np.minimum(starts, len(data) - 1)], TAG_FOR_TYPE[type_])
        start, length = lengths_at(data, np.minimum(starts, len(data) - 1) + 1)
        _check((~present | ((start + length == ends) & np.isin(tag, list(_NAME_FOR_TAG)))).all())
        other = np.flatnonzero(tag != TAG_FOR_TYPE[type_])
        if len(other):
            found = (
                f"found {_NAME_FOR_TAG[int(tag[other[0]])]} values, expected "
                f"{_NAME_FOR_TAG[TAG_FOR_TYPE[type_]]}"
            )
            raise WireError(int(record[other[0]]), name, found)
        start = np.where(present, start, ends)
        if type_ == pa.large_binary():
            return present, *_bytes_values(data, start, ends)
        start = _packed(data, start, ends)
        content, offsets = gather(data, start, ends)
        if type_ == pa.float32():
            _check((np.diff(offsets) % 4 == 0).all())
            return present, np.diff(offsets) // 4, pa.array(content.view("<f4"))
        numbers, counts, wrong = packed_integers(content, offsets)
        _check(not wrong.any())
        return present, counts, pa.array(numbers)


def _bytes_values(data: Bytes, starts: Places, ends: Places) -> tuple[Places, pa.Array]:
    fields = fields_of(data, starts, ends)
    _check(not fields.wrong.any() and (fields.tag == _FIELD_1).all())
    content, offsets = gather(data, fields.start, fields.end)
    values = pa.Array.from_buffers(
        pa.large_binary(), len(fields.start), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )
    return np.bincount(fields.message, minlength=len(starts)), values


def _packed(data: Bytes, starts: Places, ends: Places) -> Places:
    """Returns where the packed numbers of lists begin; a list without any has nothing in it, or a
    length of 0.
    """
    filled = starts < ends
    start, length = lengths_at(data, np.minimum(starts, len(data) - 1) + 1)
    _check(
        (
            ~filled
            | ((data[np.minimum(starts, len(data) - 1)] == _FIELD_1) & (start + length == ends))
        ).all()
    )
    return np.where(filled, start, ends)


def _lists(
    count: int, places: Places, present: Flags, counts: Places, values: pa.Array
) -> pa.Array:
    """Returns ``count`` lists of values: those at ``places``, in order, that are ``present``; the
    others are null.
    """
    lengths, valid = np.zeros(count, np.int64), np.zeros(count, bool)
    lengths[places], valid[places] = counts, present
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    mask = None if valid.all() else pa.array(~valid)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _check(is_usual: bool | np.bool_) -> None:
    if not is_usual:
        raise _UnusualError


def _written_again(records: Sequence[bytes]) -> list[bytes]:
    """Returns records as protobuf itself writes them, each field once, maps without a key twice,
    numbers packed.

    Raises:
      WireError: one that protobuf cannot parse either.
    """
    written = []
    for number, record in enumerate(records):
        message = _message_type()()
        try:
            message.ParseFromString(record)
        except DecodeError as error:
            found = (
                "found bytes that are no tf.SequenceExample, expected one. The record is "
                "damaged, or something else"
            )
            raise WireError(number, "", found) from error
        message.DiscardUnknownFields()
        written.append(message.SerializeToString(deterministic=True))
    return written


@functools.cache
def _message_type() -> type[Message]:
    """Returns protobuf's class of tf.SequenceExample, under a name of ours: TensorFlow, which has
    it too, is not for workers.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="beam_pipelines/sequence.proto", package="beam_pipelines", syntax="proto3"
    )
    kind = descriptor_pb2.FieldDescriptorProto
    repeated = kind.LABEL_REPEATED
    for name, type_ in (
        ("BytesList", kind.TYPE_BYTES),
        ("FloatList", kind.TYPE_FLOAT),
        ("Int64List", kind.TYPE_INT64),
    ):
        file.message_type.add(name=name).field.add(
            name="value", number=1, type=type_, label=repeated
        )
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        feature.field.add(
            name=name.lower(), number=number, label=kind.LABEL_OPTIONAL, oneof_index=0, **_of(name)
        )
    file.message_type.add(name="FeatureList").field.add(
        name="feature", number=1, label=repeated, **_of("Feature")
    )
    for name, value in (("Features", "Feature"), ("FeatureLists", "FeatureList")):
        message = file.message_type.add(name=name)
        message.field.add(name="entries", number=1, label=repeated, **_of(f"{name}.EntriesEntry"))
        entry = message.nested_type.add(name="EntriesEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, label=kind.LABEL_OPTIONAL, **_of(value))
    record = file.message_type.add(name="SequenceExample")
    for number, (name, value) in enumerate(
        (("context", "Features"), ("feature_lists", "FeatureLists")), 1
    ):
        record.field.add(name=name, number=number, label=kind.LABEL_OPTIONAL, **_of(value))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("beam_pipelines.SequenceExample")
    )
    return found


def _of(message: str) -> dict[str, object]:
    return {
        "type": descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        "type_name": f".beam_pipelines.{message}",
    }
