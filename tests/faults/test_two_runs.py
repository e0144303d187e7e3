"""One of two runs into an output wins; the other says so.

The dataset is whole and belongs to one run.
"""

from __future__ import annotations

import time

import pytest

from tests.faults import harness

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("number", harness.moments(20, least=2))
def test_two_runs_at_once(number, workshop, reference):
    """The second run ends at once and names the output.

    Its status is 2. Or both succeed, one after the other.
    """
    rng, expected = harness.random_of("two", number), reference[False]
    folder = workshop.place("two", encodes=False)
    options: tuple[str, ...] = rng.choice([harness.THREADS, harness.PROCESSES])
    overwrites = number % 2 == 1
    if overwrites:
        options = (*options, "--overwrite")
        workshop.fill(folder, expected.folder)
    first = workshop.convert(folder, *options)
    # A good part of all offsets is small: that is where both look at the folder at once.
    time.sleep(expected.secs[harness.THREADS] * rng.choice([0, 0.02, rng.random()]))
    second = workshop.convert(folder, *options)
    ended = [run.wait() for run in (first, second)]
    won = [result for result in ended if result.status == 0]
    assert won, [result.err for result in ended]
    for result in ended:
        if result.status:
            harness.check_error(
                result,
                "out: ",
                "another run" if "another run" in result.err else "dataset already",
                status=2,
            )
    assert overwrites or len(won) == 1
    assert harness.differences(harness.dataset(folder / "out"), expected.files) == []
    harness.check_clean(folder)
