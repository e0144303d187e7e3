"""Tests of the trainers in ``examples/`` with incomplete datasets.

A trainer trains without the missing part, or ends with one line that names it.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan

pytestmark = pytest.mark.end_to_end

LACKING = ("rows", "label", "eval")
TABLE = """
name: texts
sources: {texts: {path: texts.csv, types: {text: text, n: float32}}}
encode:
  text: [{fill: ""}, {tokenize: {lower: true}}, {hash_bucket: 50}]
  color: {hash_bucket: 10}
sequence: {features: [text]}
label: large
split: {train: 0.8, eval: 0.2}
"""
IMAGES = """
name: images
sources: {images: {path: pictures, format: images}}
label: image/class/label
split: {train: 0.8, eval: 0.2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Converts a table with empty texts, and some images.

    Each copy of the datasets lacks one part of ``LACKING``.
    """
    folder = tmp_path_factory.mktemp("lacking")
    random = np.random.default_rng(3)
    words = np.array(["red", "green", "blue", "cat", "dog"])
    lines = ["text,color,n,large"]
    for row in range(120):
        text = "" if row % 5 == 0 else " ".join(random.choice(words, 1 + row % 4))
        lines.append(f"{text},{row % 7},{random.random():.3f},{row % 2}")
    (folder / "texts.csv").write_text("\n".join(lines) + "\n")
    for name in ("even", "odd"):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(15):
            pixels = random.integers(0, 256, (16, 16), np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / name / f"{number}.png")
    for name, text in (("table", TABLE), ("images", IMAGES)):
        (folder / f"{name}.yaml").write_text(text)
        plan = make_plan(load(str(folder / f"{name}.yaml")))
        convert_module.convert(plan, str(folder / name), quiet=True)
        for what in LACKING:
            shutil.copytree(folder / name, folder / f"{name}-{what}")
            take_away(what, folder / f"{name}-{what}")
    return folder


def take_away(what: str, dataset: Path) -> None:
    """Removes the label, the split ``eval`` or all rows.

    The dataset becomes what a recipe without them writes.
    """
    manifest = json.loads((dataset / "dataset.json").read_text())
    if what == "label":
        manifest |= {"label": None, "files": {}}
        for schema in dataset.rglob("schema.pbtxt"):
            schema.write_text(schema.read_text().replace('"image/class/label"', '"class"'))
    elif what == "eval":
        del manifest["splits"]["eval"]
    else:
        for split in manifest["splits"].values():
            split |= {"rows": 0, "framed_bytes": 0}
            for shard in split["shards"]:
                shard["rows"] = 0
    (dataset / "dataset.json").write_text(json.dumps(manifest))


@pytest.fixture
def trainer(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Returns a function that runs a trainer in this process.

    The function returns the folder of the model.
    """
    monkeypatch.syspath_prepend(str(repository / "examples"))

    def run(name: str, *arguments: str | Path) -> Path:
        output = tmp_path / "model"
        given = [name, *map(str, arguments), "--output", str(output), "--epochs=1"]
        monkeypatch.setattr(sys, "argv", given)
        importlib.import_module(name).main()
        return output

    return run


def test_empty_texts_are_trained_on(folder: Path, trainer) -> None:
    """Empty texts leave the weights finite, and have a finite score.

    A fifth of the texts is empty.
    """
    output = trainer("train_text", folder / "table", "--batch_size=32")
    model = keras.models.load_model(output / "model.keras")
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    scores = model(tf.constant([[0, 0], [1, 2]], tf.int64)).numpy()
    assert np.isfinite(scores).all()
    # A batch without a single word has no columns.
    assert np.isfinite(model(tf.zeros([2, 0], tf.int64)).numpy()).all()


TRAINERS = [("train_text", "table"), ("train_ctr", "table"), ("train_image", "images")]


@pytest.mark.parametrize(("name", "kind"), TRAINERS)
@pytest.mark.parametrize("what", ["rows", "label"])
def test_no_rows_or_no_label_is_one_line(folder, trainer, name, kind, what):
    """Without rows or a label, a trainer ends with one line.

    It ends before it trains.
    """
    dataset = folder / f"{kind}-{what}"
    with pytest.raises(SystemExit) as error:
        trainer(name, dataset)
    assert str(error.value).startswith(f"error: {dataset}: found no {what}")
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), TRAINERS)
def test_nothing_held_back_is_no_error(folder, trainer, capsys, name, kind):
    """Without a split ``eval``, a trainer trains but does not evaluate.

    It says so.
    """
    output = trainer(name, folder / f"{kind}-eval")
    assert (output / "model.keras").is_file()
    assert "no rows in a split 'eval': the model is not evaluated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("dataset", "found"),
    [("table-rows", "rows"), ("table-label", "label"), ("table-eval", "split 'eval' with rows")],
)
def test_the_flights_trainer_checks_first(folder: Path, trainer, dataset: str, found: str) -> None:
    """The trainer of flights checks both datasets first.

    Without rows to train on, a label, or rows to compare, it ends with one line.
    """
    both = ["--encoded", folder / dataset, "--raw", folder / dataset]
    with pytest.raises(SystemExit, match=f"^error: {folder / dataset}: found no {found}"):
        trainer("train_flights", *both)


@pytest.mark.slow
def test_a_loss_of_nan_is_an_error(folder: Path, trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of NaN ends the trainer with a message."""
    module = importlib.import_module("train_text")
    make_model = module.make_model

    def broken(words: int) -> keras.Model:
        model = make_model(words)
        model.set_weights([weight * np.nan for weight in model.get_weights()])
        return model

    monkeypatch.setattr(module, "make_model", broken)
    with pytest.raises(SystemExit, match=r"^error: the loss became nan"):
        trainer("train_text", folder / "table-eval", "--cpus=0")
