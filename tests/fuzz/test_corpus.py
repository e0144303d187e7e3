"""Replays the fuzzing corpus and findings through every target.

It also checks that targets find what is wrong.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import random
import sys

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core import _native
from beam_pipelines.core._native import reference
from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import read
from tests.fuzz import distil, engine, finding
from tests.fuzz.target import Target
from tests.fuzz.targets import NAMES, module_of

CORPUS = pathlib.Path(__file__).parent / "corpus"


def target_of(name: str) -> Target:
    return importlib.import_module(module_of(name)).TARGET


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_in_what_is_known(name: str) -> None:
    """Every input of the corpus is read like the oracle, or refused.

    This holds for the inputs to begin with, too. A refusal has an explanation.
    """
    target = target_of(name)
    kept = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert kept
    for data in [*target.seeds(), *kept]:
        target.run(data)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_in_some_changes(name: str) -> None:
    """A target's own changes of the inputs bring no finding.

    The changes are the same in every run.
    """
    target = target_of(name)
    chance = random.Random(7)
    seeds = target.seeds()
    for _ in range(30):
        target.run(target.mutate(chance.choice(seeds), chance)[: target.max_bytes])


def test_corpora_stay_small() -> None:
    """A corpus is some kilobytes, and belongs to a target."""
    folders = list(CORPUS.iterdir())
    assert {folder.name for folder in folders} == set(NAMES)
    for folder in folders:
        assert sum(path.stat().st_size for path in folder.iterdir()) < 2 * distil.MOST_BYTES


def with_other_rows(plan: object, reject: bool) -> tuple[pa.Table, dict[str, int], object]:
    """Reads a table and replaces its last row with the first."""
    table, counts, rejected = ORIGINAL(plan, reject)
    rows = [*range(table.num_rows - 1), 0][: table.num_rows]
    return table.take(pa.array(rows, pa.int64())), counts, rejected


ORIGINAL = read.read_table


@pytest.mark.parametrize(
    "name", ["csv_ranges", "json_lines", "libfm", "idx", "tfrecord", "example"]
)
def test_a_row_in_the_place_of_another_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that gives another row makes the target raise.

    Some input to begin with is enough.
    """
    monkeypatch.setattr(read, "read_table", with_other_rows)
    target = target_of(name)
    found = []
    for data in target.seeds():
        try:
            target.run(data)
        except finding.Finding as error:
            found.append(error.kind)
    assert found


@pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="the C++ kernels are not built")
def test_readers_that_do_not_agree_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target compares each reader of TFRecord files with the loop.

    Readers that do not agree are a finding.
    """
    target = target_of("tfrecord")
    data = target.seeds()[2]
    target.run(data)
    monkeypatch.setattr(reference, "unframe", lambda _: np.zeros(1, np.int64))
    with pytest.raises(finding.Finding, match="Arrow"):
        target.run(data)


def test_only_explained_errors_pass() -> None:
    """An error passes if it is ours and explained."""

    def fail(error: Exception) -> None:
        raise error

    assert finding.explained(lambda: fail(DataError("a.csv: found nothing, expected rows."))) == (
        None,
        "a.csv: found nothing, expected rows.",
    )
    with pytest.raises(finding.Finding):
        finding.explained(lambda: fail(DataError(" ")))
    with pytest.raises(KeyError):
        finding.explained(lambda: fail(KeyError("a")))


def test_engine_keeps_the_smallest_input_of_a_kind(tmp_path: pathlib.Path) -> None:
    """The engine goes on after findings and keeps each kind's smallest input.

    It stores the running input where a crash does not remove it.
    """

    def run(data: bytes) -> None:
        if b"x" in data:
            raise finding.Finding("an x", "there")
        if b"y" in data:
            sys.exit("y")

    target = Target(run, list, lambda data, _: data)
    made = engine.Engine(target, tmp_path)
    for data in (b"aax", b"x", b"xaaa", b"a"):
        made.run(data)
    made.keep_totals()
    (kept,) = (tmp_path / "findings").glob("*.input")
    assert kept.read_bytes() == b"x"
    assert json.loads((tmp_path / "process.json").read_text())["executions"] == 4
    with pytest.raises(SystemExit):
        made.run(b"yy")
    assert engine.read_current(tmp_path / "current") == (5, b"yy")
