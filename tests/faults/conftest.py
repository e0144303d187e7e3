"""Fixtures of the tests with faults: the workshop and undisturbed conversions."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest

from tests.faults.harness import PROCESSES, THREADS, Workshop, check_clean, dataset, make_data

ROWS = 150_000


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """Undisturbed conversions: the dataset's folder, its contents, and their seconds.

    The seconds are those in processes and in threads.
    """

    folder: pathlib.Path
    files: dict[str, str]
    secs: dict[tuple[str, ...], float]


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop with 6 MB of data in several files."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "data").mkdir()
    make_data(folder / "data", ROWS)
    workshop = Workshop(folder)
    yield workshop
    workshop.close()


@pytest.fixture(scope="session")
def reference(workshop: Workshop) -> dict[bool, Undisturbed]:
    """Converts without disturbance, in processes and in threads.

    It converts without encodings and with them.
    """
    return {encodes: _undisturbed(workshop, encodes) for encodes in (False, True)}


def _undisturbed(workshop: Workshop, encodes: bool) -> Undisturbed:
    secs, found, folder = {}, {}, pathlib.Path()
    for options in (PROCESSES, THREADS):
        folder = workshop.place(f"undisturbed-{encodes}", encodes=encodes)
        ended = workshop.convert(folder, *options).wait()
        assert ended.status == 0, ended.err
        check_clean(folder)
        secs[options], found[options] = ended.secs, dataset(folder / "out")
    assert found[PROCESSES] == found[THREADS]
    return Undisturbed(folder / "out", found[PROCESSES], secs)
