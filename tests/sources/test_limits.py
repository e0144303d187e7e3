"""Every limit on every format.

Values within a limit are read, others are an error.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native, limits
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.limits import Limits
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.sources.bad_input.bad_values import LargeCell, large_cell
from beam_pipelines.sources.json import parser
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.text import blocks, quotes
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, source, write
from tests.support.tables import table_as

KIB = 1024
# Bytes that may come out of any file in these tests.
FREE_BYTES = 1 << 20


def framed(records: list[bytes]) -> bytes:
    """Returns a TFRecord file."""
    return b"".join(_native.frame(pa.array(records, pa.binary())).to_pylist())


def read_all(*paths: str | Path, bounds: Limits, **options: Any) -> int:
    """Plans and reads a source, and returns its rows."""
    return read.read_table(plan_of(*paths, limits=bounds, **options), reject=True)[0].num_rows


LINE_CASES: dict[str, tuple[str, Callable[[int], bytes], dict[str, Any]]] = {
    "csv": ("a.csv", lambda size: b"a,b\n1,x\n2," + b"y" * (size - 2) + b"\n3,z\n", {}),
    "csv in quotes": ("a.csv", lambda size: b'a,b\n1,"x"\n2,"' + b"y\n" * (size // 2 - 2) + b'"\n3,z\n', {}),
    "csv without an end": ("a.csv", lambda size: b"a,b\n1,x\n2," + b"y" * (size - 2), {}),
    "csv of windows": ("a.csv", lambda size: b"a,b\r\n1,x\r\n2," + b"y" * (size - 2) + b"\r\n", {}),
    "json": ("a.jsonl", lambda size: b'{"a":"x"}\n{"a":"' + b"y" * (size - 8) + b'"}\n', {}),
    "lines": ("a.log", lambda size: b"x\n" + b"y" * size + b"\n", {"format": "lines"}),
    "libsvm": ("a.svm", lambda size: b"1 1:1\n1 2:" + b"0" * (size - 5) + b"1\n", {}),
    "csv.gz": ("a.csv.gz", lambda size: gzip.compress(b"a,b\n1,x\n2," + b"y" * (size - 2) + b"\n"), {}),
    "records": ("a.rec", lambda size: framed([b"x", b"y" * size]), {"format": "raw_records"}),
    "records.gz": ("a.rec.gz", lambda size: gzip.compress(framed([b"x", b"y" * size])), {"format": "raw_records"}),
}  # fmt: skip


@pytest.mark.parametrize("case", LINE_CASES)
def test_line_bytes(tmp_path: Path, case: str) -> None:
    """A record beyond the limit by two bytes is an error.

    It says where the record is, and the option to set. A record at the limit is read.
    """
    name, content, options = LINE_CASES[case]
    bounds = Limits(line_bytes=4 * KIB)
    fits = write(tmp_path / f"fits-{name}", content(4 * KIB))
    assert read_all(fits, bounds=bounds, **options) >= 2
    long = write(tmp_path / name, content(4 * KIB + 2))
    with pytest.raises(DataError) as error:
        read_all(long, bounds=bounds, **options)
    where = "record 1, offset 17" if "records" in case else "line 3" if "csv" in case else "line 2"
    assert str(error.value).startswith(f"{long}, {where}: found a ")
    assert "expected at most 4,096 (the limit 'line_bytes')" in str(error.value)
    assert "'limits: {line_bytes: …}'" in str(error.value)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.integers(1, 41),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_long_records_are_found_like_one_by_one(lengths, most, end, quoted):
    """Jumping over windows finds the first long record, as measuring all does."""
    records = [
        f'"{"a" + end}{"b" * length}"' if quoted and length % 3 == 0 else "b" * length
        for length in lengths
    ]
    data = "".join(record + end for record in records).encode()
    toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, Dialect(ord(","), ord('"')))
    long = [number for number, record in enumerate(records) if len(record) > most]
    starts = [
        sum(len(record) + len(end) for record in records[:number]) for number in range(len(records))
    ]
    assert quotes.long_record(data, toggles, most) == (starts[long[0]] if long else -1)


def texts(size: int) -> pa.Table:
    return pa.table({"a": ["x", "y" * size], "b": [1, 2]})


CELL_CASES: dict[str, tuple[str, Callable[[int], bytes], str, dict[str, Any]]] = {
    "csv": ("a.csv", lambda size: b"a,b\nx,1\n" + b"y" * size + b",2\n", "line 3, column 'a'", {}),
    "json": ("a.jsonl", lambda size: b'{"a":"x"}\n\n{"a":"' + b"y" * size + b'"}\n', "line 3, column 'a'", {}),
    "json list": ("a.jsonl", lambda size: (b'{"a":[1]}\n{"a":[' + b",".join([b"7"] * (size // 8 + (size % 8 > 0))) + b"]}\n"),
                  "line 2, column 'a'", {}),
    "json list of texts": ("a.jsonl", lambda size: (b'{"a":["x"]}\n{"a":["' + b"y" * 1000 + b'","' + b"y" * (size - 1000) + b'"]}\n'),
                           "line 2, column 'a'", {}),
    "parquet": ("a.parquet", lambda size: table_as("parquet", texts(size)), "row 2, column 'a'", {}),
    "arrow": ("a.arrow", lambda size: table_as("arrow", texts(size)), "row 2, column 'a'", {}),
    "lines": ("a.log", lambda size: b"x\n" + b"y" * size + b"\n", "line 2, column 'line'", {"format": "lines"}),
    "records": ("a.rec", lambda size: framed([b"x", b"y" * size]), "record 1, column 'record'", {"format": "raw_records"}),
    "libsvm": ("a.svm", lambda size: (b"1 1:1\n1 " + b" ".join(b"%d:1" % n for n in range(1, size // 8 + (size % 8 > 0) + 1)) + b"\n"),
               "line 2, column 'features_index'", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CELL_CASES)
def test_cell_bytes(tmp_path: Path, case: str) -> None:
    """A value beyond the limit by two bytes is an error.

    It has file, row and column. A value at the limit is read.
    """
    name, content, where, options = CELL_CASES[case]
    bounds = Limits(cell_bytes=4 * KIB)
    fits = write(tmp_path / f"fits-{name}", content(4 * KIB))
    assert read_all(fits, bounds=bounds, **options) == 2
    large = write(tmp_path / name, content(4 * KIB + 2))
    with pytest.raises(DataError) as error:
        read_all(large, bounds=bounds, **options)
    assert str(error.value).startswith(f"{large}, {where}: found " if where else f"{large}: found ")
    assert "'limits: {cell_bytes: …}'" in str(error.value)


def test_an_image_file_is_a_cell(tmp_path: Path) -> None:
    """A file beyond ``cell_bytes`` is refused before it is read."""
    path = write(tmp_path / "a.png", b"\x89PNG" + bytes(5000))
    with pytest.raises(
        DataError, match=r"a\.png: found an image file of 5,004 bytes.*'cell_bytes'"
    ):
        read_all(path, bounds=Limits(cell_bytes=5000))


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.text(max_size=9)), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.string())
    ),
    st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.binary())
    ),
    st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.list_(pa.int64()))
    ),
    st.lists(st.lists(st.text(max_size=5), max_size=4), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.list_(pa.string()))
    ),
)


def size_of(value: Any) -> int:
    if isinstance(value, list):
        return sum(8 if isinstance(item, int) else len(item.encode()) for item in value)
    return 0 if value is None else len(value.encode() if isinstance(value, str) else value)


@given(VALUES, st.integers(0, 30), st.integers(0, 2))
def test_large_cells_are_found_like_one_by_one(array: pa.Array, most: int, start: int) -> None:
    """The first large value is found as by measuring each one.

    This holds in slices, too.
    """
    batch = pa.RecordBatch.from_arrays([array], ["a"]).slice(start)
    sizes = [size_of(value) for value in array.to_pylist()[start:]]
    large = [(row, size) for row, size in enumerate(sizes) if size > most]
    expected = LargeCell(large[0][0], "a", large[0][1]) if large else None
    assert large_cell(batch, most) == expected


def nested_json(depth: int) -> bytes:
    """Returns lines whose second is nested, objects and lists in turn."""
    value: Any = 1
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return (
        json.dumps({"a": 1, "b": "[[["}).encode()
        + b"\n"
        + json.dumps({"z": value}).encode()
        + b"\n"
    )


def test_nesting_depth_of_json(tmp_path: Path) -> None:
    """One level of nesting too many is an error.

    Brackets in texts do not count.
    """
    inner = write(tmp_path / "a.jsonl", b'{"a":"' + b"[{" * 50 + b'\\"[[["}\n{"a":"]]"}\n')
    assert read_all(inner, bounds=Limits(nesting_depth=2)) == 2
    deep = write(tmp_path / "b.jsonl", nested_json(6))
    with pytest.raises(
        DataError,
        match=r"b\.jsonl, line 2: found values nested more than 5 levels.*'nesting_depth'",
    ):
        plan_of(deep, limits=Limits(nesting_depth=5))
    schema = plan_of(deep, limits=Limits(nesting_depth=6), columns=("a",)).schema
    assert schema.names == ["a"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":' + b"[" * 100_000 + b"1" + b"]" * 100_000 + b"}\n",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"a":' + b"[" * 100_000 + b"\n",
    ],
)
def test_json_nested_a_hundred_thousand_deep(tmp_path: Path, content: bytes) -> None:
    """No stack overflows: it is an error with its line.

    That holds when types are inferred, and when they are known.
    """
    path = write(tmp_path / "a.jsonl", b'{"a":1}\n' * 3 + content)
    with pytest.raises(
        DataError, match=r"a\.jsonl, line 4: found values nested more than 64 levels"
    ):
        plan_of(path)
    good = write(tmp_path / "b.jsonl", b'{"a":1}\n')
    plan = plan_of(good)
    Path(good).write_bytes(Path(path).read_bytes())
    byte_range = plan.ranges[0]
    grown = FileInfo(good, os.path.getsize(good))
    with pytest.raises(
        DataError, match=r"b\.jsonl, line 4: found values nested more than 64 levels"
    ):
        list(
            read.read_range(
                plan, type(byte_range)(0, 0, grown, 0, grown.size_bytes), {}, reject=True
            )
        )


def test_what_is_not_read_may_be_deep(tmp_path: Path) -> None:
    """A field that is left out is skipped at any depth."""
    good = write(tmp_path / "a.jsonl", b'{"a":1,"b":2}\n')
    plan = plan_of(good, columns=("a",))
    content = b'{"a":1,"b":2}\n{"a":5,"b":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    grown = FileInfo(write(tmp_path / "a.jsonl", content), len(content))
    (chunk,) = read.read_range(
        plan, type(plan.ranges[0])(0, 0, grown, 0, len(content)), {}, reject=False
    )
    assert chunk.batch.to_pydict() == {"a": [1, 5]}


JSON_VALUES = st.recursive(
    st.one_of(st.integers(), st.text('[]{}"\\a,: ', max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
    ),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(
    st.lists(
        st.dictionaries(st.text('[]{}"\\a', max_size=3), JSON_VALUES, max_size=3),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 6),
)
def test_depth_is_that_of_parsed_values(values: list[dict[str, Any]], most: int) -> None:
    """The first deep line by brackets is the first by parsed values."""
    data = b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)
    deep = [number for number, value in enumerate(values, start=1) if depth_of(value) > most]
    src = source("a.jsonl", limits=Limits(nesting_depth=most))
    body = blocks.Body(0, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser.blocks.LineNumbers, "line", lambda _, at: 1 + data.count(b"\n", 0, at))
        refused = pytest.raises(DataError, match=f"line {deep[0]}: " if deep else "")
        with refused if deep else contextlib.nullcontext():
            parser.check_depth(src, FileInfo("a.jsonl", len(data)), body)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_nesting_depth_of_columns(tmp_path: Path, suffix: str) -> None:
    """Nested columns are refused by their type, before a value is read."""
    type_ = pa.int64()
    for level in range(5):
        type_ = pa.struct([("a", type_)]) if level % 2 else pa.list_(type_)
    table = pa.table({"a": pa.array([None], type_), "b": [1]})
    path = write(tmp_path / f"a.{suffix}", table_as(suffix, table))
    with pytest.raises(
        DataError,
        match=r"found columns nested 6 levels deep, expected at most 5 \(the limit 'nesting_depth'",
    ):
        plan_of(path, limits=Limits(nesting_depth=5))
    assert "b" in plan_of(path, limits=Limits(nesting_depth=6), columns=("b",)).schema.names


def wide(columns: int, suffix: str) -> bytes:
    return table_as(suffix, pa.table({f"c{number}": [1] for number in range(columns)}))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_columns(tmp_path: Path, suffix: str) -> None:
    """One column beyond the limit is an error, selected or not."""
    bounds = Limits(columns=20)
    assert read_all(write(tmp_path / f"a.{suffix}", wide(20, suffix)), bounds=bounds) == 1
    path = write(tmp_path / f"b.{suffix}", wide(21, suffix))
    with pytest.raises(
        DataError, match=r"found 21 columns, expected at most 20 \(the limit 'columns'\)"
    ):
        plan_of(path, limits=bounds, columns=("c1",))


def test_a_header_of_a_hundred_thousand_columns(tmp_path: Path) -> None:
    """A header of too many columns is refused."""
    path = write(tmp_path / "a.csv", wide(100_000, "csv"))
    with pytest.raises(DataError, match="line 1: found 100,000 columns, expected at most 50,000"):
        plan_of(path)


def test_a_cell_of_a_header_may_be_long(tmp_path: Path) -> None:
    """Python's csv module alone refuses cells of more than 128 KiB."""
    path = write(tmp_path / "a.csv", b"x" * 200_000 + b",b\n1,2\n")
    assert plan_of(path).schema.names == ["x" * 200_000, "b"]


