"""The image example from files to a trained model.

It converts digits in class folders, CIFAR and IDX files, trains with an interruption and evaluates.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import beam_pipelines as bp
from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from tests.support import image_sets
from tests.support.interrupted import run_until

pytestmark = pytest.mark.slow

EPOCHS = 4
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RECIPE = """
name: digits
sources: {digits: {path: digits, format: images}}
label: image/class/label
split: {train: 0.8, eval: 0.2, by: image/filename}
output: {num_shards: 2}
"""


class Trained(NamedTuple):
    """The results of the example.

    Attributes:
      dataset: its folder.
      output: folder of the model.
      printed: text of the run.
    """

    dataset: Path
    output: Path
    printed: str


@pytest.fixture(scope="module")
def trained(repository, tmp_path_factory):
    """Converts scikit-learn's digits, PNG files in class folders, and trains."""
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "digits")
    (folder / "recipe.yaml").write_text(RECIPE)
    program = Path(sys.executable).with_name("beam-pipelines")
    convert = [program, "convert", "recipe.yaml", "--output", "dataset"]
    run = subprocess.run(convert, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    command = [sys.executable, repository / "examples" / "train_image.py", folder / "dataset"]
    command += ["--cpus=2", f"--epochs={EPOCHS}", "--batch_size=64", f"--output={folder / 'model'}"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return Trained(folder / "dataset", folder / "model", run.stdout)


def write_digits(root: Path) -> None:
    """Writes 1,797 pictures as ``<root>/<class>/<number>.png``."""
    digits = load_digits()
    for name in NAMES:
        (root / name).mkdir(parents=True)
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        image = Image.fromarray((pixels * 15.9).astype(np.uint8)).resize(
            (32, 32), Image.Resampling.BILINEAR
        )
        image.save(root / NAMES[digit] / f"{number:04}.png")


def test_the_example_knows_the_images_and_classes(trained):
    """Size, channels and class names come from the dataset.

    Names are in the order of their ids, which is alphabetical.
    """
    assert bp.open(trained.dataset).labels() == tuple(sorted(NAMES))
    assert f"32 × 32 × 1 pixels, 10 classes: {', '.join(sorted(NAMES))}" in trained.printed


CLASSIFY = """
import sys
import keras, numpy as np
from PIL import Image

model = keras.models.load_model(sys.argv[1])
images = np.stack([np.asarray(Image.open(path))[:, :, None] for path in sys.argv[2:]])
print(*model.predict(images, verbose=0).argmax(1))
"""


def test_the_saved_model_knows_digits(trained):
    """Keras alone loads the saved model.

    It takes a file's pixels and finds the class's id.
    """
    folder = trained.dataset.parent / "digits"
    paths = [path for name in sorted(NAMES) for path in sorted((folder / name).iterdir())[:10]]
    run = subprocess.run(
        [sys.executable, "-c", CLASSIFY, trained.output / "model.keras", *paths],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    found = np.array(run.stdout.split(), int)
    assert (found == np.repeat(np.arange(10), 10)).mean() > 0.8


SERVE = """
import json, sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
contents = []
for path in sys.argv[2:]:
    if path.endswith(".gz"):
        records = tf.data.TFRecordDataset(path, "GZIP").take(50)
        raw = tf.io.FixedLenFeature([], tf.string)
        if model.structured_input_signature[1]["content"].dtype == tf.float32:
            raw = tf.io.FixedLenFeature([784], tf.float32)
        name = "image/raw" if raw.dtype == tf.string else "image/pixels"
        contents += [tf.io.parse_single_example(r, {name: raw})[name] for r in records]
    else:
        contents.append(tf.io.read_file(path))
found = model(content=tf.stack(contents))
names = [name.decode() for name in found["classes"].numpy()]
print(json.dumps([names, found["probabilities"].numpy().sum(1).tolist()]))
"""


def served(model: Path, paths: Sequence[Path]) -> list[str]:
    """Returns the classes that the exported model gives.

    Inputs are files of images, or the rows of a shard of bytes or numbers. The program loads TensorFlow and
    none of our modules.
    """
    command = [sys.executable, "-c", SERVE, model / "serving", *paths]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    classes, sums = json.loads(run.stdout.splitlines()[-1])
    np.testing.assert_allclose(sums, 1, atol=1e-4)
    return classes


def test_the_exported_model_takes_files_of_images(trained, tmp_path):
    """The exported model names the classes of PNG files from their bytes.

    Files of another size and in color are read as those that it was trained on.
    """
    folder = trained.dataset.parent / "digits"
    paths = [path for name in sorted(NAMES) for path in sorted((folder / name).iterdir())[:10]]
    others = []
    for path in paths:
        others.append(tmp_path / path.parent.name / path.name)
        others[-1].parent.mkdir(exist_ok=True)
        Image.open(path).convert("RGB").resize((80, 48), Image.Resampling.BICUBIC).save(others[-1])
    found = served(trained.output, [*paths, *others])
    for some, chosen in ((paths, found[: len(paths)]), (others, found[len(paths) :])):
        rights = [name == path.parent.name for name, path in zip(chosen, some, strict=True)]
        assert np.mean(rights) > 0.8


def write_cifar(root: Path) -> None:
    """Writes CIFAR-10's archive with digits in three colours for photographs.

    1,000 are to train on, 200 held back.
    """
    files = image_sets.cifar10_files(200)
    image_sets.write_archive(
        root / ".demo/cifar/cifar-10-python.tar.gz", "cifar-10-batches-py", files
    )


def write_idx(root: Path) -> None:
    """Writes Fashion-MNIST's four files with digits for clothes.

    1,200 are to train on, 400 held back.
    """
    image_sets.write_mnist(root / ".demo/fashion-mnist", 1200, 400)


@pytest.mark.parametrize(
    ("example", "write", "shape", "first_class"),
    [
        ("cifar/cifar10", write_cifar, "32 × 32 × 3", "airplane"),
        ("mnist/fashion", write_idx, "28 × 28 × 1", "T-shirt/top"),
    ],
    ids=["cifar", "idx"],
)
def test_it_trains_on_cifar_and_idx_files(repository, tmp_path, example, write, shape, first_class):
    """The example trains on CIFAR and IDX files.

    It uses its own recipes and schemas, classes by name, two replicas and several epochs, and beats
    the majority class by far after an interruption.
    """
    for folder in (f"examples/{example.partition('/')[0]}", "schemas"):
        shutil.copytree(repository / folder, tmp_path / folder)
    write(tmp_path)
    recipe = load(str(tmp_path / "examples" / f"{example}.yaml"))
    convert_module.convert(make_plan(recipe), str(tmp_path / "dataset"), quiet=True)
    command = [
        sys.executable,
        str(repository / "examples" / "train_image.py"),
        str(tmp_path / "dataset"),
        "--cpus=2",
    ]
    command += ["--batch_size=32", f"--output={tmp_path / 'model'}"]
    command += ["--epochs=5"]
    run_until(command, "Epoch 3/5")
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{shape} pixels, 10 classes: {first_class}, " in run.stdout
    assert "2 replicas" in run.stdout
    assert "trained epochs 3 to 5," in run.stdout
    (_, majority), (_, accuracy) = re.findall(
        r"^(majority class|model) +([0-9.]+)$", run.stdout, re.MULTILINE
    )
    assert float(majority) < 0.25
    assert float(accuracy) > 0.6
