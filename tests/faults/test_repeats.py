"""Work that is done twice, as engines do: the dataset is the same."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.harness import (
    ONE,
    PROCESSES,
    THREADS,
    Workshop,
    check_clean,
    dataset,
    differences,
)

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("options", [ONE, THREADS, PROCESSES], ids=["one", "threads", "processes"])
@pytest.mark.parametrize("encodes", [False, True], ids=["plain", "encoded"])
def test_every_bundle_is_run_again(
    encodes: bool,
    options: tuple[str, ...],
    times: int,
    workshop: Workshop,
    reference: dict[bool, Undisturbed],
) -> None:
    """Each bundle, the commit's too, runs once for nothing, or three times, before it counts: the
    same bytes come out.
    """
    folder = workshop.place("repeated", encodes=encodes)
    ended = workshop.convert(folder, *options, f"--direct_runner_bundle_repeat={times}").wait()
    assert ended.status == 0, ended.err
    assert differences(dataset(folder / "out"), reference[encodes].files) == []
    check_clean(folder)
