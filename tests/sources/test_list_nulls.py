"""Nulls inside lists: an error with its place, and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, write
from tests.support.tables import write_table


@given(
    lists=st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=3), min_size=1, max_size=5),
    first=st.lists(st.just('{"y": 1}'), max_size=2),
)
def test_lists_of_json_may_begin_with_nulls(tmp_path_factory, lists, first):
    """The parser of pyarrow loses such a null while it infers types."""
    lines = [*first, *(json.dumps({"x": values}) for values in [[None, 1], *lists])]
    path = write(tmp_path_factory.mktemp("nulls") / "a.jsonl", "\n".join(lines))
    table, _, rejected = read.read_table(plan_of(path), reject=True)
    whole = [values for values in lists if None not in values]
    assert table.column("x").to_pylist() == [*[None] * len(first), *whole]
    assert len(rejected) == 1 + len(lists) - len(whole)


ROWS: dict[str, tuple[list[Any], str]] = {
    "integers": ([[1, 2], [3, None], None, []], "x"),
    "floats": ([[1.5], [None, 2.5]], "x"),
    "texts": ([["a"], ["b", None, "c"]], "x"),
    "booleans": ([[True], [None, False]], "x"),
    "an array": ([[[1, 2], [3, 4]], [[5, None], [7, 8]]], "x"),
    "objects": ([[{"b": 1, "c": 1}], [{"b": None, "c": 2}, {"b": 3, "c": 3}]], "x.b"),
    "missing fields": ([[{"b": 1, "c": 1}], [{"c": 2}, {"b": 3, "c": 3}]], "x.b"),
    "an object's list": ([{"y": [1]}, {"y": [None, 2]}], "x.y"),
}


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "feather"])
def test_the_proposed_remedies_read_the_file(tmp_path: Path, case: str, kind: str) -> None:
    """The error has the place, and its remedies read the file."""
    values, name = ROWS[case]
    written = pa.table({"x": values, "n": [1] * len(values)})
    path = write_table(tmp_path / f"a.{kind}", written)
    with pytest.raises(DataError, match=r"eave the column .*'on_error: {reject: 10}'") as caught:
        read_rows(path)
    assert re.match(
        rf"{re.escape(str(path))}, (line|row) 2, column '{name}': found a null", str(caught.value)
    )
    assert len(read_rows(path, columns=("n",))) == len(values)
    if kept := re.search("'types: {x: (text)}' to keep", str(caught.value)):
        found = [row["x"] and json.loads(row["x"]) for row in read_rows(path, types={"x": kept[1]})]
        assert found == written["x"].to_pylist()
    assert bool(kept) == (kind == "jsonl")
    table, _, rejected = read.read_table(plan_of(path), reject=True)
    assert (table.num_rows, len(rejected)) == (len(values) - 1, 1)
