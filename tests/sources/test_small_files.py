"""Small files read together give the rows and errors of each alone."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import plan, planner
from beam_pipelines.transforms import read
from tests.support.runs import convert_in, plan_in
from tests.support.tables import write_table

LINES = [
    "1,x",
    "2,y",
    '3,"a,b"',
    '4,"two\nlines"',
    '5,"""q"""',
    "",
    "x,1",
    "1",
    "1,2,3",
    '7,"y"z',
    "8,é",
    '9,x"y',
    "10,",
]
SOURCE = Source("a", ("*.csv",), types={"n": "int64", "t": "text"})


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads four files and more together, so that tests need no hundreds."""
    monkeypatch.setattr(plan, "SEPARATE_FILES", 3)


def outcome(
    folder: pathlib.Path, separate: int, reject: bool, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Returns a source's rows and rejected rows, or error, and its ranges."""
    monkeypatch.setattr(plan, "SEPARATE_FILES", separate)
    try:
        planned = planner.plan_source(SOURCE, str(folder))
        table, counts, rejected = read.read_table(planned, reject)
    except DataError as error:
        return str(error), 0
    return (table.to_pylist(), counts, rejected), len(planned.ranges)


contents = st.lists(st.sampled_from(LINES), max_size=6).flatmap(
    lambda lines: st.tuples(
        st.just(lines),
        st.sampled_from(["\n", "\r\n"]),
        st.booleans(),
        st.sampled_from(["", "\ufeff"]),
        st.booleans(),
    )
)


@settings(max_examples=25)
@given(files=st.lists(contents, min_size=4, max_size=9), reject=st.booleans())
def test_together_is_as_one_by_one(files, reject, tmp_path, monkeypatch):
    """Small files read together give the rows of each alone.

    They have any line ends, marks, quotes, blank lines and bad rows.
    """
    for old in tmp_path.glob("*.csv"):
        old.unlink()
    (tmp_path / "0.csv").write_text("n,t\n0,zero\n")
    for number, (lines, end, ends, mark, quoted) in enumerate(files, start=1):
        header = '"n",t' if quoted else "n,t"
        text = mark + end.join([header, *lines]) + (end if ends else "")
        (tmp_path / f"{number}.csv").write_bytes(text.encode())
    (together, ranges), (alone, many) = (
        outcome(tmp_path, some, reject, monkeypatch) for some in (3, 1000)
    )
    assert together == alone
    if not isinstance(alone, str):
        assert (ranges, many) == (1, len(files) + 1)


@pytest.mark.parametrize("bad", [b'1,"open\n', b"\xff\xfe1", b"1,\xff\n", b"n,u\n1,x\n"])
def test_errors_name_the_file(bad, tmp_path, monkeypatch):
    """A bad file among many is the one that the error names.

    It has an open quote, UTF-16, no UTF-8 or another header.
    """
    for number in range(6):
        (tmp_path / f"{number}.csv").write_text("n,t\n1,x\n")
    (tmp_path / "4.csv").write_bytes(bad if bad[:1] in (b"n", b"\xff") else b"n,t\n" + bad)
    (together, _), (alone, _) = (outcome(tmp_path, some, False, monkeypatch) for some in (3, 1000))
    assert together == alone
    assert "4.csv" in together


def write_parts(folder: pathlib.Path, suffix: str) -> list[int]:
    """Writes seven files of ten rows, and returns all numbers.

    -1 and -2 are bad.
    """
    numbers = list(range(70))
    numbers[33], numbers[61] = -1, -2
    folder.mkdir()
    for part in range(7):
        some = numbers[part * 10 : part * 10 + 10]
        write_table(folder / f"{part}.{suffix}", pa.table({"n": some}))
    return numbers


@pytest.mark.parametrize(
    ("suffix", "places"),
    [
        ("csv", ["line 5", "line 3"]),
        ("csv.gz", ["line 5", "line 3"]),
        ("jsonl", ["line 4", "line 2"]),
        ("parquet", ["row 4", "row 2"]),
    ],
)
def test_formats(suffix: str, places: list[str], tmp_path: pathlib.Path) -> None:
    """Rows keep their order, and bad ones their file; splits stay apart."""
    numbers = write_parts(tmp_path / "in", suffix)
    recipe = (
        f"name: a\nsources: {{a: \"in/*.{suffix}\"}}\nderive: {{r: CAST(CASE WHEN n < 0 THEN 'x' "
        f"ELSE '1' END AS BIGINT)}}\n"
        f'split: {{train: {{files: "[0-3].{suffix}"}}, eval: {{files: '
        f'"[4-6].{suffix}"}}}}\non_error: {{reject: 2}}\noutput: {{shuffle: false}}'
    )
    planned = plan_in(tmp_path, recipe)
    assert [byte_range.members for byte_range in planned.base.ranges] == [(0, 4), (4, 7)]
    manifest = convert_in(tmp_path, planned)
    assert {name: split.rows for name, split in manifest.splits.items()} == {
        "train": 39,
        "eval": 29,
    }
    rows = [
        json.loads(line)
        for line in (tmp_path / "out" / "rejected" / "a.jsonl").read_text().splitlines()
    ]
    files = [str(tmp_path / "in" / f"{part}.{suffix}") for part in (3, 6)]
    assert [(row["file"], row["position"]) for row in rows] == list(zip(files, places, strict=True))
    table, _, _ = read.read_table(planned.base, reject=False)
    assert table.column("n").to_pylist() == numbers
