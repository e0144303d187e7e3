"""transforms/shuffle.py orders rows repeatably."""

from __future__ import annotations

from beam_pipelines.transforms import shuffle


def test_permutation_is_pinned() -> None:
    """The permutation never changes.

    A seed has to give the same order forever.
    """
    assert shuffle.permutation((7, 1), 8).tolist() == PINNED


PINNED = [5, 4, 0, 2, 6, 7, 3, 1]
