"""Datasets, encodings and states of earlier releases are read.

``releases/<version>.zip`` has two datasets of that release without their reports: ``rows``, encoded,
with a label and two splits, and ``steps``, tf.SequenceExamples; and ``reader.json``, the state of a
reader after two batches.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import beam_pipelines as bp
from beam_pipelines.dataset.verify import verify_dataset

RELEASES = sorted((Path(__file__).parent / "releases").glob("[0-9]*.zip"))
# Releases whose states go on; the others ask to begin again.
STATES_GO_ON: set[str] = set()


@pytest.fixture(scope="module", params=RELEASES, ids=lambda path: path.stem)
def release(request, tmp_path_factory) -> Path:
    """The folder of a release's files."""
    folder = tmp_path_factory.mktemp(request.param.stem) / request.param.stem
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(folder)
    return folder


def row(number: int) -> dict[str, object]:
    """A row as the recipe's file had it."""
    return {
        "id": number,
        "x": number / 4,
        "city": ["Bonn", "Köln", "Ulm"][number % 3],
        "tags": ["a", "b"] if number % 2 else ["b"],
        "late": number % 2,
    }


def test_rows_and_encoder_agree(release: Path) -> None:
    """The encoder makes the values of the shards."""
    dataset = bp.open(release / "rows")
    assert sum(dataset.splits.values()) == 40
    encode = dataset.encoder()
    for split in dataset.splits:
        (batch,) = dataset.batches(split, 100, shuffle=False)
        expected = encode([row(number) for number in batch["id"].tolist()])
        for name in ("x", "city"):
            np.testing.assert_array_equal(batch[name], expected[name])
        np.testing.assert_array_equal(batch["tags"].values, expected["tags"].values)


def test_steps_are_whole(release: Path) -> None:
    """Feature lists have their values."""
    (batch,) = bp.open(release / "steps").batches("train", 100, shuffle=False)
    clicks = np.split(batch["clicks"].values, batch["clicks"].offsets[1:-1])
    assert [one.tolist() for one in clicks] == [list(range(user % 5)) for user in batch["user"]]


@pytest.mark.parametrize("name", ["rows", "steps"])
def test_files_are_whole(release: Path, name: str) -> None:
    """``verify`` finds nothing."""
    assert verify_dataset(str(release / name)).rows == {"rows": 40, "steps": 20}[name]


def test_transform_takes_its_encodings(release: Path, tmp_path: Path) -> None:
    """New rows get the values of the shards' encodings."""
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps(row(number)) + "\n" for number in range(50)))
    bp.transform(release / "rows", new, output=tmp_path / "out")
    (batch,) = bp.open(tmp_path / "out").batches("test", 100, shuffle=False)
    expected = bp.open(release / "rows").encoder()([row(n) for n in batch["id"].tolist()])
    np.testing.assert_array_equal(batch["x"], expected["x"])


def test_states_go_on_or_say_what_to_do(release: Path) -> None:
    """A reader's state gives the rows that were left, or an error."""
    kept = json.loads((release / "reader.json").read_text())
    reader = bp.open(release / "rows").batches("train", 8, seed=7)
    if release.name not in STATES_GO_ON:
        with pytest.raises(ValueError, match="Begin the epoch again"):
            reader.load_state_dict(kept["state"])
    else:
        reader.load_state_dict(kept["state"])
        assert [batch["id"].tolist() for batch in reader] == kept["rest"]
