"""Runs divide classes by shares and keep groups whole."""

from __future__ import annotations

import collections
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.plan import Plan
from tests.support.read_examples import read_examples
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

ROWS = 1_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges: 60 users, a rare class, three regions."""
    short_ranges(monkeypatch, 2_000)
    lines = [f"{n},u{n * 7919 % 61},{int(n % 17 == 0)},{'abc'[n * n % 3]}" for n in range(ROWS)]
    (tmp_path / "t.csv").write_text("id,user,label,region\n" + "\n".join(lines) + "\n")
    return tmp_path


def plan_of(folder: Path, split: str, more: str = "") -> Plan:
    text = f"name: t\nsources: {{t: t.csv}}\nsplit: {split}\n{more}"
    return plan_in(folder, text)


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    """The rows of a split, as TensorFlow reads them."""
    return read_examples(folder / "out1", split)


@pytest.mark.parametrize(
    ("split", "more"),
    [
        ("{train: 0.8, eval: 0.2, stratify: label}", ""),
        (
            "{train: 0.7, eval: 0.2, test: 0.1, stratify: [label, region], seed: 3}",
            "drop: region\n",
        ),
        ("{folds: 5, stratify: label}", "output: {shuffle: false}\nleaks: warn\n"),
    ],
)
def test_classes_have_their_shares(folder: Path, split: str, more: str) -> None:
    """Each class has its shares, to less than one row.

    One worker and four write the same bytes.
    """
    plan = plan_of(folder, split, more)
    manifest = of_workers(folder, plan, lambda one: one.class_shares)
    assert manifest.counts.written == ROWS
    shares = plan.recipe.split.shares
    found = collections.defaultdict(dict)
    by_id = {n: (int(n % 17 == 0), "abc"[n * n % 3]) for n in range(ROWS)}
    for name in shares:
        counted = collections.Counter(
            by_id[row["id"]][: len(plan.recipe.split.stratify)] for row in rows_of(folder, name)
        )
        for number, rows in counted.items():
            found[number][name] = rows
    entry = manifest.class_shares
    assert entry["classes"] == len(found)
    for number, own in found.items():
        assert entry["rows"][", ".join(map(str, number))] == own
        whole = sum(own.values())
        assert all(abs(own[name] - whole * share) < 1 for name, share in shares.items())


def test_the_summary_says_how_near_the_shares_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary and ``--format json`` have the shares of classes."""
    manifest = convert_in(folder, plan_of(folder, "{train: 0.8, eval: 0.2, stratify: label}"))
    entry = manifest.class_shares
    print_summary(manifest, "out")
    assert "2 classes of label: train 80.00%" in capsys.readouterr().out
    print_summary(manifest, "out", "json")
    assert json.loads(capsys.readouterr().out)["class_shares"] == entry


def test_groups_are_not_divided_by_class(folder: Path) -> None:
    """Both are an error, and each remedy plans."""
    both = "{train: 0.8, eval: 0.2, stratify: label, by: user}"
    with pytest.raises(RecipeProblems, match="found it with 'by', expected one"):
        plan_of(folder, both)
    assert plan_of(folder, "{train: 0.8, eval: 0.2, by: user}").split.by == ("user",)
    for name in ("train", "eval"):
        shutil.copy(folder / "t.csv", folder / f"{name}.csv")
    text = (
        "name: t\nsources: {t: {path: [train.csv, eval.csv]}}\n"
        "split: {train: {files: train.csv}, eval: {files: eval.csv}}\n"
    )
    assert plan_in(folder, text).split.patterns == ("train.csv", "eval.csv")


@pytest.mark.parametrize(
    ("split", "more", "message"),
    [
        (
            "{train: 0.8, eval: 0.2, stratify: kind}",
            "derive: {kind: id = 5}\n",
            "classes of kind: found rows of true: 1; expected at least 2 of each class",
        )
    ],
)
def test_classes_that_cannot_be_divided(folder: Path, split: str, more: str, message: str) -> None:
    """A class that cannot be in each split stops the run."""
    with pytest.raises(DataError, match=message):
        convert_in(folder, plan_of(folder, split, more))
    assert not (folder / "out" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("split", "more", "message"),
    [
        ("{train: 0.8, eval: 0.2, stratify: labl}", "", "'labl'.*'label'"),
        ("{train: 1, stratify: label}", "", "one split, expected several"),
        ("{train: 0.8, eval: 0.2, stratify: many}", "derive: {many: '[id]'}\n", "expected one value"),
    ],
)  # fmt: skip
def test_recipes_that_cannot_divide(folder: Path, split: str, more: str, message: str) -> None:
    """Nonsense is an error of the recipe."""
    with pytest.raises((RecipeError, RecipeProblems), match=message):
        plan_of(folder, split, more)
