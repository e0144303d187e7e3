"""Groups divided among splits, against loops and scikit-learn."""

from __future__ import annotations

import collections
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold

from beam_pipelines.transforms import group_shares
from beam_pipelines.transforms.exchange import Received
from beam_pipelines.transforms.group_shares import DealtGroups, deal_groups, merge_kinds

SHARES = st.sampled_from([(0.8, 0.2), (0.1, 0.2, 0.7), (0.25, 0.25, 0.25, 0.25)])
ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=40)


def deal(
    folder: Path,
    groups: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    shares: tuple[float, ...],
    chunk_rows: int = 7,
    partitions: int = 3,
) -> DealtGroups:
    """Sends rows in chunks to partitions and deals their groups."""
    groups, classes = groups.astype(np.uint64), classes.astype(np.uint64)
    messages = [
        group_shares.send_groups(
            (start, 0),
            groups[start : start + chunk_rows],
            classes[start : start + chunk_rows],
            partitions,
        )
        for start in range(0, len(groups), chunk_rows)
    ]
    counted = []
    for partition in range(partitions):
        own = [message for message in messages if partition in message.payloads]
        if own:
            payloads = tuple(bytes(message.payloads[partition]) for message in own)
            orders = tuple(message.order for message in own)
            received = Received(partition, payloads, orders)
            counted.append(group_shares.count_groups(received, str(folder)))
    return deal_groups(merge_kinds(counted[::-1]), shares)


@settings(max_examples=40, deadline=None)
@given(ROWS, SHARES, st.integers(1, 9), st.integers(1, 4))
def test_rows_of_classes_are_counted(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int]],
    shares: tuple[float, ...],
    chunk_rows: int,
    partitions: int,
) -> None:
    """Groups are dealt alike for any chunks and partitions."""
    folder = tmp_path_factory.mktemp("groups")
    groups = np.array([group for group, _ in rows], np.uint64)
    classes = np.array([number for _, number in rows], np.uint64)
    dealt = deal(folder, groups, classes, shares, chunk_rows, partitions)
    path = str(folder / "dealt")
    dealt.save(path, ())
    dealt = DealtGroups.load(path)
    once = deal(folder, groups, classes, shares, len(rows), 1)
    assert dealt.splits.tolist() == once.splits.tolist()
    assert dealt.groups.tolist() == sorted(set(groups.tolist()))
    splits = dealt.splits_of(groups).tolist()
    counted = collections.Counter(zip(classes.tolist(), splits, strict=True))
    assert dealt.classes.tolist() == sorted(set(classes.tolist()))
    for number, own in zip(dealt.classes.tolist(), dealt.rows.tolist(), strict=True):
        assert own == [counted[number, split] for split in range(len(shares))]
    holders = collections.Counter(number for _, number in set(rows))
    assert dealt.holders.tolist() == [holders[number] for number in dealt.classes.tolist()]


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 9)), min_size=2, max_size=5),
)
def test_alike_groups_are_dealt_as_one_by_one(count: int, costs: list[tuple[int, int]]) -> None:
    """Groups of one kind get what a loop gives them."""
    base = np.array([float(first) for first, _ in costs])
    slope = np.array([float(step) for _, step in costs])
    expected = np.zeros(len(costs), np.int64)
    for _ in range(count):
        expected[np.argmin(base + slope * (2 * expected + 1))] += 1
    dealt = group_shares._deal_alike(count, base, slope)
    # Groups that cost the same may be in either split.
    assert dealt.sum() == count
    assert _cost(dealt, base, slope) == _cost(expected, base, slope)


def _cost(dealt: npt.NDArray[Any], base: npt.NDArray[Any], slope: npt.NDArray[Any]) -> float:
    return float((base * dealt + slope * dealt * dealt).sum())


def _planted(kind: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    random = np.random.default_rng(0)
    rows = 3_000
    if kind == "few large groups":
        return random.integers(0, 40, rows), random.integers(0, 5, rows)
    if kind == "unequal groups":
        return np.minimum(random.zipf(1.5, rows), 150), (random.random(rows) < 0.1).astype(int)
    if kind == "groups of one class":
        groups = random.integers(0, 300, rows)
        main = (random.random(300) < 0.15).astype(int)
        return groups, np.where(random.random(rows) < 0.95, main[groups], 1 - main[groups])
    return random.integers(0, 600, rows), random.choice(4, rows, p=[0.7, 0.2, 0.07, 0.03])


@pytest.mark.parametrize(
    "kind", ["few large groups", "unequal groups", "groups of one class", "many small groups"]
)
def test_shares_are_as_good_as_those_of_scikit_learn(kind: str, tmp_path: Path) -> None:
    """On planted tables, classes are at least as near to their shares."""
    groups, classes = _planted(kind)
    dealt = deal(tmp_path, groups, classes, (0.2,) * 5, 500)
    theirs = np.zeros(len(groups), int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = StratifiedGroupKFold(5, shuffle=True, random_state=1)
        for number, (_, rows) in enumerate(folds.split(classes, classes, groups)):
            theirs[rows] = number
    ours = dealt.splits_of(groups.astype(np.uint64)).astype(int)
    assert _difference(classes, ours) <= _difference(classes, theirs) + 1e-9


def _difference(classes: npt.NDArray[Any], splits: npt.NDArray[Any]) -> float:
    """Returns the mean difference of classes from their shares."""
    rows = np.zeros((classes.max() + 1, 5))
    np.add.at(rows, (classes, splits), 1)
    return float(np.abs(rows / rows.sum(axis=1, keepdims=True) - 0.2).mean())
