"""Other programs open a dataset by its passport.

`make test-adapters` installs them; a test without its program is skipped.
"""

from __future__ import annotations

import random

import pytest
from PIL import Image

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module

pytestmark = pytest.mark.adapters
ABOUT = "license: CC-BY-4.0\ncitation: A test.\npublished: 2026-01-31\n"
KINDS = ["--for", "croissant", "--for", "huggingface", "--for", "tfds"]
PLAIN = ["--set", "output.compression=none", "--split", "train=0.7,eval=0.3", "--quiet"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = (f"{row},{row / 8},{'abc'[row % 3]},{'' if row % 4 else row}" for row in range(3000))
    (folder / "rows.csv").write_text("id,half,kind,some\n" + "\n".join(rows) + "\n")
    return converted(folder, "rows.csv", "--set", "output.shard_size=20000")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    random.seed(0)
    for label in ("cat", "dog"):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(12):
            name, size = f"{number}.{'jpg' if number % 2 else 'png'}", (20 + number, 30)
            Image.frombytes("RGB", size, random.randbytes(size[0] * size[1] * 3)).save(
                folder / "photos" / label / name
            )
    return converted(folder, "photos")


def converted(folder, source, *options):
    output = ["--output", str(folder / "out")]
    assert main_module.run(["convert", str(folder / source), *output, *PLAIN, *options]) == 0
    (folder / "about.yaml").write_text(ABOUT)
    about = ["--about", str(folder / "about.yaml")]
    assert main_module.run(["passport", str(folder / "out"), *KINDS, *about]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def tfds():
    return pytest.importorskip("tensorflow_datasets")


def test_tensorflow_datasets_reads_each_row(tfds, table):
    """Every row is there once, with its values."""
    builder = tfds.builder_from_directory(table)
    assert builder.info.features["some"].feature.dtype == "int64"
    assert len(builder.info.splits["train"].shard_lengths) > 2
    found = {}
    for split in ("train", "eval"):
        rows = list(tfds.as_numpy(builder.as_dataset(split=split)))
        assert len(rows) == builder.info.splits[split].num_examples
        found |= {int(row["id"]): row for row in rows}
    assert sorted(found) == list(range(3000))
    for row in (0, 1, 2999):
        assert found[row]["half"] == row / 8
        assert found[row]["kind"] == b"abc"[row % 3 : row % 3 + 1]
        assert found[row]["some"].tolist() == ([] if row % 4 else [row])
    assert len(list(builder.as_dataset(split="train[:10%]"))) == pytest.approx(210, abs=30)


def test_tensorflow_datasets_decodes_images(tfds, images):
    """Images have their sizes, and labels their names."""
    builder = tfds.builder_from_directory(images)
    assert builder.info.features["image/class/label"].names == ["cat", "dog"]
    rows = [*tfds.as_numpy(builder.as_dataset(split="train+eval"))]
    assert len(rows) == 24
    for row in rows:
        assert row["image/encoded"].shape == (row["image/height"], row["image/width"], 3)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A dataset whose columns have names that are no IRIs."""
    folder = tmp_path_factory.mktemp("named")
    lines = ("\t".join(str(row + column) for column in range(8)) for row in range(9))
    names = ["x", "x/mean", "x mean", "x%20mean", "größe", "c#d?", "split", "<i> {j}|^`"]
    (folder / "rows.tsv").write_text("\n".join(["\t".join(names), *lines]) + "\n")
    return converted(folder, "rows.tsv")


@pytest.mark.parametrize("name", ["table", "images", "named"])
def test_croissant_validates_without_warnings(name, request):
    """MLCommons' own package finds nothing wrong."""
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(jsonld=request.getfixturevalue(name) / "croissant.json")
    issues = dataset.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    fields = {field.name for field in dataset.metadata.record_sets[1].fields}
    assert {
        "split",
        *(one.name for one in bp.open(request.getfixturevalue(name)).schema.feature),
    } <= fields


@pytest.mark.parametrize("name", ["table", "images", "named"])
def test_hugging_face_reads_the_card(name, request):
    """The card has the features and splits of the dataset."""
    info = pytest.importorskip("datasets.info").DatasetInfosDict
    folder = request.getfixturevalue(name)
    card = info.from_directory(folder)["default"]
    opened = bp.open(folder)
    assert set(card.features) == {one.name for one in opened.schema.feature}
    found = {one.name: one.num_examples for one in card.splits.values()}
    assert found == dict(opened.splits)
