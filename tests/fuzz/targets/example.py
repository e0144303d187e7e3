"""tf.Examples and tf.SequenceExamples: the values of protobuf's own parser, or an error.

Input: a byte of switches; then records, each behind its length in two bytes.
"""

from __future__ import annotations

import functools
import math
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.dataset import inspect
from beam_pipelines.sources import planner
from beam_pipelines.sources.tfrecord.decoder import decode_records, is_sequence_example
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.fuzz.targets.tfrecord import framed
from tests.support.made_source import made_source

_SCHEMA = """
feature { name: "i" type: INT } feature { name: "f" type: FLOAT } feature { name: "b" type: BYTES }
feature { name: "one" type: INT value_count { max: 1 } }
"""
_LISTS = """
feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
  feature { name: "si" type: INT } feature { name: "sf" type: FLOAT value_counts { value_count {} value_count { max: 1 } } }
  feature { name: "sb" type: BYTES } } }
"""
_KINDS = ("bytes_list", "float_list", "int64_list")
_NAMES = (b"i", b"f", b"b", b"one", b"si", b"sf", b"")
_KIND_OF = {b"i": 3, b"f": 2, b"b": 1, b"one": 3, b"si": 3, b"sf": 2, b"sb": 1}


@functools.cache
def message_types() -> tuple[Any, Any]:
    """Returns protobuf's classes of tf.Example and tf.SequenceExample.

    Source: tensorflow/core/example/{example,feature}.proto.
    """
    text = "name: 'oracle.proto' package: 'oracle' syntax: 'proto3'"
    for name, kind in (
        ("BytesList", "TYPE_BYTES"),
        ("FloatList", "TYPE_FLOAT"),
        ("Int64List", "TYPE_INT64"),
    ):
        text += (
            f" message_type {{ name: '{name}' field {{ name: 'value' number: 1 label: "
            f"LABEL_REPEATED type: {kind} }} }}"
        )
    kinds = "".join(
        _field(kind, number, name, more="oneof_index: 0")
        for number, (kind, name) in enumerate(
            zip(_KINDS, ("BytesList", "FloatList", "Int64List"), strict=True), 1
        )
    )
    text += f" message_type {{ name: 'Feature' oneof_decl {{ name: 'kind' }} {kinds} }}"
    text += f" message_type {{ name: 'FeatureList' {_field('feature', 1, 'Feature', 'REPEATED')} }}"
    for name, value in (("Features", "Feature"), ("FeatureLists", "FeatureList")):
        entry = (
            f"nested_type {{ name: 'EEntry' options {{ map_entry: true }} field {{ name: "
            f"'key' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }} "
            f"{_field('value', 2, value)} }}"
        )
        text += (
            f" message_type {{ name: '{name}' {_field('e', 1, f'{name}.EEntry', 'REPEATED')} "
            f"{entry} }}"
        )
    text += f" message_type {{ name: 'Example' {_field('context', 1, 'Features')} }}"
    text += (
        f" message_type {{ name: 'SequenceExample' {_field('context', 1, 'Features')} "
        f"{_field('lists', 2, 'FeatureLists')} }}"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    example, sequence = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"oracle.{name}"))
        for name in ("Example", "SequenceExample")
    )
    return example, sequence


def _field(name: str, number: int, type_: str, label: str = "OPTIONAL", more: str = "") -> str:
    return (
        f"field {{ name: '{name}' number: {number} label: LABEL_{label} type: TYPE_MESSAGE "
        f"type_name: '.oracle.{type_}' {more} }}"
    )


def parsed(record: bytes, is_sequence: bool) -> Message | None:
    """Parses one record; ``None`` if protobuf's runtimes may not agree on it."""
    message: Message = message_types()[is_sequence]()
    try:
        message.ParseFromString(record)
        return message if is_clear(record, _SEQUENCE if is_sequence else _EXAMPLE) else None
    except DecodeError:
        return None


# Fields of a message: number -> wire type, and what is in it: fields, or how its bytes are to be
# taken.
_FEATURE = {1: (2, {1: (2, "bytes")}), 2: (2, {1: (2, "floats")}), 3: (2, {1: (2, "integers")})}
_FEATURES = {1: (2, {1: (2, "text"), 2: (2, _FEATURE)})}
_EXAMPLE = {1: (2, _FEATURES)}
_SEQUENCE = {1: (2, _FEATURES), 2: (2, {1: (2, {1: (2, "text"), 2: (2, {1: (2, _FEATURE)})})})}
_UNPACKED = {"floats": 5, "integers": 0}


