"""Alerts of a table in the summary, the manifest and the report."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run

pytestmark = pytest.mark.end_to_end

ROWS = 4000


def columns(chance: random.Random) -> dict[str, list[object]]:
    """Returns the columns of a table with nothing to remark."""
    words = [f"w{number}" for number in range(200)]
    return {
        "age": [chance.randrange(18, 90) for _ in range(ROWS)],
        "income": [f"{chance.lognormvariate(10, 0.5):.2f}" for _ in range(ROWS)],
        "city": [f"city {chance.randrange(40)}" for _ in range(ROWS)],
        "day": [f"2026-0{chance.randrange(1, 9)}-11" for _ in range(ROWS)],
        "note": [" ".join(chance.choices(words, k=4)) for _ in range(ROWS)],
        "y": [int(chance.random() < 0.3) for _ in range(ROWS)],
    }


def planted(chance: random.Random) -> dict[str, list[object]]:
    def mixed(share: float, value: object, others: list[object]) -> list[object]:
        return [value if chance.random() < share else other for other in others]

    numbers: list[object] = [chance.randrange(1000) for _ in range(ROWS)]
    return {
        "same": ["EUR"] * ROWS,
        "nothing": [""] * ROWS,
        "code": [f"{chance.getrandbits(64):016x}" for _ in range(ROWS)],
        "amount": mixed(0.003, "none", numbers),
        "user": [f"u{chance.randrange(2500)}" for _ in range(ROWS)],
        "sensor": mixed(0.03, -999, numbers),
        "birth": mixed(0.03, "1900-01-01", [f"2000-01-{n % 28 + 1:02d}" for n in range(ROWS)]),
        "rare": mixed(0.01, 1, [0] * ROWS),
    }


def write(path: Path, table: dict[str, list[object]], repeated: int) -> None:
    rows = [*zip(*table.values(), strict=True)]
    lines = [",".join(map(str, row)) for row in [*rows, *rows[:repeated]]]
    path.write_text("\n".join([",".join(table), *lines]) + "\n")


def test_planted_alerts(tmp_path, monkeypatch, capsys):
    """A clean table has none, and a planted one each of them."""
    monkeypatch.chdir(tmp_path)
    clean = columns(random.Random(1))
    write(tmp_path / "clean.csv", clean, 0)
    write(tmp_path / "dirty.csv", clean | planted(random.Random(2)), 30)
    assert run(["convert", "clean.csv", "-o", "clean", "--label", "y"]) == 0
    assert "alert " not in capsys.readouterr().out
    assert json.loads(Path("clean/dataset.json").read_text())["alerts"] == {}
    assert ">Alerts" not in Path("clean/report.html").read_text()
    lenient = ["--set", "sources.dirty.infer=lenient"]
    assert run(["convert", "dirty.csv", "-o", "dirty", "--label", "rare", *lenient]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("alert    ") for line in shown if line.startswith("alert")] == [
        "duplicates: rows",
        "constant: same",
        "empty: nothing",
        "id: code",
        "nearly numeric: amount",
        "high cardinality: user",
        "sentinel: sensor, birth",
        "imbalanced label: rare",
    ]
    page = Path("dirty/report.html").read_text()
    for text in ("30 of 4,030 rows equal", "are 1900-01-01, the others", "every value is &#39;EUR"):
        assert text in page
