"""JSON Lines files: nested fields, types, and bad lines."""

from __future__ import annotations

import datetime
import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.text import blocks
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of, write


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_nested_fields_become_flat(tmp_path: Path) -> None:
    """Objects become columns a.b, lists of objects parallel lists, absent fields null."""
    path = write(
        tmp_path / "a.jsonl",
        lines(
            {
                "a": {"b": 1, "c": {"d": "x"}},
                "e": [{"f": 1, "g": {"h": 0.5}}, {"f": 2, "g": {"h": 1}}],
                "i": [1, 2],
                "j": [],
            },
            {"a": None, "e": [], "i": None},
            {"a": {"b": 2**53 + 1}, "e": [{"f": 3, "g": {"h": 3.5}}], "j": []},
        ),
    )
    expected = [
        {"a.b": 1, "a.c.d": "x", "e.f": [1, 2], "e.g.h": [0.5, 1.0], "i": [1, 2], "j": []},
        {"a.b": None, "a.c.d": None, "e.f": [], "e.g.h": [], "i": None, "j": None},
        {"a.b": 2**53 + 1, "a.c.d": None, "e.f": [3], "e.g.h": [3.5], "i": None, "j": []},
    ]
    assert read_rows(path) == expected
    assert plan_of(path).null_columns == ("j",)
    assert read_rows(path, columns=("e.g.h", "a.b")) == [
        {"e.g.h": row["e.g.h"], "a.b": row["a.b"]} for row in expected
    ]


def test_types(tmp_path: Path) -> None:
    """Times in strings are found, and all declared types honoured."""
    path = write(
        tmp_path / "a.jsonl",
        lines({"t": "2013-01-31T05:15:00Z", "d": "2013-01-31", "n": 1, "s": "x", "b": True}),
    )
    assert types_of(path) == {
        "t": "timestamp[us, tz=UTC]",
        "d": "date32[day]",
        "n": "int64",
        "s": "string",
        "b": "bool",
    }
    declared = {"d": "date", "n": "float32", "s": "bytes", "t": "text"}
    assert read_rows(path, types=declared) == [
        {
            "t": "2013-01-31T05:15:00Z",
            "d": datetime.date(2013, 1, 31),
            "n": 1.0,
            "s": b"x",
            "b": True,
        }
    ]


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result = {}
    for key, item in value.items():
        result |= (
            flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
        )
    return result


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "n": st.integers(-(2**63), 2**63 - 1),
                "o": st.fixed_dictionaries({"s": st.text('a\n"é', max_size=4)}),
            }
        ),
        min_size=1,
        max_size=12,
    ),
    range_bytes=st.integers(5, 80),
)
def test_ranges_give_what_json_gives(tmp_path_factory, rows, range_bytes):
    """All ranges give the rows of Python's json module."""
    path = write(tmp_path_factory.getbasetemp() / "cut.jsonl", lines(*rows))
    assert read_rows(path, range_bytes=range_bytes, types={"o.s": "text"}) == [
        flat(row) for row in rows
    ]


GOOD = {"n": 1, "s": "x", "l": [1], "o": {"p": 1}}


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ('{"n": 1,', "", "found text that is not JSON"),
        ("[1]", "", "found [1], expected an object"),
        ('{"n": "x"}', "n", "found the text 'x', expected an integer"),
        ('{"n": 1.5}', "n", "found 1.5, expected an integer"),
        ('{"n": 9223372036854775808}', "n", "found 9223372036854775808, expected an integer"),
        ('{"s": 5}', "s", "found 5, expected text"),
        ('{"o": {"p": "x"}}', "o.p", "found the text 'x', expected an integer"),
        ('{"z": 5}', "z", "found a field that was not seen at planning"),
        ('{"o": {"z": 5}}', "o.z", "found a field that was not seen at planning"),
        ('{"l": [1, null]}', "l", "found a null inside a list"),
        ('{"n": 1}{"n": 2}', "", "found text that is not JSON"),
        (b'{"s": "\xff"}', "", "found bytes that are not UTF-8"),
        ('{"n": 1, "n": 2}', "", "field 'n' was specified twice, expected every field once"),
    ],
)
def test_a_bad_line_is_found(tmp_path, monkeypatch, line, column, message):
    """The error names line, column, value and cure.

    Rejecting leaves out that line and no other.
    """
    monkeypatch.setattr(blocks, "SAMPLE_BYTES", 200)
    line = line if isinstance(line, bytes) else line.encode()
    good = lines(GOOD).encode()
    path = write(tmp_path / "a.jsonl", good * 20 + b"\n" + line + b"\n" + good * 5)
    plan = plan_of(path)
    with pytest.raises(DataError) as caught:
        read.read_table(plan, reject=False)
    where = f"{path}, line 22" + (f", column '{column}'" if column else "")
    assert str(caught.value).startswith(f"{where}: ")
    assert message in str(caught.value)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 25, "rejected": 1}
    assert table.to_pylist() == [flat(GOOD)] * 25
    assert [(bad.position, bad.column) for bad in rejected] == [("line 22", column)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"a"\n{"a"\n', "line 1: found"),
        ("\n".join(['{"a": 1}', '{"a": "x"}'] * 600), r"line 2: found .* field 'a' changed from number to string"),
        ('{"a": [[1]]}\n{"a": [[1, 2]]}\n', r"column 'a': found list<item: list<item: int64>> without one shape"),
        ('{"a": {"b": 1}, "a.b": 2}\n', "two columns named 'a.b'"),
        ("\n\n", "found no rows"),
        ("", "found an empty file"),
    ],
)  # fmt: skip
def test_a_bad_file_is_found(tmp_path: Path, content: str, message: str) -> None:
    """A file that cannot be planned is an error with the reason."""
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(DataError, match=message) as caught:
        plan_of(path)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    "line", ['{"a": "x"}', '{"a": {"b": 1}}', '{"a"', '{"a": 1, "a": 2}', '[{"a": 1}]']
)
@pytest.mark.parametrize("place", [0, 1, 5])
def test_a_bad_line_in_the_sample_has_no_say(tmp_path: Path, line: str, place: int) -> None:
    """A bad line of the sample does not decide types.

    Reading reports it.
    """
    all_lines = ['{"a": 1}'] * 5
    all_lines.insert(place, line)
    plan = plan_of(write(tmp_path / "a.jsonl", "\n".join(all_lines)))
    with pytest.raises(DataError, match=f"line {place + 1}[,:]"):
        read.read_table(plan, reject=False)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert table.column("a").to_pylist() == [1] * 5
    assert counts == {"read": 5, "rejected": 1}
    assert [bad.text for bad in rejected] == [line]


