"""Files of tf.SequenceExamples without a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.pipeline.planning import plan_recipe
from beam_pipelines.recipe.settings import read_setting
from tests.sources.test_tfrecord_sequences import sequence, write_records
from tests.support.read_examples import read_records

RAGGED = [[[1.0, 2.0], [3.0]], [[4.0], None]]
LISTS: dict[str, list[list[list[Any] | None]]] = {
    "one value a step": [[[1], [2]], [[3]]],
    "a step without a value": [[[1], None], []],
    "several values a step": RAGGED,
    "steps of one size": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]],
    "steps of one shape": [[[b"a", b"b"], [b"c", b"d"]], [[b"e", b"f"], [b"g", b"h"]]],
}


def records(lists: list[list[list[Any] | None]]) -> list[bytes]:
    """Serializes a record for each feature list.

    Its context has a value and a list.
    """
    return [sequence({"id": [number], "t": [1, 2]}, {"x": x}) for number, x in enumerate(lists)]


@pytest.mark.parametrize("case", LISTS)
def test_feature_lists_stay_feature_lists(tmp_path: Path, case: str) -> None:
    """They keep their steps; lists of the context are no feature lists."""
    path = write_records(tmp_path / "a.tfrecord", *records(LISTS[case]))
    plan = plan_recipe.plan(path)
    assert plan.recipe.sequence is not None
    assert plan.recipe.sequence.features == ("x",)
    has_several = any(len(step or []) > 1 for steps in LISTS[case] for step in steps)
    assert ("list<list<" in plan.describe()) == has_several


SETTINGS = {
    "sources.a.types={x: tensor}": None,
    "drop=x": None,
    "rename={x: y}": ("y",),
    "output.num_shards=1": ("x",),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_decide_first(tmp_path: Path, setting: str) -> None:
    """Dropped columns, and columns without lists, are no feature lists."""
    path = write_records(tmp_path / "a.tfrecord", *records(RAGGED))
    plan = plan_recipe.plan(path, settings=[read_setting(setting)])
    assert (plan.recipe.sequence and plan.recipe.sequence.features) == SETTINGS[setting]


@pytest.mark.end_to_end
def test_a_file_without_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is converted to the same records.

    So it is by the recipe of ``init``. ``describe`` counts the values of its steps.
    """
    some = records([*RAGGED, [], [[7.0], [8.0, 9.0]]])
    path = write_records(tmp_path / "a.tfrecord", *some[:3])
    pattern = str(tmp_path / "*.tfrecord")
    plain = ["--set", "output.shuffle=false", "-q"]
    bare = str(tmp_path / "bare")
    assert run(["convert", pattern, "-o", bare, *plain]) == 0
    assert converted(bare) == parsed(some[:3])
    assert run(["init", path, "--output", str(tmp_path / "r.yaml")]) == 0
    unencoded = ["--set", "encode={id: {cast: int64}}", *plain[:2]]
    again = str(tmp_path / "again")
    assert run(["convert", str(tmp_path / "r.yaml"), "-o", again, *unencoded, "-q"]) == 0
    assert converted(again) == parsed(some[:3])
    write_records(tmp_path / "b.tfrecord", some[3])
    assert run(["convert", pattern, "-o", bare, "--overwrite", *plain]) == 0
    assert converted(bare) == parsed(some)
    shards = f"{bare}/examples/Split-*/*"
    assert run(["convert", shards, "-o", str(tmp_path / "third"), *plain[:2], "-q"]) == 0
    assert converted(str(tmp_path / "third")) == parsed(some)
    assert bp.verify(bare)
    capsys.readouterr()
    assert run(["describe", path, "--format", "json"]) == 0
    described = json.loads(capsys.readouterr().out)["splits"]["train"]["features"]
    types = {feature["name"]: feature["type"] for feature in described}
    assert types == {"id": "int64", "t": "list<int64>", "x": "list<list<float32>>"}


def parsed(serialized: list[bytes]) -> list[tf.train.SequenceExample]:
    return [tf.train.SequenceExample.FromString(one) for one in serialized]


def converted(folder: str) -> list[tf.train.SequenceExample]:
    """Returns the records of a dataset, by TensorFlow."""
    return parsed(read_records(Path(folder)))
