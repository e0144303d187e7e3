"""Tables whose cells are between other characters than usual."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, read_rows, types_of, write

TABLE = [("id", "name", "v"), *((str(n), f"n{n}", str(n * 2)) for n in range(5))]
ROW = {"id": 3, "name": "n3", "v": 6}


@pytest.mark.parametrize(
    ("mark", "shown"), [("^", '"^"'), ("~", '"~"'), ("\x01", '"\\x01"'), (":", '":"')]
)
def test_other_delimiters_are_asked_about(tmp_path: Path, mark: str, shown: str) -> None:
    """The error shows the delimiter, and both remedies work."""
    path = write(tmp_path / "a.csv", "".join(mark.join(row) + "\n" for row in TABLE))
    with pytest.raises(DataError, match="found 3 cells between") as caught:
        read_rows(path)
    assert f"Set 'delimiter: {shown}', or set 'delimiter: \",\"'" in str(caught.value)
    assert read_rows(path, delimiter=mark)[3] == ROW
    assert read_rows(path, delimiter=",")[3] == {mark.join(TABLE[0]): mark.join(TABLE[4])}


def test_names_in_a_comment_are_advised(tmp_path: Path) -> None:
    """Logs of servers name their columns so, above rows with tabs."""
    rows = "".join("\t".join(row) + "\n" for row in TABLE[1:])
    path = write(tmp_path / "a.csv", f"#Version: 1.0\n#Fields: id name v\n{rows}")
    with pytest.raises(DataError, match=r"'skip_lines: 2' and 'columns: \[id, name, v\]'"):
        read_rows(path)
    keys = {"delimiter": "\t", "header": False, "skip_lines": 2, "columns": TABLE[0]}
    assert read_rows(path, **keys)[3] == ROW


@pytest.mark.parametrize(
    ("lines", "row"),
    [
        ([f"{a:<6}{b:<8}{c}" for a, b, c in TABLE], ROW),
        ([f"{a:>4} {b:<8}{c:>5}" for a, b, c in TABLE], ROW),
        ([" ".join(row) for row in TABLE], ROW),
        (['1.5   2\t"a b"', "2  3 4"] * 2, {"column0": 2, "column1": 3, "column2": "4"}),
        (['id "name" v', *(f'{n} "a {n}" {n * 2}' for n in range(5))], {**ROW, "name": "a 3"}),
        # As R writes names of rows, and MATLAB numbers; texts with blanks; words, also of marks.
        (['"id" "v"', *(f'"a {n}" {n} {n * 2}' for n in range(5))], {"index": "a 3", **ROW}),
        (
            ["id      name  v", *(f"{n}    n{n} x   {n * 2}" for n in range(5))],
            ROW | {"name": "n3 x"},
        ),
        (
            ['" O "'] * 4 + [f"w{n} O B" for n in range(20)],
            {f"column{n}": '"O"'[n] for n in range(3)},
        ),
        (["0 0.5 0.1"], None),
        # A user and an item: sequences of clicks.
        (["1 18", "1 5"] * 3, {"column0": 1, "column1": 5}),
    ],
)
def test_tables_between_blanks(tmp_path, monkeypatch, lines, row):
    """The error has a line of Python, which works."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.txt", "\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"between (runs of )?blanks") as caught:
        read_rows("a.txt")
    cure = str(caught.value).partition("for example: ")[2].partition(", or set")[0]
    exec(cure, {"pandas": pd})  # noqa: S102 - the remedy
    if row is not None:
        found = read_rows("new.csv")[3]
        assert found == {name: row[name] for name in found}
        assert len(found) == len(lines[-1].replace("n4 x", "n4").replace("a 4", "a").split())


def test_sentences_between_empty_lines(tmp_path, monkeypatch):
    """The error has a command that numbers the sentences, which works."""
    monkeypatch.chdir(tmp_path)
    sentences = [[f"w{n}{k} NN O" for k in range(n % 3 + 2)] for n in range(9)]
    write(tmp_path / "a b.txt", "\n\n".join(map("\n".join, sentences)) + "\n")
    with pytest.raises(DataError, match="found 3 cells between blanks") as caught:
        read_rows("a b.txt")
    cure = str(caught.value).partition("sentences: ")[2].partition(", or set")[0]
    subprocess.run(cure, shell=True, check=True)  # noqa: S602 - the remedy
    rows = [list(row.values()) for row in read_rows("new.tsv")]
    assert rows == [[n, *line.split()] for n, lines in enumerate(sentences) for line in lines]


