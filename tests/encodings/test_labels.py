"""Labels of ids: after encodings, from vocabularies, in files and readers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.dataset import inspect
from beam_pipelines.encodings.labels import label_files, labels_of_features
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.model import Recipe
from tests.support import image_sets
from tests.support.image_files import encode
from tests.support.runs import plan_in

NAMES = ("cat", "dog", "eel")
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("other", pa.int64()),
        ("ids", pa.list_(pa.int64())),
        ("text", pa.string()),
    ]
)


def recipe_of(encode: str) -> Recipe:
    """Returns a recipe with encodings."""
    return parse_recipe(f"name: a\nsources: {{a: a.csv}}\nencode: {encode}\n", "a.yaml", "/")


@pytest.mark.parametrize(
    ("encode", "kept"),
    [
        ("{other: z_score}", {"id", "ids"}),
        ("{id: one_hot}", {"id", "ids"}),
        ("{id: [{fill: 0}, one_hot], ids: multi_hot}", {"id", "ids"}),
        ("{id: {one_hot: 5}}", {"id", "ids"}),
        ("{vector_of_id: [{column: id}, one_hot]}", {"id", "ids", "vector_of_id"}),
        ("{id: log1p}", {"ids"}),
        ("{id: drop}", {"ids"}),
        ("{id: {fill: {value: 0, missing: true}}}", {"id", "ids"}),
        ("{id: {vocabulary: 10}}", {"ids"}),
        ("{id: [{column: other}, {one_hot: 3}]}", {"ids"}),
        ("{both: {vector: [id, other]}}", {"ids"}),
    ],
)
def test_names_stay_while_ids_do(encode: str, kept: set[str]) -> None:
    """Ids and one-hot ids keep their labels.

    Scaled, renumbered or joined ones do not.
    """
    named = {"id": NAMES, "ids": NAMES}
    plan = plan_encode(
        recipe_of(encode), COLUMNS, {name: len(names) for name, names in named.items()}
    )
    assert labels_of_features(plan, named) == dict.fromkeys(kept, NAMES)


def test_one_hot_is_as_long_as_there_are_names() -> None:
    """With the source's labels a one-hot vector needs no length.

    Without them planning lists all missing ones.
    """
    plan = plan_encode(recipe_of("{id: one_hot}"), COLUMNS, {"id": 3})
    assert plan.features()["id"].length == 3
    with pytest.raises(RecipeProblems) as error:
        plan_encode(
            recipe_of("{id: one_hot, ids: multi_hot, text: {vector: [ids, other]}}"), COLUMNS
        )
    messages = [str(problem) for problem in error.value.problems]
    assert len(messages) == 3
    assert "expected it in the recipe, as in {one_hot: 12}" in messages[0]
    assert "expected it in the recipe, as in {multi_hot: 12}" in messages[1]
    assert "found 'ids', a list without a fixed length" in messages[2]
    assert "lengths: {ids: 10}" in messages[2]


def test_what_reads_find_out_need_not_be_said() -> None:
    """A fitted encoding gives the length in time, without a problem."""
    plan = plan_encode(
        recipe_of(
            "{text: [vocabulary, one_hot], ids: {vector: {columns: [ids], lengths: {ids: 2}}}}"
        ),
        COLUMNS,
    )
    assert plan.features()["text"].length is None


def test_files_are_named_after_features() -> None:
    """The label's names are in labels.txt.

    Those of other features are in files of their own, with different names.
    """
    files = label_files({"a/b": ("x",), "label": ("y", "z"), "a-b": ("ü",)}, "label")
    assert files == {
        "labels/a-b.txt": "0:x\n",
        "labels.txt": "0:y\n1:z\n",
        "labels/a-b-2.txt": "0:ü\n",
    }
    assert list(label_files({"a": ("x",), "b": ("y",)}, None)) == ["labels.txt", "labels/b.txt"]
    assert list(label_files({"a": ("x",)}, "text")) == ["labels/a.txt"]


RECIPE = """
name: pictures
sources: {pictures: {path: pictures, format: images}, more: {path: more.csv, key: image/filename}}
from: pictures
join: [{source: more, on: image/filename}]
encode: {image/class/label: one_hot, color: vocabulary, size: [vocabulary, one_hot]}
label: size
split: {train: 1.0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures in three class folders, and a table about them."""
    folder = tmp_path / "names"
    lines = ["image/filename,color,size"]
    for number, name in enumerate(NAMES):
        (folder / "pictures" / name).mkdir(parents=True)
        (folder / "pictures" / name / "1.png").write_bytes(
            encode(np.full((4, 4), number, np.uint8), "png")
        )
        lines.append(
            f"{name}/1.png,{'red' if number else 'blue'},{'small' if number < 2 else 'large'}"
        )
    (folder / "more.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_dataset_tells_its_labels(tmp_path, folder):
    """A dataset has the labels of a vocabulary and of one-hot.

    They are in its manifest, labels.txt, ``info`` and ``inspect``. Another feature has its own
    file.
    """
    names = ("small", "large")
    recipe = parse_recipe(RECIPE, "recipe.yaml", str(folder))
    out = str(tmp_path / "out")
    convert.convert(make_plan(recipe), out, quiet=True)
    manifest = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert manifest["labels"] == {"image/class/label": list(NAMES), "size": list(names)}
    assert (tmp_path / "out" / "labels.txt").read_text() == "".join(
        f"{n}:{name}\n" for n, name in enumerate(names)
    )
    assert (
        tmp_path / "out" / "labels" / "image-class-label.txt"
    ).read_text() == "0:cat\n1:dog\n2:eel\n"
    assert bp.open(out).labels() == names
    shown = "".join(inspect.inspect_examples(out, 3))
    assert all(f"({name})" in shown for name in (*names, *NAMES, "red", "blue"))
    features = bp.open(out).features
    assert features["image/encoded"].kind == "image"
    assert features["image/class/label"].vocabulary == NAMES
    assert features["color"].vocabulary == ("red", "blue")


def test_two_maps_of_one_source(tmp_path: Path) -> None:
    """CIFAR-100's fine classes are the label's.

    The coarse ones have their own file. A dataset without labels that overwrites it has none of
    these files.
    """
    pictures, _ = image_sets.colour_digits(30)
    members = {
        "train": image_sets.cifar100_batch(pictures, range(30)),
        "meta": image_sets.cifar100_meta(),
    }
    image_sets.write_archive(tmp_path / "cifar-100-python.tar.gz", "cifar-100-python", members)
    out = tmp_path / "out"
    text = (
        "name: cifar\nsources: {cifar: cifar-100-python.tar.gz}\nlabel: "
        "image/class/label\nsplit: {train: 1.0}\n"
    )
    convert.convert(plan_in(tmp_path, text), str(out), quiet=True)
    assert (out / "labels.txt").read_text().splitlines()[1] == "1:fine_1"
    assert (out / "labels" / "image-class-coarse-label.txt").read_text().splitlines()[
        1
    ] == "1:coarse_1"
    features = bp.open(out).features
    assert features["image/class/coarse/label"].vocabulary == image_sets.COARSE
    (tmp_path / "rows.csv").write_text("color\nred\nblue\n")
    text = "name: more\nsources: {more: rows.csv}\nlabel: color\nsplit: {train: 1.0}\n"
    plan = plan_in(tmp_path, text)
    convert.convert(plan, str(out), overwrite=True, quiet=True)
    assert not (out / "labels").exists()
    assert not (out / "labels.txt").exists()
    assert not bp.open(out).manifest.get("labels")
