"""Printing examples of datasets and of single files.

The tests do so with and without a schema, and with files of other contents.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import zlib

import google_crc32c
import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.dataset.inspect import (
    inspect_examples,
    lists_of,
    show_examples,
    show_value,
    show_values,
)
from beam_pipelines.dataset.shard_records import compression_of, read_examples

SCHEMA = """
feature { name: "text" type: BYTES value_count { min: 1 max: 1 } }
feature { name: "number" type: INT value_count { min: 1 max: 1 } }
feature { name: "unseen" type: FLOAT }
"""


def masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def framed(records: list[bytes]) -> bytes:
    """Frames records one by one, as tensorflow/core/lib/io/record_writer.h says."""
    lengths = [len(record).to_bytes(8, "little") for record in records]
    return b"".join(
        length + masked_crc(length) + record + masked_crc(record)
        for length, record in zip(lengths, records, strict=True)
    )


def examples(count: int) -> list[bytes]:
    """Returns serialized numbered examples, with a text in all but the second."""
    batch = pa.record_batch(
        {
            "number": pa.array([[n] for n in range(count)], pa.large_list(pa.int64())),
            "text": pa.array(
                [None if n == 1 else [f"t{n}".encode()] for n in range(count)],
                pa.large_list(pa.large_binary()),
            ),
        }
    )
    return RecordBatchToExamplesEncoder().encode(batch)


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> str:
    """A dataset of two splits; train has two shards of three."""
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema.pbtxt").write_text(SCHEMA)
    shards = {"train": ["a", "b"], "eval": ["c"]}
    for name in "abc":
        (tmp_path / f"{name}.tfrecord.gz").write_bytes(gzip.compress(framed(examples(3))))
    manifest = {
        "format_version": 1,
        "label": None,
        "schema": "schema/schema.pbtxt",
        "record": "example",
        "compression": "gzip",
        "counts": dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0),
        "sources": {},
        "splits": {
            name: {
                "rows": 3 * len(of),
                "bytes": 0,
                "shards": [
                    {"path": f"{shard}.tfrecord.gz", "rows": 3, "bytes": 0, "crc32c": ""}
                    for shard in of
                ],
            }
            for name, of in shards.items()
        },
    }
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    return str(tmp_path)


def test_dataset(dataset: str) -> None:
    """Examples come in the schema's order, from one shard after the other.

    Missing features are named.
    """
    texts = list(inspect_examples(dataset, 4))
    assert [text.split("\n")[0] for text in texts] == [
        f"{dataset}/a.tfrecord.gz, example 0",
        f"{dataset}/a.tfrecord.gz, example 1",
        f"{dataset}/a.tfrecord.gz, example 2",
        f"{dataset}/b.tfrecord.gz, example 0",
    ]
    assert texts[0].split("\n")[1:] == ["  text    't0'", "  number  0", "  unseen  (missing)", ""]
    assert "  text    (missing)" in texts[1].split("\n")


def test_split_of_dataset(dataset: str) -> None:
    """``--split`` reads another split, and all of it if it is short.

    An unknown split is an error.
    """
    texts = list(inspect_examples(dataset, 100, "eval"))
    assert len(texts) == 3
    assert "c.tfrecord.gz" in texts[0]
    with pytest.raises(RecipeError, match="found no split 'evl', expected one of train, eval"):
        inspect_examples(dataset, 1, "evl")


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, zlib.compress, lambda data: zlib.compress(data, 1)]
)
def test_single_file(compress: object, tmp_path: pathlib.Path) -> None:
    """A single file is read without a schema, features by name.

    Its compression and its name do not matter.
    """
    path = tmp_path / "file.data"
    path.write_bytes(compress(framed(examples(10))))  # type: ignore[operator]
    texts = list(inspect_examples(str(path), 2))
    assert len(texts) == 2
    assert texts[0].split("\n")[1:] == ["  number  0", "  text    't0'", ""]


def test_no_more_is_read_than_printed(tmp_path: pathlib.Path) -> None:
    """Data after the requested examples may be damaged, or long."""
    path = tmp_path / "file.tfrecord"
    records = examples(3)
    path.write_bytes(framed(records) + framed([b"x" * (9 << 20)])[:-1])
    assert read_examples(str(path), 3) == records


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n" * 10, "it is not a TFRecord file"),
        (framed(examples(2))[:-1], "ends within a record"),
        (framed([b"\xff\xff\xff"]), "no tf.Examples"),
        (gzip.compress(framed(examples(2)))[:-9], "truncated"),
    ],
    ids=["text", "cut off", "other protos", "cut off gzip"],
)
def test_files_that_are_no_examples(content: bytes, message: str, tmp_path: pathlib.Path) -> None:
    """Other files and damaged ones are told apart, with the file's name."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        list(inspect_examples(str(path), 5))
    assert str(path) in str(caught.value)


