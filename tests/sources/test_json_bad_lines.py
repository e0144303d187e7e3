"""Bad lines of JSON have the errors of single lines.

The cost is small.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pa_json
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.json import format as format_module
from beam_pipelines.sources.text import format as text_format
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, write

GOOD = (
    '{"a":1,"b":"x","c":1.5,"d":true,"e":[1,2],"f":{"g":1},"t":"2013-01-31 05:15:00","s":1,"r":0.5}'
)
TYPES = {"s": "int8", "r": "float32"}
SCHEMA = pa.schema(
    [
        *(
            ("a", pa.int64()),
            ("b", pa.string()),
            ("c", pa.float64()),
            ("d", pa.bool_()),
            ("e", pa.list_(pa.int64())),
        ),
        *(
            ("f", pa.struct([("g", pa.int64())])),
            ("t", pa.timestamp("s")),
            ("s", pa.int8()),
            ("r", pa.float32()),
        ),
    ]
)
VALUES = [
    *("1", "-0", "1.0", "1.50", "300", "9223372036854775807", "9223372036854775808", "1e3", "1E400", "NaN", "Infinity", "-"),
    *("1e39", "3.5", '""', '"x"', '"\\ud800"', '"\\u0041"', '"\\"', '"é"', '"2013-01-31"', "true", "false", "null", "nul", "01"),
    *("[]", "[1]", "[null]", '["x"]', "[1.5]", "[[1]]", "[{}]", '[{"g":1}]', "{}", '{"g":1}', '{"g":"x"}', '{"g":null}', '{"h":1}'),
    *('{"g":1,"g":2}', '{"g":{"h":1}}', "9" * 400, "9" * 5000, "1." + "0" * 400),
]  # fmt: skip
FIELDS = st.tuples(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "t", "s", "r", "z", "f.g", ""]),
    st.sampled_from(VALUES),
)
OBJECTS = st.lists(FIELDS, min_size=1, max_size=4).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
WHOLE = st.sampled_from(
    [
        GOOD,
        "oops",
        "1",
        "[1]",
        '"x"',
        "null",
        "{}",
        "{",
        '{"a":1}{"a":2}',
        '{"a":1,}',
        "\ufeff{}",
        '{"b":"\x01"}',
        '{"b":"\udcff"}',
        "\x0b{}",
    ]
)


def is_bad(line: bytes) -> bool:
    """Asks pyarrow about one line; checks the value where we refuse more."""
    if line.startswith((b"\xef", b"nul")):  # on which pyarrow crashes
        return True
    try:
        line.decode()
        table = pa_json.read_json(
            pa.BufferReader(line),
            pa_json.ReadOptions(use_threads=False),
            pa_json.ParseOptions(
                explicit_schema=SCHEMA, newlines_in_values=False, unexpected_field_behavior="error"
            ),
        )
        table.validate()
    except ValueError:
        return True
    [row] = table.to_pylist() if table.num_rows == 1 else [None]
    if row is None:
        return True
    infinite = float("inf")
    if None in (row["e"] or []) or infinite in (abs(row["c"] or 0), abs(row["r"] or 0)):
        return True
    number = json.loads(line).get("c")
    if type(number) is not int:
        return False
    # A column of float64 whose type is not declared refuses integers that it would round.
    return int(float(number)) != number or not -(2**63) <= number < 2**63


def test_half_a_character_is_refused_and_may_be_rejected(tmp_path: Path) -> None:
    """No other type would read it."""
    path = write(tmp_path / "a.jsonl", '{"a": "\\ud83d x"}\n{"a": "x"}\n')
    with pytest.raises(DataError, match=r"half a character.*on_error: \{reject: 10\}") as caught:
        read_rows(path)
    assert "types" not in str(caught.value)
    table, _, found = read.read_table(plan_of(path), reject=True)
    assert (table["a"].to_pylist(), len(found)) == (["x"], 1)


def rejected(path: str, **options: str) -> tuple[pa.Table, tuple[Rejected, ...]]:
    """Plans by a good line, and reads the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", len(GOOD) + 1)
        plan = plan_of(path, types=TYPES, **options)
    table, _, found = read.read_table(plan, reject=True)
    return table, found


@example(lines=['{"b":1,"b":[]}', '{"b":[]}'], many=1)
@example(lines=['{"c":9223372036854775807}', '{"c":9223372036854775808}', '{"c":300}'], many=1)
@example(lines=['{"c":%s}' % ("9" * 400), '{"c":-9007199254740993}'], many=1)
@given(
    lines=st.lists(st.one_of(OBJECTS, OBJECTS, OBJECTS, WHOLE), min_size=1, max_size=25),
    many=st.integers(1, 3),
)
def test_lines_are_rejected_as_if_parsed_alone(tmp_path_factory, lines, many):
    """The lines are rejected that pyarrow refuses, in pieces of any size."""
    encoded = [line.encode(errors="surrogateescape") for line in lines]
    path = write(
        tmp_path_factory.mktemp("json") / "a.jsonl", b"\n".join([GOOD.encode(), *encoded, b""])
    )
    table, expected = rejected(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "PIECE_BYTES", (many * 50,))
        pieces, found = rejected(path)
    assert found == expected
    assert pieces.equals(table) or repr(pieces.to_pylist()) == repr(table.to_pylist())
    assert [row.position for row in found] == [
        f"line {number}" for number, line in enumerate(encoded, 2) if is_bad(line)
    ]


BAD_LINES = {
    "no JSON": "oops %d",
    "no object": "[%d]",
    "text for a number": GOOD.replace('"a":1', '"a":"x%d"'),
    "a fraction": GOOD.replace('"a":1', '"a":%d.5'),
    "beyond int8": GOOD.replace('"s":1', '"s":1%03d'),
    "a null in a list": GOOD.replace("[1,2]", "[%d,null]"),
    "an unknown field": GOOD.replace('"a":1', '"z":%d'),
}


@pytest.mark.parametrize("kind", BAD_LINES)
@pytest.mark.parametrize("every", [1, 10])
def test_a_bad_line_costs_little_more_than_a_good_one(kind, every, tmp_path, monkeypatch):
    """A bad line costs little more than a good one.

    Of 1,000 lines all, or one in ten, are bad. The parser gets few of them alone.
    """
    bad = BAD_LINES[kind].replace("2013-01-31 05:15:00", "").replace(',"t":""', "")
    lines = [
        bad % number if number % every == 0 else GOOD.replace(',"t":"2013-01-31 05:15:00"', "")
        for number in range(1_000)
    ]
    path, calls, parse = (
        write(tmp_path / "a.jsonl", "\n".join([GOOD, *lines])),
        [],
        format_module.parse_lines,
    )
    monkeypatch.setattr(
        format_module, "parse_lines", lambda *given: calls.append(1) or parse(*given)
    )
    _, found = rejected(path)
    assert len(found) == 1_000 // every
    assert len(calls) < 60
