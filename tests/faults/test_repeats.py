"""Work that an engine does twice gives the same dataset."""

from __future__ import annotations

import pytest

from tests.faults.harness import ONE, PROCESSES, THREADS, check_clean, dataset, differences

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("options", [ONE, THREADS, PROCESSES], ids=["one", "threads", "processes"])
@pytest.mark.parametrize("encodes", [False, True], ids=["plain", "encoded"])
def test_every_bundle_is_run_again(encodes, options, times, workshop, reference):
    """Bundles that run several times give the same bytes.

    Each bundle, the commit's too, runs once or three times in vain before it counts.
    """
    folder = workshop.place("repeated", encodes=encodes)
    ended = workshop.convert(folder, *options, f"--direct_runner_bundle_repeat={times}").wait()
    assert ended.status == 0, ended.err
    assert differences(dataset(folder / "out"), reference[encodes].files) == []
    check_clean(folder)
