"""Raw records, from lines and TFRecord files to shards and a trainer."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from click.testing import CliRunner

from beam_pipelines.cli.main import cli
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline.planning.recipes import load, parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources.lines import split_lines
from tests.sources.support import plan_of, problems_of, read_rows, write
from tests.support.runs import convert_in

pytestmark = pytest.mark.end_to_end

EXAMPLE = Path(__file__).parents[2] / "examples" / "raw_records" / "recipe.yaml"
# An image, a serialized proto, text, what looks like a tf.Example and is none, nothing.
PAYLOADS = [
    b"\x89PNG\r\n\x1a\n\0\0",
    tf.constant([1.5]).numpy().tobytes(),
    "naïve".encode(),
    b"\x0a\x05no",
    b"",
    b"x" * 70_000,
]


def convert(folder: Path, recipe: str) -> Manifest:
    """Converts into ``out`` and returns the manifest."""
    return convert_in(folder, recipe, overwrite=True)


def payloads(folder: Path, split: str = "train", compression: str = "GZIP") -> list[bytes]:
    """Reads a split with TensorFlow alone, shard after shard."""
    shards = sorted(map(str, (folder / "out" / "examples" / f"Split-{split}").iterdir()))
    return [record.numpy() for record in tf.data.TFRecordDataset(shards, compression)]


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
def test_payloads_come_through(tmp_path: Path, compression: str) -> None:
    """Payloads are written, verified, loaded and read again unchanged.

    The manifest says what they are.
    """
    with tf.io.TFRecordWriter(str(tmp_path / "in.tfrecord")) as file:
        for payload in PAYLOADS * 20:
            file.write(payload)
    recipe = (
        "name: d\nsources: {d: {path: in.tfrecord, format: raw_records}}\n"
        f"output: {{record: record, num_shards: 3, compression: {compression}}}\n"
    )
    manifest = convert(tmp_path, recipe)
    assert (manifest.record, manifest.splits["train"].rows) == ("raw", 120)
    assert verify_dataset(str(tmp_path / "out")).rows == 120
    found = payloads(
        tmp_path, compression={"gzip": "GZIP", "zlib": "ZLIB", "none": ""}[compression]
    )
    assert sorted(found) == sorted(PAYLOADS * 20)
    assert found != PAYLOADS * 20
    batches = [batch.numpy() for batch in loader.load(tmp_path / "out", batch_size=50)]
    assert [len(batch) for batch in batches] == [50, 50, 20]
    assert sorted(payload for batch in batches for payload in batch) == sorted(found)
    again = read_rows(tmp_path / "out" / "examples" / "Split-train" / "*", format="raw_records")
    assert [row["record"] for row in again] == found


def test_one_column_of_many(tmp_path: Path) -> None:
    """Other columns join, filter and split, and are not written.

    Without a shuffle records keep their order.
    """
    table = {
        "payload": [b"a", b"b", None, b"d"],
        "size": [1, 2, 3, 4],
        "wide": [1e300] * 4,
        "day": ["m", "m", "m", "t"],
    }
    pq.write_table(pa.table(table), tmp_path / "d.parquet")
    recipe = (
        "name: d\nsources: {d: d.parquet}\nfilter: size <> 2\noutput: {record: payload, "
        "shuffle: false}\n"
    )
    with pytest.raises(
        DataError,
        match=r"output.record 'payload': found 1 rows without a value.*filter: payload IS NOT NULL",
    ):
        convert(tmp_path, recipe)
    assert not (tmp_path / "out" / "dataset.json").exists()
    convert(tmp_path, recipe.replace("size <> 2", "size <> 2 AND payload IS NOT NULL"))
    assert payloads(tmp_path) == [b"a", b"d"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("output: {record: lime}", "unknown column 'lime'. Did you mean 'line'"),
        ("output: {record: n}\nderive: {n: length(line)}", "column 'n' is int64, expected text or bytes"),
        ("output: {record: line}\nlabel: line", "found it with 'label'"),
        ("output: {record: line}\nencode: {line: hash_bucket: 3}".replace("hash_bucket: 3", "tokenize"), "found it with 'encode'"),
    ],
)  # fmt: skip
def test_problems(tmp_path: Path, line: str, message: str) -> None:
    """A column that cannot be the record is a problem."""
    (tmp_path / "d.txt").write_text("a\n")
    parsed = parse_recipe(
        f"name: d\nsources: {{d: {{path: d.txt, format: lines}}}}\n{line}\n",
        "r.yaml",
        str(tmp_path),
    )
    with pytest.raises(RecipeProblems) as caught:
        make_plan(parsed)
    assert any(
        problem.path == ("output", "record") and message in problem.message
        for problem in caught.value.problems
    )


def test_damage_is_found(tmp_path: Path) -> None:
    """A raw shard with changed or missing bytes does not verify."""
    (tmp_path / "d.txt").write_text("\n".join(map(str, range(100))))
    manifest = convert(
        tmp_path,
        "name: d\nsources: {d: {path: d.txt, format: lines}}\noutput: {record: line, compression: "
        "none}\n",
    )
    (shard,) = manifest.splits["train"].shards
    path = tmp_path / "out" / shard.path
    whole = path.read_bytes()
    for damaged in (whole[:-1] + b"\0", whole[: -(12 + 2 + 4)], whole[:12] + b"#" + whole[13:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"problem\(s\) found"):
            verify_dataset(str(tmp_path / "out"))


def test_inspect_and_load_arguments(tmp_path: Path) -> None:
    """``inspect`` clips payloads, ``verify`` does not parse, features are an error."""
    pq.write_table(
        pa.table({"p": [b"\x89PNG" + bytes(996), b"short", b"t" * 100]}), tmp_path / "d.parquet"
    )
    convert(tmp_path, "name: d\nsources: {d: d.parquet}\noutput: {record: p, shuffle: false}\n")
    out = str(tmp_path / "out")
    shown = CliRunner().invoke(cli, ["inspect", out]).output
    assert "record 0\n  1,000 bytes: 89 50 4e 47 00 00 00 00 …\n" in shown
    assert "record 1\n  'short'\n" in shown
    assert f"record 2\n  '{'t' * 60}…'\n" in shown
    assert "raw records are not parsed" in CliRunner().invoke(cli, ["verify", out]).output
    for arguments in ({"features": ["p"]}, {"label": "p"}):
        with pytest.raises(ValueError, match=r"serialized records|no feature 'p'"):
            loader.load(out, **arguments)


def test_example(tmp_path: Path) -> None:
    """The example's recipe writes all nonempty lines, shuffled.

    Its plan says so.
    """
    recipe = load(str(EXAMPLE))
    plan = make_plan(recipe)
    assert "raw records\n  the values of line" in plan.describe()
    convert_module.convert(plan, str(tmp_path / "out"), quiet=True)
    source = (EXAMPLE.parent / recipe.sources["log"].path[0]).read_text().split("\n")
    found = [line.decode() for split in ("train", "eval") for line in payloads(tmp_path, split)]
    assert sorted(found) == sorted(line for line in source if line)


@hypothesis.given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", "é".encode()]), max_size=12).map(
        b"".join
    )
)
def test_split_lines(data: bytes) -> None:
    """Lines end in LF or CR LF; some are empty or open."""
    wanted = data.split(b"\n")
    wanted = [line.removesuffix(b"\r") for line in wanted[:-1]] + [
        line for line in wanted[-1:] if line
    ]
    lines, starts = split_lines(data)
    assert lines.to_pylist() == wanted
    assert [
        data[start:].startswith(line) for start, line in zip(starts.tolist(), wanted, strict=True)
    ] == [True] * len(wanted)


@pytest.mark.parametrize("range_bytes", [1, 7, 50, 10_000])
def test_lines_in_ranges(tmp_path: Path, range_bytes: int) -> None:
    """A cut or compressed file gives each line once, unchanged."""
    lines = [
        random.Random(number).choice(["", "NA", '"a,b', "x" * number, " naïve "])
        for number in range(60)
    ]
    data = "\r\n".join(lines).encode()
    path = write(tmp_path / "d.log", data)
    wanted = [{"line": line} for line in (lines if lines[-1] else lines[:-1])]
    assert read_rows(path, format="lines", range_bytes=range_bytes) == wanted
    packed = write(tmp_path / "d.log.gz", gzip.compress(data))
    assert read_rows(packed, format="lines") == wanted


def test_bad_lines(tmp_path: Path) -> None:
    """A line that is not UTF-8 is rejected, or read as bytes.

    Options without meaning are problems.
    """
    path = write(tmp_path / "d.log", b"a\n\xff\nb\n")
    with pytest.raises(
        DataError, match=r"d\.log, line 2, column 'line': found bytes that are not UTF-8"
    ):
        read_rows(path, format="lines")
    assert [row["line"] for row in read_rows(path, format="lines", types={"line": "bytes"})] == [
        b"a",
        b"\xff",
        b"b",
    ]
    assert (
        "expected text or bytes"
        in problems_of(path, format="lines", types={"line": "int64"})["sources", "s", "types"]
    )
    assert (
        "has no nulls" in problems_of(path, format="lines", nulls=("-",))["sources", "s", "nulls"]
    )
    with pytest.raises(DataError, match="found no lines"):
        plan_of(write(tmp_path / "e.log.gz", gzip.compress(b"")), format="lines")


def test_bad_raw_records(tmp_path: Path) -> None:
    """Declared text that is not UTF-8 has its record's number.

    Damage is an error; a schema is a problem.
    """
    path = str(tmp_path / "d.tfrecord.zlib")
    with tf.io.TFRecordWriter(path, "ZLIB") as file:
        for payload in (b"a", b"\xff"):
            file.write(payload)
    with pytest.raises(
        DataError, match="record 1, column 'record': found bytes that are not UTF-8"
    ):
        read_rows(path, format="raw_records", types={"record": "text"})
    assert (
        "expected it with tfrecord only"
        in problems_of(path, format="raw_records", schema="s.pbtxt")["sources", "s", "schema"]
    )
    data = bytearray(zlib.decompress(Path(path).read_bytes()))
    data[12] ^= 1
    with pytest.raises(DataError, match="CRC"):
        read_rows(write(tmp_path / "e.tfrecord", bytes(data)), format="raw_records")
