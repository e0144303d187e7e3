"""Parquet and Arrow files whose columns are not as declared.

They have bytes that are no text, damaged pages, and timestamps that Arrow wraps.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, types_of
from tests.support.tables import table_as, write_table

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - columns have no zone
BAD = pa.array([b"ok", b"\xff\xfe", "ü".encode(), None], pa.binary()).view(pa.string())
MAKE_COLUMN: dict[str, Callable[[pa.Array], pa.Array]] = {
    "texts": lambda texts: texts,
    "large": lambda texts: texts.cast(pa.binary()).cast(pa.large_binary()).view(pa.large_string()),
    "dictionary": lambda texts: texts.dictionary_encode(),
    "list": lambda texts: pa.ListArray.from_arrays([0, 1, 2, 3, 3], texts[:3]),
    "struct": lambda texts: pa.StructArray.from_arrays([texts], ["f"]),
}


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("kind", MAKE_COLUMN)
def test_texts_that_are_no_utf8(tmp_path: Path, kind: str, suffix: str) -> None:
    """The row is named with its bytes, and can be rejected."""
    path = write_table(
        tmp_path / f"a{suffix}", pa.table({"a": MAKE_COLUMN[kind](BAD), "x": [1, 2, 3, 4]})
    )
    name = "a.f" if kind == "struct" else "a"
    with pytest.raises(
        DataError,
        match=rf"row 2, column '{name}': found \[?b'\\xff\\xfe'\]?, expected .*text in UTF-8\.",
    ):
        read_rows(path)
    table, counts, rejected = read.read_table(plan_of(path), reject=True)
    assert counts == {"read": 3, "rejected": 1}
    assert table.column("x").to_pylist() == [1, 3, 4]
    ((position, column, text),) = [(row.position, row.column, row.text) for row in rejected]
    assert (position, column) == ("row 2", name)
    assert r"b'\xff\xfe'" in text
    if kind == "texts":
        assert [row["a"] for row in read_rows(path, types={"a": "bytes"})] == [
            b"ok",
            b"\xff\xfe",
            "ü".encode(),
            None,
        ]


def test_offsets_that_lead_nowhere(tmp_path: Path) -> None:
    """A file whose texts are outside of its buffers is found damaged."""
    data = table_as("arrow", pa.table({"a": ["one", "two", "three"] * 50}))
    good = pa.array([0, 3, 6, 11], pa.int32()).buffers()[1].to_pybytes()
    assert good in data
    for offset in (1 << 30, -5):
        bad = good[:8] + offset.to_bytes(4, "little", signed=True) + good[12:]
        path = tmp_path / "b.arrow"
        path.write_bytes(data.replace(good, bad, 1))
        with pytest.raises(
            DataError, match=r"b\.arrow: found damaged Arrow data, expected a whole IPC file"
        ):
            read_rows(path)


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_page_with_another_byte(tmp_path: Path, dictionary: bool) -> None:
    """Checksums of pages, where a file has them, are verified."""
    path = tmp_path / "a.parquet"
    texts = [f"text{number}" for number in range(5)]
    table = pa.table({"a": texts})
    pq.write_table(
        table, path, compression="none", use_dictionary=dictionary, write_page_checksum=True
    )
    assert [row["a"] for row in read_rows(path)] == texts
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text3", b"text8", 1))
    with pytest.raises(
        DataError, match=r"a\.parquet: found damaged Parquet data.*CRC checksum verification failed"
    ):
        read_rows(path)


# Arrow 18 reads other nanoseconds in moments before 1970, which are refused.
FIRST = {"min_value": EPOCH} if int(pa.__version__.split(".")[0]) < 19 else {}


@given(st.lists(st.none() | st.datetimes(**FIRST), min_size=1), st.integers(1, 5))
def test_timestamps_of_96_bits(tmp_path_factory, moments, group):
    """All moments of Python are read, also where Arrow wraps.

    It wraps years before 1677 and after 2262.
    """
    path = tmp_path_factory.getbasetemp() / "96.parquet"
    lists = [[moment, moment] for moment in moments if moment] + [None] * moments.count(None)
    stamp = pa.timestamp("us")
    table = pa.table({"t": pa.array(moments, stamp), "l": pa.array(lists, pa.list_(stamp))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=group)
    expected = table.to_pylist()
    assert read_rows(path, types={"l": "list<timestamp>"}) == expected
    counts = [
        None if moment is None else (moment - EPOCH) // datetime.timedelta(microseconds=1)
        for moment in moments
    ]
    assert [row["t"] for row in read_rows(path, columns=["t"], types={"t": "int64"})] == counts
    assert types_of(path, columns=["t"]) == {"t": "timestamp[us]"}


@pytest.mark.parametrize("depth", [0, 1])
def test_nanoseconds_of_96_bits(tmp_path: Path, depth: int) -> None:
    """A part of a microsecond is refused in every column read."""
    path = tmp_path / "a.parquet"
    column = pa.array(
        [None, 1_577_840_523_456_789_000, -8_000_000_000_000_000_001], pa.timestamp("ns")
    )
    if depth:
        column = pa.ListArray.from_arrays([0, 1, 3], column)
    pq.write_table(
        pa.table({"x": range(len(column)), "a": column}),
        path,
        use_deprecated_int96_timestamps=True,
        row_group_size=2,
    )
    with pytest.raises(DataError) as raised:
        read_rows(path)
    place = "" if depth else ", row 3"
    assert str(raised.value).startswith(f"{path}{place}, column 'a': found a timestamp with ")
    assert [row["x"] for row in read_rows(path, columns=["x"])] == list(range(len(column)))
