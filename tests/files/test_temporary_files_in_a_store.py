"""Runs whose workers share an object store only.

Beam's local runner runs them here, with its temporary files in the store as on a cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import output_folder
from beam_pipelines.pipeline.observed import observed
from beam_pipelines.pipeline.previews.estimate import make_preview, make_scale
from beam_pipelines.pipeline.previews.prices import count_requests
from beam_pipelines.sources import plan as plan_module
from beam_pipelines.sources.files import file_list
from beam_pipelines.transforms import deal, merged_files, metrics
from tests.engines import conversions
from tests.pipeline.test_commit import about_to_commit, folder
from tests.support.contents import contents
from tests.support.remote_stores import Store, s3_store

pytestmark = pytest.mark.remote
__all__ = ["folder"]  # a fixture

LOCAL = ("--runner=FnApiRunner", "--direct_num_workers=1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the tests with engines, on this machine."""
    folder = tmp_path_factory.mktemp("data")
    conversions.write_data(folder)
    return folder


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store for all temporary files, and for the list of ranges."""
    size = conversions.RANGE_BYTES
    monkeypatch.setattr(plan_module, "RANGE_BYTES", size)
    monkeypatch.setattr(plan_module.cut_ranges, "__defaults__", (size,))
    monkeypatch.setattr(output_folder, "scratch_folder", lambda *_: contextlib.nullcontext(""))
    monkeypatch.setattr(file_list, "_MANY_RANGES", 1)
    with s3_store() as store:
        yield store


def small_merges(patch: pytest.MonkeyPatch, bin_size: int, most_bytes: int) -> None:
    """Makes several bins, and several merges of each."""
    patch.setattr(merged_files, "MERGED_BYTES", most_bytes)
    for module in (deal, merged_files):
        patch.setattr(module, "BIN", bin_size)


def converted(name: str, data: Path, store: Store, folder: Path, *more: str) -> tuple[Path, int]:
    """Converts; returns a copy of the dataset, and the number of requests."""
    files.use_options(store.options)
    before = store.faults.requests
    conversions.convert(name, data, f"{store.url}/{folder.name}", (*LOCAL, *more, *store.options))
    requests = store.faults.requests - before
    return store.download(folder.name, folder.parent), requests


@pytest.mark.parametrize("name", ["everything", "source_order", "sequences", "stratified"])
def test_bytes_are_those_of_a_run_on_a_disk(name, data, store, tmp_path, monkeypatch):
    """Joins, groups, checks, fits and shards merge their files on the way."""
    small_merges(monkeypatch, 2, 2 * conversions.RANGE_BYTES)
    conversions.convert(name, data, tmp_path / "disk", LOCAL)
    found, _ = converted(name, data, store, tmp_path / "stored")
    conversions.assert_same(found, tmp_path / "disk")


def test_bundles_that_run_twice(data, store, tmp_path):
    """Every file is written twice, and read once from either."""
    conversions.convert("shuffled", data, tmp_path / "disk", LOCAL)
    twice = "--direct_runner_bundle_repeat=1"
    found, _ = converted("shuffled", data, store, tmp_path / "stored", twice)
    conversions.assert_same(found, tmp_path / "disk")


def test_a_slow_store_that_refuses_and_resets(data, store, tmp_path, caplog):
    """Answers that fail change no byte, and are asked for again once.

    Each repetition is an event.
    """
    caplog.set_level("INFO", "beam_pipelines.events")
    asked = [store.faults.requests]
    expected, clean = converted("shuffled", data, store, tmp_path / "clean")
    asked.append(store.faults.requests)
    store.faults.delay_secs, store.faults.busy, store.faults.reset = 0.05, 0.05, 0.01
    found, requests = converted("shuffled", data, store, tmp_path / "faulty")
    store.faults.busy = store.faults.reset = 0.0
    conversions.assert_same(found, expected)
    assert clean < requests <= 1.3 * clean
    logged = [json.loads(each.message) for each in caplog.records if "events" in each.name]
    repeated = [event for event in logged if event["event"] == "retry"]
    assert len(repeated) == store.faults.requests - asked[1] - (asked[1] - asked[0])


@pytest.mark.parametrize("name", ["shuffled", "everything"])
def test_requests_are_as_planned(name, data, store, tmp_path):
    """``plan`` counts them, to a quarter."""
    planned = conversions.plan_of(conversions.CONVERSIONS[name], data)
    preview = make_preview(planned)
    _, used = converted(name, data, store, tmp_path / "used")
    requests = count_requests(planned, preview, make_scale(planned, preview))
    assert 0.75 * used < requests < 1.25 * used


def test_few_requests(data, store, tmp_path, monkeypatch):
    """Larger bins make fewer requests."""
    small_merges(monkeypatch, 1, 1)
    _, many = converted("shuffled", data, store, tmp_path / "small")
    small_merges(monkeypatch, 64, 128 << 20)
    _, few = converted("shuffled", data, store, tmp_path / "large")
    assert few < 0.8 * many


@pytest.mark.parametrize("old", [None, "older"])
def test_a_commit_that_is_paused_while_another_ends(old, folder, store, monkeypatch):
    """A worker that the engine gave up goes on, and harms nothing."""
    files.use_options(store.options)
    for paused_at in range(1, 13):
        run = about_to_commit(folder, old, f"{store.url}/{old}{paused_at}", monkeypatch)
        store.faults.before = {store.faults.requests + paused_at: run}.get
        with contextlib.suppress(Exception):  # it finds nothing any more
            run()
        found = contents(store.download(f"{old}{paused_at}", folder / "paused"))
        assert found == contents(folder / "new")


def test_a_report_that_is_paused_while_another_run_ends(data, store, tmp_path, monkeypatch):
    """The manifest of another run stays, whenever it replaces ours."""
    results, totals_of = [], metrics.totals_of
    monkeypatch.setattr(metrics, "totals_of", lambda one: totals_of(results.append(one) or one))
    converted("shuffled", data, store, tmp_path / "out")
    ours = json.loads(store.objects.get("out/dataset.json"))
    started, options = ours["timings"]["started"], PipelineOptions(store.options)
    ours, other = (
        json.dumps(ours | {"timings": {"started": secs}}).encode()
        for secs in (started, started + 1)
    )
    end = partial(store.objects.put, "out/dataset.json", other)
    for paused_at in itertools.count(1):
        store.objects.put("out/dataset.json", ours)
        last = store.faults.requests + paused_at
        store.faults.before = {last: end}.get
        with observed(None, f"{store.url}/out", options, True, started) as ended:
            ended(results[0])
        store.faults.before = lambda _: None
        if store.faults.requests < last:
            break
        assert store.objects.get("out/dataset.json") == other
    assert json.loads(store.objects.get("out/dataset.json"))["timings"]["counted"]["rows_written"]
    assert paused_at > 3
