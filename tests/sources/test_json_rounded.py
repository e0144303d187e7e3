"""Integers among the floats of JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.json import parser
from beam_pipelines.sources.json.parser import may_have_rounded, parse_lines
from beam_pipelines.sources.whole_numbers import why_refused
from tests.sources.support import read_rows, source, write

ODD = 2**53 + 1
KEYS = ["a", "ba", "ü", 'a"', "a\\", "a/"]
NUMBERS = st.sampled_from([0.5, 1e300, 1e20, ODD, -ODD, 2**53 + 2, 2**63, -(2**63), 10**17 + 1, 3])
TEXTS = st.sampled_from(["", f'"a": {ODD}', f'\\"ba": [{ODD}', f"a\\{ODD}", "\n:"])


def values_of(value: Any, name: str) -> Iterator[Any]:
    """Yields a parsed line's values in a flat column."""
    if isinstance(value, list):
        for item in value:
            yield from values_of(item, name)
    elif name == "":
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if name == key or name.startswith(f"{key}."):
                yield from values_of(item, name[len(key) + 1 :])


@settings(max_examples=120)
@given(st.data())
def test_refused_integers_are_found_in_the_text(data: st.DataObject) -> None:
    """The text search misses no integer that Python's parser finds."""
    names = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    kinds = {
        name: data.draw(
            st.sampled_from(
                [
                    NUMBERS,
                    st.lists(NUMBERS, max_size=3),
                    st.lists(st.lists(NUMBERS, max_size=2), max_size=2),
                    st.fixed_dictionaries({"a": NUMBERS, "t": TEXTS}),
                    st.lists(st.fixed_dictionaries({"a": NUMBERS}), max_size=2),
                    st.just(10**17 + 1),
                ]
            )
        )
        for name in names
    }
    rows = data.draw(st.lists(st.fixed_dictionaries({"z": TEXTS, **kinds}), min_size=1, max_size=4))
    is_ascii, gaps = (
        data.draw(st.booleans()),
        data.draw(st.sampled_from([(",", ":"), (" , ", " : ")])),
    )
    lines = [json.dumps(row, ensure_ascii=is_ascii, separators=gaps) for row in rows]
    text = "\n".join(lines).encode()
    [batch] = parse_lines(text, None, "infer").combine_chunks().to_batches()
    floats = {name for name, values in parser._leaves(batch) if values.type == pa.float64()}
    wanted = {
        (name, number)
        for row in rows
        for name in floats
        for number in values_of(row, name)
        if type(number) is int and why_refused(number)
    }
    assert may_have_rounded(text, batch, source("d")) or not wanted


FIRST: dict[str, list[str]] = {
    "a scalar": ["1.5", f"{ODD}"],
    "a list": ["[1.5]", f"[2, {ODD}]"],
    "an array": ["[[1.5]]", f"[[{ODD}]]"],
}


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("declared", [None, "tensor", "raw"])
@pytest.mark.parametrize("is_late", [False, True])
def test_remedies_of_refused_integers_help(tmp_path, monkeypatch, kind, declared, is_late):
    """Every proposed type reads the lines, and so do strings."""
    first, second = (f'{{"x": {value}}}\n' for value in FIRST[kind])
    path = write(tmp_path / "d.jsonl", first + second)
    if is_late:
        monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", len(first))
    with pytest.raises(DataError, match=f"found the integer {ODD}") as caught:
        read_rows(path, types={"x": declared} if declared else {})
    types = re.findall(r"'types: {x: (.*?)}'", str(caught.value))
    assert types
    for type_ in types:
        assert len(read_rows(path, types={"x": type_})) == 2
    is_string = "write every value of the column as a string" in str(caught.value)
    assert is_string == (declared is None and kind == "an array")
    assert ("to keep its digits" in str(caught.value)) == (declared is None and not is_string)
    if is_string:
        text = re.sub(r"[0-9.]+", r'"\g<0>"', Path(path).read_text())
        assert str(ODD) in str(read_rows(write(tmp_path / "e.jsonl", text))[1]["x"])


@pytest.mark.parametrize("is_declared", [False, True])
def test_a_text_among_numbers(tmp_path: Path, is_declared: bool) -> None:
    """The error proposes text, which reads the lines."""
    types = {"x": "float64"} if is_declared else {}
    row = '{"x": 1.5}\n'
    path = write(tmp_path / "d.jsonl", row * 3 + '{"x": "7"}\n')
    with pytest.raises(DataError, match="found the text '7'") as caught:
        read_rows(path, types=types)
    assert "Mend the line, declare 'types: {x: text}', or leave" in str(caught.value)
    assert [row["x"] for row in read_rows(path, types={"x": "text"})] == ["1.5"] * 3 + ["7"]


def test_an_integer_beyond_int64(tmp_path: Path) -> None:
    """It is an error with its line."""
    path = write(tmp_path / "d.jsonl", '{"a": 1}\n{"a": 9223372036854775808}\n')
    with pytest.raises(
        DataError, match="line 2, column 'a': found the integer 9223372036854775808"
    ):
        read_rows(path)
