"""Folders of images, with a folder a class or a table."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.core.process import plugins
from beam_pipelines.pipeline import api
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.settings import read_setting
from beam_pipelines.transforms import read
from beam_pipelines_plugins.first_recipe.init import write_recipe
from tests.support.image_files import encode

BREEDS = ["pug", "lab"]


def write_images(folder: Path, names: list[str]) -> None:
    """Writes small images."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(np.full((4, 5, 3), 9, np.uint8), "png"))


def planned(path: Path) -> Plan:
    """Returns the plan of ``convert PATH``, and checks that of ``init PATH``."""
    recipe = recipes.load(str(path))
    plan = make_plan(recipe)
    text = path.parent / f"{path.name}.yaml"
    write_recipe([str(path)], str(text), overwrite=True)
    by_init = make_plan(recipes.load(str(text)))
    assert by_init.encode.columns == plan.encode.columns
    assert by_init.recipe.label == plan.recipe.label
    assert [join.on for join in by_init.recipe.join] == [join.on for join in recipe.join]
    return plan


def check_keys(plan: Plan) -> dict[str, str]:
    """Checks that the images are those of the table; returns the keys."""
    [(left, right)] = plan.recipe.join[0].on
    names = read.read_table(plan.base, reject=False)[0].column(left).to_pylist()
    keys = read.read_table(plan.sources["labels"], reject=False)[0].column(right).to_pylist()
    assert sorted(names) == sorted(keys)
    return {left: right}


def test_a_folder_a_class(tmp_path: Path) -> None:
    """The class is the label, and other files do not matter."""
    write_images(tmp_path / "pics", [f"{name}/{n}.png" for name in BREEDS for n in range(3)])
    (tmp_path / "pics" / "README.txt").write_text("by hand\nin 2024, at home\n")
    (tmp_path / "pics" / "notes.md").write_text("x")
    plan = planned(tmp_path / "pics")
    assert plan.recipe.label == "image/class/label"
    assert plan.base.labels == {"image/class/label": ("lab", "pug")}
    assert len(plan.base.files) == 6


def test_images_without_classes(tmp_path: Path) -> None:
    """A folder of images alone has no label."""
    write_images(tmp_path / "pics", ["a.png", "b.png"])
    assert planned(tmp_path / "pics").recipe.label is None


