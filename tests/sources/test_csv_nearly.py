"""Columns of numbers, dates or booleans but for a few values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.cli import main
from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.text import blocks
from tests.sources.support import plan_of, problems_of, read_rows, types_of, write

DEFAULT_NULLS = Source("s", ("a",)).nulls

NEARLY = [
    ("numbers", [str(n) for n in range(300)], "n.a.", "int64"),
    ("numbers", [f"{n}.5" for n in range(300)], "-", "double"),
    ("numbers", [f'"{n},5"' for n in range(300)], "k.A.", "double"),
    ("numbers", [f'"1,{n:03},000"' for n in range(300)], "tbd", "int64"),
    ("numbers", [f"{n}.5e5" for n in range(1, 300)], "x", "double"),
    ("dates", [f"2024-01-{n % 28 + 1:02}" for n in range(300)], "soon", "date32[day]"),
    ("dates", [f"{n % 28 + 1}.1.2024" for n in range(300)], "soon", "date32[day]"),
    ("booleans", ["yes", "no"] * 150, "maybe", "bool"),
    ("booleans", ["true", "false"] * 150, "?", "bool"),
]


def put(tmp_path: Path, cells: list[str], odd: str) -> str:
    """Writes a file whose line 202 has another value."""
    lines = [f'{cell},"x\ny"' if n == 5 else f"{cell},z" for n, cell in enumerate(cells)]
    lines.insert(199, f"{odd},z")
    return write(tmp_path / "a.csv", "a,b\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize(("word", "cells", "odd", "type_"), NEARLY)
def test_a_column_that_is_nearly_of_one_kind(tmp_path, word, cells, odd, type_):
    """The error names line and value, and every remedy in it works."""
    path = put(tmp_path, cells, odd)
    text = problems_of(path)["sources", "s", "types"]
    assert f"found {odd!r} ({path}, line 202) among {len(cells):,} {word}, expected" in text
    shown = re.search(r"'nulls: \[(.*)\]'", text)
    assert shown
    assert shown[1].endswith((odd, f'"{odd}"'))
    assert "'types: {a: text}'" in text
    assert "'infer: lenient'" in text
    assert types_of(path, nulls=(*DEFAULT_NULLS, odd))["a"] == type_
    assert read_rows(path, nulls=(*DEFAULT_NULLS, odd))[199]["a"] is None
    assert read_rows(path, types={"a": "text"})[199]["a"] == odd
    assert read_rows(path, infer="lenient")[199]["a"] == odd
    (decision,) = plan_of(path, infer="lenient").decisions
    assert decision.startswith(f"types: {{a: text}}  # {odd!r} ({path}, line 202) among")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([*map(str, range(97)), "x", "y", "z"], "numbers, such as '0', but not 'x'"),  # 3 %
        ([*map(str, range(50)), "x"], "numbers, such as '0', but not 'x'; add 'x' to 'nulls'"),
        (["-", *map(str, range(9)), "-", "7"], "numbers, such as '0', but not '-'; add"),
        ([f"({n})" if n % 2 else str(n) for n in range(30)], "numbers, such as '0', but not '(1)'"),
        ([f"{n}.1.2024" for n in range(1, 20)] + ["x"], "dates, such as '1.1.2024', but not 'x"),
        ([f"2024-01-{n:02}" for n in range(1, 20)] + ["Sum"] * 9, "dates, such as '2024-01-01'"),
        (["yes", "no"] * 9 + ["maybe"], "booleans, such as 'yes', but not 'maybe'"),
        ([*map(str, range(40_000)), *(f"x{n}" for n in range(301))], "numbers, such as '0'"),
        (["00501", *map(str, range(300)), "x"], ""),  # a name
        ([f"A{n}" for n in range(300)], ""),
        ([f"10.0.{n % 9}.{n}" for n in range(300)], ""),
        ([f"{n}" if n % 3 else f"A{n}" for n in range(12)], ""),  # few
        ([f"{n}" if n % 3 == 0 else f"A{n}" for n in range(300)], ""),
    ],
)
def test_a_column_of_texts(tmp_path: Path, cells: list[str], found: str) -> None:
    """More other values make a column of texts with a finding."""
    plan = plan_of(write(tmp_path / "a.csv", "a,b\n" + "".join(f"{cell},1\n" for cell in cells)))
    assert str(plan.schema.field("a").type) == "string"
    if not found:
        assert plan.decisions == ()
        return
    (decision,) = plan.decisions
    assert decision.startswith(f"types: {{a: text}}  # most values are {found}")


def test_the_size_of_the_sample_does_not_matter(tmp_path, monkeypatch):
    """The run stops for values in the sample and behind it."""
    path = put(tmp_path, [str(n) for n in range(400)], "n.a.")
    options: list[dict[str, Any]] = [
        {"nulls": (*DEFAULT_NULLS, "n.a.")},
        {"types": {"a": "text"}},
        {"infer": "lenient"},
    ]
    assert "line 202" in problems_of(path)["sources", "s", "types"]
    assert "line 202" in problems_of(path, infer="full")["sources", "s", "types"]
    whole = [read_rows(path, **option) for option in options]
    monkeypatch.setattr(blocks, "SAMPLE_BYTES", 500)
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 500)
    with pytest.raises(
        DataError, match=r"line 202, column 'a': found 'n\.a\.'.*types: \{a: text\}"
    ):
        read_rows(path)
    assert [read_rows(path, **option) for option in options] == whole


@pytest.mark.end_to_end
def test_the_finding_is_shown(tmp_path, monkeypatch, capsys):
    """Summary, report, init and plan say what became texts."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path, [str(n) for n in range(300)], "n.a.")
    recipe = "name: x\nsources: {x: {path: a.csv, infer: lenient}}\n"
    (tmp_path / "r.yaml").write_text(recipe)
    finding = "types: {a: text}  # 'n.a.' (a.csv, line 202) among 300 numbers"
    assert main.run(["plan", "r.yaml"]) == 0
    assert finding in capsys.readouterr().out
    assert main.run(["convert", "r.yaml", "--output", "out"]) == 0
    assert f"found    x: {finding}" in capsys.readouterr().out
    report = (tmp_path / "out/report.html").read_text()
    assert "line 202) among 300 numbers" in report
    write(tmp_path / "d.csv", "day\n04/03/2024\n05/03/2024\n")
    assert main.run(["init", "a.csv", "d.csv", "--output", "i.yaml"]) == 0
    made = (tmp_path / "i.yaml").read_text()
    assert made.count("infer: lenient  # some columns need a decision") == 2
    assert f"# Found: {finding}" in made
    assert "# Found: types: {day: text}  # '04/03/2024' and the like, which are different" in made
    assert main.run(["plan", "i.yaml"]) == 0
