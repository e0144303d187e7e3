"""Rejected rows are complete, ordered, counted, and never in examples.

The tests compare several runners and workers with plain Python.
"""

from __future__ import annotations

import csv
import io
import json
import pathlib
import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.limits import allowed_rows
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.sources import plan as plan_module
from beam_pipelines.transforms import read
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.select.reject import _SelectOrReject
from beam_pipelines.transforms.select.rejected_files import store_rejected, write_rejected
from tests.support.runs import plan_in, short_ranges
from tests.support.tables import write_table

pytestmark = pytest.mark.end_to_end

ROWS = 240

RECIPE = """
name: visits
sources:
  visits: {path: "visits*.csv", types: {id: int64, user: text, amount: text, big: float64, note: text}}
  users: {path: users.jsonl, types: {age: int64}}
from: visits
join:
  - {source: users, on: user, how: HOW, strategy: STRATEGY}
filter: CAST(amount AS BIGINT) <> 7
derive:
  due: CAST(amount AS BIGINT) + CAST(nick AS BIGINT)
drop: [amount, nick]
ENCODE
on_error: {reject: BUDGET}
output: {num_shards: 2}
"""
# Another process builds the graph, which takes a while.
ENCODE = (
    "encode: {total: [{column: due}, {cast: int64}], half: [{column: age}, {cast: float32}, "
    "z_score]}"
)


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts small files into several ranges."""
    short_ranges(monkeypatch, 1_500)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Visits in three files, and users.

    Some visits cannot be read, selected or encoded.
    """
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(4)
    for part in range(3):
        lines = ["id,user,amount,big,note"]
        for number in range(ROWS // 3):
            amount = rng.choice([*range(9), *range(9), "many"])
            row = [number, f"u{rng.randrange(40)}", amount, rng.choice([1.5] * 30 + ["1e300"])]
            note = rng.choice(["", "fine", '"two\nlines"', '"a ""quote"""'])
            lines.append(
                ",".join(map(str, row)) + rng.choice([f",{note}"] * 30 + ["", f",{note},more"])
            )
            lines.extend([""] * (rng.random() < 0.02))
        lines[50] = f"x{lines[50]}"
        (folder / f"visits{part}.csv").write_text("\n".join(lines) + "\n")
    users = [{"user": f"u{number}", "age": number, "nick": str(number)} for number in range(35)]
    users += [
        {"user": f"u{number}", "age": number, "nick": "no" if number == 3 else "1"}
        for number in range(0, 35, 3)
    ]
    texts = [json.dumps(user) for user in users]
    texts[5:5] = ['{"user": "u1", "age": "old", "nick": "1"}', "{"]
    (folder / "users.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def converted(
    data: pathlib.Path, output: pathlib.Path, recipe: str, *options: str, **arguments: Any
) -> Manifest:
    """Converts and returns the manifest."""
    for key, value in (
        {"HOW": "left", "STRATEGY": "broadcast", "BUDGET": "50%"} | arguments.pop("texts", {})
    ).items():
        recipe = recipe.replace(key, value)
    plan = plan_in(data, recipe)
    return convert.convert(plan, str(output), beam_options=options, quiet=True, **arguments)


def rejected(output: pathlib.Path, source: str) -> list[dict[str, str]]:
    """Returns the rows in rejected/, and checks that none is missing."""
    path = output / "rejected" / f"{source}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    assert all(
        list(row) == ["source", "file", "position", "column", "reason", "text"] for row in rows
    )
    assert all(row["source"] == source and row["reason"] and row["text"] for row in rows)
    return rows


def written(output: pathlib.Path) -> Counter[tuple[Any, ...]]:
    """Returns the values of all examples, read by TensorFlow."""
    paths = sorted(str(path) for path in output.rglob("*.tfrecord.gz"))
    found: Counter[tuple[Any, ...]] = Counter()
    for record in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        user = feature["user"].bytes_list.value[0].decode()
        found[
            (feature["id"].int64_list.value[0], user, tuple(feature["due"].int64_list.value))
        ] += 1
    return found


def records(text: str) -> list[tuple[int, str, list[str]]]:
    """Cuts a CSV file in plain Python: line, text and cells."""
    lines = text.split("\n")
    found, first = [], 2
    while first <= len(lines):
        last = first
        while "\n".join(lines[first - 1 : last]).count('"') % 2:
            last += 1
        record = "\n".join(lines[first - 1 : last])
        if record:
            (cells,) = csv.reader(io.StringIO(record, newline=""))
            found.append((first, record, cells))
        first = last + 1
    return found


