"""Rows of classes sampled, against loops."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, ChunkCounts
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.sections import Sample
from beam_pipelines.recipe.splits import Split
from beam_pipelines.transforms.split.split import SplitPlan, plan_split, split_chunk

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


def divide(plan: SplitPlan, chunk: Chunk) -> tuple[ChunkCounts, dict[str, list[dict[str, Any]]]]:
    counts, *parts = split_chunk(plan, chunk)
    assert isinstance(counts, ChunkCounts)
    return counts, {part.split: part.batch.to_pylist() for part in parts}


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