def bomb(compress: Callable[[bytes], bytes], chunk: bytes) -> bytes:
    """Returns a file of chunks that grow beyond ``FREE_BYTES``."""
    return compress(chunk * (FREE_BYTES // len(chunk) + 1))


def parquet_bomb() -> bytes:
    table, sink = pa.table({"a": np.zeros(FREE_BYTES // 8 + 100)}), io.BytesIO()
    pq.write_table(table, sink, 1 << 30, use_dictionary=False, compression="zstd")
    return sink.getvalue()


def arrow_bomb(kind: str, compression: str, values: str) -> bytes:
    """Returns an Arrow file or stream that grows beyond ``FREE_BYTES``."""
    zeros = pa.array(np.zeros(FREE_BYTES // 8 + 100, np.int64))
    column = pa.DictionaryArray.from_arrays([0], zeros) if values == "dictionary" else zeros
    rows = 1000 if values == "batches" else None
    sink = io.BytesIO()
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    table = pa.table({"a": column})
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, rows)
    return sink.getvalue()


RATIO_CASES: dict[str, tuple[str, Callable[[], bytes], dict[str, Any]]] = {
    "csv.gz": ("a.csv.gz", lambda: bomb(gzip.compress, b"1,2\n" * KIB), {}),
    "csv.bz2": ("a.csv.bz2", lambda: bomb(bz2.compress, b"1,2\n" * KIB), {}),
    "csv.zst": ("a.csv.zst", lambda: bomb(lambda data: pa.compress(data, "zstd", asbytes=True), b"1,2\n" * KIB), {}),
    "json.gz": ("a.jsonl.gz", lambda: bomb(gzip.compress, b'{"a":1}\n' * KIB), {}),
    "lines.gz": ("a.log.gz", lambda: bomb(gzip.compress, b"some text\n" * KIB), {"format": "lines"}),
    "libsvm.gz": ("a.svm.gz", lambda: bomb(gzip.compress, b"1 1:1\n" * KIB), {}),
    "idx.gz": ("a.idx.gz", lambda: gzip.compress(struct.pack(">HBBIII", 0, 8, 3, FREE_BYTES + 100, 1, 1) + bytes(FREE_BYTES + 100)), {}),
    "records.gz": ("a.rec.gz", lambda: bomb(gzip.compress, framed([b"y" * 1000] * 16)), {"format": "raw_records"}),
    "records.zlib": ("a.rec.zlib", lambda: bomb(zlib.compress, framed([b"y" * 1000] * 16)), {"format": "raw_records"}),
    "parquet": ("a.parquet", parquet_bomb, {}),
    **{
        f"arrow {kind} {compression} {values}": (
            "a.arrow",
            functools.partial(arrow_bomb, kind, compression, values),
            {},
        )
        for kind in ("file", "stream")
        for compression in ("zstd", "lz4")
        for values in ("one batch", "batches", "dictionary")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", RATIO_CASES)
def test_decompression_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """A file that grows too much is an error.

    The limit can be raised.
    """
    monkeypatch.setattr(limits, "FREE_BYTES", FREE_BYTES)
    name, content, options = RATIO_CASES[case]
    path = write(tmp_path / name, content())
    with pytest.raises(
        DataError,
        match=r"decompressed from .* expected at most 100 \(the limit 'decompression_ratio'\)",
    ):
        read_all(path, bounds=Limits(decompression_ratio=100), **options)
    first = next(
        iter(
            read.read_range(
                plan := plan_of(path, limits=Limits(decompression_ratio=1 << 40), **options),
                plan.ranges[0],
                {},
                reject=False,
            )
        )
    )
    assert first.batch.num_rows > 0


def test_little_may_grow_as_it_likes(tmp_path: Path) -> None:
    """Below 64 MiB there is no danger in any ratio."""
    path = write(tmp_path / "a.csv.bz2", bz2.compress(b"a,b\n" + b"1,2\n" * 100_000))
    assert os.path.getsize(path) < 1000
    assert read_all(path, bounds=Limits(decompression_ratio=1)) == 100_000


def limits_of(text_: str) -> Limits:
    return parse_recipe(f"name: t\nsources: {{t: a.csv}}\nlimits: {text_}\n", "recipe.yaml").limits


def test_limits_of_a_recipe() -> None:
    """All keys are read, bytes with units; the others keep their default."""
    assert limits_of(
        "{line_bytes: 1 MiB, cell_bytes: 2 KB, nesting_depth: 3, image_pixels: 4, "
        "decompression_ratio: 5, columns: 6, archive_files: 7}"
    ) == Limits(1 << 20, 2000, 3, 4, 5, 6, 7)
    assert limits_of("{columns: 9}") == Limits(columns=9)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ("{lines: 5}", "recipe.yaml:3: limits.lines: found an unknown key 'lines'. Did you mean 'line_bytes'"),
        ("{line_bytes: 5}", "limits.line_bytes: found '5', expected at least 1 KiB"),
        ("{nesting_depth: 201}", "limits.nesting_depth: found '201', expected a whole number from 1 to 200"),
        ("{columns: 0}", "limits.columns: found '0', expected a whole number of at least 1"),
        ("{decompression_ratio: 1.5}", "limits.decompression_ratio: found '1.5', expected a whole number"),
        ("5", "limits: found '5', expected a mapping such as {line_bytes: 256 MiB}"),
    ],
)  # fmt: skip
def test_wrong_limits(given_: str, message: str) -> None:
    """A value that is no limit is an error with its line."""
    with pytest.raises(RecipeError) as error:
        limits_of(given_)
    assert message in str(error.value)


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)


@pytest.mark.parametrize(
    "text_",
    [
        ALIASES,
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "a: " + "[" * 100_000 + "]" * 100_000 + "\n",
        "a: " + "{b: " * 100_000 + "}" * 100_000 + "\n",
        "".join(f"{' ' * level}a:\n" for level in range(1_000)),
        "- " * 50_000 + "a\n",
        "a: " + "[" * 40 + "]" * 40 + "\n",
    ],
    ids=[
        "laughs",
        "list in itself",
        "mapping in itself",
        "lists",
        "mappings",
        "indented",
        "dashes",
        "40 levels",
    ],
)
def test_recipes_that_explode(text_: str) -> None:
    """Multiplying aliases, values within themselves and depth are quick errors."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(RecipeError, match=r"recipe.yaml.*(levels|values|found|not valid)"):
            parse_recipe(text_, "recipe.yaml")
        assert tracemalloc.get_traced_memory()[1] < 500 << 20
        assert time.process_time() - start < 20
    finally:
        tracemalloc.stop()


def peak_bytes(folder: Path, *arguments: str) -> tuple[int, str, int]:
    """Runs the command line and measures its memory.

    Returns:
      Its exit status, its output, and the most memory that its processes had together.
    """
    command = [sys.executable, "-m", "beam_pipelines", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = psutil.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    peak = 0
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(psutil.Error):
            peak = max(
                peak,
                sum(one.memory_info().rss for one in (process, *process.children(recursive=True))),
            )
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
    return process.returncode, process.stdout.read().decode(), peak


def bomb_of(path: Path, chunk: bytes, size: int) -> None:
    """Writes a gzip file, of equal members, that becomes so many bytes."""
    chunk *= (64 << 20) // len(chunk)
    path.write_bytes(gzip.compress(chunk) * (size // len(chunk)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["zeros.csv.gz", "rows.csv.gz", "line.csv", "line.jsonl", "line.svm"]
)
def test_bombs_are_stopped_while_they_are_read(tmp_path: Path, kind: str) -> None:
    """Small files that become many gigabytes are quick errors.

    They are 10 MB that become 10 GB, and a line of 3 GB. They take little more memory than the
    command itself.
    """
    (tmp_path / "good.csv").write_text("a,b\n" + "1,2\n" * 1000)
    status, _, usual = peak_bytes(tmp_path, "convert", "good.csv", "--output", "out", "--quiet")
    assert status == 0
    if kind.endswith(".gz"):
        bomb_of(tmp_path / kind, b"1,2\n" if kind.startswith("rows") else bytes(4), 10 << 30)
        assert 9 << 20 < (tmp_path / kind).stat().st_size < 11 << 20
    else:
        with (tmp_path / kind).open("wb") as file:
            file.truncate(3 << 30)
    status, printed, peak = peak_bytes(tmp_path, "convert", kind, "--output", "bad", "--quiet")
    assert status == 1
    assert "'decompression_ratio'" in printed or "'line_bytes'" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "bad" / "dataset.json").exists()
    assert peak < usual + (700 << 20)
