"""Every source format through a whole conversion, read by TensorFlow alone."""

from __future__ import annotations

import bz2
import csv
import datetime
import decimal
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import load, parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from tests.support.read_examples import read_records

pytestmark = pytest.mark.end_to_end

Row = dict[str, Any]
ROWS: list[Row] = [
    {"n": number * 7 - 2**53, "x": number / 4 if number % 5 else None, "s": ["", "naïve", 'a "quote"', "two\nlines", "a,b"][number % 5]}
    for number in range(40)
]  # fmt: skip
# An empty cell is null by default. The other formats' tables have null for it, too.
ROWS = [row | {"s": row["s"] or None} for row in ROWS]
TABLE = pa.Table.from_pylist(ROWS)


def converted(folder: Path, recipe: str) -> Manifest:
    """Converts into ``out``, verifies, and returns the manifest."""
    parsed = parse_recipe(recipe, "recipe.yaml", str(folder))
    manifest = convert.convert(make_plan(parsed), str(folder / "out"), quiet=True)
    verify_dataset(str(folder / "out"))
    return manifest


def examples(dataset: Path, split: str = "train") -> list[Row]:
    """Reads a split.

    A feature is its only value, a list of several values, or nothing.
    """
    rows = []
    for record in read_records(dataset, split):
        example = tf.train.Example.FromString(record)
        row = {}
        for name, feature in example.features.feature.items():
            values = (
                list(getattr(feature, feature.WhichOneof("kind")).value)
                if feature.WhichOneof("kind")
                else []
            )
            row[name] = values[0] if len(values) == 1 else values
        rows.append(row)
    return rows


def expected(rows: list[Row]) -> list[Row]:
    """Returns rows in the form of their examples.

    Texts are bytes, and nulls are left out.
    """
    return [
        {
            name: value.encode() if isinstance(value, str) else value
            for name, value in row.items()
            if value is not None
        }
        for row in rows
    ]


def as_csv(delimiter: str = ",", line_end: str = "\n", header: bool = True) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(ROWS[0]), delimiter=delimiter, lineterminator=line_end)
    if header:
        writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


def as_json() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def as_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=7)
    return sink.getvalue()


def as_arrow(open_writer: Callable[..., Any]) -> bytes:
    sink = io.BytesIO()
    with open_writer(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=9)
    return sink.getvalue()


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "csv": ("a.csv", as_csv, ""),
    "csv with CRLF and a mark": ("a.csv", lambda: b"\xef\xbb\xbf" + as_csv(line_end="\r\n"), ""),
    "csv without a header": ("a.csv", lambda: as_csv(header=False), "header: false, columns: [n, x, s]"),
    "csv with semicolons": ("a.txt", lambda: as_csv(";"), 'delimiter: ";"'),
    "csv without a last line end": ("a.csv", lambda: as_csv().rstrip(b"\n"), ""),
    "csv.gz": ("a.csv.gz", lambda: gzip.compress(as_csv()), ""),
    "csv.bz2": ("a.csv.bz2", lambda: bz2.compress(as_csv()), ""),
    "csv.zst": ("a.csv.zst", lambda: zstd(as_csv()), ""),
    "tsv": ("a.tsv", lambda: as_csv("\t"), ""),
    "json": ("a.jsonl", as_json, ""),
    "json.gz without its suffix": ("a.log", lambda: gzip.compress(as_json()), "format: json_lines, compression: gzip"),
    "parquet": ("a.parquet", as_parquet, ""),
    "arrow file": ("a.arrow", lambda: as_arrow(pa.ipc.new_file), ""),
    "arrow stream": ("a.arrows", lambda: as_arrow(pa.ipc.new_stream), ""),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_formats(case: str, tmp_path: Path) -> None:
    """Every format gives the same table in the same order.

    Values are equal to the last bit.
    """
    name, content, options = FILES[case]
    (tmp_path / name).write_bytes(content())
    recipe = f"name: t\nsources: {{t: {{path: {name}, {options}}}}}\noutput: {{shuffle: false}}"
    assert converted(tmp_path, recipe).counts.read == len(ROWS)
    assert examples(tmp_path / "out") == expected(ROWS)


