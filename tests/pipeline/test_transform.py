"""``beam-pipelines transform`` applies a dataset's encodings to new data.

It fits nothing.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning.recipes import load, parse_recipe
from beam_pipelines.pipeline.planning.transform import _check_is_whole, plan_transform
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.normal_form import from_normalised, normalised
from beam_pipelines.recipe.settings import read_setting
from tests.support.read_examples import read_records

RECIPE = """
name: trips
sources:
  trips: trips.csv
  towns: {path: towns.csv, key: town}
from: trips
join: [{source: towns, on: town, prefix: town_}]
derive: {far: 'coalesce(km, 0) > 10'}
encode:
  km: [{fill: mean}, z_score]
  town: {vocabulary: {num_oov: 1}}
  town_size: {fill: 0}
label: far
split: {train: 0.5, eval: 0.5}
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with tables, a recipe and its dataset."""
    tmp_path = tmp_path_factory.mktemp("trips")
    rows = [f"{number},{('ulm', 'bonn', 'köln')[number % 3]}" for number in range(60)]
    (tmp_path / "trips.csv").write_text("km,town\n" + "\n".join(rows) + "\n,lunar\n" * 20)
    # Recipes have no type for a timestamp with a zone.
    towns = [
        f"{town},{size},2013-01-0{size}T00:00:00Z"
        for size, town in enumerate(("ulm", "bonn", "köln"), start=1)
    ]
    (tmp_path / "towns.csv").write_text("town,size,since\n" + "\n".join(towns) + "\n")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    assert run(f"convert {tmp_path}/recipe.yaml --output {tmp_path}/out --quiet".split()) == 0
    return tmp_path


def examples(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """Yields the examples of a split, read by TensorFlow."""
    for record in read_records(folder, split):
        features = tf.train.Example.FromString(record).features.feature
        yield {
            name: [*feature.int64_list.value, *feature.float_list.value, *feature.bytes_list.value]
            for name, feature in features.items()
        }


def test_old_rows_are_encoded_as_they_were_and_new_ones_alike(dataset: Path) -> None:
    """Equal rows give equal features; an unseen town is an unknown id."""
    (dataset / "new.csv").write_text("km,town\n3,ulm\n,atlantis\n")
    command = f"transform {dataset}/out {dataset}/new.csv --output {dataset}/new --quiet"
    assert run(command.split()) == 0
    found = sorted(examples(dataset / "new", "test"), key=lambda row: row["town"])
    before = {
        tuple(row["km"]): row
        for split in ("train", "eval")
        for row in examples(dataset / "out", split)
    }
    seen = next(row for row in found if tuple(row["km"]) in before and row["town"] != [4])
    assert {**seen, "far": [0]} == {**before[tuple(seen["km"])], "far": [0]}
    unseen = next(row for row in found if row["town"] == [4])
    assert unseen["town_size"] == [0]
    assert abs(unseen["km"][0]) < 1e-6, "the mean of the train split, standardised"
    for name in ("encodings.json",):
        left, right = (
            dataset / folder / "transform_graph" / "encodings" / name for folder in ("out", "new")
        )
        assert left.read_bytes() == right.read_bytes()
    assert json.loads((dataset / "new" / "dataset.json").read_text())["splits"].keys() == {"test"}
    assert run(["verify", str(dataset / "new")]) == 0


@pytest.mark.parametrize(
    ("new", "arguments", "message"),
    [
        ("km,town\nx,ulm\n", [], "'x'"),
        ("km,city\n1,ulm\n", [], "town"),
        ("km,town\n1,ulm\n", ["--source", "town=x.csv"], "Did you mean 'towns'?"),
        ("km,town\n1,ulm\n", ["--source", "towns"], "expected NAME=PATH"),
        ("km,town\n1,\n", [], "town"),
    ],
)
def test_new_data_that_do_not_fit(dataset, tmp_path, capsys, new, arguments, message):
    """Other types, missing columns, new nulls and unknown sources are errors."""
    (tmp_path / "new.csv").write_text(new)
    command = f"transform {dataset}/out {tmp_path}/new.csv --output {tmp_path}/new --quiet"
    assert run([*command.split(), *arguments]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new" / "dataset.json").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("output.num_shards=3", ""),
        ("on_error.reject=1%", ""),
        ("output.num_shards=x", "--set output.num_shards: found 'x', expected a whole number"),
        ("output.num_shard=3", "Did you mean 'num_shards'?"),
        ("encode.km=drop", "--set encode.km: found a key that the dataset's features follow from"),
        ("output.floats=exact", "found a key that the dataset's features follow from"),
        ("output={num_shards: 3}", "found a key that the dataset's features follow from"),
    ],
)
def test_keys_that_a_transform_may_set(dataset, capsys, setting, message):
    """Keys of packing and reading may be set; the features stay."""
    if not message:
        plan = plan_transform(
            str(dataset / "out"), [str(dataset / "trips.csv")], {}, "test", None, (),
            [read_setting(setting)],
        )  # fmt: skip
        assert (plan.recipe.output.num_shards == 3) == ("shards" in setting)
        assert (plan.recipe.on_error.reject == 0.01) == ("reject" in setting)
        assert plan.recipe.label == "far"
        return
    command = ["transform", str(dataset / "out"), str(dataset / "trips.csv"), "-o"]
    assert run([*command, str(dataset / "set"), "--set", setting]) == 2
    assert message in capsys.readouterr().err


def test_recipes_survive_the_manifest() -> None:
    """A recipe in a manifest gives the same recipe again."""
    recipe = load("examples/flights/recipe.yaml")
    assert from_normalised(json.loads(json.dumps(normalised(recipe))), recipe.directory) == recipe
    recipe = parse_recipe(RECIPE, "recipe.yaml")
    assert from_normalised(json.loads(json.dumps(normalised(recipe))), "") == recipe


LABELLED = """
name: bids
sources:
  bids: {path: bids.csv, columns: [id, x, paid, due, note, shop]}
  shops: {path: shops.csv, key: shop}
