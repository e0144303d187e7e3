"""encodings/plan.py turns a recipe's entries into chains, and numbers their passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.sections import Fit
from beam_pipelines.recipe.splits import Split

COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("t", pa.string()),
        ("u", pa.string()),
        ("day", pa.date32()),
        ("late", pa.bool_()),
    ]
)


def plan(encode: str, **changes: Any) -> EncodePlan:
    """Plans a recipe's ``encode``, given as YAML."""
    head = "name: x\nsources: {rows: rows.csv}\nsplit: {train: 0.5, eval: 0.5}\nencode:\n"
    recipe = parse_recipe(
        head + "".join(f"  {line}\n" for line in encode.strip().splitlines()), "recipe.yaml"
    )
    return plan_encode(dataclasses.replace(recipe, **changes), COLUMNS)


def reads(planned: EncodePlan) -> Mapping[str, list[int]]:
    """Returns for each chain the reads of its steps."""
    return {chain.name: [step.read for step in chain.steps] for chain in planned.chains}


@pytest.mark.parametrize(
    ("encode", "expected", "number"),
    [
        ("a: log1p", {"a": [0]}, 0),
        ("a: [log1p, z_score]", {"a": [0, 0]}, 1),
        ("a: [z_score, log1p]", {"a": [0, 1]}, 1),
        ("a: [z_score, z_score]", {"a": [0, 1]}, 2),
        ("a: [{fill: 0}, log1p, z_score]", {"a": [0, 0, 0]}, 1),
        # A fitted fill needs no extra pass: the next analysis counts nulls as the fill value.
        ("a: [{fill: mean}, log1p, z_score]", {"a": [0, 0, 0]}, 1),
        ("a: [{fill: mean}, log1p, {bucketize: 4}]", {"a": [0, 0, 0]}, 1),
        # … unless that one counts values.
        ("a: [{fill: most_frequent}, vocabulary]", {"a": [0, 1]}, 2),
        # Another chain sees a feature when it is whole.
        ("a: z_score\nn: [{column: a}, z_score]", {"a": [0], "n": [1]}, 2),
        ("a: {fill: mean}\nn: [{column: a}, z_score]", {"a": [0], "n": [1]}, 2),
        ("a: z_score\nv: {vector: [a, b]}", {"a": [0], "v": [1]}, 1),
    ],
)
def test_reads(encode: str, expected: Mapping[str, list[int]], number: int) -> None:
    """An encoding is fitted in the first pass that knows its input.

    This is the first pass for most encodings.
    """
    planned = plan(encode)
    assert reads(planned) == expected
    assert planned.reads == number
    assert planned.is_fitted == (number == 0)


@pytest.mark.parametrize(
    ("encode", "written"),
    [
        ("a: log1p", "a b t u day late"),
        ("n: [{column: a}, log1p]", "a b t u day late n"),
        ("t: drop", "a b u day late"),
        ("v: {vector: [a, b]}", "t u day late v"),
        ("v: {vector: {columns: [a, b], keep: true}}", "a b t u day late v"),
        ("x: {cross: {columns: [t, u], buckets: 10}}\nt: drop", "a b u day late x"),
        ("a: {fill: {value: 0, missing: true}}", "a b t u day late a_missing"),
        ("day: {date_parts: month}", "a b t u day late"),
        ("day: {date_parts: [month, weekday]}", "a b t u late day_month day_weekday"),
        ("m: [{column: day}, {date_parts: month}, {one_hot: 13}]\nday: drop", "a b t u late m"),
    ],
)
def test_written_features(encode: str, written: str) -> None:
    """Columns keep their places, new features follow, consumed and dropped ones go."""
    assert plan(encode).written == tuple(written.split())
    assert list(plan(encode).features()) == written.split()


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ("xyz: log1p", "unknown column 'xyz'. The columns are a, b, t, u, day, late. For a new feature, begin with {column: …}."),
        ("n: {vector: [a, x]}", "unknown column 'x'"),
        ("n: [{column: n2}, log1p]\nn2: [{column: a}, log1p]", "unknown column 'n2'"),
        ("t: log1p", "log1p: found text, expected numbers"),
        ("a: [log1p, {vector: [a, b]}]", "vector: found it inside a chain, expected it as the first step."),
        ("t: [{hash_bucket: 99999999999}, one_hot]", "one_hot: found 99,999,999,999 ids, expected at most 10,000,000"),
        ("a: [log1p, drop]", "drop: found it inside a chain"),
        ("t: drop\nn: [{column: t}, vocabulary]\nt2: drop", "drop: unknown feature 't2'"),
        ("day: [{date_parts: [month, weekday]}, log1p]",
         "date_parts: found an encoding after it, expected none: it makes several features."),
    ],
)  # fmt: skip
def test_mistakes(encode: str, message: str) -> None:
    """A problem of an entry has its place in the recipe."""
    with pytest.raises(RecipeProblems) as raised:
        plan(encode)
    (problem,) = raised.value.problems
    assert message in problem.message
    assert problem.path[0] == "encode"


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ("t: {hash_bucket: 99999999999999999999}", "hash_bucket: found 99,999,999,999,999,999,999, expected a number of buckets"),
        ("n: {cross: {columns: [a, t], buckets: 99999999999999999999}}", "at most 9,223,372,036,854,775,807."),
        ("t: {vocabulary: {num_oov: 99999999999999999999}}", "at most 4,611,686,018,427,387,903."),
        ("a: {bucketize: 99999999999}", "bucketize: found 99,999,999,999, expected a number of buckets of at least 2"),
    ],
)  # fmt: skip
def test_numbers_that_no_column_has(encode: str, message: str) -> None:
    """A parameter beyond int64 or the memory limit is a recipe problem."""
    with pytest.raises(RecipeError, match=r"^recipe\.yaml:\d+: encode\.") as raised:
        plan(encode)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "fit"),
    [
        ({}, Fit(("train",))),
        ({"split": Split({"a": 0.5, "b": 0.5})}, Fit(("a",))),
        ({"fit": Fit(("eval", "train"))}, Fit(("eval", "train"))),
    ],
)
def test_what_to_fit_on(changes: Mapping[str, Any], fit: Fit) -> None:
    """The default for fitting is the split train, or else the first."""
    assert plan("a: z_score", **changes).fit == fit


@pytest.mark.parametrize(
    ("fit", "message"), [(Fit(("trian",)), "unknown split 'trian'. Did you mean 'train'?")]
)
def test_mistakes_in_fit(fit: Fit, message: str) -> None:
    """Splits that are not there are found at planning."""
    with pytest.raises(RecipeProblems) as raised:
        plan("a: z_score", fit=fit)
    assert [problem.message for problem in raised.value.problems] == [message]


def test_features_know_what_the_columns_are() -> None:
    """Facts of columns go through the chains: required stays required."""
    planned = plan("v: {vector: [a, b]}\nday: {date_parts: month}")
    features = planned.features(
        {"a": Feature(pa.int64(), required=True), "b": Feature(pa.float32(), required=True)}
    )
    assert features["v"] == Feature(pa.list_(pa.float32()), required=True, length=2)
