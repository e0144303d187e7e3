"""JSON fields of numbers, booleans or times but for a few texts."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.errors import DataError
from beam_pipelines.sources.text import blocks
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, write

TIMES = [f"2024-01-{n % 28 + 1:02}" for n in range(300)]
CLOCKS = [f"2024-01-{n % 28 + 1:02}T10:{n % 60:02}:00" for n in range(300)]


def put(tmp_path: Path, values: list[Any], odd: str, place: int) -> str:
    """Writes lines; one has another value."""
    values = [*values[:place], odd, *values[place:]]
    lines = [json.dumps({"id": n, "o": {"a": value}}) for n, value in enumerate(values)]
    lines.insert(1, "")
    return write(tmp_path / "a.jsonl", "\n".join(lines) + "\n")


@pytest.mark.parametrize("values", [TIMES, CLOCKS, TIMES[:30]])
@pytest.mark.parametrize("place", [0, 15, 30])
def test_times_but_for_a_few_texts(tmp_path: Path, values: list[str], place: int) -> None:
    """They are texts with a finding; declared times are bad rows."""
    path = put(tmp_path, values, "n.a.", place)
    (finding,) = plan_of(path).decisions
    assert "most values are dates, such as '2024-01-" in finding
    assert "but not 'n.a.'" in finding
    assert [row["o.a"] for row in read_rows(path)] == [*values[:place], "n.a.", *values[place:]]
    types = {"o.a": "timestamp"}
    line = place + 2 if place else 1
    with pytest.raises(DataError, match=f"line {line}, column 'o.a': found 'n.a.'"):
        read_rows(path, types=types)
    assert len(read.read_table(plan_of(path, types=types), reject=True)[0]) == len(values)
    assert read_rows(path, types=types, nulls=("n.a.",))[place]["o.a"] is None


@pytest.mark.parametrize(
    "values", [list(range(300)), [n / 8 for n in range(300)], [True, False] * 150]
)
@pytest.mark.parametrize(("place", "sample_bytes"), [(0, 1 << 20), (150, 500), (300, 500)])
def test_texts_among_numbers(tmp_path, monkeypatch, values, place, sample_bytes):
    """The run stops; a declared type takes texts as they are written."""
    monkeypatch.setattr(blocks, "SAMPLE_BYTES", sample_bytes)
    monkeypatch.setattr(blocks, "CHUNK_BYTES", sample_bytes)
    path = put(tmp_path, values, "n.a.", place)
    line = place + 2 if place else 1
    with pytest.raises(DataError, match=rf"line {line}, column 'o.a'.*types: \{{o.a: text\}}"):
        read_rows(path)
    texts = [json.dumps(value) for value in values]
    texts.insert(place, "n.a.")
    assert [row["o.a"] for row in read_rows(path, types={"o.a": "text"})] == texts


@pytest.mark.parametrize(
    "values", [["x", "y"] * 20, ["5a", "6b"] * 20, [*TIMES[:9], "x"] + ["y"] * 9]
)
def test_texts_need_no_word(tmp_path: Path, values: list[str]) -> None:
    """Other texts have no finding."""
    path = put(tmp_path, values, "z", 5)
    assert plan_of(path).decisions == ()


@pytest.mark.parametrize(
    "end", ["", "Z", "+0200", "-03", ".000Z", ".123Z", ".123456", ".5+02:00", ".123456Z"]
)
@pytest.mark.parametrize("form", ["{}", "[{}]", '{{"x": {}}}', '[{{"x": {}}}]'])
def test_times_are_those_of_csv(tmp_path: Path, end: str, form: str) -> None:
    """Type and value are those of a CSV file, nested or not."""
    text = f"2024-01-01T10:00:00{end}"
    path = write(tmp_path / "a.jsonl", (f'{{"a": {form.format(json.dumps(text))}}}\n') * 20)
    plan, other = plan_of(path), plan_of(write(tmp_path / "a.csv", f"a\n{text}\n"))
    assert plan.decisions == ()
    assert value_type(plan.schema.field(0).type) == other.schema.field("a").type
    [value] = read_rows(path)[0].values()
    [expected] = read_rows(str(tmp_path / "a.csv"))[0].values()
    assert value == ([expected] if "[" in form else expected)


def test_times_with_an_offset_and_without(tmp_path: Path) -> None:
    """They stay texts, which a cast in SQL reads."""
    lines = ['{"a": "2024-01-01T10:00:00.5Z"}', '{"a": "2024-01-01T10:00:00"}'] * 10
    plan = plan_of(write(tmp_path / "a.jsonl", "\n".join(lines)))
    assert "most values are dates" in plan.decisions[0]
    batch = read.read_table(plan, reject=False)[0].to_batches()[0]
    found = evaluate(batch, parse_expression("x", "CAST(a AS TIMESTAMPTZ)", ["a"]))
    assert found[1].as_py() == datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.timezone.utc)