def test_compressed_with_mark_and_blank_lines(tmp_path: Path) -> None:
    """Compression, a byte order mark, CRLF and blank lines change nothing."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \r\n{"a": 2}'))
    assert read_rows(path) == [{"a": 1}, {"a": 2}]


def test_declared_types_are_checked(tmp_path: Path) -> None:
    """A wrong type or an unknown field is a problem."""
    path = write(tmp_path / "a.jsonl", lines({"a": [1], "b": {"c": 2}}))
    assert "cannot become" in problems_of(path, types={"a": "date"})["sources", "s", "types"]
    assert "no column 'b'" in problems_of(path, types={"b": "int64"})["sources", "s", "types"]


@pytest.mark.parametrize(
    ("content", "bad"),
    [
        ('{"a":1}{"a":5\n}\n{"a":2}\n', ["line 1", "line 2"]),
        ('{"a":3}\n{"a":1,\n"b":2}{"a":2,"b":7}\n', ["line 2", "line 3"]),
        ('{"a":[{"b":1}\r\n,{"b":1}]}{"a":[]}\r\n{"a":[{"b":2}]}', ["line 1", "line 2"]),
        ('{"a":1}{"a":5\r}\r{"a":2}\r', ["line 1", "line 2"]),
        (' {"a":1}\t\n\n\t{"a":2}{"a":\n3} \n', ["line 3", "line 4"]),
        ('{"a":-NaN}\n{"a":NaN}\n{"a":1.5}\n', ["line 1"]),
    ],
)
def test_lines_that_only_add_up(tmp_path: Path, content: str, bad: list[str]) -> None:
    """Each line is one object to Python's parser, or it is rejected.

    As many objects as lines are no proof.
    """
    path = write(tmp_path / "a.jsonl", content)
    for range_bytes in (None, 10):
        table, counts, rejected = read.read_table(
            plan_of(path, range_bytes=range_bytes), reject=True
        )
        assert [row.position for row in rejected] == bad
        assert (table.num_rows, counts["rejected"]) == (counts["read"], len(bad))
    assert "-NaN" not in content or read_rows(write(tmp_path / "b.jsonl", '{"a":"-NaN"}\n')) == [
        {"a": "-NaN"}
    ]


def test_nan_is_a_number_and_infinity_is_none(tmp_path: Path) -> None:
    """NaN is a number as in Python's json, infinity a bad row.

    That holds where many lines are bad, too.
    """
    many = ["not JSON\n"] * 50
    path = write(
        tmp_path / "a.jsonl",
        '{"a": 1.5, "b": [2.5]}\n{"a": NaN, "b": [NaN, 1]}\n' + "".join(many) + '{"a": NaN}\n',
    )
    table, _, rejected = read.read_table(plan_of(path), reject=True)
    assert len(rejected) == len(many)
    assert repr(table.to_pylist()) == repr(
        [{"a": 1.5, "b": [2.5]}, {"a": math.nan, "b": [math.nan, 1.0]}, {"a": math.nan, "b": None}]
    )
    for number in ("Infinity", "-Infinity", "1e999"):
        path = write(tmp_path / "b.jsonl", '{"a": 1.5}\n{"a": ' + number + "}\n")
        with pytest.raises(
            DataError,
            match=r"line 2, column 'a': found -?inf, expected a number within .*'types: {a: text}'",
        ):
            read_rows(path)
        assert read_rows(path, types={"a": "text"}) == [{"a": "1.5"}, {"a": number}]
    path = write(tmp_path / "c.jsonl", '{"a": [NaN, 1]}\n{"a": [-Infinity, "x"]}\n')
    found = read_rows(path, types={"a": "list<text>"})
    assert found == [{"a": ["NaN", "1"]}, {"a": ["-Infinity", "x"]}]


def test_names_that_are_values_have_a_finding(tmp_path: Path) -> None:
    """Other names in each row make a map, which text keeps."""
    rows = [{"id": n, "words": {f"w{n}": 1, f"w{n + 1}": 2}} for n in range(100)]
    path = write(tmp_path / "a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    (finding,) = plan_of(path).decisions
    assert finding.startswith("words: 101 columns of objects")
    options = yaml.safe_load(finding.partition("; ")[2].rpartition(" keeps")[0])
    assert [json.loads(row["words"]) for row in read_rows(path, **options)] == [
        row["words"] for row in rows
    ]
