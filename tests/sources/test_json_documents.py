"""JSON arrays and objects over several lines."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import given

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.text.documents import as_lines, is_document
from tests.sources.support import plan_of, read_rows, write

_TEXTS = st.text(alphabet='ab"\\{}[],\n é', max_size=6)
_VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | _TEXTS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(_TEXTS, some, max_size=3),
    max_leaves=5,
)
_OBJECTS = st.lists(st.dictionaries(_TEXTS, _VALUES, max_size=3), min_size=1, max_size=4)


@given(
    objects=_OBJECTS,
    indent=st.sampled_from([None, 1, 2]),
    between=st.sampled_from([None, "", "\n", " \n\n", ",", ",\n"]),
    end=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 40),
)
def test_elements_become_lines(objects, indent, between, end, size):
    """Each line is an element, wherever the text is cut."""
    if between is None:
        text = json.dumps(objects, indent=indent, ensure_ascii=False)
    else:
        text = between.join(json.dumps(one, indent=indent, ensure_ascii=False) for one in objects)
    data = text.replace("\n", end).encode()
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    made = b"".join(as_lines(blocks, "a.json"))
    lines = made.decode().replace("\r\n", "\n").split("\n")
    assert [json.loads(line) for line in lines if line.strip()] == objects
    if indent and between is None:
        begins = [
            n for n, line in enumerate(text.split("\n")) if line.startswith(" " * indent + "{")
        ]
        assert [n for n, line in enumerate(lines) if line.strip()] == begins


ROWS = [{"id": 1, "a": {"b": "x, {y}"}}, {"id": 2, "a": {"b": 'é"\n'}}]
FLAT = [{"id": 1, "a.b": "x, {y}"}, {"id": 2, "a.b": 'é"\n'}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\ufeff" + json.dumps(ROWS, indent=2),
        "\n".join(json.dumps(row, indent=2) for row in ROWS),
        "".join(json.dumps(row) for row in ROWS),
        "".join(json.dumps(row) + ",\n" for row in ROWS),
    ],
)
def test_documents_are_found(tmp_path: Path, text: str) -> None:
    """Arrays and objects over several lines are read, compressed or not."""
    path = write(tmp_path / "a.json", text)
    plan = plan_of(path, range_bytes=10)
    assert (plan.format, len(plan.ranges)) == ("json", 1)
    assert plan.decisions == ("format: json  # an array, or objects without a line each",)
    assert read_rows(path) == FLAT
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    assert read_rows(tmp_path / "a.json.gz") == FLAT
    assert read_rows(path, format="json") == FLAT


def test_lines_of_json_stay_lines(tmp_path: Path) -> None:
    """One object a line is no document; the format overrules findings."""
    plan = plan_of(write(tmp_path / "a.json", '{"a": 1}\n{"a": 2}\n'))
    assert (plan.format, plan.decisions) == ("json_lines", ())
    assert not is_document(b'{"a": 1\n')
    assert not is_document(b'{"a": 1}\r{"a": 2}\r\n')
    assert is_document(b'{"a": 1} {"a": 2}')
    path = write(tmp_path / "b.json", '[{"a": 1}]')
    with pytest.raises(DataError):
        read_rows(path, format="json_lines")


def test_a_bad_element_has_its_line(tmp_path: Path) -> None:
    """The error names the line on which the element begins."""
    text = json.dumps([{"a": 1}, {"a": 2}, {"a": 3}], indent=2).replace("3", '"x"')
    path = write(tmp_path / "a.json", text)
    with pytest.raises(DataError, match="line 8, column 'a'"):
        read_rows(path, types={"a": "int64"})


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("kind", ["list", "objects", "columns"])
def test_rows_within_one_object_are_named(tmp_path: Path, indent: int | None, kind: str) -> None:
    """A finding says how to get the rows of a single object."""
    rows = [{"key": f"k{number}", "name": str(number)} for number in range(50)]
    fields = {
        "list": {"count": 50, "my rows": rows},
        "objects": {row["key"]: {"name": row["name"]} for row in rows},
        "columns": {name: [row[name] for row in rows] for name in ("key", "name")},
    }
    path = write(tmp_path / "a.json", json.dumps(fields[kind], indent=indent))
    (decision,) = plan_of(path).decisions
    assert decision.startswith("format: json" if indent else "format: json_lines")
    assert "one object is one row" in decision
    script = decision.partition("jq -c '")[2].partition("'")[0]
    lines = subprocess.run(["jq", "-c", script, path], capture_output=True, check=True).stdout
    plain = write(tmp_path / "plain.jsonl", lines.decode())
    assert read_rows(plain) == rows
    assert plan_of(plain).decisions == ()


def test_an_error_of_one_object_names_the_rows_within(tmp_path: Path) -> None:
    """Lists of several lengths within rows are an error of one row."""
    document = {"count": 2, "rows": [{"tags": ["a"]}, {"tags": ["a", "b"]}]}
    path = write(tmp_path / "a.json", json.dumps(document))
    with pytest.raises(DataError, match="without one shape") as caught:
        plan_of(path)
    assert """jq -c '.["rows"][]' makes rows of its 2 objects.""" in str(caught.value)


def test_one_object_with_a_small_list_is_a_row(tmp_path: Path) -> None:
    """An object with a list of numbers has no finding."""
    path = write(tmp_path / "a.jsonl", json.dumps({"a": [1, 2, 3], "b": [{"c": 1}]}))
    assert plan_of(path).decisions == ()


FRAME = pd.DataFrame(
    {
        "id": range(30),
        "zip": [f"0{number}" for number in range(1000, 1030)],
        "day": ["2024-01-01", "2024-01-02"] * 15,
        "x": [number / 2 for number in range(30)],
    }
)


@pytest.mark.parametrize("orient", ["columns", "index", "split", "values", "table"])
@pytest.mark.parametrize("indent", [0, 2])
def test_whole_tables_of_pandas(tmp_path, monkeypatch, orient, indent):
    """A table in one value is refused; the remedy makes its rows."""
    monkeypatch.chdir(tmp_path)
    FRAME.to_json("a.json", orient=orient, indent=indent)
    with pytest.raises(DataError, match=f"whole table in one value.*orient='{orient}'") as caught:
        plan_of("a.json")
    exec(str(caught.value).partition("for example: ")[2])  # noqa: S102 - the remedy
    FRAME.to_json("right.jsonl", orient="records", lines=True)
    rows = [list(row.values()) for row in read_rows("new.jsonl")]
    values = [list(row.values()) for row in read_rows("right.jsonl")]
    assert [row[-4:] for row in rows] == values
    assert ("'format: json'" in str(caught.value)) == (orient in ("columns", "index"))
    if orient in ("columns", "index"):
        assert len(read_rows("a.json", format="json")) == 1


@pytest.mark.parametrize("orient", ["columns", "index", "split", "values"])
def test_large_tables_of_pandas(tmp_path: Path, orient: Any) -> None:
    """A table is found by its beginning."""
    frame = pd.DataFrame({"a": ["x" * 50] * 40_000, "b": 1})
    frame.to_json(tmp_path / "a.json", orient=orient)
    with pytest.raises(DataError, match=f"orient='{orient}'"):
        plan_of(tmp_path / "a.json")


def test_columns_without_names(tmp_path: Path) -> None:
    """Their numbers look like those of rows; columns are pandas' default."""
    path = write(tmp_path / "a.json", pd.DataFrame([["a", 1], ["b", 2]]).to_json())
    with pytest.raises(DataError, match="orient='columns'") as caught:
        plan_of(path)
    exec(str(caught.value).partition("for example: ")[2].replace("new.", f"{tmp_path}/new."))  # noqa: S102
    assert read_rows(tmp_path / "new.jsonl") == [{"0": "a", "1": 1}, {"0": "b", "1": 2}]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"0": 1}}\n{"a": {"0": 2}}\n',
        '{"a": {"1": 1, "2": 2}}\n',
        '{"a": {"0": 1}, "id": 3}\n',
        '{"columns": ["a", "b"], "data": [1, 2]}\n',
        '{"schema": {"a": 1}, "data": [1]}\n',
        '{"schema": {"fields": [1]}, "data": [1]}\n',
        '{"columns": ["a", "b"], "index": [1, 2], "n": 1}\n',
        '{"a": "{\\"b\\": {\\"0\\": 1}}"}\n',
        '{"0": 1, "1": 2}\n',
        '[{"a": 1}, {"a": 2}]',
    ],
)
def test_other_objects_are_rows(tmp_path: Path, text: str) -> None:
    """Objects like those of pandas that are not alike."""
    assert read_rows(write(tmp_path / "a.json", text))


@pytest.mark.parametrize("text", ['[{"a": 1},', '[{"a": 1}', '[\n{"a": 1},\n{"a": 2}\n'])
def test_an_array_without_an_end_is_refused(tmp_path: Path, text: str) -> None:
    """A file that is cut between two elements is no whole one."""
    with pytest.raises(DataError, match="the end of the file within an array"):
        read_rows(write(tmp_path / "a.json", text))
