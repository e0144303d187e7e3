"""Runs sample the rows of classes."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from beam_pipelines.cli.summary import print_summary
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.transform import plan_transform
from tests.support.read_examples import read_examples
from tests.support.runs import convert_in, of_workers, plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

ROWS = 1_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in several ranges, one row of ten in class 1."""
    short_ranges(monkeypatch, 2_000)
    lines = [f"{n},{int(n % 10 == 0)},{n % 7}" for n in range(ROWS)]
    (tmp_path / "t.csv").write_text("id,label,day\n" + "\n".join(lines) + "\n")
    return tmp_path


def recipe(sample: str, more: str = "") -> str:
    return (
        "name: t\nsources: {t: t.csv}\nsplit: {train: 0.8, eval: 0.2, stratify: label}\n"
        f"sample: {sample}\nlabel: label\n{more}"
    )


@pytest.mark.parametrize(
    ("sample", "more", "classes"),
    [
        ("{rates: {0: 0.5, 1: 3}, weight: w}", "leaks: warn\nencode: {day: vocabulary}\n", {0: None, 1: 240}),
        ("{rates: {0: 1, 1: 2}, weight: w}", "on_error: {reject: 5}\nprotect: {id: drop}\n", {0: 720, 1: 160}),
    ],
)  # fmt: skip
def test_classes_are_sampled(folder, capsys, sample, more, classes):
    """``train`` is sampled and ``eval`` is not.

    Every row is in the account. One worker and four write the same bytes. The weights of a class
    add up to its rows.
    """
    plan = plan_in(folder, recipe(sample, more))
    manifest = of_workers(folder, plan, lambda one: (one.counts, one.sample))
    counts = manifest.counts
    assert counts.written == ROWS - counts.sampled_out + counts.repeated
    found, weights = collections.Counter[int](), collections.Counter[int]()
    for row in read_examples(folder / "out1", "train"):
        found[row["label"]] += 1
        weights[row["label"]] += row["w"]
    for number, rows in {0: 720, 1: 80}.items():
        assert classes[number] in (None, found[number])
        assert weights[number] == pytest.approx(rows, rel=0.1)
    assert manifest.splits["eval"].rows == 200
    assert {row["w"] for row in read_examples(folder / "out1", "eval")} == {1.0}
    written = {each["class"]: each["written"] for each in manifest.sample["classes"]}
    assert written.items() <= {"0": found[0], "1": found[1]}.items()
    print_summary(manifest, "out")
    printed = capsys.readouterr().out
    for count, what in ((counts.sampled_out, "sampled out"), (counts.repeated, "added by")):
        assert not count or f"{count:,} {what}" in printed
    assert f"0 in train: 720 rows became {found[0]:,}" in printed
    print_summary(manifest, "out", "json")
    assert json.loads(capsys.readouterr().out)["sample"] == manifest.sample


def test_new_data_have_the_weight_one(folder: Path) -> None:
    """``transform`` samples nothing, with the dataset's features; growth samples."""
    text = recipe("{rates: {0: 0.5}, weight: w}", "encode: {day: vocabulary}\n")
    convert_in(folder, text)
    plan = plan_transform(str(folder / "out"), [str(folder / "t.csv")], {}, "new")
    manifest = convert_in(folder, plan, "new")
    assert manifest.counts.written == ROWS
    assert {row["w"] for row in read_examples(folder / "new", "new")} == {1.0}
    grown = plan_transform(str(folder / "out"), [str(folder / "t.csv")], {}, None)
    assert (plan.split.sample.rates, grown.split.sample.rates) == ((), (0.5,))


def test_a_class_that_does_not_occur(folder: Path) -> None:
    """It stops the run before anything is written."""
    with pytest.raises(DataError, match="found no row of class 5 in column 'label'"):
        convert_in(folder, recipe("{rates: {5: 0.5}}"))
    assert not (folder / "out" / "dataset.json").exists()
