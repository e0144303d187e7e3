"""`beam-pipelines index` makes indexes of datasets."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.layout.shard_formats import compression_of
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan

RECIPE = """
name: t
sources: {t: {path: t.csv}}
split: {train: 0.75, eval: 0.25}
output: {num_shards: 2, compression: COMPRESSION}
"""
ROWS = 500


@pytest.fixture(scope="module", params=["none", "gzip", "zlib"])
def dataset(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A dataset of two splits."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "t.csv").write_text("a,b\n" + "".join(f"{row},x{row}\n" for row in range(ROWS)))
    text = RECIPE.replace("COMPRESSION", request.param)
    plan = make_plan(parse_recipe(text, "recipe.yaml", str(folder)))
    options = ("--direct_num_workers=1",)
    convert.convert(plan, str(folder / "out"), beam_options=options, quiet=True)
    return folder / "out"


def whole(path: Path) -> bytes:
    """Decompresses a file."""
    data = path.read_bytes()
    return data if compression_of(str(path)) == "none" else zlib.decompress(data, 47)


def read_numbers(folder: Path) -> list[int]:
    """Reads a column of a dataset by its index."""
    reader = bp.open(folder).batches("train", batch_size=100, shuffle=False, columns=["a"])
    with reader:
        return [number for batch in reader for number in batch["a"].tolist()]


def test_a_dataset_gets_its_index(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dataset gets an index that ``verify`` takes."""
    copy = Path(shutil.copytree(dataset, tmp_path / "copy"))
    shutil.rmtree(copy / "index")
    (copy / "index").mkdir()
    (copy / "index" / "Split-train.arrow").write_bytes(b"no index")
    assert run(["index", str(copy)]) == 0
    rows = json.loads((copy / "dataset.json").read_text())["splits"]["train"]["rows"]
    assert f"Split-train.arrow: 2 parts of 2 file(s) with {rows} records" in capsys.readouterr().out
    assert verify_dataset(str(copy)).rows == ROWS
    assert read_numbers(copy) == read_numbers(dataset)


def test_a_changed_shard_gets_no_index(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shard with other bytes than the manifest says stops the command."""
    copy = Path(shutil.copytree(dataset, tmp_path / "copy"))
    one, other = sorted((copy / "examples" / "Split-train").iterdir())
    shutil.copyfile(one, other)
    assert run(["index", str(copy)]) == 1
    assert f"{other}: found " in capsys.readouterr().err


def dali_lines(data: bytes) -> str:
    """The index of a file's records as ``tfrecord2idx`` writes it."""
    lines, start = [], 0
    while start < len(data):
        size = 16 + struct.unpack_from("<Q", data, start)[0]
        lines.append(f"{start} {size}\n")
        start += size
    return "".join(lines)


def test_dalis_index_of_a_dataset(dataset: Path, tmp_path: Path) -> None:
    """The text of ``--dali`` is that of a loop like ``tfrecord2idx``."""
    copy = Path(shutil.copytree(dataset, tmp_path / "copy"))
    assert run(["index", str(copy), "--dali"]) == 0
    shard = min((copy / "examples" / "Split-train").iterdir())
    made = copy / "index" / "dali" / "Split-train" / f"{shard.name}.idx"
    assert made.exists() == (compression_of(shard.name) == "none")
    assert not made.exists() or made.read_text() == dali_lines(whole(shard))
    assert verify_dataset(str(copy)).rows == ROWS


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "found no dataset.json, expected the folder of a dataset"),
        ("gs://bucket/a", "expected local ones"),
    ],
)
def test_what_has_no_index(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    message: str,
) -> None:
    """The error of a folder that cannot be indexed names it."""
    monkeypatch.chdir(tmp_path)
    assert run(["index", path]) != 0
    assert message in capsys.readouterr().err
