"""TFRecord files of tf.Example, imported with a schema."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from pathlib import Path

import google_crc32c
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write
from tests.support.wire import of_values

SCHEMA = """
feature { name: "id" type: INT shape { dim { size: 1 } } presence { min_fraction: 1 } }
feature { name: "name" type: BYTES value_count { min: 0 max: 1 } string_domain { value: "x" } }
feature { name: "raw" type: BYTES value_count { max: 1 } }
feature { name: "scores" type: FLOAT }
feature { name: "pair" type: INT shape { dim { size: 2 } } }
feature { name: "word" type: BYTES natural_language_domain {} shape {} }
"""


def record(data: bytes) -> bytes:
    def masked(part: bytes) -> bytes:
        crc = google_crc32c.value(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


FULL = of_values(
    id=[-5], name=[b"x"], raw=[b"\xff"], scores=[0.5, 1.5], pair=[1, 2], word=["é".encode()]
)
FULL_ROW = {
    "id": -5, "name": "x", "raw": b"\xff", "scores": [0.5, 1.5], "pair": [1, 2], "word": "é",
}  # fmt: skip
EMPTY_ROW = {"id": 7, "name": None, "raw": None, "scores": None, "pair": None, "word": None}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return write(tmp_path / "schema.pbtxt", SCHEMA)


@pytest.mark.parametrize("suffix", [".tfrecord", ".tfrecord.gz", ".tfrecord.zlib"])
def test_features_become_columns(tmp_path: Path, schema: str, suffix: str) -> None:
    """Single values become scalars, others lists; absent is null.

    Bytes are text where the schema says so.
    """
    content = record(FULL) + record(of_values(id=[7], unknown=[1]))
    compress = {".gz": gzip.compress, ".zlib": zlib.compress}.get(Path(suffix[1:]).suffix, bytes)
    path = write(tmp_path / f"a{suffix}", compress(content))
    assert read_rows(path, schema=schema) == [FULL_ROW, EMPTY_ROW]
    assert read_rows(path, schema=schema, columns=("word", "id")) == [
        {"word": "é", "id": -5},
        {"word": None, "id": 7},
    ]
    assert read_rows(path, schema=schema, types={"id": "float64"}, columns=("id",)) == [
        {"id": -5.0},
        {"id": 7.0},
    ]
    chunks = list(
        read.read_range(plan := plan_of(path, schema=schema), plan.ranges[0], {}, reject=False)
    )
    assert chunks[-1].crc32c == google_crc32c.value(Path(path).read_bytes())


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        (of_values(id=[1, 2]), "id"),
        (of_values(word=[b"\xff"]), "word"),
        (of_values(id=[0.5]), "id"),
        (b"\x0a\x05no", ""),
    ],
)
def test_a_bad_record_is_found(tmp_path: Path, schema: str, bad: bytes, column: str) -> None:
    """A bad example names its record; rejecting leaves out only it."""
    path = write(tmp_path / "a.tfrecord", record(FULL) * 3 + record(bad) + record(FULL))
    plan = plan_of(path, schema=schema)
    with pytest.raises(DataError, match=r"a\.tfrecord, record 3"):
        read.read_table(plan, reject=False)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert table.to_pylist() == [FULL_ROW] * 4
    assert counts == {"read": 4, "rejected": 1}
    assert [(bad.position, bad.column) for bad in rejected] == [("record 3", column)]


def test_damage_and_problems(tmp_path: Path, schema: str) -> None:
    """A damaged file, no records, and a wrong schema are errors."""
    path = write(tmp_path / "a.tfrecord", record(FULL)[:-2] + b"xx")
    with pytest.raises(DataError, match=r"a\.tfrecord"):
        read_rows(path, schema=schema)
    assert "no file" in problems_of(path, schema=f"{schema}x")["sources", "s", "schema"]
    assert "found no schema in it" in problems_of(path, schema=path)["sources", "s", "schema"]
    empty = write(tmp_path / "a.tfrecord.gz", gzip.compress(b""))
    with pytest.raises(DataError, match="found no records"):
        plan_of(empty, schema=schema)


@pytest.mark.parametrize("real", ["none", "gzip", "zlib"])
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_name_that_does_not_fit_the_compression(tmp_path: Path, real: str, name: str) -> None:
    """A file is read, or the error has the key."""
    compress = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[real]
    path = write(tmp_path / name, compress(record(of_values(a=[7]))))
    if real == ("gzip" if name.endswith(".gz") else "none"):
        assert read_rows(path) == [{"a": 7}]
        return
    with pytest.raises(DataError) as caught:
        plan_of(path)
    [found] = re.findall(r"'compression: (\w+)'", str(caught.value))
    assert found == real
    assert read_rows(path, compression=found) == [{"a": 7}]
