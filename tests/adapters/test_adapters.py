"""The adapters give a reader's batches to other packages, and resume.

`make test-adapters` installs the packages; a test without its package is skipped.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator

import pytest

import beam_pipelines as bp

ROWS, SIZE = 400, 32
FILL = {"half": -1.0}
# Moments to kill a training of 13 batches at.
MOMENTS = [0, 1, 6, 12, 13]
pytestmark = pytest.mark.adapters


@pytest.fixture(scope="module")
def epochs(folder):
    """The batches of three epochs, as lists of ids."""
    with bp.open(folder).batches("train", SIZE, columns=["id"], epochs=3) as reader:
        found = ids(reader)
    return [found[start : start + 13] for start in range(0, 39, 13)]


def ids(batches):
    return [list(map(int, batch["id"])) for batch in batches]


def torch_batches(folder, **options):
    pytest.importorskip("torch")
    from beam_pipelines.adapters.pytorch import TorchBatches

    lookup = {} if "columns" in options else {"lookup": {"words": 50}}
    return TorchBatches(folder, "train", SIZE, **lookup, **options)


def loader(dataset, workers, **options):
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)


def with_stateful_loader(workers, folder, state, count):
    """Reads by torchdata's loader."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    found = stateful(torch_batches(folder), batch_size=None, num_workers=workers)
    if state is not None:
        found.load_state_dict(state)
    batches = ids(itertools.islice(found, count))
    return batches, found.state_dict()


def with_torch_start(workers, folder, state, count):
    """Reads by torch's loader; the trainer counts batches."""
    dataset = torch_batches(folder)
    dataset.start_at(state or 0)
    if state == 13:  # the next pass
        return [], 13
    batches = ids(itertools.islice(loader(dataset, workers), count))
    return batches, (state or 0) + len(batches)


def with_grain(workers, folder, state, count):
    """Reads by Grain, with processes of its own."""
    grain = pytest.importorskip("grain")
    from absl import flags

    from beam_pipelines.adapters.grain import GrainBatches

    flags.FLAGS.mark_as_parsed()
    dataset = GrainBatches(folder, "train", SIZE, columns=["id"])
    if workers:
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    iterator = iter(dataset)
    if state is not None:
        iterator.set_state(state)
    batches = ids(itertools.islice(iterator, count))
    state = iterator.get_state()
    iterator.close()
    return batches, state


def with_hugging_face(_, folder, state, count):
    """Reads by ``datasets``, as Arrow tables."""
    pytest.importorskip("datasets")
    from beam_pipelines.adapters import huggingface

    dataset = huggingface.iterable(folder, "train", SIZE, columns=["id"]).with_format("arrow")
    if state is not None:
        dataset.load_state_dict(state)
    tables = itertools.islice(dataset.iter(SIZE), count)
    found = [table["id"].to_pylist() for table in tables]
    return found, dataset.state_dict()


@pytest.mark.parametrize(
    ("read", "workers"),
    [
        (with_stateful_loader, 0),
        (with_stateful_loader, 2),
        (with_torch_start, 0),
        (with_torch_start, 3),
        (with_grain, 0),
        pytest.param(with_grain, 2, marks=pytest.mark.slow),
        (with_hugging_face, 0),
    ],
)
def test_resumes(folder, epochs, read, workers):
    """A killed loop and its continuation have the batches of one loop."""
    for moment in MOMENTS if not workers else MOMENTS[2:3]:
        before, state = read(workers, folder, None, moment)
        after, _ = read(workers, folder, copy.deepcopy(state), 99)
        assert before + after == epochs[0]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_torch_workers(folder, epochs, workers):
    """Any number of workers gives one order, epoch after epoch."""
    dataset = torch_batches(folder)
    assert len(loader(dataset, workers)) == 13
    for epoch in (0, 2):
        dataset.set_epoch(epoch)
        assert ids(loader(dataset, workers)) == epochs[epoch]
    dataset.set_epoch(0)
    several = loader(dataset, workers, persistent_workers=workers > 0)
    assert [ids(several) for _ in range(2)] == epochs[:2]


def test_torch_second_loop_without_epoch(folder):
    """New workers without set_epoch are refused, unless nothing is shuffled."""
    dataset = torch_batches(folder)
    ids(loader(dataset, 1))
    with pytest.raises(ValueError, match=r"Call set_epoch\(epoch\)"):
        ids(loader(dataset, 1))
    stored = torch_batches(folder, shuffle=False)
    assert ids(loader(stored, 1)) == ids(loader(stored, 1))


def test_torch_epochs_in_one_loop(folder, epochs):
    """One loop has all epochs that the reader was asked for."""
    dataset = torch_batches(folder, epochs=3)
    assert ids(loader(dataset, 2)) == functools.reduce(operator.iadd, epochs, [])