from: bids
join: [{source: shops, on: shop, prefix: shop_}]
rename: {due: until}
filter: x >= 0 AND paid IS NOT NULL
derive: {late: 'coalesce(paid > until, false)'}
drop: [note, paid, until, shop]
encode: {x: z_score, shop_size: {fill: 0}}
label: late
"""


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a dataset whose label is derived."""
    folder = tmp_path_factory.mktemp("bids")
    rows = [f"{n},{n % 7},{n % 5},{n % 3},t,{'ab'[n % 2]}" for n in range(60)]
    (folder / "bids.csv").write_text("id,x,paid,due,note,shop\n" + "\n".join(rows) + "\n")
    (folder / "shops.csv").write_text("shop,size\na,1\nb,2\n")
    (folder / "recipe.yaml").write_text(LABELLED)
    assert run(["convert", str(folder / "recipe.yaml"), "-o", str(folder / "out"), "-q"]) == 0
    return folder


@pytest.mark.parametrize(
    ("name", "content", "label"),
    [
        ("order.csv", "shop,x,id\na,1,7\n", None),
        ("extra.csv", "id,x,shop,paid,due,more\n7,1,a,2,1,u\n", "late"),
        ("empty.csv", "id,x,shop,paid,due\n7,1,a,,\n", None),
        ("lines.jsonl", '{"id": 7, "x": 1, "shop": "a"}\n', None),
    ],
)
def test_new_data_need_the_columns_of_features_only(labelled, name, content, label):
    """Without the columns of the label it is not written.

    The plan says so.

    Conditions that need such a column are left out; dropped columns are not asked for.
    """
    (labelled / name).write_text(content)
    plan = plan_transform(str(labelled / "out"), [str(labelled / name)], {}, "test")
    assert plan.recipe.label == label
    assert ("late" in plan.encode.written) == (label is not None)
    assert ("paid" in (plan.recipe.filter or "")) == (label is not None)
    said = any("label 'late' is not written" in each for each in plan.base.decisions)
    assert said == (label is None)


def test_rows_without_the_label_have_the_other_features(labelled: Path) -> None:
    """A dataset of such rows has no label, parses by its schema.

    Encodes alike.
    """
    (labelled / "new.csv").write_text("shop,x,id\na,1,7\nb,2,8\n")
    out = labelled / "new"
    assert run(f"transform {labelled}/out {labelled}/new.csv -o {out} -q".split()) == 0
    found = sorted(examples(out, "test"), key=lambda row: row["id"])
    assert [(row["id"], row["shop_size"]) for row in found] == [([7], [1]), ([8], [2])]
    assert all("late" not in row for row in found)
    assert run(["verify", str(out)]) == 0
    dataset = bp.open(out)
    assert dataset.label is None
    encoded = dataset.encoder()({"id": 7, "x": 1, "shop_size": 1})
    assert encoded["x"][0] == np.float32(found[0]["x"][0])


def test_columns_of_features_are_asked_for(labelled: Path) -> None:
    """A column that a feature is made from.

    A key of its join, must be there.
    """
    for content, missing in (("id,shop\n7,a\n", "'x'"), ("id,x\n7,1\n", "'shop_size'")):
        (labelled / "wrong.csv").write_text(content)
        with pytest.raises(RecipeError, match=f"columns that the features {missing}"):
            plan_transform(str(labelled / "out"), [str(labelled / "wrong.csv")], {}, "test")


