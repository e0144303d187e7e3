"""Nulls inside lists: an error that proposes ``list_nulls``, and what this does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.sources.nesting import list_nulls
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write
from tests.support.tables import write_table

LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=4), max_size=6)


def settled(values: Any, choice: tuple[str, ...]) -> Any:
    """Returns lists with their null values left out or filled."""
    if values is None or not isinstance(values, list):
        return values
    if choice == ("drop",):
        return [settled(value, choice) for value in values if value is not None]
    return [int(choice[1]) if value is None else settled(value, choice) for value in values]


@settings(max_examples=80, deadline=None)
@given(lists=LISTS, start=st.integers(0, 3), choice=st.sampled_from([("drop",), ("fill", "-7")]))
def test_lists_are_settled(lists: list[Any], start: int, choice: tuple[str, ...]) -> None:
    """Nulls go or get the value; null lists stay, in slices, too."""
    array = pa.array(lists, pa.list_(pa.int64())).slice(start)
    found = list_nulls.settle(array, choice)
    found.validate(full=True)
    assert found.to_pylist() == [settled(value, choice) for value in lists[start:]]


def test_steps_are_settled() -> None:
    """In lists of lists the values are settled, and null steps stay."""
    array = pa.array([[[1, None], None], None, [[None]]], pa.list_(pa.list_(pa.int64())))
    assert list_nulls.settle(array, ("drop",)).to_pylist() == [[[1], None], None, [[]]]
    assert list_nulls.settle(array, ("fill", "0")).to_pylist() == [[[1, 0], None], None, [[0]]]


@settings(max_examples=60, deadline=None)
@given(
    lists=st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=3), min_size=1, max_size=5),
    first=st.lists(st.just('{"y": 1}'), max_size=2),
)
def test_lists_of_json_may_begin_with_nulls(tmp_path_factory, lists, first):
    """The parser of pyarrow loses such a null while it infers types."""
    lines = [*first, *(json.dumps({"x": values}) for values in [[None, 1], *lists])]
    path = write(tmp_path_factory.mktemp("nulls") / "a.jsonl", "\n".join(lines))
    found = [row["x"] for row in read_rows(path, list_nulls={"x": ("fill", "-7")})]
    expected = [settled(values, ("fill", "-7")) for values in [[None, 1], *lists]]
    assert found == [*[None] * len(first), *expected]


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


def choices_of(message: str) -> list[dict[str, tuple[str, ...]]]:
    """Returns what an error proposes, read as a recipe reads it."""
    found = []
    for text in re.findall(r"""['"](list_nulls: \{.*?\}+)['"]""", message):
        recipe = parse_recipe(f"name: a\nsources: {{s: {{path: a.csv, {text}}}}}", "r.yaml")
        found.append(dict(recipe.sources["s"].options["list_nulls"]))
    return found


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "feather"])
def test_the_proposed_remedies_read_the_file(tmp_path: Path, case: str, kind: str) -> None:
    """The error has the place, and its remedies read all rows."""
    values, name = ROWS[case]
    path = write_table(tmp_path / f"a.{kind}", pa.table({"x": values}))
    with pytest.raises(DataError) as caught:
        read_rows(path)
    assert re.match(
        rf"{re.escape(str(path))}, (line|row) 2, column '{name}': found", str(caught.value)
    )
    choices = choices_of(str(caught.value))
    is_parallel = case in ("objects", "missing fields", "an array")
    assert [choice[name][0] for choice in choices] == ["drop", "fill"][is_parallel:]
    for choice in choices:
        rows = read_rows(path, list_nulls=choice)
        assert len(rows) == len(values)
        assert None not in (rows[1][name] or [])
        lost = choice[name] == ("drop",)
        before = values[1]["y"] if case == "an object's list" else values[1]
        assert is_parallel or len(rows[1][name]) == len(before) - lost


def test_a_null_in_the_place_of_a_list_has_no_such_remedy(tmp_path: Path) -> None:
    """The key is not proposed where a list is null."""
    for kind in ("jsonl", "parquet"):
        path = write_table(
            tmp_path / f"a.{kind}", pa.table({"x": [[[1, 2], [3, 4]], [[1, 2], None]]})
        )
        with pytest.raises(DataError, match=r"2, column 'x': found") as caught:
            read_rows(path, types={"x": "list<int64>"})
        assert choices_of(str(caught.value)) == []


def test_many_nulls_are_read_in_one_go(tmp_path: Path) -> None:
    """With a choice, nulls are good among bad lines, too."""
    lines = ['{"x": [1, null]}\n{"x": ["a"]}\n'] * 300
    path = write(tmp_path / "a.jsonl", '{"x": [1]}\n' * 10 + "".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 60)
        plan = plan_of(path, list_nulls={"x": ("fill", "-1")})
    table, _, rejected = read.read_table(plan, reject=True)
    assert table.column("x").to_pylist() == [[1]] * 10 + [[1, -1]] * 300
    assert len(rejected) == 300


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"z": ("drop",)}, "there is no column 'z' in the source"),
        ({"n": ("drop",)}, "column 'n': found int64, expected a list"),
        ({"x": ("fill", "many")}, "column 'x': found 'many' to fill lists, expected a value of int64"),
        ({"o.b": ("drop",)}, "column 'o.b': found 'drop' for lists that are as long as others"),
        ({"a": ("drop",)}, "column 'a': found 'drop' for lists that are as long as others"),
    ],
)  # fmt: skip
def test_choices_that_do_not_fit(tmp_path, choice, message):
    """Choices for other columns and of other values are problems."""
    row = {"n": 1, "x": [1], "o": [{"b": 1, "c": 2}], "a": [[1, 2]]}
    path = write(tmp_path / "a.jsonl", json.dumps(row))
    assert message in problems_of(path, list_nulls=choice)["sources", "s", "list_nulls"]


@pytest.mark.parametrize("text", ["drop", "{x: fill}", "{x: {fill: [1]}}", "{x: {drop: 1}}", "[x]"])
def test_other_values_of_the_key(text: str) -> None:
    """A value of another form is an error that shows it."""
    source = f"name: a\nsources: {{s: {{path: a.csv, list_nulls: {text}}}}}"
    with pytest.raises(Exception, match=r"list_nulls.*expected"):
        parse_recipe(source, "r.yaml")