def is_clear(data: bytes, known: dict[int, tuple[int, Any]]) -> bool:
    """Whether all parsers agree on a message.

    Its fields have the right wire types, and it has no group and no number that is too long.
    """
    place = 0
    while place < len(data):
        tag, place = take_varint(data, place, most=5)
        number, wire = tag >> 3, tag & 7
        if number == 0 or tag >> 32 or wire not in (0, 1, 2, 5):
            return False
        length = {1: 8, 5: 4}.get(wire, 0)
        if wire == 0:
            _, place = take_varint(data, place, most=10)
        elif wire == 2:
            length, place = take_varint(data, place, most=5)
        content = data[place : place + length]
        place += length
        if place > len(data) or place < 0:
            return False
        if number not in known and known.get(1) == (
            2,
            "text",
        ):  # an entry of a map, with something else in it
            return False
        expected, inside = known.get(number, (wire, "bytes"))
        if wire != expected and wire != _UNPACKED.get(inside if isinstance(inside, str) else ""):
            return False
        if wire == expected and not is_content(content, inside):
            return False
    return True


def is_content(content: bytes, inside: Any) -> bool:
    """Whether the bytes of a field match its purpose."""
    if inside == "text":
        try:
            content.decode()
        except UnicodeDecodeError:
            return False
    if inside == "floats":
        return len(content) % 4 == 0
    if inside == "integers":
        place = 0
        while 0 <= place < len(content):
            _, place = take_varint(content, place, most=10)
        return place == len(content)
    return is_clear(content, inside) if isinstance(inside, dict) else True


def take_varint(data: bytes, place: int, most: int) -> tuple[int, int]:
    """Returns a varint and its end.

    The end is beyond all data if the varint has none, or is too long.
    """
    number = 0
    for shift in range(most):
        if place + shift >= len(data):
            break
        number |= (data[place + shift] & 127) << 7 * shift
        if data[place + shift] < 128:
            return number, place + shift + 1
    return 1, 1 << 60


def values_of(feature: Any) -> list[Any] | None:
    """Returns the values of a Feature, ``None`` if it has no kind."""
    kind = feature.WhichOneof("kind")
    return None if kind is None else list(getattr(feature, kind).value)


def split(body: bytes) -> list[bytes]:
    """Returns the records of an input."""
    records = []
    while len(body) >= 2:
        (length,) = struct.unpack_from("<H", body)
        records.append(body[2 : 2 + length])
        body = body[2 + length :]
    return records


def joined(records: list[bytes]) -> bytes:
    """Returns the input of some records."""
    return b"".join(struct.pack("<H", len(record)) + record for record in records)


def run(data: bytes) -> None:
    """Compares the decoder, and the source that reads examples, with protobuf."""
    switches, records = (data[:1] or b"\0")[0], split(data[1:])
    if not records:
        return
    is_sequence, has_schema = bool(switches & 1), bool(switches & 2)
    schema = text_format.Parse(_SCHEMA + (_LISTS if is_sequence else ""), schema_pb2.Schema())
    messages = [parsed(record, is_sequence) for record in records]
    decode(records, messages, schema if has_schema else None, is_sequence)
    for record in records:
        is_sequence_example(record)
    read_file(records, messages, schema, is_sequence, reject=bool(switches & 4))
    path = scratch.write("example", "shown.tfrecord", b"".join(map(framed, records)))
    explained(lambda: list(inspect.inspect_examples(path, 10)))


def decode(
    records: list[bytes],
    messages: list[Message | None],
    schema: schema_pb2.Schema | None,
    is_sequence: bool,
) -> None:
    """Decodes all records at once and compares them with protobuf."""
    try:
        batch = decode_records(records, schema, is_sequence)
    except ValueError as error:
        require(bool(str(error)), "example: an error without a message")
        return
    batch.validate(full=True)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_null(column.type):
            # Without a schema, a feature without values has no known type, and may be missing.
            require(not any(map(values_in(name), messages)), "example: values without a type")
            continue
        is_list = pa.types.is_nested(column.type) and pa.types.is_nested(column.type.value_type)
        compare(name, column.to_pylist(), messages, is_list)


