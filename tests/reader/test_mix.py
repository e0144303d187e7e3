"""A mixture has rows of its datasets in their shares, and resumes."""

from __future__ import annotations

import collections
import json

import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import order
from beam_pipelines.reader import reader as reader_module
from tests.reader.indexed import finish
from tests.support.small_dataset import SCHEMA, write_dataset


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes windows of a few parts, and groups of 64 rows."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 6_000)
    monkeypatch.setattr(reader_module, "GROUP_ROWS", 64)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Datasets of 300 and 100 rows."""
    return [
        bp.open(finish(write_dataset(tmp_path_factory.mktemp("mix"), shards)))
        for shards in ([120, 180], [100])
    ]


def mixture(datasets, rank=0, world_size=1, size=40, **options):
    """Mixes the datasets seven to three."""
    readers = [
        dataset.batches(
            batch_size=size // world_size,
            columns=["id"],
            rank=rank,
            world_size=world_size,
            **options,
        )
        for dataset in datasets
    ]
    return bp.mix(dict(zip(readers, (0.7, 0.3), strict=True)))


def rows(batch):
    return batch["id"].tolist()


def test_shares_and_epochs(datasets):
    """Rows come in their shares, each once an epoch of its dataset."""
    readers = [
        dataset.batches(batch_size=40, columns=["id"], seed=seed, epochs=3)
        for seed, dataset in enumerate(datasets)
    ]
    with bp.mix({readers[0]: 3, readers[1]: 1}) as reader:
        assert len(reader) == 30
        found = list(reader)
    counts = collections.Counter(row for batch in found for row in rows(batch))
    assert sum(counts.values()) == 1200
    # Ids below 100 are in both: three epochs of each dataset.
    assert set(counts.values()) == {3, 6}
    assert [row for row, count in sorted(counts.items()) if count == 6] == list(range(100))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("remainder", ["short", "drop", "pad"])
def test_resumes_with_other_ranks(datasets, shuffle, remainder):
    """Global batches are the same with other ranks."""
    size, epochs = 36, 2
    options = {"size": size, "epochs": epochs, "shuffle": shuffle, "remainder": remainder}

    def read(world_size, state, steps):
        readers = [mixture(datasets, rank, world_size, **options) for rank in range(world_size)]
        for reader in readers:
            if state:
                reader.load_state_dict(state)
        found = [
            sorted(row for reader in readers for row in rows(next(reader))) for _ in range(steps)
        ]
        states = [reader.state_dict() for reader in readers]
        assert all(one == states[0] for one in states)
        assert len(json.dumps(states[0])) <= 200
        for reader in readers:
            reader.close()
        return found, states[0]

    steps = len(mixture(datasets, **options))
    whole, _ = read(1, None, steps)
    for kill, before, after in ((3, 2, 3), (13, 4, 1), (steps - 1, 1, 6)):
        first, state = read(before, None, kill)
        rest, _ = read(after, state, steps - kill)
        assert first + rest == whole


def test_state_of_another_mixture(datasets):
    """A state of other weights or of one dataset is refused."""
    state = mixture(datasets).state_dict()
    readers = [dataset.batches(batch_size=40, columns=["id"]) for dataset in datasets]
    for other in (bp.mix(dict(zip(readers, (0.6, 0.4), strict=True))), readers[0]):
        with pytest.raises((ValueError, DataError), match=r"mixture|weights"):
            other.load_state_dict(state)


def test_wrong_mixtures(datasets, tmp_path):
    """Readers that do not go together are refused."""
    one, two = (dataset.batches(batch_size=40) for dataset in datasets)
    with pytest.raises(ValueError, match="no readers"):
        bp.mix({})
    for weight in (0, -1, float("nan"), float("inf"), True):
        with pytest.raises(ValueError, match="found the weight"):
            bp.mix({one: weight, two: 1})
    with pytest.raises(ValueError, match="reader 0 is a mixture"):
        bp.mix({bp.mix({one: 1, two: 1}): 1, one: 1})
    for options, message in (
        ({"batch_size": 20}, "found batch_size 20 in reader 1, expected 40"),
        ({"batch_size": 40, "columns": ["id"]}, r"found columns \['id'\] in reader 1"),
        ({"batch_size": 40, "fill": {"half": 1}}, "found half .*fill"),
    ):
        with pytest.raises(ValueError, match=message):
            bp.mix({one: 1, datasets[1].batches(**options): 1})
    schema = SCHEMA.replace('"odd" type: INT bool_domain {}', '"odd" type: FLOAT')
    other = bp.open(finish(write_dataset(tmp_path, [5], schema=schema))).batches(batch_size=40)
    with pytest.raises(ValueError, match=r"found odd .*float"):
        bp.mix({one: 1, other: 1})
