"""A storage that fails or stalls at its n-th operation.

Each kind of operation is counted apart. The storage is a filesystem of Beam's. Beam's local runner
does not retry: a failure gives a clean error, wherever it comes, and never a part of a dataset.
(Engines that retry are tested with their own faults, in tests/engines.)
"""

from __future__ import annotations

import pathlib

import pytest

from tests.faults import harness
from tests.faults.faulty_filesystem import OPERATIONS, SAID, SCHEME

pytestmark = pytest.mark.faults

ROWS = 2_000


def fault(operation: str, number: int, times: int = 1, stall_secs: float = 0) -> dict[str, object]:
    """Returns what shall happen, as ``faulty_filesystem.use`` takes it."""
    return {"operation": operation, "number": number, "times": times, "stall_secs": stall_secs}


@pytest.fixture(scope="module")
def expected(workshop: harness.Workshop) -> dict[str, str]:
    """The result of an undisturbed conversion in that storage."""
    folder = _place(workshop)
    ended = workshop.start(folder, *_arguments(folder), *harness.ONE).wait()
    assert ended.status == 0, ended.err
    return harness.dataset(folder / "out")


@pytest.fixture(scope="module")
def counts(workshop: harness.Workshop, expected: dict[str, str]) -> dict[str, int]:
    """The number of operations of each kind in a conversion.

    A fault that is never reached counts them.
    """
    found = {}
    folder = _place(workshop)
    faults = [fault(operation, 10**9) for operation in OPERATIONS]
    ended = workshop.start(folder, *_arguments(folder), *harness.ONE, faults=faults).wait()
    assert ended.status == 0, ended.err
    for number, operation in enumerate(OPERATIONS):
        found[operation] = workshop.counted(number)
    assert min(found.values()) > 0, found
    return found


def _arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        "convert",
        "recipe.yaml",
        "--output",
        f"{SCHEME}://{folder}/out",
        "--quiet",
        "--overwrite",
    )


def _place(workshop: harness.Workshop) -> pathlib.Path:
    """Makes a folder with the recipe.

    It is always the same folder, because its paths are in the manifest.
    """
    folder = workshop.place("storage", encodes=False, rows=ROWS)
    recipe = (folder / "recipe.yaml").read_text().replace(f'"{folder}', f'"{SCHEME}://{folder}')
    (folder / "recipe.yaml").write_text(recipe)
    return folder


@pytest.mark.parametrize("number", harness.moments(12, least=1))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_fails(operation, number, workshop, expected, counts):
    """A failing operation gives a clean error or success, never a part.

    It fails once, or from then on. The error contains the storage's message, and the next run
    succeeds.
    """
    rng = harness.random_of(operation, number)
    folder = _place(workshop)
    times = rng.choice([1, 1, 10**9])
    what = fault(operation, rng.randrange(counts[operation]), times)
    ended = workshop.start(
        folder, *_arguments(folder), *rng.choice([harness.ONE, harness.THREADS]), faults=[what]
    ).wait()
    assert workshop.counted() > what["number"] or ended.status == 0
    is_there = harness.check_all_or_nothing(folder / "out", expected)
    if ended.status == 0:
        assert is_there
        assert ("could not be removed" in ended.err) == (folder / "out" / "_temporary").exists()
    else:
        harness.check_error(ended, f"{SCHEME}://", SAID)
        assert "--verbose" not in ended.err
    again = workshop.start(folder, *_arguments(folder), *harness.ONE).wait()
    assert again.status == 0, again.err
    assert harness.differences(harness.dataset(folder / "out"), expected) == []


@pytest.mark.parametrize("number", harness.moments(2, least=1))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_stalls(operation, number, workshop, expected, counts):
    """A storage that answers late is waited for."""
    rng = harness.random_of(f"stall {operation}", number)
    folder = _place(workshop)
    what = fault(operation, rng.randrange(counts[operation]), stall_secs=2)
    ended = workshop.start(folder, *_arguments(folder), *harness.THREADS, faults=[what]).wait()
    assert ended.status == 0, ended.err
    assert ended.secs > 2
    assert harness.differences(harness.dataset(folder / "out"), expected) == []
