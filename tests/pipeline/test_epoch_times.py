"""Times that are numbers, as pandas' ``to_json()`` writes them: found, and read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.recipe.settings import read_setting

ROWS, FIRST = 120, 1_709_251_200_123  # 2024-03-01 00:00:00.123


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Visits, one each hour; some have no end."""
    rows = [
        {
            "visit_id": FIRST + 3 * row,
            "started": FIRST + 3_600_000 * row,
            "end": None if row % 7 == 0 else FIRST // 1000 + 3600 * row,
            "pages": row % 5,
            "bought": row % 3 == 0,
        }
        for row in range(ROWS)
    ]
    (tmp_path / "visits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return "visits.jsonl"


@pytest.mark.end_to_end
def test_the_alert_has_the_lines_that_read_times(visits, capsys):
    """The lines of the summary make times, and settle the alert."""
    assert run(["convert", visits, "-o", "raw"]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if "epoch" in line]
    found = [
        re.search("epoch (.*): (.*); 'derive: (.*)' and 'drop: (.*)' make", one) for one in shown
    ]
    assert [(one[1], one[2], one[4]) for one in found if one] == [
        ("milliseconds", "started", "started"),
        ("seconds", "end", "end"),
    ]
    derived = ", ".join(one[3][1:-1] for one in found if one)
    Path("recipe.yaml").write_text(
        f"name: v\nsources: {{v: {visits}}}\nderive: {{{derived}}}\ndrop: [started, end]\n"
    )
    assert run(["convert", "recipe.yaml", "-o", "out"]) == 0
    assert "epoch" not in capsys.readouterr().out
    made = bp.open("out").to_pandas().sort_values("visit_id")
    assert made["started_utc"].tolist() == [
        FIRST * 1000 + 3_600_000_000 * row for row in range(ROWS)
    ]
    assert made["end_utc"].isna().sum() == -(-ROWS // 7)
    assert run(["describe", visits]) == 0
    assert "epoch milliseconds: started; 'derive" in capsys.readouterr().out


@pytest.mark.end_to_end
def test_a_first_recipe_reads_times(visits: str) -> None:
    """It derives them, splits by the first, and converts unedited."""
    assert run(["init", visits, "-o", "recipe.yaml"]) == 0
    text = Path("recipe.yaml").read_text()
    assert (
        "to_timestamp(started / 1000)  # started has milliseconds since 1970, 2024-03-01 to" in text
    )
    assert "drop: [started, end]" in text
    assert "split: {column: started_utc, " in text
    assert "started_utc: {date_parts: [weekday, hour]}" in text
    assert re.search("visit_id: drop +# names the row", text)
    assert bp.convert("recipe.yaml", "out").splits == {"train": 96, "eval": 24}


@pytest.mark.end_to_end
def test_zeros_among_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are null, so that the split is by other means."""
    monkeypatch.chdir(tmp_path)
    logins = [0 if row % 10 == 0 else FIRST // 1000 + 60 * row for row in range(ROWS)]
    rows = [f"{login},{row % 2}" for row, login in enumerate(logins)]
    Path("users.csv").write_text("\n".join(["last_login,churned", *rows]) + "\n")
    assert run(["init", "users.csv", "-o", "recipe.yaml"]) == 0
    text = Path("recipe.yaml").read_text()
    assert (
        "last_login_utc: to_timestamp(NULLIF(last_login, 0))  # last_login has seconds or 0" in text
    )
    assert "split: {train: 0.8, eval: 0.2}" in text
    assert sum(bp.convert("recipe.yaml", "out").splits.values()) == ROWS


def test_encode_reads_times(visits: str) -> None:
    """``--encode`` derives them too; ``keep`` leaves them numbers."""
    written = bp.plan(visits, encode=True).encode.written
    assert {"started_utc_hour", "end_utc_hour"} <= set(written)
    kept = bp.plan(visits, encode=True, settings=[read_setting("keep=[started, pages]")])
    assert kept.encode.written == ("started", "pages")


@pytest.mark.end_to_end
def test_times_of_a_joined_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the names of the joined rows."""
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_text("user,total\n" + "".join(f"u{n % 9},{n}\n" for n in range(90)))
    lines = "".join(f"u{n},{FIRST // 1000 + 86_400 * n}\n" for n in range(9))
    Path("users.csv").write_text("user,signup\n" + lines)
    assert run(["init", "orders.csv", "users.csv", "-o", "recipe.yaml"]) == 0
    assert "users_signup_utc: to_timestamp(users_signup)" in Path("recipe.yaml").read_text()
    assert "users_signup_utc_month" not in bp.convert("recipe.yaml", "out").to_pandas()
