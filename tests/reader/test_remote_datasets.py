"""Batches of a remote dataset are those of a local copy."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import statistics_path
from beam_pipelines.files import stores
from beam_pipelines.reader import order, pipeline
from beam_pipelines.reader import reader as reader_module
from beam_pipelines.tfrecord import part_index
from tests.reader.indexed import finish
from tests.support.small_dataset import write_dataset
from tests.support.web_server import served

ROWS = 400


@pytest.fixture(params=[True, False])
def is_shuffled(request):
    """Whether the manifest says that rows were shuffled when they were written."""
    return request.param


@pytest.fixture
def folder(tmp_path, is_shuffled):
    """A dataset of 400 rows in six shards, one of them empty."""
    made = write_dataset(tmp_path / "data", [90, 0, 110, 1, 99, 100])
    return Path(finish(made, recipe={"output": {"shuffle": is_shuffled}}))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes small windows, extents of two or three parts, and small groups."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 12_000)
    monkeypatch.setattr(part_index, "EXTENT_BYTES", 2500)
    monkeypatch.setattr(part_index, "RUN_BYTES", 1250)
    monkeypatch.setattr(reader_module, "GROUP_ROWS", 64)
    monkeypatch.setattr(stores, "FIRST_DELAY", 0.0)


def ids(dataset, **options):
    with dataset.batches("train", **{"batch_size": 32, **options}) as reader:
        return [batch["id"].tolist() for batch in reader]


def test_statistics_are_those_of_a_copy(folder):
    """They are read without the full package; a split may have none."""
    own = statistics_pb2.DatasetFeatureStatistics(name="All Examples", num_examples=ROWS)
    sliced = statistics_pb2.DatasetFeatureStatistics(name="city_Lima", num_examples=3)
    content = statistics_pb2.DatasetFeatureStatisticsList(datasets=[sliced, own])
    path = folder / statistics_path("train")
    with served(folder) as server:
        assert bp.open(server.url).statistics == {}
        path.parent.mkdir(parents=True)
        path.write_bytes(content.SerializeToString())
        assert bp.open(server.url).statistics == bp.open(folder).statistics == {"train": own}
        path.write_bytes(b"no proto")
        for where in (server.url, folder):
            with pytest.raises(
                DataError, match=r"FeatureStats\.pb: found something that is no Data"
            ):
                bp.open(where).statistics  # noqa: B018


@pytest.mark.parametrize("most_bytes", [1, 1500, 64 << 20])
@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": False}, {"world_size": 3, "rank": 1, "epochs": 2}, {"columns": ["id"]}],
)
def test_batches_are_those_of_a_copy(folder, tmp_path, monkeypatch, options, most_bytes):
    """Batches are the same, whatever is fetched ahead and kept."""
    monkeypatch.setattr(pipeline, "MOST_BYTES", most_bytes)
    expected = ids(bp.open(folder), **options)
    with served(folder) as server:
        assert ids(bp.open(server.url), **options) == expected
        cached = bp.open(f"{server.url}/", cache=tmp_path / "cache", cache_bytes=5000)
        for _ in range(2):
            assert ids(cached, **options) == expected


def test_several_places_are_one_dataset(folder, tmp_path):
    """Datasets here and on a server are read like local copies."""
    other = finish(
        write_dataset(tmp_path / "other", [50, 70], "none"), recipe={"output": {"shuffle": True}}
    )
    expected = ids(bp.open([other, folder]), epochs=2)
    assert sum(map(len, expected)) == 2 * (ROWS + 120)
    with served(folder) as server:
        for _ in range(2):
            assert ids(bp.open([other, server.url], cache=tmp_path / "cache"), epochs=2) == expected


def test_extents_are_fetched_once(folder, tmp_path, is_shuffled):
    """An epoch fetches each extent at once, unless it is kept."""
    (found,) = bp.open(folder).batches(batch_size=32).streams[0].split.indexed
    parts, extents = len(found.parts), len(found.parts.extents) - 1
    assert (parts, 12 < extents < 24) == (41, True)
    with served(folder) as server:
        dataset = bp.open(server.url, cache=tmp_path / "cache")
        for count in (extents, 0):
            before = len(server.asked)
            with dataset.batches(batch_size=32, epochs=2) as reader:
                assert sum(len(batch["id"]) for batch in reader) == 2 * ROWS
            shards = [path for path in server.asked[before:] if "examples" in path]
            assert len(shards) == count
        for shuffle in (True, False):
            one = bp.open(server.url).batches(batch_size=32, shuffle=shuffle)
            before = len(server.asked)
            list(one)
            # Parts alone, if the rows were not shuffled. Plans of few batches may divide an extent.
            most = parts if shuffle and not is_shuffled else extents + 6
            assert extents <= len(server.asked) - before <= most


def test_state_and_rows(folder):
    """A state of a copy is one of the URL."""
    with served(folder) as server:
        local, remote = (bp.open(place).batches(batch_size=32) for place in (folder, server.url))
        rest = [next(local)["id"].tolist() for _ in range(5)]
        remote.load_state_dict(local.state_dict())
        rest = [batch["id"].tolist() for batch in local]
        assert [batch["id"].tolist() for batch in remote] == rest
        assert remote.take([5, 399])["id"].tolist() == [5, 399]


def test_first_rows_are_those_of_a_copy(folder):
    """``head`` reads the parts of the first rows, by the index."""
    with served(folder) as server:
        dataset = bp.open(server.url)
        before = len(server.asked)
        found = dataset.head(12)
        assert found == bp.open(folder).head(12)
        assert found["id"].to_pylist() == [[number] for number in range(12)]
        assert found["half"].to_pylist()[:3] == [[0.0], None, [1.0]]
        shards = [path for path in server.asked[before:] if "examples" in path]
        assert 1 <= len(shards) <= 2
        for index in (folder / "index").iterdir():
            index.unlink()
        with pytest.raises(DataError, match="found no index"):
            bp.open(folder).head()


def test_a_mixture_of_remote_and_local(folder):
    """A mixture reads a remote and a local dataset."""
    with served(folder) as server:
        found = [
            [
                batch["id"].tolist()
                for batch in bp.mix(
                    {bp.open(folder).batches(): 0.5, bp.open(place).batches(seed=2): 0.5}
                )
            ]
            for place in (folder, server.url)
        ]
    assert found[0] == found[1]


def test_failures_while_reading(folder):
    """A failure that passes is harmless; one that stays names the shard."""
    with served(folder, lambda _, number: 503 if number % 3 == 0 else None) as server:
        found = itertools.chain.from_iterable(ids(bp.open(server.url)))
        assert sorted(found) == list(range(ROWS))
    with (
        served(folder, lambda path, _: 500 if "examples" in path else None) as server,
        pytest.raises(DataError, match=r"t-0000\d.*: cannot be read: status 500"),
    ):
        ids(bp.open(server.url))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda path: path.unlink(),
            r"t-00002.*: found nothing, expected .* bytes as dataset\.json",
        ),
        (lambda path: path.write_bytes(path.read_bytes() + b"\0"), r"expected .* as dataset\.json"),
        (lambda path: path.write_bytes(path.read_bytes()[:200]), "found 200 bytes, expected"),
        (lambda path: path.write_bytes(bytes(len(path.read_bytes()))), "record .*, part at byte"),
    ],
)
def test_other_shards_than_the_manifest_says(folder, change, message):
    """A missing, changed or damaged shard is an error with its place."""
    path = (
        folder
        / json.loads((folder / "dataset.json").read_text())["splits"]["train"]["shards"][2]["path"]
    )
    with served(folder) as server:
        reader = bp.open(server.url).batches()
        change(path)
        with pytest.raises(DataError, match=message):
            list(reader)


def test_another_dataset_at_the_url(folder, tmp_path):
    """A cache has no parts of the dataset that was there before."""
    with served(tmp_path / "served") as server:
        (tmp_path / "served").symlink_to(folder)
        first = ids(bp.open(server.url, cache=tmp_path / "cache"))
        (tmp_path / "served").unlink()
        other = finish(write_dataset(tmp_path / "other", [200, 200]))
        (tmp_path / "served").symlink_to(other)
        second = ids(bp.open(server.url, cache=tmp_path / "cache"))
    assert first != second == ids(bp.open(other))


def test_missing_files(folder):
    """A URL without a dataset or an index is refused."""
    with served(folder) as server:
        with pytest.raises(DataError, match=r"/no: found no dataset\.json, so there is no dataset"):
            bp.open(f"{server.url}/no")
        (folder / "index" / "Split-train.arrow").unlink()
        with pytest.raises(DataError, match=r"http://.*found no index"):
            bp.open(server.url).batches()
        (folder / "schema.pbtxt").unlink()
        with pytest.raises(DataError, match=r"schema\.pbtxt: found no file"):
            _ = bp.open(server.url).schema


def test_wrong_cache_size(folder):
    """A cache without bytes is refused."""
    with pytest.raises(ValueError, match="cache_bytes: found 0, expected a number from 1"):
        bp.open(folder, cache="cache", cache_bytes=0)


def test_processes_share_a_cache_and_a_kill_leaves_it_clean(folder, tmp_path):
    """Ranks share a cache; a killed one hinders no other."""
    code = """
import sys
import beam_pipelines as bp
rank = int(sys.argv[3])
options = {"batch_size": 32, "rank": rank, "world_size": 2, "epochs": 20}
for batch in bp.open(sys.argv[1], cache=sys.argv[2]).batches(**options):
    print(len(batch["id"]), flush=True)
assert not {"apache_beam", "tensorflow"} & set(sys.modules)
"""
    cache = tmp_path / "cache"
    with served(folder) as server:
        command = [sys.executable, "-c", code, server.url, str(cache)]
        ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE) for rank in (0, 1)]
        for process in ranks:
            assert process.stdout is not None
            process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        expected = ids(bp.open(folder))
        assert ids(bp.open(server.url, cache=cache)) == expected
        before = len(server.asked)
        assert ids(bp.open(server.url, cache=cache)) == expected
        assert [path for path in server.asked[before:] if "examples" in path] == []
    assert list(cache.glob("*/unfinished/*")) == []
