"""Rows of classes sampled, against loops."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, ChunkCounts
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.sample import Sample
from beam_pipelines.recipe.splits import Split
from beam_pipelines.transforms import limit_classes
from beam_pipelines.transforms.cuts import Cuts, sort_keys
from beam_pipelines.transforms.exchange import Received
from beam_pipelines.transforms.split import SplitPlan, plan_split, split_chunk

SCHEMA = pa.schema([("id", pa.int64()), ("label", pa.string())])
ROWS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=60)


def plan_of(sample: Sample, schema: pa.Schema = SCHEMA, **rest: Any) -> SplitPlan:
    recipe = Recipe(
        "t", {}, "t", split=Split({"train": 0.7, "eval": 0.3}, by=("id",)), sample=sample, **rest
    )
    return plan_split(recipe, schema)


def chunk_of(labels: list[str | None], number: int = 0) -> Chunk:
    ids = pa.array(range(1000 * number, 1000 * number + len(labels)), pa.int64())
    batch = pa.record_batch([ids, pa.array(labels, pa.string())], schema=SCHEMA)
    return Chunk(number, 0, batch, {"read": len(labels)})


def divide(
    plan: SplitPlan, chunk: Chunk, cuts: Cuts | None = None
) -> tuple[ChunkCounts, dict[str, list[dict[str, Any]]]]:
    counts, *parts = split_chunk(plan, chunk, cuts=cuts)
    assert isinstance(counts, ChunkCounts)
    return counts, {part.split: part.batch.to_pylist() for part in parts}


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(0, 3))
def test_rates(labels: list[str | None], seed: int) -> None:
    """Whole rates repeat each row, and every row is in the account."""
    rates = {"a": 2.0, "b": 0.5, "null": 1.25}
    plan = plan_of(Sample("label", rates, weight="w", seed=seed))
    plain = divide(plan_of(Sample("label", {"a": 1.0})), chunk_of(labels))[1]
    counts, found = divide(plan, chunk_of(labels))
    assert plan.schema.names == ["id", "label", "w"]
    weights = {"a": 0.5, "b": 2.0, "c": 1.0, None: 0.8}
    for row in found.get("train", []):
        assert row["w"] == np.float32(weights[row["label"]])
    copies = collections.Counter(row["id"] for row in found.get("train", []))
    allowed = {"a": {2}, "b": {0, 1}, "c": {1}, None: {1, 2}}
    for row in plain.get("train", []):
        assert copies.pop(row["id"], 0) in allowed[row["label"]]
    assert not copies
    assert found.get("eval", []) == [row | {"w": 1.0} for row in plain.get("eval", [])]
    before, after = len(plain.get("train", [])), len(found.get("train", []))
    out, repeated = counts.counts["sampled_out/train"], counts.counts["repeated/train"]
    assert after == before - out + repeated
    assert counts.rows.get("train", 0) == after


def test_rates_hold_on_average() -> None:
    """Of many rows, the share that is kept is near the rate."""
    plan = plan_of(Sample("label", {"a": 0.1, "b": 2.5}))
    counts, found = divide(plan, chunk_of(["a", "b"] * 20_000))
    kept = collections.Counter(row["label"] for row in found["train"])
    assert kept["a"] / counts.counts["class_found/0"] == pytest.approx(0.1, abs=0.01)
    assert kept["b"] / counts.counts["class_found/1"] == pytest.approx(2.5, abs=0.02)
    assert kept["a"] == counts.counts["class_kept/0"]
    assert kept["b"] == counts.counts["class_kept/1"]


@settings(max_examples=40, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from([3, {"a": 2, "null": 4}]))
def test_limits(
    tmp_path_factory: pytest.TempPathFactory,
    chunks: list[list[str | None]],
    limit: int | dict[str, int],
) -> None:
    """A class has at most its limit of rows, whatever the chunks.

    The weights of a class add up to its rows.
    """
    folder = tmp_path_factory.mktemp("limits")
    plan = plan_of(Sample("label", limit=limit, weight="w"))
    assert plan.sample is not None
    made = [chunk_of(labels, number) for number, labels in enumerate(chunks)]
    messages = [limit_classes.send_sampled(chunk, plan, plan.sample, 2) for chunk in made]
    stored = []
    for partition in range(2):
        own = [message for message in messages if partition in message.payloads]
        if own:
            payloads = tuple(bytes(message.payloads[partition]) for message in own)
            orders = tuple(message.order for message in own)
            stored.append(sort_keys(Received(partition, payloads, orders), str(folder), "s"))
    names = {}
    for chunk in made:
        names.update(limit_classes.name_sampled(chunk, plan, plan.sample))
    all_rows = [divide(plan, chunk)[1] for chunk in made]
    before = collections.Counter(
        row["label"] for parts in all_rows for row in parts.get("train", [])
    )
    limits = {"a": 2, None: 4} if isinstance(limit, dict) else dict.fromkeys("abc", 3) | {None: 3}
    if isinstance(limit, dict) and not (before["a"] and before[None]):
        with pytest.raises(DataError, match="found no row of class"):
            limit_classes.cut_limits(stored, names, plan.sample)
        return
    cuts = limit_classes.cut_limits(stored, names, plan.sample)
    after, weights = collections.Counter(), collections.Counter()
    for chunk in made:
        for row in divide(plan, chunk, cuts)[1].get("train", []):
            after[row["label"]] += 1
            weights[row["label"]] += row["w"]
    for label, count in before.items():
        assert after[label] == min(count, limits.get(label, count))
        assert weights[label] == pytest.approx(count)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=4),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.booleans(),
)
def test_mixes(rows: list[int], parts: list[int], repeats: bool) -> None:
    """A mix is the largest without repeats, or the smallest without losses."""
    names = [str(number) for number in range(len(rows))]
    whole = sum(parts[: len(rows)])
    shares = {name: part / whole for name, part in zip(names, parts, strict=False)}
    plan = plan_of(Sample("label", mix=shares, repeat=repeats)).sample
    assert plan is not None
    written = limit_classes._mixed(plan, [("train", name) for name in names], rows).tolist()
    chosen = max if repeats else min
    total = chosen(count / shares[name] for name, count in zip(names, rows, strict=True))
    for count, own, name in zip(rows, written, names, strict=True):
        assert own >= count if repeats else own <= count
        assert own == pytest.approx(total * shares[name], abs=1)
    assert any(abs(count - own) <= 1 for count, own in zip(rows, written, strict=True))


def test_a_mix_names_all_classes() -> None:
    """A class without a share is an error."""
    plan = plan_of(Sample("label", mix={"a": 0.5, "b": 0.5})).sample
    assert plan is not None
    places = [("train", "a"), ("train", "b"), ("train", "c")]
    with pytest.raises(DataError, match="found rows of class c in column 'label', expected a, b"):
        limit_classes._mixed(plan, places, [1, 2, 3])


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (Sample("labl", {"a": 1.0}), "'labl', which is not there. Did you mean 'label'"),
        (Sample(None, {"a": 1.0}), "no 'by' and no 'label'"),
        (Sample("label", {"a": 1.0}, weight="id"), "'id', but the rows have this column"),
        (Sample("label", {"a": 1.0}, splits=("test",)), "'test', expected train, eval"),
        (Sample("id", {"x": 1.0}), "class 'x', expected values of column 'id': int64"),
        (Sample("id", {"1": 1.0, "01": 2.0}), "'1' again as '01'"),
        (Sample("many", {"1": 1.0}), "list<int64>, expected one value"),
    ],
)
def test_recipes_that_cannot_be_sampled(sample: Sample, message: str) -> None:
    """Nonsense is a problem of the recipe."""
    schema = SCHEMA.append(pa.field("many", pa.list_(pa.int64())))
    with pytest.raises(RecipeProblems) as caught:
        plan_of(sample, schema)
    assert message in caught.value.problems[0].message


def test_files_of_limits(tmp_path: Path) -> None:
    """The classes of a file have their rows before and after."""
    rows = np.array([[3, 5], [2, 0]])
    keys = np.zeros((2, 1), [("hash", "<u8"), ("range", "<u4"), ("part", "<u4"), ("row", "<u4")])
    path, copies = str(tmp_path / "cuts"), np.array([0, 2])
    Cuts(np.array([1, 2], np.uint64), ("a\0train", "b\0eval"), rows, keys, copies).save(path)
    found = limit_classes.limited_classes(path)
    assert [tuple(each) for each in found] == [
        ("a", ("train",), 8, 3, 8 / 3),
        ("b", ("eval",), 2, 6, 1 / 3),
    ]