def test_paths_that_are_nothing(tmp_path: pathlib.Path) -> None:
    """Wrong paths are mistakes of the command line.

    They are a folder without a manifest, a missing file, and --split with a file.
    """
    for path in (str(tmp_path), str(tmp_path / "missing")):
        with pytest.raises(RecipeError, match="neither a dataset"):
            inspect_examples(path, 1)
    with pytest.raises(RecipeError, match="Leave out --split"):
        inspect_examples(str(tmp_path), 1, "train")


def test_empty_file(tmp_path: pathlib.Path) -> None:
    """A shard without examples prints nothing."""
    (tmp_path / "empty").write_bytes(b"")
    assert list(inspect_examples(str(tmp_path / "empty"), 5)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-(2**63), "-9223372036854775808"),
        (0.10000000149011612, "0.1"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        (b"abc", "'abc'"),
        (b"", "''"),
        ("Zürich".encode(), "'Zürich'"),
        (b"a\nb\t", r"'a\nb\t'"),
        (b"x" * 100, f"'{'x' * 60}…'"),
        (b"\xff\xd8", "2 bytes: ff d8"),
        (b"\0", "1 byte: 00"),
        (bytes(range(200)) * 10, "2,000 bytes: 00 01 02 03 04 05 06 07 …"),
    ],
)
def test_show_value(value: float | bytes, text: str) -> None:
    """Each kind of value is shown as people read it."""
    assert show_value(value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (None, "(missing)"),
        ([], "[]"),
        ([1], "1"),
        ([1, 2], "[1, 2]"),
        (list(range(2000)), "[0, 1, 2, 3, 4, 5, 6, 7, … 2,000 values]"),
    ],
)
def test_show_values(values: list[int] | None, text: str) -> None:
    """One value stands alone, several in brackets, long lists are shortened."""
    assert show_values(values) == text


def test_a_list_of_one_value_is_no_scalar() -> None:
    """The schema says which features are lists.

    A list of one value has brackets. Without a schema, a single value has none.
    """
    schema = text_format.Parse(
        "feature { name: 'a' value_count { min: 1 max: 1 } } feature { name: 'b' shape {} }"
        "feature { name: 'c' value_count { min: 1 } } feature { name: 'd' shape { dim { size: 2 } } }"
        "feature { name: 'e' } feature { name: '##SEQUENCE##' type: STRUCT"
        " struct_domain { feature { name: 'f' } } }",
        schema_pb2.Schema(),
    )
    assert lists_of(schema) == {"c", "d", "e", "f"}
    assert lists_of(None) == set()
    batch = pa.record_batch({"b": pa.array([[1]]), "c": pa.array([[1]])})
    (shown,) = show_examples(batch, "x", lists=lists_of(schema))
    assert shown == "x, example 0\n  b  1\n  c  [1]\n"


@pytest.mark.parametrize(
    ("start", "compression"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x78\x9c\xed\xd5", "zlib"),
        (b"\x78\x9c\x00\x00", "none"),
        (b"\x1f\x8b\x00\x00", "none"),
        (b"", "none"),
    ],
)
def test_compression_of(start: bytes, compression: str) -> None:
    """A plain record whose length looks like a header is not compressed.

    A record of 35,615 or 40,056 bytes begins like gzip or zlib.
    """
    assert compression_of(start) == compression
