"""Workers divide a pass, and their states resume it."""

from __future__ import annotations

import copy
import json
import sys

import pytest

import beam_pipelines as bp
from beam_pipelines.adapters import source
from beam_pipelines.adapters.source import Portion, ReaderSource

ROWS, SIZE = 400, 32


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


@pytest.mark.parametrize(
    ("epochs", "workers", "is_second", "killed"),
    [(1, 1, False, 0), (1, 3, True, 5), (2, 2, False, 14), (1, 2, False, 13), (2, 4, True, 25)],
)
def test_workers(folder, epochs, workers, is_second, killed):
    """Workers in turn give one reader's batches, also when they resume."""
    options = {"batch_size": SIZE, "epochs": epochs, "columns": ["id"]}
    with bp.open(folder).batches("train", **options) as reader:
        whole = ids(reader)
        second = ids(reader)
    source = copy.deepcopy(ReaderSource(folder, "train", options))
    expected, first = (second, len(whole)) if is_second else (whole, 0)
    portions = [Portion(source, first, worker, workers) for worker in range(workers)]
    found = [ids([next(portions[batch % workers])])[0] for batch in range(killed)]
    states = [json.loads(json.dumps(portion.state_dict())) for portion in portions]
    for portion in portions:
        portion.close()
        assert next(portion, None) is None
    portions = [Portion(source, 0, worker, workers) for worker in range(workers)]
    for portion, state in zip(portions, states, strict=True):
        portion.load_state_dict(state)
    found += [ids([next(portions[batch % workers])])[0] for batch in range(killed, len(expected))]
    assert found == expected
    assert all(next(portion, None) is None for portion in portions for _ in range(2))


def test_tensors_of_tensorflow(folder):
    """A ``tf.data.Dataset`` is refused: it has no state."""
    with pytest.raises(ValueError, match="as_: found 'tf', expected arrays"):
        ReaderSource(folder, None, {"as_": "tf"})


def test_wrong_states(folder):
    """A state of other workers, or of a reader, is refused."""
    source = ReaderSource(folder, None, {"batch_size": SIZE})
    with pytest.raises(ValueError, match="with 3 workers"):
        Portion(source, 0, 0, 3).load_state_dict(Portion(source, 0, 0, 2).state_dict())
    with pytest.raises(ValueError, match="expected that of an iterator"):
        Portion(source, 0).load_state_dict(source.reader().state_dict())


def test_rank_of_the_first_process(folder, monkeypatch):
    """A copy in another process reads for the rank that made it."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = ReaderSource(folder, "train", {"batch_size": SIZE // 2})
    with bp.open(folder).batches("train", SIZE // 2) as reader:
        expected = ids(reader)
    monkeypatch.setenv("RANK", "0")
    assert ids(copy.deepcopy(source).reader()) == expected


def test_missing_package(monkeypatch):
    """A missing package is named with the version that is tested."""
    monkeypatch.setitem(sys.modules, "grain", None)
    with pytest.raises(ImportError, match=r"no package 'grain' .* Install grain; 0\.2\.18 is tes"):
        source.import_package("grain")


def test_tested_versions(repository):
    """The versions that errors name are those of the tests."""
    text = (repository / "tests" / "adapters" / "requirements.txt").read_text()
    text += (repository / "constraints.txt").read_text()
    for package, version in source._TESTED.values():
        assert f"{package}=={version}" in text