def values_in(name: str) -> Callable[[Any], Any]:
    """Returns a function that finds a message's values of a feature."""
    return lambda message: (
        message and name in message.context.e and values_of(message.context.e[name])
    )


def compare(name: str, found: list[Any], messages: list[Message | None], is_list: bool) -> None:
    """Compares a column where the records are clear.

    An empty feature list equals none, or one without steps.
    """
    bare = name.removeprefix("##SEQUENCE##.")
    for row, message in zip(found, messages, strict=True):
        values = row
        if message is None:
            continue
        features: Any = message
        if is_list:
            steps = features.lists.e[bare].feature if bare in features.lists.e else ()
            expected: Any = [values_of(step) for step in steps]
            values = values or []
        else:
            expected = values_of(features.context.e[bare]) if bare in features.context.e else None
        require(is_same(values, expected), "example: other values", f"{name}: {values} {expected}")


def is_same(found: Any, expected: Any) -> bool:
    """Whether values are the same.

    NaN equals NaN; in a step, a missing kind equals a kind without values.
    """
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return bool(found == expected)


def read_file(
    records: list[bytes],
    messages: list[Message | None],
    schema: schema_pb2.Schema,
    is_sequence: bool,
    reject: bool,
) -> None:
    """Reads a file of the records with a schema.

    Each row is the message that protobuf parses, or rejected.
    """
    path = scratch.write("example", "a.tfrecord", b"".join(map(framed, records)))
    schema_path = scratch.write(
        "example", f"schema{is_sequence:d}.pbtxt", text_format.MessageToString(schema).encode()
    )
    types = {"types": {"si": "tensor", "sb": "tensor"}} if is_sequence else {}

    def call() -> Any:
        plan = planner.plan_source(
            made_source(
                "s",
                (path,),
                schema=schema_path,
                columns=("i", "f", "b", "one") if not is_sequence else (),
                **types,
            ),
            "",
        )
        return read.read_table(plan, reject)

    found, _ = explained(call)
    if found is None:
        return
    table, _, rejected = found
    bad = {int(row.position.removeprefix("record ")) for row in rejected}
    kept = [message for number, message in enumerate(messages) if number not in bad]
    require(
        len(kept) == table.num_rows and (reject or not bad),
        "example: another number of rows",
        f"{len(kept)} {table.num_rows}",
    )
    rows = table.to_pylist()
    for name in ("i", "f", "b", "one"):
        for row, message in zip(rows, kept, strict=True):
            if message is None:
                continue
            features: Any = message
            expected = values_of(features.context.e[name]) if name in features.context.e else None
            found_values = [row[name]] if name == "one" and row[name] is not None else row[name]
            require(
                is_same(found_values or None, expected or None),
                "example: other values in a row",
                f"{name}: {row[name]} {expected}",
            )


def varint(number: int, padding: int = 0) -> bytes:
    """Returns a varint, with more bytes than it needs if asked to."""
    number %= 1 << 64
    parts = []
    while number > 127 or padding:
        parts.append(number & 127 | 128)
        padding -= bool(number <= 127)
        number >>= 7
    return bytes([*parts, number])


