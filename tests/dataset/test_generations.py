"""A dataset with generations of an older version is read whole.

``generations.zip`` has 12 rows of each of two runs, without the report.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import beam_pipelines as bp
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.dataset.inspect import example_values
from beam_pipelines.dataset.verify import verify_dataset

ROWS = {"train": 18, "eval": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The dataset."""
    folder = tmp_path_factory.mktemp("generations")
    with zipfile.ZipFile(Path(__file__).with_name("releases") / "generations.zip") as archive:
        archive.extractall(folder)
    return folder


def test_readers_take_all_generations(folder: Path) -> None:
    """Each row comes once, with the encodings of the first generation."""
    dataset = bp.open(folder)
    assert dict(dataset.splits) == ROWS
    ids = []
    for split, rows in ROWS.items():
        (batch,) = dataset.batches(split, 100)
        assert len(batch["id"]) == rows
        assert set(batch["city"].tolist()) <= {-1, 0, 1, 2}
        ids += batch["id"].tolist()
        reader = dataset.batches(split, 4, shuffle=False, columns=["id"])
        first = next(reader)
        rest = bp.open([folder]).batches(split, 4, shuffle=False, columns=["id"])
        rest.load_state_dict(reader.state_dict())
        own = [first["id"].tolist(), *(one["id"].tolist() for one in rest)]
        assert np.concatenate(own).tolist() == [
            row["id"][0] for row in example_values(str(folder), 100, split)
        ]
    assert sorted(ids) == list(range(24))


def test_statistics_and_files_are_whole(folder: Path) -> None:
    """Accumulators of generations are merged, and ``verify`` reads all."""
    found = read_statistics(str(folder))
    assert {name: table.rows for name, table in found.items()} == ROWS
    verified = verify_dataset(str(folder))
    assert (verified.shards, verified.rows) == (8, 24)
