"""The output folder: which files a run replaces, and which it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import file_changes

pytestmark = pytest.mark.end_to_end

STRANGERS = [
    *("inputs/mine.csv", "labels/mine.txt", "examples/mine.csv", "schema/schema.pbtxt", "rejected/mine.jsonl"),
    *("report.html", "labels.txt", "_temporary/0/part-00000", "_temporary/mine.txt", "mine/data.csv", "notes.txt"),
]  # fmt: skip
LEFT = [
    "_temporary/run.json", "_temporary/run.json.12-34.part", "_temporary/kept/0",
    "_temporary/replaced/examples/x", "_temporary/files-0123abcd-77.arrow",
    "rejected/_stopped_run.jsonl", ".gitkeep",
]  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A table."""
    path = tmp_path / "data.csv"
    path.write_text("id,x\n1,2\n3,4\n")
    return path


def write(path: Path, text: str = "mine") -> Path:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def convert(data: Path, output: Path, *options: str) -> int:
    """Converts by the command line and returns its exit status."""
    return main_module.run(["convert", str(data), "--output", str(output), "--quiet", *options])


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("command", ["convert", "describe"])
def test_files_of_others_stay(data, command, name, capsys):
    """A folder with a foreign file is refused, for any name."""
    path = write(data.parent / "out" / name)
    assert main_module.run([command, str(data), "--output", str(data.parent / "out")]) == 2
    shown = "_temporary/0" if "/0/" in name else name
    assert (
        f"expected an empty or new folder, found {data.parent}/out/{shown}. Choose"
        in capsys.readouterr().err
    )
    assert path.read_text() == "mine"
    assert sorted(found for found in (data.parent / "out").rglob("*") if found.is_file()) == [path]


def test_a_shard_that_another_attempt_has_taken(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataset without a shard is not committed.

    Engines may run the commit twice at once: the shard is gone after its move.
    """
    output, rename = data.parent / "out", file_changes.rename

    def rename_and_lose(pairs: Sequence[tuple[str, str]]) -> None:
        rename(pairs)
        for shard in (output / "examples").rglob("*-of-*"):
            shard.unlink(missing_ok=True)

    monkeypatch.setattr(file_changes, "rename", rename_and_lose)
    with pytest.raises(
        DataError, match=r"-of-\S+: found no file of [0-9,]+ bytes, expected the shard"
    ):
        bp.convert(str(data), str(output))
    assert not (output / "dataset.json").exists()


@pytest.mark.parametrize("name", LEFT)
def test_what_a_run_has_left_is_taken_for_that(data: Path, name: str) -> None:
    """Files of killed or stopped runs are accepted.

    No temporary file stays.
    """
    output = data.parent / "out"
    write(output / name)
    assert convert(data, output) == 0
    assert not (output / "_temporary").exists()


@pytest.mark.parametrize("outcome", [0, 1])
def test_places_that_are_made_already(data: Path, outcome: int) -> None:
    """Empty folders of TFX are accepted.

    They stay if the run fails.
    """
    output = data.parent / "out"
    for name in ("examples", "schema", "statistics/Split-train", "anomalies", "transform_graph"):
        (output / name).mkdir(parents=True)
    if outcome:
        data.write_text("id,x\n1,2\n3\n")
    assert convert(data, output) == outcome
    assert (output / "dataset.json").exists() == (outcome == 0)
    assert (output / "examples").exists()


def test_parts_without_a_manifest(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parts of a killed run are removed.

    The file with the reason why a run stopped stays.
    """
    output = data.parent / "out"
    for name in (
        "_temporary/run.json",
        "examples/Split-train/x",
        "rejected/a.jsonl",
        "rejected/_stopped_run.jsonl",
    ):
        write(output / name)
    damaged = write(data.parent / "damaged.csv", "id,x\n1,2\n3\n")
    assert convert(damaged, output) == 1
    assert "line 3" in capsys.readouterr().err
    assert [str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()] == [
        "rejected/_stopped_run.jsonl"
    ]
    assert convert(data, output) == 0


def test_a_description_becomes_a_dataset(data: Path) -> None:
    """A description is replaced, unless its folder has other files."""
    output = data.parent / "out"
    for _ in range(2):
        assert main_module.run(["describe", str(data), "--output", str(output), "--quiet"]) == 0
    mine = write(output / "examples" / "mine.csv")
    assert convert(data, output) == 2
    mine.unlink()
    mine.parent.rmdir()
    assert convert(data, output) == 0
    assert not (output / "description.json").exists()


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("what", ["data", "recipe"])
def test_an_input_in_what_is_replaced(data, what, link, capsys):
    """A recipe or source in the replaced dataset is refused.

    It may be there by a link.
    """
    output = data.parent / "out"
    assert convert(data, output) == 0
    path = output / "labels" / "mine.csv"
    given = write(path, data.read_text())
    if what == "recipe":
        path = path.with_suffix(".yaml")
        given = write(path, f"name: t\nsources: {{t: {data}}}\n")
    if link:
        (data.parent / "link").symlink_to(output / "labels")
        given = data.parent / "link" / given.name
    assert convert(given, output, "--overwrite") == 2
    assert f"{given}: is in {output}/labels, which the run replaces." in capsys.readouterr().err
    assert path.exists()
    assert (output / "dataset.json").exists()


def test_other_files_next_to_a_dataset_stay(data: Path) -> None:
    """Other files in a dataset's folder stay, and may be read."""
    output = data.parent / "out"
    assert convert(data, output) == 0
    other = write(output / "data.csv", data.read_text())
    assert convert(other, output, "--overwrite") == 0
    assert other.exists()


def test_a_dataset_is_made_of_its_own_shards(data: Path) -> None:
    """Shards of the replaced dataset may be read: they are removed last."""
    output = data.parent / "out"
    assert convert(data, output) == 0
    recipe = write(
        data.parent / "again.yaml",
        f"name: t\nsources: {{t: {{path: '{output}/examples/*/*', format: tfrecord}}}}\n",
    )
    assert convert(recipe, output, "--overwrite") == 0
    assert main_module.run(["verify", str(output)]) == 0
