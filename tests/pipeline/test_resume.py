"""A run takes over the finished shards of an interrupted one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import resume
from beam_pipelines.pipeline.convert import convert
from tests.support.runs import plan_in, touched

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: visits
sources: {visits: {path: visits.csv}}
split: {train: 0.75, eval: 0.25}
output: {num_shards: 4, shuffle_seed: SEED}
"""
SHARDS = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table."""
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{number},p{number % 13}" for number in range(2_000)]
    (folder / "visits.csv").write_text("number,place\n" + "\n".join(lines) + "\n")
    return folder


def converted(data: Path, output: Path, seed: int = 1, resume: bool = False) -> Manifest:
    """Converts the table."""
    return convert(
        plan_in(data, RECIPE.replace("SEED", str(seed))), str(output), quiet=True, resume=resume
    )


def shards_of(output: Path) -> dict[str, bytes]:
    """Returns path -> content of each shard and each index."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted((*output.glob("examples/*/*"), *output.glob("index/*")))
    }


def written(folder: Path) -> dict[str, int]:
    """Returns path -> write time of each shard in a folder."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.glob("examples/*/*")
    }


def convert_touched(data: Path, output: Path) -> str:
    """Converts while the table changes; restores it and returns the error."""
    with touched(data / "visits.csv", output), pytest.raises(DataError) as raised:
        converted(data, output)
    return str(raised.value)


@pytest.fixture(scope="module")
def reference(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards as one run writes them."""
    output = tmp_path_factory.mktemp("whole") / "out"
    converted(data, output)
    return shards_of(output)


@pytest.fixture(scope="module")
def broken_off(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run that failed after its last shard."""
    output = tmp_path_factory.mktemp("broken") / "out"
    message = convert_touched(data, output)
    assert "visits.csv: the file changed during the run" in message
    assert message.endswith(f"{SHARDS} shards are finished: run again with --resume to keep them.")
    return output


def test_only_finished_shards_stay(broken_off: Path) -> None:
    """A failed run leaves finished shards, their indexes and notes.

    It leaves no dataset.
    """
    assert {path.name for path in broken_off.iterdir()} == {"_temporary"}
    assert {path.name for path in (broken_off / "_temporary").iterdir()} == {
        "finished",
        "examples",
        "index",
    }


def keep_all(output: Path) -> None:
    """Leaves everything unchanged."""


def lose_note(output: Path) -> None:
    """Removes the note about a shard."""
    next(output.glob("_temporary/finished/*.json")).unlink()


def cut_note(output: Path) -> None:
    """Cuts a note short."""
    note = next(output.glob("_temporary/finished/*.json"))
    note.write_text(note.read_text()[:-5])


def lose_shard(output: Path) -> None:
    """Removes a shard's file."""
    next(output.glob("_temporary/examples/*/*")).unlink()


def flip_bit(output: Path) -> None:
    """Damages a shard's file."""
    shard = next(output.glob("_temporary/examples/*/*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)


def lose_index(output: Path) -> None:
    """Removes the index of a shard."""
    next(output.glob("_temporary/index/*/*")).unlink()


def swap_indexes(output: Path) -> None:
    """Gives one shard the index of another."""
    one, other = sorted(output.glob("_temporary/index/Split-train/*"))[:2]
    shutil.copyfile(one, other)


def lose_split(output: Path) -> None:
    """Removes the notes about a whole split."""
    for note in output.glob("_temporary/finished/*.eval.json"):
        note.unlink()


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param(keep_all, SHARDS, id="all"),
        pytest.param(lose_note, SHARDS - 1, id="without-a-note"),
        pytest.param(cut_note, SHARDS - 1, id="with-a-note-cut-short"),
        pytest.param(lose_shard, SHARDS - 1, id="without-a-shard"),
        pytest.param(flip_bit, SHARDS - 1, id="with-a-damaged-shard"),
        pytest.param(lose_index, SHARDS - 1, id="without-an-index"),
        pytest.param(swap_indexes, SHARDS - 1, id="with-another-shards-index"),
        pytest.param(lose_split, SHARDS // 2, id="without-a-split"),
    ],
)
def test_whole_shards_are_kept(change, kept, data, broken_off, reference, tmp_path):
    """A resuming run keeps complete shards.

    Its dataset equals an undisturbed run's.
    """
    output = tmp_path / "out"
    shutil.copytree(broken_off, output)
    change(output)
    dates = written(output / "_temporary")
    manifest = converted(data, output, resume=True)
    assert manifest.timings["resumed_shards"] == kept
    assert shards_of(output) == reference
    assert len(written(output).items() & dates.items()) == kept
    assert verify_dataset(str(output)).rows == 2_000
    assert not (output / "_temporary").exists()


def test_another_recipe_starts_over(data: Path, broken_off: Path, tmp_path: Path) -> None:
    """Shards of another recipe are not taken over."""
    output, fresh = tmp_path / "out", tmp_path / "fresh"
    shutil.copytree(broken_off, output)
    assert "resumed_shards" not in converted(data, output, seed=2, resume=True).timings
    converted(data, fresh, seed=2)
    assert shards_of(output) == shards_of(fresh)


def test_other_input_starts_over(data: Path, broken_off: Path, tmp_path: Path) -> None:
    """Shards of another input are not reused.

    Rows and bytes may be equal.
    """
    output, other = tmp_path / "out", tmp_path / "data"
    shutil.copytree(broken_off, output)
    shutil.copytree(data, other)
    table = other / "visits.csv"
    table.write_text(table.read_text().replace("1999,", "9991,"))
    shutil.copystat(data / "visits.csv", table)
    assert "resumed_shards" not in converted(other, output, resume=True).timings


def test_without_resume_all_is_written_anew(data, broken_off, reference, tmp_path):
    """Without --resume a run starts over, and keeps no earlier file."""
    output = tmp_path / "out"
    shutil.copytree(broken_off, output)
    assert "resumed_shards" not in converted(data, output).timings
    assert shards_of(output) == reference
    assert not (output / "_temporary").exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"key": "k"}', '{"key": 1, "path": 2}', '{"pa\\u0000th": 3}'],
)
def test_a_note_that_is_none_is_passed_over(content: str, tmp_path: Path) -> None:
    """A file that is not a note is ignored."""
    folder = tmp_path / "finished"
    folder.mkdir()
    (folder / "a.json").write_text(content)
    note = {
        "key": "k",
        "split": "s",
        "path": "examples/Split-s/a",
        "rows": 1,
        "bytes": 2,
        "framed_bytes": 3,
        "crc32c": 4,
    }
    (folder / "b.json").write_text(json.dumps(note))
    assert [shard.path for shard in resume.find_finished("k", str(tmp_path))] == [
        "examples/Split-s/a"
    ]
    assert list(resume.find_finished("other", str(tmp_path))) == []