def is_integer(text: str) -> bool:
    """Returns whether int() takes a text."""
    try:
        int(text)
    except ValueError:
        return False
    return True


def expected(
    data: pathlib.Path, how: str
) -> tuple[list[tuple[str, int, str, str]], Counter[tuple[Any, ...]], int]:
    """Returns rejected (file, line, column, text), written values, and filtered rows."""
    users: dict[str, list[str | None]] = {}
    for line in (data / "users.jsonl").read_text().splitlines():
        if line != "{" and json.loads(line)["age"] != "old":
            users.setdefault(json.loads(line)["user"], []).append(json.loads(line)["nick"])
    bad, good, filtered = [], Counter[tuple[Any, ...]](), 0
    for path in sorted(data.glob("visits*.csv")):
        for number, text, cells in records(path.read_text()):
            column, own, dropped = verdict(cells, users, [None] if how == "left" else [])
            if column is not None:
                bad.append((str(path), number, column, text))
            else:
                good += own
                filtered += dropped
    return bad, good, filtered


def verdict(
    cells: list[str], users: dict[str, list[str | None]], unmatched: list[str | None]
) -> tuple[str | None, Counter[tuple[Any, ...]], int]:
    """Returns the column that rejects a record, or its values.

    It also returns the record's filtered rows.
    """
    own = Counter[tuple[Any, ...]]()
    if len(cells) != 5:
        return "", own, 0
    if not is_integer(cells[0]):
        return "id", own, 0
    if not is_integer(cells[2]):
        return "", own, 0
    if int(cells[2]) == 7:
        return None, own, 1
    for nick in users.get(cells[1], unmatched):
        if nick is not None and not is_integer(nick):
            return "due", own, 0
        else:
            own[
                (int(cells[0]), cells[1], () if nick is None else (int(cells[2]) + int(nick),))
            ] += 1
    return ("big", Counter(), 0) if own and float(cells[3]) > 1e39 else (None, own, 0)