CASES: dict[str, tuple[list[str], str, str, dict[str, str], str]] = {
    # Images; table and its text; join; label
    "names": (["a.png", "b.png"], "labels.csv", "file,breed\na.png,pug\nb.png,lab\n", {"image/filename": "file"}, "breed"),
    "without suffix": (["train/a.png", "train/b.png"], "train.csv", "id;breed\na;pug\nb;lab\n", {"image/stem": "id"}, "breed"),
    "numbers": (["1.png", "2.png"], "labels.tsv", "id\tage\n1\t3\n2\t5\n", {"image/stem": "id"}, "age"),
    "paths": (["x/a.png", "y/a.png"], "labels.csv", "path,breed\nx/a.png,pug\ny/a.png,lab\n", {"image/filename": "path"}, "breed"),
    "paths of one folder": (["im/a.png", "im/b.png"], "t.jsonl", '{"path": "im/a.png", "z": 1}\n{"path": "im/b.png", "z": 2}\n',
                            {"image/filename": "path"}, "z"),
    "more columns": (["a.png", "b.png"], "labels.csv", "file,breed,age\na.png,pug,1\nb.png,lab,2\n", {"image/filename": "file"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_table_names_the_images(tmp_path: Path, case: str) -> None:
    """Images get the labels of a table, by names or paths."""
    images, table, text, on, label = CASES[case]
    write_images(tmp_path / "pics", images)
    (tmp_path / "pics" / table).write_text(text)
    plan = planned(tmp_path / "pics")
    assert check_keys(plan) == on
    assert (plan.recipe.label or "") == label
    assert "image/class/label" not in plan.base.schema.names


@pytest.mark.parametrize("folders", ["x/", "x/y/", ""])
def test_paths_of_windows(tmp_path: Path, folders: str) -> None:
    """The error has the command that mends them."""
    images = [f"{folders}{number}.png" for number in range(4)]
    write_images(tmp_path / "pi cs", images)
    table = tmp_path / "pi cs" / "labels.csv"
    rows = ["path,y", *(f"{name},{number % 2}" for number, name in enumerate(images))]
    table.write_text("\n".join(rows).replace("/", "\\") + "\n")
    if folders:
        with pytest.raises(RecipeError, match=r"labels.csv, column 'path': found names") as caught:
            recipes.load(str(table.parent))
        cure = str(caught.value).partition("so: ")[2]
        subprocess.run(cure, shell=True, check=True)  # noqa: S602 - the remedy
    assert table.read_text().splitlines() == rows
    assert check_keys(planned(table.parent)) == {"image/filename": "path"}


def test_tables_that_do_not_tell(tmp_path: Path) -> None:
    """No table with names, and two of them, are errors."""
    pics = tmp_path / "pics"
    write_images(pics, ["a.png", "b.png"])
    (pics / "labels.csv").write_text("x,y\n1,2\n")
    with pytest.raises(RecipeError, match=r"no column in it with names .* 'a.png'") as caught:
        recipes.load(str(pics))
    pattern = str(caught.value).split("'")[-2]
    assert len(make_plan(recipes.load(pattern)).base.files) == 2
    for name in ("train.csv", "test.csv"):
        (pics / name).write_text("file,y\na.png,2\n")
    with pytest.raises(RecipeError, match=r"several tables .*test.csv \(file\) and .*train.csv"):
        recipes.load(str(pics))


def test_tables_without_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table needs the plugins; classes next to a README do not."""
    monkeypatch.setattr(plugins, "_points", dict)
    plugins.load.cache_clear()
    pics = tmp_path / "pics"
    write_images(pics, ["pug/a.png", "lab/b.png"])
    (pics / "README.txt").write_text("by hand\n")
    assert make_plan(recipes.load(str(pics))).recipe.label == "image/class/label"
    (pics / "labels.csv").write_text("file,y\npug/a.png,2\n")
    with pytest.raises(
        RecipeError, match=r"labels.csv.*pip install ./plugins; or .*png'"
    ) as caught:
        recipes.load(str(pics))
    assert len(make_plan(recipes.load(str(caught.value).split("'")[-2])).base.files) == 2


LAYOUTS: dict[str, tuple[list[str], str, dict[str, str], tuple[str, ...]]] = {
    # Images; a table of labels; split -> folder; classes
    "splits of classes": ([f"{split}/{name}/{n}.png" for split in ("train", "val", "test") for name in BREEDS for n in range(3)], "",
                          {"train": "train", "val": "val", "test": "test"}, ("lab", "pug")),
    "other names": ([f"{split}/{name}/1.png" for split in ("Training", "validation") for name in BREEDS], "",
                    {"train": "Training", "val": "validation"}, ("lab", "pug")),
    "splits of all": (["images/train/a.png", "images/val/b.png"], "", {"train": "images/train", "val": "images/val"}, ()),
    "a folder of all": (["images/a.png", "images/b.png"], "", {}, ()),
    "one split of classes": (["train/lab/a.png", "train/pug/b.png"], "", {}, ("lab", "pug")),
    "splits alone": (["train/a.png", "test/b.png"], "", {"train": "train", "test": "test"}, ()),
    "a class called test": (["test/a.png", "pug/b.png"], "", {}, ("pug", "test")),
    "a table of one folder": (["train/a.png", "train/b.png", "test/c.png"], "file,breed\na.png,pug\nb.png,lab\n", {}, ()),
}  # fmt: skip


@pytest.mark.end_to_end
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """Folders of splits are splits, for ``convert`` and ``init`` from any folder."""
    images, table, splits, classes = LAYOUTS[layout]
    write_images(tmp_path / "pics", images)
    if table:
        (tmp_path / "pics" / "train.csv").write_text(table)
        (tmp_path / "pics" / "sample_submission.csv").write_text("file,breed\nc.png,lab\n")
    plan = planned(tmp_path / "pics")
    assert plan.base.labels.get("image/class/label", ()) == classes
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    write_recipe(["pics"], "recipes/r.yaml")
    for recipe in ("pics", "recipes/r.yaml"):
        found = api.convert(recipe, "out", overwrite=True).splits
        if splits:
            assert found == {
                split: sum(name.startswith(f"{folder}/") for name in images)
                for split, folder in splits.items()
            }
        else:
            assert sum(found.values()) == (2 if table else len(images))
    unread = "# left out: ../pics/test/c.png: no table names it"
    assert (unread in Path("recipes/r.yaml").read_text()) == bool(table)


@pytest.mark.end_to_end
@pytest.mark.parametrize("folders", [("train", "val"), ("",)])
def test_the_current_folder_with_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: tuple[str, ...]
) -> None:
    """Earlier datasets and files of other programs are no images."""
    images = [os.path.join(folder, name, "1.png") for folder in folders for name in BREEDS]
    write_images(tmp_path, images)
    (tmp_path / folders[0] / BREEDS[0] / "Thumbs.db").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    write_recipe(["."], "r.yaml")
    for recipe in (".", "r.yaml", "."):
        found = api.convert(recipe, "out", overwrite=True).splits
        assert [*found.values()] == [len(BREEDS)] * len(folders)


@pytest.mark.parametrize("folder", [".", "images", "images/deep", None])
@pytest.mark.parametrize(
    ("name", "other"), [("a.png", "b.png"), ("a", "b"), ("images/a.png", "images/b.png")]
)
def test_a_table_outside_of_the_folder(tmp_path, monkeypatch, name, other, folder):
    """``init`` takes it as its other argument; other names are an error."""
    write_images(tmp_path / "images", ["a.png", "b.png"])
    table, images = tmp_path / "labels.csv", tmp_path / "images"
    table.write_text(f"file,breed\n{name},pug\n{other},lab\n")
    if folder is not None:  # paths from the current folder
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        table, images = Path(os.path.relpath(table)), Path(os.path.relpath(images))
    write_recipe([str(table), str(images)], str(tmp_path / "r.yaml"))
    recipe = recipes.load(str(tmp_path / "r.yaml"))
    assert recipe.label == "breed"
    check_keys(make_plan(recipe))
    table.write_text("file,breed\nx.png,pug\n")
    with pytest.raises(RecipeError, match="no column in it with names of the images"):
        write_recipe([str(images), str(table)], str(tmp_path / "s.yaml"))


@pytest.mark.end_to_end
def test_what_init_says_of_images(tmp_path: Path) -> None:
    """It names damaged images of several kinds, several sizes, and rare classes."""
    pics = tmp_path / "pics"
    write_images(pics, [f"{'lab' if n < 58 else 'pug'}/{n:03}.png" for n in range(60)])
    (pics / "lab" / "cut.jpg").write_bytes(encode(np.full((8, 8, 3), 9, np.uint8), "jpeg")[:-9])
    (pics / "lab" / "empty.jpg").write_bytes(b"")
    frames = [Image.new("RGB", (6, 6), (shade, 0, 0)) for shade in (0, 90, 200)]
    frames[0].save(pics / "lab" / "moves.webp", save_all=True, append_images=frames[1:])
    Image.new("1", (6, 6)).save(pics / "pug" / "black.bmp")
    Image.new("RGB", (9, 7)).save(pics / "pug" / "large.png")
    for name in ("000", "001", "002"):
        (pics / "lab" / f"{name}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    write_recipe([str(pics)], str(tmp_path / "r.yaml"))
    text = (tmp_path / "r.yaml").read_text()
    assert "# choose: images have 4 x 5 to 7 x 9 pixels. A batch needs one size: 'image: {" in text
    assert "# choose: 2 rows of those that init has read cannot be read, such as:" in text
    for kind in ("does not decode", "an empty file"):
        assert kind in text
    assert "2 classes: lab 94%, pug 6%" in text
    assert "pics/lab/000.txt: no table names it" in text
    assert "nor 2 more files of .txt" in text
    edited = text.replace(
        "format: images", "format: images\n    image: {resize: [8, 8], format: png}"
    )
    edited = edited.replace("# on_error: {reject: 2}", "on_error: {reject: 2}")
    (tmp_path / "r.yaml").write_text(edited)
    assert sum(api.convert(tmp_path / "r.yaml", tmp_path / "out").splits.values()) == 63


@pytest.mark.end_to_end
def test_what_init_says_of_a_table(tmp_path: Path) -> None:
    """It has counts, encodings, and a label that is no caption."""
    write_images(tmp_path / "pics", [f"{n:03}.png" for n in range(60)])
    rows = [f"{n:03}.png,{BREEDS[n % 2]},{n / 4}" for n in range(2, 62)]
    (tmp_path / "pics" / "labels.csv").write_text("\n".join(["file,target,age", *rows]) + "\n")
    write_recipe([str(tmp_path / "pics")], str(tmp_path / "r.yaml"))
    text = (tmp_path / "r.yaml").read_text()
    assert (
        "# 58 of 60 images are in labels.file; 2 of its 60 rows have no image. 'how: left'" in text
    )
    assert "\nlabel: target  # its name, two values\n" in text
    assert re.search("\n  target: vocabulary +# the label: 2 classes", text)
    assert re.search("\n  age: z_score +# 0.5 to 15.25", text)
    assert sum(api.convert(tmp_path / "r.yaml", tmp_path / "out").splits.values()) == 58
    captions = [f"{n:03}.png,a dog on lawn number {n}" for n in range(60)]
    (tmp_path / "pics" / "labels.csv").write_text("\n".join(["file,text", *captions]) + "\n")
    assert recipes.load(str(tmp_path / "pics")).label is None


@pytest.mark.end_to_end
def test_labels_of_a_table_are_in_the_examples(tmp_path: Path) -> None:
    """The dataset has each image with its label, read by TensorFlow."""
    import tensorflow as tf

    write_images(tmp_path / "pics", [f"{n}.png" for n in range(6)])
    rows = [f"{n},{BREEDS[n % 2]}" for n in range(6)]
    (tmp_path / "pics" / "labels.csv").write_text("\n".join(["id,breed", *rows]) + "\n")
    api.convert(tmp_path / "pics", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "dataset.json").read_text())["recipe"]["label"] == "breed"
    shards = [str(path) for path in (tmp_path / "out").rglob("*.tfrecord.gz")]
    found = {}
    for record in tf.data.TFRecordDataset(shards, "GZIP"):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        [name] = features["image/filename"].bytes_list.value
        [breed] = features["breed"].bytes_list.value
        found[name.decode()] = breed.decode()
        assert tf.io.decode_image(features["image/encoded"].bytes_list.value[0]).shape[-1] == 3
    assert found == {f"{n}.png": BREEDS[n % 2] for n in range(6)}


def test_folders_within_class_folders(tmp_path: Path) -> None:
    """The error's remedies work: inner folders are classes, or none is."""
    write_images(tmp_path / "pics", [f"{split}/{name}/1.png" for split in "ab" for name in BREEDS])
    with pytest.raises(RecipeProblems, match=r"/\*/\*/\*\.png.*columns: \["):
        make_plan(recipes.load(str(tmp_path / "pics")))
    inner = make_plan(recipes.load(f"{tmp_path}/pics/*/*/*"))
    assert inner.base.labels == {"image/class/label": ("lab", "pug")}
    columns = read_setting("sources.pics.columns=[image/encoded, image/filename]")
    recipe = recipes.load(str(tmp_path / "pics"), [columns])
    assert recipe.label is None
    assert make_plan(recipe).base.schema.names == ["image/encoded", "image/filename"]


def test_pictures_of_other_formats(tmp_path: Path) -> None:
    """Pictures that are not read have a finding; alone, an error."""
    write_images(tmp_path / "pics", ["lab/1.png", "pug/1.png", "pug/2.HEIC", "pug/3.tif"])
    (tmp_path / "pics" / "pug" / "notes.txt").write_text("one\n")
    (decision,) = planned(tmp_path / "pics").base.decisions
    assert decision.startswith(
        f"without 2 pictures of other formats, such as {tmp_path}/pics/pug/2.HEIC  #"
    )
    write_images(tmp_path / "scans", ["a/1.tiff"])
    recipe = "name: a\nsources: {a: {path: scans, format: images}}\n"
    (tmp_path / "r.yaml").write_text(recipe)
    with pytest.raises(RecipeProblems, match=r"no file with .*It has .*1\.tiff, which is not read"):
        make_plan(recipes.load(str(tmp_path / "r.yaml")))
