"""JSON fields that are numbers in one line and texts in another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.json.scalar_texts import with_texts
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write

KEYS = ["id", "a", "b", "a.b", 'q"', "é", "\\", ",", ""]
NAMES = ["id", "a", "b", "a.b", "a.b.id", "b.a", 'q"', "é", "\\", ",", "a.é"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", '"id": 1', "\\", '\\"', "[1, {", "é", '"', "5"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)
WRITERS = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"separators": (" ,\t", "  : ")}, {"ensure_ascii": False}]
)
BAD = st.sampled_from(["", '{"id": 1', '{"a": "x, "id": 5}', '{"id": 01}', "[[", '"', "]}", "\\"])


def expected(value: Any, names: list[str], path: str | None = None) -> Any:
    """Returns a value with the numbers of some names as texts.

    Numbers are ``Written``.
    """
    if isinstance(value, dict):
        return {
            key: expected(item, names, key if path is None else f"{path}.{key}")
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [expected(item, names, path) for item in value]
    if path in names and isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if path in names and isinstance(value, Written) else value


class Written(str):
    """A number as it was written."""

    __slots__ = ()


def parsed(line: bytes) -> Any:
    """Returns a line with its numbers as they are written."""
    return json.loads(line, parse_int=Written, parse_float=Written)


def kinds(value: Any) -> Any:
    """Returns a value with the kinds of its numbers."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return (type(value).__name__, value)


@settings(max_examples=150)
@example(rows=[({"a": [{"b": 1}, {"b": "x"}], "b": 2}, {})], bad=[], names=["a.b"])
@example(rows=[({"a": {"b": 1}, "b": 2, "a.b": 3}, {})], bad=[], names=["a.b"])
@example(rows=[({"id": [1, "x", 2.5, None, True]}, {})], bad=[], names=["id"])
@example(rows=[({"a.b": [[{"id": False}, [[{"id": 1}]]]]}, {})], bad=[], names=["a.b.id"])
@given(
    rows=st.lists(st.tuples(OBJECTS, WRITERS), min_size=1, max_size=5),
    bad=st.lists(BAD, max_size=2),
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
)
def test_scalars_of_columns_become_texts(rows, bad, names):
    """Exactly the columns' numbers and booleans become texts, as written."""
    lines = [json.dumps(row, **writer).encode() for row, writer in rows]
    given_ = [*(line.encode() for line in bad), *lines]
    found = with_texts(b"\n".join(given_), dict.fromkeys(names, 100)).split(b"\n")
    assert len(found) == len(given_)
    for before, after in zip(given_, found, strict=True):
        try:
            value = parsed(before)
        except ValueError:
            with pytest.raises(ValueError, match=r"line 1 column|Extra data|Expecting"):
                json.loads(after)
            continue
        if isinstance(value, dict):
            assert kinds(parsed(after)) == kinds(expected(value, names))


@settings(max_examples=120)
@given(
    rows=st.lists(
        st.tuples(st.fixed_dictionaries({"x": VALUES, "y": VALUES}), WRITERS), max_size=4
    ),
    levels=st.integers(0, 2),
)
def test_objects_and_lists_become_the_text_of_their_json(rows, levels):
    """Within as many lists as asked for, a value's JSON is kept."""
    lines = [json.dumps(row, **writer).encode() for row, writer in rows]
    found = with_texts(b"\n".join(lines), {"x": levels}).split(b"\n")

    def check(value: Any, text: Any, around: int) -> None:
        if isinstance(value, list) and around < levels:
            assert len(value) == len(text)
            for one, other in zip(value, text, strict=True):
                check(one, other, around + 1)
        elif isinstance(value, (list, dict)) and around >= levels:
            assert json.loads(text) == value
        elif around <= 1 and isinstance(value, (bool, int)):
            assert json.loads(text) == value
            assert isinstance(text, str)

    for (row, _), line in zip(rows, found if rows else [], strict=True):
        after = json.loads(line)
        assert after["y"] == row["y"]
        check(row["x"], after["x"], 0)


