"""Avro files: types, bad records, damage and limits."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
import zlib
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms import read
from plugins.tests.support.avro_files import container
from tests.sources.support import plan_of, problems_of, read_rows, source, types_of

UTC = datetime.timezone.utc


CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard")


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    """Returns the schema of a record."""
    return {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": type_} for name, type_ in fields],
    }


def write(path: Path, schema: Any, rows: list[Any], codec: str = "deflate", **options: Any) -> Path:
    """Writes a file by fastavro."""
    stream = io.BytesIO()
    is_zstandard = codec == "zstandard"  # for which fastavro asks for another package
    fastavro.writer(stream, schema, rows, codec="null" if is_zstandard else codec, **options)
    data = stream.getvalue()
    if is_zstandard:
        stream.seek(0)
        packed = [
            (block.num_records, pa.compress(block.bytes_.read(), "zstd", asbytes=True))
            for block in cast("Any", fastavro.block_reader(stream))
        ]
        data = container(schema, codec, packed)
    path.write_bytes(data)
    return path


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    """Returns a logical type."""
    return {"type": kind, "logicalType": meaning, **more}


TIME = datetime.datetime(2026, 11, 23, 1, 2, 3, 456789, UTC)
# Type -> value to write, value to read, type of the column.
TYPES: dict[str, tuple[Any, Any, Any, str]] = {
    "boolean": ("boolean", True, True, "bool"),
    "int": ("int", -5, -5, "int64"),
    "long": ("long", 2**62, 2**62, "int64"),
    "float": ("float", 1.5, 1.5, "float"),
    "double": ("double", 0.1, 0.1, "double"),
    "bytes": ("bytes", b"\xff", b"\xff", "binary"),
    "string": ("string", "ç", "ç", "string"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B", "string"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab", "binary"),
    "array": ({"type": "array", "items": "long"}, [1, 2], [1, 2], "list<item: int64>"),
    "null first": (["null", "string"], None, None, "string"),
    "null last": (["long", "null"], 7, 7, "int64"),
    "date": (logical("int", "date"), TIME.date(), TIME.date(), "date32[day]"),
    "time-millis": (
        logical("int", "time-millis"), datetime.time(1, 2, 3, 4_000),
        datetime.time(1, 2, 3, 4_000), "time64[us]",
    ),
    "time-micros": (
        logical("long", "time-micros"), datetime.time(1, 2, 3, 4), datetime.time(1, 2, 3, 4),
        "time64[us]",
    ),
    "timestamp-millis": (
        logical("long", "timestamp-millis"), TIME.replace(microsecond=0),
        TIME.replace(microsecond=0), "timestamp[us, tz=UTC]",
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"), TIME, TIME, "timestamp[us, tz=UTC]",
    ),
    "local-timestamp-micros": (
        logical("long", "local-timestamp-micros"), TIME.replace(tzinfo=None),
        TIME.replace(tzinfo=None), "timestamp[us]",
    ),
    "uuid": (logical("string", "uuid"), uuid.UUID(int=5), str(uuid.UUID(int=5)), "string"),
    "decimal": (
        logical("bytes", "decimal", precision=8, scale=2), decimal.Decimal("-1.25"), -1.25, "double",
    ),
    "decimal in fixed": (
        logical("fixed", "decimal", precision=8, scale=2, size=4, name="D"),
        decimal.Decimal("7.50"), 7.5, "double",
    ),
    "unknown logical type": (logical("string", "colour"), "red", "red", "string"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(tmp_path: Path, name: str) -> None:
    """Each type of Avro has one of ours, with exact values."""
    type_, written, expected, column = TYPES[name]
    path = write(tmp_path / "a.avro", record(("x", type_), ("n", "int")), [{"x": written, "n": 1}])
    assert read_rows(path) == [{"x": expected, "n": 1}]
    assert types_of(path)["x"] == column


def test_nested_records_and_names(tmp_path: Path) -> None:
    """Fields of records are columns; a type may be named again."""
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]}
    schema = record(("a", point), ("b", ["null", "Point"]))
    rows = [{"a": {"x": 1.0}, "b": {"x": 2.0}}, {"a": {"x": 3.0}, "b": None}]
    path = write(tmp_path / "a.avro", schema, rows)
    assert read_rows(path) == [{"a.x": 1.0, "b.x": 2.0}, {"a.x": 3.0, "b.x": None}]


REFUSED = {
    "x: found a union of int, string, expected one type, or one and null": ["int", "string"],
    "x: found a union of null, int, string": ["null", "int", "string"],
    "x: found a union of null, expected one type": ["null"],
    "next: found the record 'Row' within itself, .*Write the field as a text of JSON": None,
    "x: found values of null, which take no bytes": {"type": "array", "items": "null"},
    "x: found values of a fixed of 0 bytes, which take no bytes": {
        "type": "array",
        "items": {"type": "fixed", "name": "f", "size": 0},
    },
    "x: found values of null, which take no bytes, expected others": "null",
    "x: found values of the record 'E', which take no bytes": {
        "type": "record",
        "name": "E",
        "fields": [],
    },
}


def test_records_of_records_end(tmp_path: Path) -> None:
    """Definitions that double with each level are refused."""
    inner: Any = "int"
    for level in range(40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{level - 1}"}]
        inner = {"type": "record", "name": f"r{level}", "fields": fields[: 1 + bool(level)]}
    path = tmp_path / "a.avro"
    path.write_bytes(container(inner, "null", []))
    with pytest.raises(DataError, match="found more than 200 levels, or 200,000 types"):
        plan_of(path)


@pytest.mark.parametrize("message", REFUSED)
def test_schemas_that_are_no_table(tmp_path: Path, message: str) -> None:
    """Unions of several types and recursive records name their field."""
    type_ = REFUSED[message]
    schema = record(("next", ["null", "Row"])) if type_ is None else record(("x", type_))
    path = tmp_path / "a.avro"
    path.write_bytes(container(schema, "null", [(1, b"\0")]))
    with pytest.raises(DataError, match=rf"a\.avro: {message}"):
        plan_of(path)


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ("long", 5, "int64"),
        ({"type": "array", "items": "string"}, ["a"], "list<item: string>"),
        ({"type": "map", "values": "int"}, {"a": 1}, "map<string, int32>"),
    ],
)
def test_values_that_are_no_records(
    tmp_path: Path, schema: object, value: object, found: str
) -> None:
    """The error says how to write them, which is read."""
    path = write(tmp_path / "a.avro", schema, [value])
    with pytest.raises(DataError) as raised:
        plan_of(path)
    assert f"found values of {found}, expected records with fields" in str(raised.value)
    assert "fields: [{name: value, type: …}]" in str(raised.value)
    cured = {"type": "record", "name": "Row", "fields": [{"name": "value", "type": schema}]}
    assert len(read_rows(write(path, cured, [{"value": value}]))) == 1


@pytest.mark.parametrize("codec", CODECS)
def test_all_blocks_are_read(tmp_path: Path, codec: str) -> None:
    """A file is one range, with all its blocks."""
    rows = [{"n": number, "text": f"row {number}"} for number in range(2_000)]
    schema = record(("n", "int"), ("text", "string"))
    path = write(tmp_path / "a.avro", schema, rows, codec, sync_interval=500)
    assert read_rows(path, range_bytes=64) == rows
    assert len(plan_of(path, range_bytes=64).ranges) == 1


def test_bad_records_have_their_places(tmp_path: Path) -> None:
    """Texts that are no UTF-8 and values beyond types name rows."""
    rows = [{"n": number, "text": f"row {number}"} for number in range(900)]
    schema = record(("n", "int"), ("text", "string"))
    path = write(tmp_path / "a.avro", schema, rows, "null", sync_interval=300)
    path.write_bytes(path.read_bytes().replace(b"row 700", b"row\xff700"))
    with pytest.raises(DataError, match=r"a\.avro, row 701, column 'text': found b'row\\xff700'"):
        read_rows(path)
    assert read_rows(path, types={"text": "bytes"})[700]["text"] == b"row\xff700"
    plan = plan_of(path, types={"n": "int8"})
    table, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 128, "rejected": 772}
    assert table.column("n").to_pylist() == list(range(128))
    assert [bad.position for bad in rejected] == [f"row {number}" for number in range(129, 901)]


def test_bad_texts_of_maps_and_lists_have_their_places(tmp_path: Path) -> None:
    """Texts inside of values are checked with their rows, too."""
    schema = record(
        ("m", {"type": "map", "values": "string"}), ("t", {"type": "array", "items": "string"})
    )
    rows = [{"m": {"k": f"value {n}"}, "t": [f"text {n}"]} for n in range(3)]
    path = write(tmp_path / "a.avro", schema, rows, "null")
    data = path.read_bytes()
    for text, column in ((b"value 1", "m.value"), (b"text 2", "t")):
        path.write_bytes(data.replace(text, text[:-1] + b"\xff"))
        with pytest.raises(DataError, match=rf"row {chr(text[-1] + 1)}, column '{column}'"):
            read_rows(path)
        assert read.read_table(plan_of(path), reject=True)[1] == {"read": 2, "rejected": 1}


def test_damage_is_an_error(tmp_path: Path) -> None:
    """Cut files, other bytes and wrong sizes say what is wrong."""
    rows = [{"n": number} for number in range(500)]
    schema = record(("n", "int"))
    path = write(tmp_path / "a.avro", schema, rows, "null", sync_interval=100)
    data = path.read_bytes()
    for size in (3, 40, len(data) // 2, len(data) - 5):
        path.write_bytes(data[:size])
        with pytest.raises(DataError, match=r"a\.avro: found damaged Avro data"):
            read_rows(path)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match="cannot read header - is it an avro file"):
        read_rows(path)
    path.write_bytes(data)
    for rows_of_block, own in ((5, b"\x02\x04"), (1, b"\x02\x04"), (2**60, b"\x02")):
        path.write_bytes(container(schema, "null", [(rows_of_block, own)]))
        if rows_of_block == 1:
            continue
        with pytest.raises(DataError, match="found damaged Avro data"):
            read_rows(path)


def test_limits(tmp_path: Path) -> None:
    """Blocks that grow without bounds and many columns are refused."""
    schema = record(("text", "string"))
    path = write(tmp_path / "a.avro", schema, [{"text": "a"}])
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = compressor.compress(bytes(80 << 20)) + compressor.flush()
    path.write_bytes(container(schema, "deflate", [(1, bomb)]))
    with pytest.raises(DataError, match="decompression_ratio"):
        read_rows(path)
    write(path, record(*((f"c{n}", "int") for n in range(9))), [{f"c{n}": n for n in range(9)}])
    with pytest.raises(DataError, match="9 columns"):
        read_rows(path, limits=Limits(columns=8))
    assert len(read_rows(path)) == 1


def test_options_of_texts_are_refused(tmp_path: Path) -> None:
    """The file has no delimiter, and is not compressed as a whole."""
    path = write(tmp_path / "a.avro", record(("x", "int")), [{"x": 1}])
    problems = problems_of(path, delimiter=";", compression="gzip")
    assert {key[-1] for key in problems} == {"delimiter", "compression"}
    assert source(path).format is None
    assert plan_of(path).format == "avro"
    assert json.loads(json.dumps(list(plan_of(path).schema.names))) == ["x"]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_blocks_of_each_codec_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """A block that grows is refused before it is in memory."""
    path = write(tmp_path / "a.avro", record(("x", "string")), [{"x": "a" * 3_000_000}], codec)
    for module in ("beam_pipelines.core.limits", "beam_pipelines_plugins.formats.avro_format"):
        monkeypatch.setattr(f"{module}.FREE_BYTES", 1 << 20)
    with pytest.raises(DataError, match=r"block at byte [0-9]+: .*decompression_ratio"):
        read_rows(path, limits=Limits(decompression_ratio=5))
    assert len(read_rows(path, limits=Limits(decompression_ratio=100_000))) == 1


def test_other_codecs_and_damaged_blocks(tmp_path: Path) -> None:
    """An unknown codec, and a block with another checksum, are errors."""
    rows = [{"x": "abc" * 99}]
    path = write(tmp_path / "a.avro", record(("x", "string")), rows, "snappy")
    data = bytearray(path.read_bytes())
    path.write_bytes(bytes(data).replace(b"\x0csnappy", b"\x0csnarky"))
    with pytest.raises(
        DataError, match="found blocks of the codec 'snarky', expected one of null, deflate"
    ):
        read_rows(path)
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="another checksum"):
        read_rows(path)


def test_a_field_of_no_column_type_may_be_left_out(tmp_path: Path) -> None:
    """A union that ``columns`` leaves out is no error."""
    schema = record(("n", "long"), ("x", ["int", "string"]))
    path = write(tmp_path / "a.avro", schema, [{"n": 1, "x": "a"}, {"n": 2, "x": 3}])
    assert read_rows(path, columns=("n",)) == [{"n": 1}, {"n": 2}]
    with pytest.raises(DataError, match=r"x: found a union .*Leave it out with 'columns'"):
        plan_of(path, columns=("n", "x"))
