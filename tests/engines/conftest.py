"""Starts each engine once, shows its logs for failures, and explains skips."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam_pipelines.sources import plan as plan_module
from tests.engines import conversions, engines

LOCAL = ("--runner=FnApiRunner", "--direct_num_workers=1")
RUNNING: list[engines.Engine] = []


@pytest.fixture(scope="session", autouse=True)
def _small_ranges() -> Iterator[None]:
    """Cuts the small tables into several ranges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "RANGE_BYTES", conversions.RANGE_BYTES)
        patch.setattr(plan_module.cut_ranges, "__defaults__", (conversions.RANGE_BYTES,))
        yield


@contextlib.contextmanager
def started(starter: contextlib.AbstractContextManager[engines.Engine]) -> Iterator[engines.Engine]:
    """Starts an engine, or skips the test and says what is missing."""
    try:
        with starter as engine:
            RUNNING.append(engine)
            try:
                yield engine
            finally:
                RUNNING.remove(engine)
    except engines.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in engines.STARTERS],
)
def engine(request, tmp_path_factory):
    """Every engine, one after the other, each started once."""
    folder = tmp_path_factory.mktemp(request.param)
    with started(engines.STARTERS[request.param](folder)) as running:
        yield running


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the tables."""
    folder = tmp_path_factory.mktemp("data")
    conversions.write_data(folder)
    return folder


@pytest.fixture(scope="session")
def reference(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Maps a conversion to the dataset of Beam's local runner.

    It runs in one thread. Each dataset is made once, on its first use.
    """
    folder = tmp_path_factory.mktemp("references")

    @functools.cache
    def made(name: str) -> Path:
        if name == "transform":
            conversions.transform(made("everything"), data, folder / name, LOCAL)
        elif name == "describe":
            conversions.describe(data, folder / name, LOCAL)
        else:
            conversions.convert(name, data, folder / name, LOCAL)
        return folder / name

    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignores the last errors of worker threads.

    They come when the engine that the threads are connected to ends.
    """
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the logs of the engines to a failed test's report."""
    report = yield
    if report.failed:
        report.sections += [(f"logs of {engine.name}", engine.log_tails()) for engine in RUNNING]
    return report