@pytest.mark.parametrize("mark", [",", ";"])
def test_quotes_behind_a_backslash_do_not_hide_the_delimiter(tmp_path: Path, mark: str) -> None:
    """The error names them, and no lines above the table."""
    rows = [f'{n}{mark}"he said \\"a{mark} b\\" {n}"{mark}x' for n in range(9)]
    path = write(tmp_path / "a.csv", "\n".join([mark.join("abc"), *rows]) + "\n")
    with pytest.raises(DataError, match="found quotes behind a backslash and 4 cells, expected 3"):
        read_rows(path)


@pytest.mark.parametrize(
    "lines",
    [
        ["text", *(f"hello world number {n}" for n in range(9))],
        ["at", *(f"2024-01-0{n} 10:00:00" for n in range(1, 9))],
        ["clock", *(f"10:00:0{n}" for n in range(9))],
        ["n", *(f"{n} 234 567" for n in range(1, 9))],
        ["link", *(f"http://a.org:80{n}/x" for n in range(9))],
        ["mac", *(f"aa:bb:cc:dd:ee:0{n}" for n in range(9))],
        [f"aa:bb:cc:dd:ee:0{n}" for n in range(9)],
        [f"host{n}: {n}" for n in range(9)],
        [f"Room {n}" for n in range(9)],
        ["the cat sat", "on the mat", "and ate rats", "all day long"],
        ["a list of x", "17", "18", "# odd", "19"],
        ["a"],
        ["a:b", "1:2"],
    ],
)
def test_columns_of_texts(tmp_path: Path, lines: list[str]) -> None:
    """Texts with blanks and colons are no tables."""
    path = write(tmp_path / "a.csv", "\n".join(lines) + "\n")
    if len(lines) > 1:
        assert len(types_of(path)) == 1


@pytest.mark.parametrize("header", [[], [("id", "name", "no")]])
@pytest.mark.parametrize("mark", ["::", "||"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_delimiters_of_two_characters_are_asked_about(
    tmp_path, monkeypatch, encoding, mark, header
):
    """The remedy keeps codes, texts and letters; cells have bars and commas."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"{n:02d}", f"Caf\xe9{', b|c' * (n % 2)} {n}", str(n * 2)) for n in range(5)]
    text = "\n".join(mark.join(row) for row in [*header, *rows]) + "\n"
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    with pytest.raises(DataError, match=f'found 3 cells between "{re.escape(mark)}"') as caught:
        read_rows("a.csv")
    cure = str(caught.value).partition("for example: ")[2].partition(", or set")[0]
    exec(cure, {"pandas": pd})  # noqa: S102 - the remedy
    found = read_rows("new.csv")
    assert not header or tuple(found[0]) == header[0]
    assert [tuple(map(str, row.values())) for row in found] == rows


def test_bars_around_empty_cells(tmp_path: Path) -> None:
    """Two bars are an empty cell where each line has single ones."""
    path = write(tmp_path / "a.psv", "".join(f"{n}|f{n}||u{n}\n" for n in range(20)))
    assert [*read_rows(path)[3].values()] == [3, "f3", None, "u3"]


def test_a_short_line_names_the_delimiter(tmp_path: Path) -> None:
    """The error says which delimiter was found."""
    path = write(tmp_path / "a.csv", "a|b\n1|2\n3|4\n5\n")
    with pytest.raises(DataError, match=r"line 4: found 1 cell, .*set 'delimiter'.*'\|'"):
        read_rows(path)


def test_a_first_line_without_names_has_a_true_reason(tmp_path: Path) -> None:
    """Values that come again, and values written alike, have different words."""
    again = write(tmp_path / "a.csv", "x,y\n" * 1 + "x,z\nq,y\n")
    alike = write(tmp_path / "b.csv", "".join(f"A-{n}\n" for n in range(9)))
    assert "values of the first line come again below" in plan_of(again).decisions[0]
    assert "the first line is written like those below" in plan_of(alike).decisions[0]
