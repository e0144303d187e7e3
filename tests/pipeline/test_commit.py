"""A commit that is killed can be repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import beam_pipelines as bp
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import file_changes, files
from beam_pipelines.pipeline import commit
from beam_pipelines.transforms.write import ShardInfo
from tests.faults.faulty_filesystem import SCHEME
from tests.support.contents import contents

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: numbers
sources: {rows: rows.csv}
split: {train: 0.6, eval: 0.4}
encode: {word: vocabulary}
output: {num_shards: COUNT}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets: ``new``, ``old`` with shards of the same names, ``older`` with others."""
    root = tmp_path_factory.mktemp("commit")
    for name, count in (("old", 2), ("older", 3), ("new", 2)):
        rows = [f"w{number % len(name)},{number}" for number in range(200)]
        (root / "rows.csv").write_text("\n".join(["word,number", *rows]))
        (root / "recipe.yaml").write_text(RECIPE.replace("COUNT", str(count)))
        bp.convert(str(root / "recipe.yaml"), str(root / name))
    return root


def about_to_commit(
    folder: Path, before: str | None, place: str, patch: pytest.MonkeyPatch
) -> Callable[[], object]:
    """Makes a run that has written all files; returns its commit.

    Args:
      folder: of the datasets.
      before: the dataset that the run replaces.
      place: path or URL of the run's output.
      patch: keeps the commit from checks of a plan.
    """
    patch.setattr(commit, "_MOVED_FILES", 3)
    patch.setattr(commit, "check_unchanged", lambda _: None)
    patch.setattr(commit, "check_written", lambda *_: None)
    temporary, new = files.join(place, "_temporary"), contents(folder / "new")
    paths = [*(path for path in new if path != "dataset.json"), "dataset.json"]
    for path, data in contents(folder / before).items() if before else ():
        files.write_bytes(files.within(place, path), data)
    for path in paths:
        files.write_bytes(commit.staged_path(temporary, path), new[path])
    files.write_bytes(files.join(temporary, "staged", "paths.json"), json.dumps(paths).encode())
    shards = [
        ShardInfo("", shard.path, shard.rows, shard.bytes, 0, int(shard.crc32c, 16))
        for shard in read_manifest(str(folder / "new")).shards
    ]
    plan: Any = None
    result: Any = SimpleNamespace(row_counts=None, shards=SimpleNamespace(num_shards=0))
    stage = partial(commit.stage, plan, result, folder=place, started=0.0)
    return partial(commit.CommitSteps(stage, place, "", 0.0).run, shards)


class StoppedError(Exception):
    """Simulates the end of the process."""


def moved(count: int) -> Callable[[list[tuple[str, str]]], None]:
    """Returns a ``file_changes.rename`` that stops after a number of renames."""
    original, left = file_changes.rename, [count]

    def rename(pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            if not left[0]:
                raise StoppedError
            left[0] -= 1
            original([pair])

    return rename


@pytest.mark.parametrize("begin", ["", f"{SCHEME}://"], ids=["on a disk", "file by file"])
@pytest.mark.parametrize("before", ["old", "older", None])
def test_a_commit_that_is_killed_can_be_repeated(folder, tmp_path, monkeypatch, before, begin):
    """A killed commit leaves a dataset or none.

    This holds after any of the moves, and a retry makes the new dataset.
    """
    expected = contents(folder / "new")
    for count in range(40):
        output = tmp_path / str(count)
        run, is_done = about_to_commit(folder, before, f"{begin}{output}", monkeypatch), True
        with monkeypatch.context() as patched:
            patched.setattr(file_changes, "rename", moved(count))
            try:
                run()
            except StoppedError:
                is_done = False
        assert (output / "dataset.json").exists() == is_done
        run()
        assert contents(output) == expected
        if is_done:
            break
    assert is_done
    assert count > 5
