"""Lists in cells, and first lines that are no names."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.sql.expressions import evaluate, parse_expression
from tests.sources.support import plan_of, read_rows, write


def put(folder: Path, cells: list[str]) -> str:
    """Writes a column of texts next to one of numbers."""
    return write(folder / "a.tsv", "id\ta\n" + "".join(f"{n}\t{c}\n" for n, c in enumerate(cells)))


@pytest.mark.parametrize(
    ("cells", "words", "sql", "value"),
    [
        (["[1, 2.5]", "[]"], "lists of numbers", "a::DOUBLE[]", [1, 2.5]),
        (["['x', 'y z']", '["q"]'], "lists of texts", "a::VARCHAR[]", ["x", "y z"]),
        (["[1.  2.5]", "[3.]"], "lists of NumPy", "regexp_extract_all(a, '[-+.0-9e]+')::DOUBLE[]", [1, 2.5]),
        (["1 2 3 4", "5 6 7 8"], "numbers between blanks", "string_split(a, ' ')::BIGINT[]", [1, 2, 3, 4]),
        (["x;y", "x"], "texts between bars or semicolons", "string_split(a, ';')", ["x", "y"]),
        (["x|y", "x"], "texts between bars or semicolons", "string_split(a, '|')", ["x", "y"]),
        (['{"b": 1}', '{"b": 2}'], "objects of JSON", "json_extract_string(a, '$.b')::INT", 1),
    ],
)  # fmt: skip
def test_lists_have_a_finding(tmp_path, cells, words, sql, value):
    """It names the function that reads them, and the function does."""
    path = put(tmp_path, cells)
    (finding,) = plan_of(path).decisions
    assert finding.startswith(f"types: {{a: text}}  # {words}, such as ")
    reader = "CAST" if "::" in sql[:4] else sql.partition("(")[0]
    assert reader in finding
    batch = pa.record_batch({"a": cells})
    assert evaluate(batch, parse_expression("b", sql, ["a"]))[0].as_py() == value


@pytest.mark.parametrize(
    "part", ["1", "0", ".1", "1e", "[ ", "{ ", '" ', "1,", "a|", "-", " \u00a0"]
)
def test_a_long_text_takes_no_square_of_time(tmp_path, part):
    """A megabyte in one cell is planned as fast as many cells."""
    path = put(tmp_path, [part * (1_000_000 // len(part)) + "x", "y"])
    begin = time.process_time()
    plan_of(path)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("cells", [["a [1]", "b"], ["x", "y|z", "q", "r", "s"], ["[1, x]", "[2]"]])
def test_other_texts_are_no_lists(tmp_path: Path, cells: list[str]) -> None:
    """All cells are lists, or a quarter of them with bars."""
    assert plan_of(put(tmp_path, cells)).decisions == ()


SENTENCES = "This is one sentence here\nAnd this is another one\n"
PAIRS = "I was there.\tIch war da.\nYou were not.\tDu nicht.\n"


@pytest.mark.parametrize(
    ("text", "columns"), [(SENTENCES, ("column1",)), (PAIRS, ("column1", "column2"))]
)
def test_sentences_may_be_names_or_a_row(tmp_path, text, columns):
    """The question has both answers, which work; no row is lost."""
    path = write(tmp_path / "a.tsv", text)
    with pytest.raises(DataError, match="may be names of columns or a row") as caught:
        plan_of(path)
    assert f"columns: [{', '.join(columns)}]'" in str(caught.value)
    assert len(read_rows(path, header=False, columns=columns)) == 2
    assert len(read_rows(path, header=True)) == 1


def test_units_of_japan_and_years_of_two_digits(tmp_path: Path) -> None:
    """Yen are numbers, and the finding says the century."""
    path = write(tmp_path / "a.tsv", "a\tb\n\uffe51,200,000\t31.01.68\n\uffe5980\t01.02.69\n")
    assert [(row["a"], row["b"].year) for row in read_rows(path)] == [
        (1_200_000, 2068),
        (980, 1969),
    ]
    assert "years of two digits are 1969 to 2068" in plan_of(path).decisions[-1]