@pytest.mark.parametrize(
    ("compression", "suffix", "option"),
    [
        ("gzip", ".gz", ""),
        ("zlib", ".zlib", ""),
        ("zlib", ".zlib", "compression: zlib, "),
        ("none", "", ""),
    ],
)
def test_tfrecords_round_trip(compression: str, suffix: str, option: str, tmp_path: Path) -> None:
    """A dataset that is read as a source gives the same examples."""
    (tmp_path / "a.csv").write_bytes(as_csv())
    (tmp_path / "first").mkdir()
    output = f"output: {{compression: {compression}, num_shards: 2}}"
    (tmp_path / "first" / "recipe.yaml").write_text(
        f"name: t\nsources: {{t: ../a.csv}}\n{output}\n"
    )
    recipe = load(str(tmp_path / "first" / "recipe.yaml"))
    convert.convert(make_plan(recipe), str(tmp_path / "first" / "out"), quiet=True)
    again = (
        f"name: t\nsources: {{t: {{path: first/out/examples/Split-train/*.tfrecord{suffix}, "
        f"{option}"
        "schema: first/out/schema/schema.pbtxt}}\noutput: {shuffle: false}"
    )
    converted(tmp_path, again)
    assert examples(tmp_path / "out") == examples(tmp_path / "first" / "out")
    assert sorted(examples(tmp_path / "out"), key=lambda row: row["n"]) == expected(ROWS)


def test_nested_json(tmp_path: Path) -> None:
    """Objects become dotted columns, lists of objects become parallel lists."""
    lines = [
        {"id": 1, "user": {"name": "Ann", "home": {"lat": 0.5}}, "tags": ["a", "b"], "items": [{"p": 1, "q": "x"}, {"p": 2, "q": "y"}]},
        {"id": 2, "user": None, "tags": ["c"], "items": []},
        {"id": 3},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    converted(tmp_path, "name: t\nsources: {t: a.jsonl}\noutput: {shuffle: false}")
    first, second, third = examples(tmp_path / "out")
    assert first == {
        "id": 1, "user.name": b"Ann", "user.home.lat": 0.5, "tags": [b"a", b"b"], "items.p": [1, 2], "items.q": [b"x", b"y"]
    }  # fmt: skip
    assert {name: value for name, value in second.items() if value != []} == {"id": 2, "tags": b"c"}
    assert third == {"id": 3}


def test_types_of_parquet(tmp_path: Path) -> None:
    """Dictionaries, decimals, timestamps, dates, integers of any size, structs and lists."""
    noon = datetime.datetime(2013, 7, 1, 12, tzinfo=datetime.timezone.utc)
    table = pa.table({
        "word": pa.array(["a", "b", "a"]).dictionary_encode(),
        "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")], pa.decimal128(9, 2)),
        "nanos": pa.array([1_000, 2_000, None], pa.timestamp("ns")),
        "zoned": pa.array([noon, noon, noon], pa.timestamp("ms", "America/New_York")),
        "day": pa.array([datetime.date(1970, 1, 2)] * 3, pa.date32()),
        "small": pa.array([-1, 0, 127], pa.int8()),
        "large": pa.array([0, 1, 2**63 - 1], pa.uint64()),
        "yes": pa.array([True, False, None]),
        "raw": pa.array([b"\xff", b"", b"x"], pa.binary()),
        "at": pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int32())])),
        "list": pa.array([[1.5], None, [2.5, 3.5]], pa.large_list(pa.float32())),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    converted(tmp_path, "name: t\nsources: {t: a.parquet}\noutput: {shuffle: false}")
    micros = int(noon.timestamp() * 1e6)
    common = {"zoned": micros, "day": 1}
    assert examples(tmp_path / "out") == [
        common | {"word": b"a", "price": 1.25, "nanos": 1, "small": -1, "large": 0, "yes": 1, "raw": b"\xff", "at.x": 1, "list": 1.5},
        common | {"word": b"b", "nanos": 2, "small": 0, "large": 1, "yes": 0, "raw": b""},
        common | {"word": b"a", "price": -3.5, "small": 127, "large": 2**63 - 1, "raw": b"x", "at.x": 3, "list": [2.5, 3.5]},
    ]  # fmt: skip