@pytest.mark.parametrize(
    ("how", "strategy", "options"),
    [
        ("left", "broadcast", []),
        ("inner", "hash", ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]),
        ("left", "hash", ["--direct_num_workers=3", "--direct_running_mode=multi_threading"]),
        pytest.param(
            "inner",
            "broadcast",
            ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rows_are_rejected_as_plain_python_does(
    data: pathlib.Path, tmp_path: pathlib.Path, how: str, strategy: str, options: list[str]
) -> None:
    """Reader, filter, derived columns, joins and encodings reject rows in order."""
    texts = {"HOW": how, "STRATEGY": strategy, "ENCODE": ENCODE if strategy == "broadcast" else ""}
    manifest = converted(data, tmp_path / "out", RECIPE, *options, texts=texts)
    bad, good, filtered = expected(data, how)
    rows = rejected(tmp_path / "out", "visits")
    assert [
        (row["file"], int(row["position"].removeprefix("line ")), row["column"], row["text"])
        for row in rows
    ] == bad
    assert {row[2] for row in bad} == {"", "id", "due", "big"}
    assert written(tmp_path / "out") == good
    counts = manifest.counts
    assert (counts.rejected, counts.filtered, counts.written) == (len(bad), filtered, good.total())
    assert counts.read + counts.rejected == sum(
        len(records(path.read_text())) for path in data.glob("*.csv")
    )
    assert counts.read + counts.added == counts.written + counts.filtered + counts.dropped
    users = rejected(tmp_path / "out", "users")
    assert [row["position"] for row in users] == ["line 6", "line 7"]
    assert (manifest.sources["users"].read, manifest.sources["users"].rejected) == (47, 2)


@pytest.mark.parametrize(("enough", "short"), [("9", "8"), ("4.5%", "4.4999999%")])
def test_the_budget_is_exact(tmp_path: pathlib.Path, enough: str, short: str) -> None:
    """Nine of 200 bad rows pass a budget of nine.

    They fail one of eight.
    """
    values = [str(number) for number in range(200)]
    for number in (3, 4, 50, 99, 100, 150, 151, 198):
        values[number] = "x"
    values[120] = "1,2"
    for part, start in enumerate(range(0, 200, 40)):
        (tmp_path / f"{part}.csv").write_text(
            "t\n" + "".join(f"{value}\n" for value in values[start : start + 40])
        )
    recipe = (
        'name: a\nsources: {a: {path: "*.csv", types: {t: text}}}\nderive: {n: CAST(t AS '
        "BIGINT)}\non_error: {reject: BUDGET}"
    )
    threads = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    manifest = converted(tmp_path, tmp_path / "out", recipe, *threads, texts={"BUDGET": enough})
    assert (manifest.counts.read, manifest.counts.rejected) == (191, 9)
    with pytest.raises(DataError, match=r"source 'a': 9 of 200 rows are bad \(4.50%\)"):
        converted(tmp_path, tmp_path / "none", recipe, *threads, texts={"BUDGET": short})
    assert not list((tmp_path / "none").rglob("*.json*"))


@given(st.integers(0, 9_999), st.integers(0, 10**9))
def test_shares_are_decimals(hundredths: int, total: int) -> None:
    """A share of 0.29 allows 29 of 100 rows."""
    text = f"{hundredths // 100}.{hundredths % 100:02}%"
    recipe = parse_recipe(
        f"name: a\nsources: {{a: a.csv}}\non_error: {{reject: {text}}}", "r.yaml", ""
    )
    assert allowed_rows(recipe.on_error.reject, total) == hundredths * total // 10_000
    assert allowed_rows(hundredths, total) == hundredths


@pytest.mark.parametrize("budget", ["-1", "1.5", "100%", "many", "true", "2%%"])
def test_budgets_that_are_none(budget: str) -> None:
    """A budget is a number of rows or a share below one."""
    with pytest.raises(RecipeError, match="or a whole number of rows, as 100"):
        parse_recipe(
            f"name: a\nsources: {{a: a.csv}}\non_error: {{reject: {budget}}}", "r.yaml", ""
        )


WRONG = (3, 4, 11)
VALUES = [str(number) if number not in WRONG else "x" for number in range(20)]


def write_values(path: pathlib.Path) -> None:
    """Writes one cell a row, three rows a group or batch."""
    write_table(path, pa.table({"t": VALUES, "u": [1] * len(VALUES)}), 3)


def write_records(path: pathlib.Path) -> None:
    """Writes examples, or texts, as TFRecord."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for value in VALUES:
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
            example = tf.train.Example(
                features=tf.train.Features(feature={"t": feature})
            ).SerializeToString()
            writer.write(value.encode() if path.suffix == ".raw" else example)


def write_text(path: pathlib.Path) -> None:
    """Writes lines; for libsvm, one of them a comment."""
    line = "{}\n" if path.suffix == ".lines" else "{} 1:2\n"
    labels = ["-1" if value == "x" and path.suffix == ".svm" else value for value in VALUES]
    path.write_text(
        ("# no row\n" if path.suffix == ".svm" else "")
        + "".join(line.format(label) for label in labels)
    )


def write_idx(path: pathlib.Path) -> None:
    """Writes pictures of one pixel and their labels, some of them 255."""
    numbers = np.array([255 if value == "x" else int(value) for value in VALUES], np.uint8)
    count = np.array([20, 1, 1], ">i4").tobytes()
    path.write_bytes(bytes([0, 0, 8, 3]) + count + numbers.tobytes())
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    labels.write_bytes(bytes([0, 0, 8, 1]) + count[:4] + numbers.tobytes())


FORMATS: dict[str, tuple[Any, str, str, str, int]] = {
    "a.csv": (write_values, "csv", "CAST(t AS BIGINT)", "line", 2),
    "a.csv.gz": (write_values, "csv", "CAST(t AS BIGINT)", "line", 2),
    "a.parquet": (write_values, "parquet", "CAST(t AS BIGINT)", "row", 1),
    "a.arrow": (write_values, "arrow", "CAST(t AS BIGINT)", "row", 1),
    "a.tfrecord": (write_records, "tfrecord", "CAST(CAST(t AS VARCHAR) AS BIGINT)", "record", 0),
    "a.raw": (write_records, "raw_records", "CAST(CAST(record AS VARCHAR) AS BIGINT)", "record", 0),
    "a.lines": (write_text, "lines", "CAST(line AS BIGINT)", "line", 1),
    "a.svm": (
        write_text,
        "libsvm",
        "CAST(CASE WHEN label < 0 THEN 'x' ELSE '1' END AS BIGINT)",
        "line",
        2,
    ),
    "a-images-idx3-ubyte": (
        write_idx,
        "idx",
        "CAST(CASE WHEN \"image/class/label\" = 255 THEN 'x' ELSE '1' END AS BIGINT)",
        "image",
        0,
    ),
}


def rejected_by_reading(folder: pathlib.Path, text: str) -> list[Rejected]:
    """Reads and selects the ranges of a recipe's only source in order.

    Returns:
      The rejected rows.
    """
    plan = plan_in(folder, text)
    select, positions = _SelectOrReject(plan.checks, plan.base), RowPositions(plan.base)
    chunks = (
        chunk
        for byte_range in plan.base.ranges
        for chunk in read.number_rows(
            read.read_range(plan.base, byte_range, positions.quote_states(byte_range), reject=True)
        )
    )
    return [
        bad for chunk in chunks for selected in select.process(chunk) for bad in selected.rejected
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_knows_where_its_rows_lie(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A derived column's bad row has the format's position."""
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (40,))
    write, format_, sql, word, first = FORMATS[name]
    write(tmp_path / name)
    (tmp_path / "s.pbtxt").write_text(
        'feature { name: "t" type: BYTES presence { min_fraction: 1 } shape { } }'
    )
    more = ", schema: s.pbtxt" if format_ == "tfrecord" else ""
    recipe = (
        f"name: a\nsources: {{a: {{path: {name}, format: {format_}{more}}}}}\nderive: {{n: "
        f"{json.dumps(sql)}}}\non_error: {{reject: 3}}"
    )
    rows = rejected_by_reading(tmp_path, recipe)
    assert [row.position for row in rows] == [f"{word} {first + row}" for row in WRONG]
    assert all(
        "Could not convert string 'x'" in row.reason and row.column == "n" and row.text
        for row in rows
    )


def test_images_are_named_by_their_files(tmp_path: pathlib.Path) -> None:
    """Rejected images have their files.

    A derived column rejects one image, the reader another.
    """
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(6):
        png = tf.io.encode_png(np.zeros((number + 1, 2, 3), np.uint8)).numpy()
        (folder / f"{number}.png").write_bytes(b"no image" if number == 1 else png)
    recipe = (
        "name: a\nsources: {a: {path: images, format: images}}\n"
        "derive:\n  n: CASE WHEN \"image/height\" IN (3, 6) THEN CAST('x' AS BIGINT) ELSE 1 "
        "END\non_error: {reject: 3}"
    )
    rows = rejected_by_reading(tmp_path, recipe)
    assert sorted((pathlib.Path(row.file).name, row.column) for row in rows) == [
        ("1.png", ""),
        ("2.png", "n"),
        ("5.png", "n"),
    ]


def stored(folder: pathlib.Path, ranges: int, rows: int) -> list[Sequence[str]]:
    """Stores rows of ranges, in two chunks each."""
    found: list[Sequence[str]] = []
    for number in range(ranges):
        chunks = [
            Chunk(
                number,
                part,
                pa.record_batch([]),
                {},
                tuple(row(number, line) for line in range(part, rows, 2)),
            )
            for part in (0, 1)
        ]
        found.append([store_rejected(chunk, str(folder)) for chunk in chunks])
    return found


def row(number: int, line: int) -> Rejected:
    """Returns a rejected row with a file name that is not UTF-8."""
    return Rejected("a", "a\udce4.csv", f"line {number * 1000 + line}", "", "wrong", "x" * 500)


def test_rejected_rows_take_no_memory(tmp_path: pathlib.Path) -> None:
    """Forty ranges of 300 rows are sorted in the memory of one."""
    files = stored(tmp_path / "stored", 40, 300)
    tracemalloc.start()
    write_rejected(str(tmp_path / "all.jsonl"), files, {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = (tmp_path / "all.jsonl").stat().st_size
    assert peak < size / 5
    lines = [
        Rejected(**json.loads(line)) for line in (tmp_path / "all.jsonl").read_text().splitlines()
    ]
    assert lines == [row(number, line) for number in range(40) for line in range(300)]


def test_a_repeated_commit_finds_them_written(tmp_path: pathlib.Path) -> None:
    """A retry after the removal of temporary files keeps the written file."""
    files = stored(tmp_path / "stored", 2, 3)
    path = tmp_path / "all.jsonl"
    write_rejected(str(path), files, {})
    before = path.read_bytes()
    for folder in files:
        for file in folder:
            pathlib.Path(file).unlink()
    write_rejected(str(path), files, {})
    assert path.read_bytes() == before