MIXED: dict[str, tuple[list[str], str, str, list[Any]]] = {
    "a field": (['{"id": 1}', '{"id": "x"}', '{"id": 2.50}'], "id", "text", ["1", "x", "2.50"]),
    "booleans": (['{"id": true}', '{"id": "x"}'], "id", "text", ["true", "x"]),
    "large": (['{"id": 123456789012345678901234567890}', '{"id": "x"}'], "id", "text", ["123456789012345678901234567890", "x"]),
    "nested": (['{"o": {"id": 1}, "id": 3}', '{"o": {"id": "x"}, "id": 4}'], "o.id", "text", ["1", "x"]),
    "a list": (['{"id": [1, 2]}', '{"id": ["x"]}'], "id", "list<text>", [["1", "2"], ["x"]]),
    "a list of objects": (['{"o": [{"id": 1}]}', '{"o": [{"id": "x"}]}'], "o.id", "list<text>", [["1"], ["x"]]),
    "a field and an object": (['{"id": 1}', '{"id": {"a": [1]}}'], "id", "text", ["1", '{"a": [1]}']),
    "kinds in one line": (['{"o": [{"id": 1}, {"id": {"x": "y"}}]}', '{"o": []}'], "o.id", "list<text>", [["1", '{"x": "y"}'], []]),
    "an object and a list": (['{"o": {"a": 1}}', '{"o": []}'], "o", "text", ['{"a": 1}', "[]"]),
    "objects or a text": (['{"o": {"a": [{"t": "x"}]}}', '{"o": {"a": "q"}}'], "o", "text", ['{"a": [{"t": "x"}]}', '{"a": "q"}']),
    "lists in lists": (['{"id": [[0, "P"], [1]]}', '{"id": [[]]}', '{"id": [["Q", 1]]}'], "id", "text",
                       ['[[0, "P"], [1]]', "[[]]", '[["Q", 1]]']),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("many", [1, 300], ids=["few", "many"])
@pytest.mark.parametrize("is_document", [False, True])
def test_the_proposed_type_reads_lines_of_two_kinds(tmp_path, case, many, is_document):
    """The error proposes the type that reads all lines."""
    rows, name, type_, wanted = MIXED[case]
    text = "[" + ",\n".join(rows * many) + "]" if is_document else "\n".join(rows * many)
    path = write(tmp_path / "a.json", text)
    with pytest.raises(DataError) as caught:
        read_rows(path)
    proposed = re.findall(r"'types: {([^:]*): ([^}]*)}'", str(caught.value))
    assert proposed[0] == (name, type_)
    assert len(proposed) == 1 or case == "large"
    found = read_rows(path, types=dict(proposed[:1]))
    assert [row[name] for row in found] == wanted * many
    assert case != "nested" or {row["id"] for row in found} == {3, 4}


@pytest.mark.parametrize(("first", "second"), [("1", '"x"'), ('"x"', "1"), ("true", '"x"')])
def test_a_kind_behind_the_sample(tmp_path, monkeypatch, first, second):
    """A line behind the sample has the same remedy."""
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 40)
    path = write(tmp_path / "a.jsonl", f'{{"id": {first}}}\n' * 40 + f'{{"id": {second}}}\n')
    with pytest.raises(DataError, match=r"line 41, .*declare 'types: {id: text}'"):
        read_rows(path)
    found = [row["id"] for row in read_rows(path, types={"id": "text"})]
    assert found == [first.strip('"')] * 40 + [second.strip('"')]


def test_a_list_in_place_of_a_text(tmp_path: Path) -> None:
    """The remedy keeps lists and objects as the text of their JSON."""
    path = write(tmp_path / "a.jsonl", '{"id": "x"}\n' * 40 + '{"id": [1]}\n{"id": {"b": 1}}\n')
    table, _, rejected = read.read_table(plan_of(path), reject=True)
    assert table.num_rows == 40
    assert [bad.position for bad in rejected] == ["line 41", "line 42"]
    assert all("declare 'types: {id: text}'" in bad.reason for bad in rejected)
    found = [row["id"] for row in read_rows(path, types={"id": "text"})]
    assert found == ["x"] * 40 + ["[1]", '{"b": 1}']


def test_fields_that_are_left_out_may_have_any_kinds(tmp_path: Path) -> None:
    """With ``columns``, no other field of a line has to be readable."""
    lines = ['{"id": 1, "o": [{"a": "x"}, {"a": {"b": 1}}], "n": [[0, "P"]], "m": 1}',
             '{"id": 2, "o": [], "n": [], "m": {"k": []}}']  # fmt: skip
    path = write(tmp_path / "a.jsonl", "\n".join(lines * 3))
    found = read_rows(path, columns=("id",))
    assert [row["id"] for row in found] == [1, 2] * 3


def test_the_parts_of_an_object_are_named(tmp_path: Path) -> None:
    """A column that was flattened has its parts in the error."""
    path = write(tmp_path / "a.jsonl", '{"st": {"a": 1, "b": 2}, "s": 3}\n')
    message = problems_of(path, columns=("st",))["sources", "s", "columns"]
    assert message == "there is no column 'st' in the source. Its parts are st.a, st.b."


def test_lines_of_python_are_written_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of the error makes JSON Lines."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "A1", "text": "it's ok"}, {"id": "A2", "text": None}]
    write(tmp_path / "a.json", "".join(f"{row}\n" for row in rows))
    with pytest.raises(DataError, match="Lines of Python are no JSON") as caught:
        read_rows("a.json")
    exec(str(caught.value).partition("for example: ")[2], {})  # noqa: S102 - the remedy
    assert read_rows("new.jsonl") == rows