def delimited(field: int, content: bytes) -> bytes:
    """Returns a length-delimited field."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def feature(kind: int, content: bytes) -> bytes:
    """Returns a Feature of a kind (1 bytes, 2 floats, 3 integers)."""
    return delimited(kind, content)


def packed(chance: random.Random, kind: int) -> bytes:
    """Returns the content of a list of a kind.

    It is packed or not, several times over, with varints of odd lengths.
    """
    parts = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        count = chance.choice((0, 1, 2, 5))
        if kind == 1:
            parts += [delimited(1, bytes(chance.randrange(4))) for _ in range(count)]
        elif kind == 2:
            numbers = [
                struct.pack("<I", chance.choice((0, 1, 0x3F800000, 0x7FC00000, 0xFF800000)))
                for _ in range(count)
            ]
            parts += (
                [delimited(1, b"".join(numbers))]
                if chance.randrange(3)
                else [b"\x0d" + number for number in numbers]
            )
        else:
            numbers = [
                varint(mutations.near(1, chance), chance.choice((0, 0, 1, 9))) for _ in range(count)
            ]
            parts += (
                [delimited(1, b"".join(numbers))]
                if chance.randrange(3)
                else [b"\x08" + number for number in numbers]
            )
    return b"".join(parts)


def any_feature(chance: random.Random) -> bytes:
    """Returns a Feature: usual, without a kind, or of several."""
    kinds = [chance.randint(1, 3) for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
    return b"".join(feature(kind, packed(chance, kind)) for kind in kinds)


def entry(name: bytes, value: bytes, chance: random.Random) -> bytes:
    """Returns an entry of a map.

    Key and value come in either order, or one of them twice or not at all.
    """
    parts = [delimited(1, name), delimited(2, value)]
    if not chance.randrange(15):
        parts = chance.choice(
            (parts[::-1], parts[:1], parts[1:], parts * 2, [*parts, delimited(1, b"f")])
        )
    return delimited(1, b"".join(parts))


def usual_feature(name: bytes, chance: random.Random) -> bytes:
    """Returns a Feature, mostly of the schema's kind for a name."""
    if not chance.randrange(12):
        return any_feature(chance)
    kind = _KIND_OF.get(name) or chance.randint(1, 3)
    if name in (b"one", b"sf"):
        return (
            feature(kind, delimited(1, b"\1\0\0\0"[: 1 if name == b"one" else 4]))
            if chance.randrange(9)
            else feature(kind, packed(chance, kind))
        )
    return feature(kind, packed(chance, kind))


def any_record(chance: random.Random, is_sequence: bool) -> bytes:
    """Returns a record with features of its schema.

    Most have the right kind, and some records have unknown fields.
    """
    parts = [
        entry(name, usual_feature(name, chance), chance)
        for name in chance.sample(_NAMES, chance.randint(0, 5))
    ]
    unknown = (
        b"\x18\x05",
        b"\x1d\0\0\0\0",
        b"\x19" + bytes(8),
        b"\x1b\x1c",
        delimited(3, b"xy"),
        varint(99 << 3) + b"\1",
    )
    parts.append(chance.choice((*[b""] * 20, *unknown)))
    record = delimited(1, b"".join(parts))
    if is_sequence or not chance.randrange(20):
        lists = []
        for name in chance.sample((b"si", b"sf", b"sb"), chance.randint(0, 3)):
            steps = [
                delimited(1, usual_feature(name, chance))
                for _ in range(chance.choice((0, 1, 2, 4)))
            ]
            lists.append(entry(name, b"".join(steps), chance))
        record += delimited(2, b"".join(lists))
    return record + chance.choice((*[b""] * 20, *unknown))


def seeds() -> list[bytes]:
    """Records of all kinds of features."""
    return [
        bytes([switches])
        + joined(
            [any_record(random.Random(seed * 3 + row), bool(switches & 1)) for row in range(3)]
        )
        for switches in range(8)
        for seed in range(6)
    ]


def fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields each field's start and end in a message, one level deep.

    It stops where they are not clear.
    """
    place = 0
    while place < len(data) - 1:
        length = data[place + 1]
        if data[place] & 7 != 2 or length > 127 or place + 2 + length > len(data):
            return
        yield place, place + 2 + length
        place += 2 + length


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Puts records together anew, or doubles, cuts and splices them."""
    switches = bytes([chance.randrange(8)]) if not chance.randrange(8) else data[:1] or b"\0"
    records = split(data[1:]) or [b""]
    is_sequence = bool(switches[0] & 1)
    number = chance.randrange(len(records))
    action = chance.randrange(5)
    if action == 0:
        records[number] = any_record(chance, is_sequence)
    elif action == 1:
        records.insert(number, any_record(chance, is_sequence))
    elif action == 2:  # messages of one type one after the other are one message
        records[number] += chance.choice([*records, any_record(chance, is_sequence)])
    elif action == 3:
        found = list(fields(records[number])) or [(0, len(records[number]))]
        start, end = chance.choice(found)
        records[number] = (
            records[number][:start]
            + records[number][end:]
            + records[number][start:end] * chance.randrange(3)
        )
    else:
        records[number] = mutations.splice(
            records[number],
            [
                b"\0",
                b"\xff",
                b"\x80\x01",
                b"\x0a",
                b"\x12",
                b"\x1a",
                b"\x0a\x00",
                b"\x12\x00",
                b"\x08\x01",
            ],
            chance,
        )
    return switches + joined([record[:600] for record in records[:6]])


TARGET = Target(run, seeds, mutate, max_bytes=1500)