def test_torch_values(folder):
    """Batches have tensors with the values of their rows."""
    torch = pytest.importorskip("torch")
    for batch in loader(torch_batches(folder, fill=FILL, columns=["id", "half"]), 1):
        expected = torch.where(batch["id"] % 2 == 0, batch["id"] / 2, torch.tensor(-1.0))
        assert torch.equal(batch["half"], expected)


def test_keras(folder, epochs):
    """``fit`` sees every batch of every epoch, and continues at an epoch."""
    keras = pytest.importorskip("keras")
    from beam_pipelines.adapters.keras import KerasBatches

    dataset = KerasBatches(folder, "train", SIZE, fill=FILL, columns=["id", "half", "odd"])
    found = [dataset[number] for number in range(13)]
    assert ids(features for features, _ in found) == epochs[0]
    features, label = found[0]
    assert list(features) == ["id", "half"]
    assert ids([dataset[0][0]]) == epochs[1][:1]  # behind the last batch
    assert label.tolist() == (features["id"] % 2).tolist()
    dataset.epoch = 2
    assert ids([dataset[number][0] for number in range(13)]) == epochs[2]
    with pytest.warns(UserWarning, match="shuffle=False"):
        assert ids([dataset[3][0]]) == epochs[2][3:4]
    with pytest.raises(IndexError, match="batch: found 13"):
        dataset[13]
    inputs = {name: keras.Input((), name=name) for name in ("id", "half")}
    stacked = keras.ops.stack(list(inputs.values()), axis=-1)
    model = keras.Model(inputs, keras.layers.Dense(1)(stacked))
    model.compile(loss="mse")
    history = model.fit(dataset, epochs=4, initial_epoch=2, shuffle=False, verbose=0)
    assert len(history.epoch) == 2
    assert dataset.epoch == 3
    parts = KerasBatches(folder, "train", SIZE, fill=FILL, steps_per_epoch=5)
    assert ids(parts[number % 5][0] for number in range(20)) == (epochs[0] + epochs[1])[:20]
    parts.epoch = 2
    assert ids(parts[number][0] for number in range(5)) == (epochs[0] + epochs[1])[10:15]
    with pytest.raises(ValueError, match="steps_per_epoch: found 1"):
        KerasBatches(folder, "train", SIZE, steps_per_epoch=1)


def test_hugging_face(folder, epochs, tmp_path):
    """Features, rows and workers are those of the dataset."""
    datasets = pytest.importorskip("datasets")
    from beam_pipelines.adapters import huggingface

    dataset = huggingface.iterable(folder, "train", SIZE)
    assert dataset.features["id"] == datasets.Value("int64")
    rows = list(dataset)
    assert [row["id"] for row in rows] == list(itertools.chain(*epochs[0]))
    for row in rows[:20]:
        assert row["half"] == (None if row["id"] % 2 else [row["id"] / 2])
        assert row["words"] == [b"w%d" % row["id"]] * (row["id"] % 10)
    first, second = iter(dataset), iter(dataset)  # two at once
    both = [(next(first)["id"], next(second)["id"]) for _ in range(ROWS)]
    assert both == [(row["id"], row["id"]) for row in rows]
    generator = functools.partial(iter, huggingface.iterable(folder, "train", SIZE))
    stored = datasets.Dataset.from_generator(
        generator, features=dataset.features, fingerprint="adapters", cache_dir=str(tmp_path)
    )
    assert stored["id"][:] == [row["id"] for row in rows]


@pytest.mark.slow
def test_ray(folder, epochs):
    """Read tasks together have the rows of a pass, in order."""
    ray = pytest.importorskip("ray")
    from beam_pipelines.adapters.ray import RayDatasource

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        source = RayDatasource(folder, "train", SIZE, fill=FILL)
        dataset = ray.data.read_datasource(source, override_num_blocks=4)
        rows = dataset.take_all()
        assert [row["id"] for row in rows] == list(itertools.chain(*epochs[0]))
        assert all(row["half"] == (-1 if row["id"] % 2 else row["id"] / 2) for row in rows)
    finally:
        ray.shutdown()


def test_ray_tasks(folder):
    """Tasks have all batches once, for any parallelism."""
    pytest.importorskip("ray.data")
    from beam_pipelines.adapters.ray import RayDatasource

    source = RayDatasource(folder, "train", SIZE, columns=["id"])
    assert source.estimate_inmemory_data_size() > ROWS
    for parallelism in (1, 5, 13, 200):
        tasks = source.get_read_tasks(parallelism)
        assert len(tasks) == min(parallelism, 13)
        found = [table["id"].to_pylist() for task in tasks for table in task()]
        assert sorted(itertools.chain(*found)) == list(range(ROWS))