def test_split_by_time_and_multiples_of_shards(tmp_path: Path) -> None:
    """Bounds are inclusive below, exclusive above; shards are a multiple."""
    days = [datetime.date(2013, 1, 1) + datetime.timedelta(days=day) for day in range(365)]
    (tmp_path / "a.csv").write_text("day\n" + "".join(f"{day}\n" for day in days))
    manifest = converted(
        tmp_path,
        "name: t\nsources: {t: a.csv}\noutput: {shards_multiple_of: 3, compression: none}\n"
        "split: {column: day, train: {before: 2013-11-01}, eval: {after: 2013-11-01}}",
    )
    for name, wanted in (
        ("train", [day for day in days if day.month < 11]),
        ("eval", [day for day in days if day.month >= 11]),
    ):
        assert len(manifest.splits[name].shards) == 3
        found = [
            datetime.date(1970, 1, 1) + datetime.timedelta(days=row["day"])
            for row in examples(tmp_path / "out", name)
        ]
        assert sorted(found) == wanted
        assert found != wanted


def test_split_by_file_and_unjoined_sources(tmp_path: Path) -> None:
    """A file's name decides its split.

    A source that is not joined is not listed.
    """
    (tmp_path / "d").mkdir()
    for year in (2012, 2013):
        (tmp_path / "d" / f"y{year}.csv").write_text(f"year\n{year}\n{year}\n")
    converted(
        tmp_path,
        'name: t\nsources: {t: "d/y*.csv", other: missing.csv}\nfrom: t\n'
        'split: {train: {files: "*2012*"}, eval: {files: "*2013*"}}',
    )
    assert examples(tmp_path / "out") == [{"year": 2012}] * 2
    assert examples(tmp_path / "out", "eval") == [{"year": 2013}] * 2


def test_files_without_rows_among_many(tmp_path: Path) -> None:
    """If no sampled file has rows, other files are sampled for types."""
    for number in range(20):
        (tmp_path / f"a{number:02}.csv").write_text("n\n" + ("5\n" if number == 10 else ""))
    converted(tmp_path, 'name: t\nsources: {t: "a*.csv"}')
    assert examples(tmp_path / "out") == [{"n": 5}]


@pytest.mark.parametrize("pattern", ["a*.csv", "a?.csv", "a[12].csv", "./a*.csv", "**.csv"])
def test_patterns_in_the_current_folder(pattern, tmp_path, monkeypatch):
    """A bare pattern and file names are relative to the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a1.csv", "a2.csv"):
        (tmp_path / name).write_text("n\n1\n")
    plan = make_plan(load(pattern))
    assert [os.path.normpath(file.path) for file in plan.base.files] == ["a1.csv", "a2.csv"]


def test_strange_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names may have spaces, any letters, and pattern signs.

    They are the names of folders and files.
    """
    monkeypatch.chdir(tmp_path)
    data, output, neighbour = (
        tmp_path / "data [1]" / "ä b*[x].csv",
        "öut [1]*",
        tmp_path / "öut 1" / "_temporary",
    )
    data.parent.mkdir()
    neighbour.mkdir(parents=True)
    data.write_text("n\n1\n")
    plan = make_plan(load(os.path.relpath(data)))
    convert.convert(plan, output, quiet=True)
    convert.convert(plan, output, overwrite=True, quiet=True)
    assert verify_dataset(output).rows == 1
    assert neighbour.exists()
