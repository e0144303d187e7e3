"""pipeline/previews/disk_space.py estimates disk space, and warns of too little."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import shutil

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.previews import disk_space
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.runners import run as run_module
from beam_pipelines.storage import files
from tests.support.runs import convert_in

ROWS = 100_000
PLAIN = "name: numbers\nsources: {numbers: {path: numbers.csv}}\noutput: {num_shards: 2}\n"
JOINED = (
    "name: numbers\nsources: {numbers: {path: numbers.csv}, names: {path: names.csv, key: "
    "b}}\nfrom: numbers\n"
    "join: [{source: names, on: b, strategy: hash}]\noutput: {num_shards: 2}\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a table, and another to join it with."""
    folder = tmp_path_factory.mktemp("disk_space")
    (folder / "numbers.csv").write_text(
        "a,b\n" + "".join(f"{row},x{row * 7919 % 10_007}\n" for row in range(ROWS))
    )
    (folder / "names.csv").write_text(
        "b,c\n" + "".join(f"x{row},{row * 2654435761}\n" for row in range(10_007))
    )
    for name, recipe in (("plain", PLAIN), ("joined", JOINED)):
        (folder / f"{name}.yaml").write_text(recipe)
    return folder


def disk_bytes(folder: pathlib.Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Gives every disk this much free space."""
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - free, free)
    )


@pytest.mark.parametrize("name", ["plain", "joined"])
def test_the_estimate_is_what_a_run_takes(name, folder, tmp_path, monkeypatch):
    """The estimate is within a third of the output at the commit."""
    plan = make_plan(load(str(folder / f"{name}.yaml")))
    estimate = disk_space.estimate_disk_space(plan, str(tmp_path / "out"), str(tmp_path / "out"))
    found = []
    commit = convert.commit
    monkeypatch.setattr(
        convert,
        "commit",
        lambda *given: (found.append(disk_bytes(tmp_path / "out")), commit(*given)),
    )
    convert_in(tmp_path, plan)
    assert estimate is not None
    assert estimate.temporary_bytes + estimate.shard_bytes == pytest.approx(found[0], rel=0.33)


def test_too_little_disk_space_is_a_warning(folder, tmp_path, monkeypatch, capsys):
    """Too little disk space gives a warning of one line.

    It has folder, need, free space and remedy; the run starts, and succeeds here.
    """
    with_free(monkeypatch, 1_000_000)
    assert run(["convert", str(folder / "plain.yaml"), "--output", str(tmp_path / "out")]) == 0
    (line,) = (
        line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")
    )
    assert re.fullmatch(
        rf"warning: {re.escape(str(tmp_path))}/out: the run is estimated to need [\d.]+ MB of disk in all, [\d.]+ MB of it for temporary files that are "
        r"removed at the end; found 1 MB free\. It starts all the same: make room on the disk, or stop it and choose another --output\.",
        line,
    )


@pytest.mark.parametrize(
    ("free", "options"), [(100_000_000, []), (6_000_000, []), (1_000_000, ["--quiet"])]
)
def test_enough_disk_space_is_no_warning(free, options, folder, tmp_path, monkeypatch, capsys):
    """There is no warning with --quiet.

    With enough space there is no estimate.
    """
    with_free(monkeypatch, free)
    estimated = []
    estimate = disk_space.estimate_disk_space
    monkeypatch.setattr(
        disk_space, "estimate_disk_space", lambda *given: (estimated.append(1), estimate(*given))[1]
    )
    assert (
        run(["convert", str(folder / "plain.yaml"), "--output", str(tmp_path / "out"), *options])
        == 0
    )
    assert "warning" not in capsys.readouterr().err
    assert len(estimated) == (free == 6_000_000)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_how_much_is_needed(number, folder, tmp_path, monkeypatch, capsys):
    """After the system's error comes the estimate and the free space."""
    with_free(monkeypatch, 5_000_000)

    def fails(*_: object, **__: object) -> None:
        with files.explained(str(tmp_path / "out" / "x")):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_module, "run", fails)
    assert (
        run(["convert", str(folder / "plain.yaml"), "--output", str(tmp_path / "out"), "--quiet"])
        == 1
    )
    first, second = capsys.readouterr().err.splitlines()
    assert os.strerror(number) in first
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}/out: the run is estimated to need [\d.]+ MB of disk in all, .*; 5 MB are free there now, "
        r"without what the run had written\.",
        second,
    )


def test_data_that_cannot_be_previewed_are_no_error_of_the_estimate(folder, tmp_path, monkeypatch):
    """The run itself reports bad data."""
    with_free(monkeypatch, 1_000)
    shutil.copy(folder / "numbers.csv", tmp_path)
    plan = make_plan(load(str(tmp_path / "numbers.csv")))
    (tmp_path / "numbers.csv").unlink()
    assert disk_space.estimate_disk_space(plan, str(tmp_path / "out"), str(tmp_path)) is None
    with (
        pytest.raises(DataError, match=r"numbers\.csv"),
        disk_space.report_disk_space(plan, RunOptions(str(tmp_path / "out")), warn=pytest.fail),
    ):
        convert_in(tmp_path, plan)