def test_new_data_without_any_feature(tmp_path: Path) -> None:
    """Where the label is the only feature, no row may lack it."""
    (tmp_path / "old.csv").write_text("id,y\n1,0\n2,1\n")
    (tmp_path / "new.csv").write_text("id\n3\n")
    recipe = {"name": "t", "sources": {"t": {"path": str(tmp_path / "old.csv")}}, "label": "y"}
    out = str(tmp_path / "out")
    bp.convert({**recipe, "encode": {"id": "drop", "y": "vocabulary"}}, out)
    with pytest.raises(RecipeError, match="lack 'y', the only feature"):
        plan_transform(out, [str(tmp_path / "new.csv")], {}, "test")


@pytest.mark.parametrize("types", [{}, {"zip": "int64"}])
def test_codes_of_new_data_are_no_numbers(tmp_path: Path, types: dict[str, str]) -> None:
    """A leading zero is an error, unless the recipe declares numbers."""
    (tmp_path / "old.csv").write_text("zip\n10001\n10002\n")
    (tmp_path / "new.csv").write_text("zip\n10001\n01234\n")
    source = {"path": str(tmp_path / "old.csv"), **({"types": types} if types else {})}
    out, new = str(tmp_path / "out"), str(tmp_path / "new")
    bp.convert({"name": "t", "sources": {"t": source}, "encode": {"zip": "z_score"}}, out)
    command = ["transform", out, str(tmp_path / "new.csv"), "-o", new, "-q"]
    assert run(command) == (0 if types else 1)


URL = "https://user:pass-7b@host/towns.csv?token=t-7b"
HIDDEN = "https://***@host/towns.csv?token=***"


@pytest.mark.parametrize(
    ("source", "new", "cure"),
    [
        ("towns", ["new.csv"], "Give it with --source towns=URL."),
        ("trips", [], "Name the new data."),
    ],
)
def test_secret_urls_are_given_again(dataset, tmp_path, source, new, cure):
    """A URL without its secrets is an error, and given again."""
    url = f"{URL}&day={{date}}" if not new else URL
    recipe = parse_recipe(RECIPE.replace(f"{source}.csv", f"'{url}'"), "recipe.yaml")
    shutil.copytree(dataset / "out", tmp_path / "out")
    path = tmp_path / "out" / "dataset.json"
    manifest = json.loads(path.read_text())
    kept = normalised(recipe)["sources"][source]["path"]
    assert kept[0].startswith(HIDDEN)
    # The value of a parameter is a secret, even where it is a date.
    manifest["recipe"]["sources"][source]["path"] = [kept[0].replace("day=***", "day={date}")]
    path.write_text(json.dumps(manifest))
    (tmp_path / "new.csv").write_text("km,town\n3,ulm\n")
    paths = [str(tmp_path / name) for name in new]
    date = None if new else datetime.date(2024, 1, 1)
    with pytest.raises(RecipeError, match=re.escape(cure)) as raised:
        plan_transform(str(tmp_path / "out"), paths, {}, "test", date)
    assert f"'path' of source '{source}': found {HIDDEN}" in str(raised.value)
    if source == "towns":
        again = {"towns": str(dataset / "towns.csv")}
        assert plan_transform(str(tmp_path / "out"), paths, again, "test").sources["towns"].files


@pytest.mark.end_to_end
def test_new_data_go_through_a_trusted_graph(tmp_path: Path) -> None:
    """A dataset's preprocessing_fn is code: the user's own program runs it."""
    (tmp_path / "own.py").write_text(
        "import tensorflow_transform as tft\n"
        "def preprocessing_fn(inputs):\n"
        "    return {'place': tft.compute_and_apply_vocabulary(inputs['town']), 'n': inputs['n']}\n"
    )
    (tmp_path / "a.csv").write_text("town,n\n" + "Ulm,1\nUlm,2\nBonn,3\n" * 5)
    recipe = {"name": "towns", "sources": {"towns": str(tmp_path / "a.csv")}}
    recipe |= {"preprocessing_fn": str(tmp_path / "own.py"), "split": {"train": 1.0}}
    bp.convert(recipe, tmp_path / "out")
    with pytest.raises(RecipeError, match="your own program can run it") as raised:
        bp.transform(tmp_path / "out", [tmp_path / "a.csv"], tmp_path / "new")
    graph, new = str(raised.value).split('"')[1], [b"Bonn", b"Rom", b"Ulm"]
    import tensorflow as tf
    import tensorflow_transform as tft

    raw = {"town": tf.constant(new)[:, None], "n": tf.constant([[7], [8], [9]], tf.int64)}
    made = tft.TFTransformOutput(graph).transform_raw_features(raw)
    assert made["place"].values.numpy().tolist() == [1, -1, 0]


def test_secret_urls_of_options() -> None:
    """A secret URL of another key cannot be given again."""
    for value in (HIDDEN, [HIDDEN]):
        source = Source("t", ("a.idx",), options={"labels": value})
        with pytest.raises(RecipeError, match="Convert the new data with the recipe"):
            _check_is_whole(source, "t")
    _check_is_whole(Source("t", (), options={"labels": "a***"}), "t")
