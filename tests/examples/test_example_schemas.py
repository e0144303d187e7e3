"""The frozen schemas of the image and raw-record examples.

Published data pass them, and another schema fails.
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset import loader
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.pipeline.validate import check_statistics
from tests.support import image_sets
from tests.support.image_sets import colour_digits, write_archive, write_mnist


def write_cifar10(root: Path) -> None:
    """Writes CIFAR-10's archive; a batch has 12 pictures."""
    files = image_sets.cifar10_files(12)
    write_archive(root / "cifar/cifar-10-python.tar.gz", "cifar-10-batches-py", files)


def write_cifar100(root: Path) -> None:
    """Writes CIFAR-100's archive, of 120 pictures."""
    pictures, _ = colour_digits(120)
    fine = np.arange(120) % 100
    members = {
        "train": image_sets.cifar100_batch(pictures[:100], fine[:100]),
        "test": image_sets.cifar100_batch(pictures[100:], fine[100:]),
        "meta": image_sets.cifar100_meta(),
    }
    write_archive(root / "cifar/cifar-100-python.tar.gz", "cifar-100-python", members)


def write_idx(root: Path) -> None:
    """Writes the four files of MNIST, and those of Fashion-MNIST."""
    for name in ("mnist", "fashion-mnist"):
        write_mnist(root / name, 60, 20)


def write_lines(root: Path) -> None:
    """Writes the text that the recipe for raw records reads."""
    (root.parent / "CHANGELOG.md").write_text("".join(f"line {number}\n\n" for number in range(60)))


def write_values(root: Path) -> None:
    """Writes what the example's own script makes."""
    script = root.parent / "examples" / "values" / "make_data.py"
    subprocess.run(
        [sys.executable, script, "--output", root / "values-data"], check=True, capture_output=True
    )


RECIPES = {
    "cifar/cifar10": ("cifar10", write_cifar10),
    "cifar/cifar100": ("cifar100", write_cifar100),
    "mnist/recipe": ("mnist", write_idx),
    "mnist/fashion": ("fashion_mnist", write_idx),
    "raw_records/recipe": ("raw_records", write_lines),
    "values/recipe": ("values", write_values),
}
# A change of a schema -> the feature in the anomaly, and its description.
BREAKS = {
    "cifar10": ("max: 9", "max: 8", "image/class/label", "9"),
    "cifar100": ("max: 19", "max: 18", "image/class/coarse/label", "19"),
    "mnist": ("min: 28\n    max: 28", "min: 27\n    max: 27", "image/height", "28"),
    "fashion_mnist": ('  value: "Sneaker"\n', "", "image/class/text", "Sneaker"),
    "raw_records": ("type: BYTES", "type: INT", "line", "INT"),
    "values": ("max: 127", "max: 50", "tiny", "71"),
}


# Rows of each split, by the example's patterns of files.
_IDX = {"train": 60, "test": 20}
SIZES = {
    **dict.fromkeys(("mnist", "fashion_mnist"), _IDX),
    "cifar10": {"train": 60, "test": 12},
    "cifar100": {"train": 100, "test": 20},
}


def prepare(name: str, folder: Path, repository: Path) -> Plan:
    """Puts an example, the schemas and its data in their places.

    Returns:
      The recipe's plan.
    """
    path = name.partition(" ")[0]
    shutil.copytree(
        repository / "examples" / path.partition("/")[0],
        folder / "examples" / path.partition("/")[0],
    )
    shutil.copytree(repository / "schemas", folder / "schemas")
    RECIPES[name][1](folder / ".demo")
    recipe = load(str(folder / "examples" / f"{path}.yaml"))
    assert recipe.schema is not None
    return make_plan(recipe)


@pytest.mark.parametrize("name", RECIPES)
def test_data_as_it_is_handed_out_passes(tmp_path: Path, repository: Path, name: str) -> None:
    """The unchanged recipe finds no anomaly in files of the published layout.

    With one line of the schema changed, the feature is named.
    """
    folder = tmp_path / "found"
    options = RunOptions(str(folder), quiet=True)
    convert.validate(prepare(name, tmp_path, repository), options)
    sizes = {split: one.rows for split, one in read_statistics(str(folder)).items()}
    assert sizes == SIZES.get(RECIPES[name][0], sizes)
    found = sorted((folder / "anomalies").glob("Split-*/SchemaDiff.pb"))
    assert len(found) == 2
    for path in found:
        anomalies = anomalies_pb2.Anomalies.FromString(path.read_bytes())
        assert not anomalies.anomaly_info
        assert not anomalies.HasField("dataset_anomaly_info")
        assert len(anomalies.baseline.feature) > 0
    before, after, feature, said = BREAKS[RECIPES[name][0]]
    schema = tmp_path / "schemas" / f"{RECIPES[name][0]}.pbtxt"
    text = schema.read_text()
    assert before in text
    schema.write_text(text.replace(before, after, 1))
    with pytest.raises(DataError) as error:
        check_statistics(
            str(folder),
            read_statistics(str(folder)),
            str(schema),
            read_schema(str(schema)),
            DEFAULT_POLICY,
        )
    assert feature in str(error.value)
    assert said in str(error.value)


def test_every_frozen_schema_is_used(repository: Path) -> None:
    """Each schema under schemas/ is used by an example.

    Each example has an existing schema, unless its data are the user's own.
    """
    used = set()
    for path in sorted((repository / "examples").glob("*/*.yaml")):
        recipe = load(str(path))
        assert recipe.schema is not None, path
        used.add(Path(recipe.schema).name)
        assert (path.parent / recipe.schema).exists(), path
    assert used == {path.name for path in (repository / "schemas").glob("*.pbtxt")}


def test_values_come_out_as_they_went_in(tmp_path: Path, repository: Path) -> None:
    """Every value of every row equals that of the Parquet file.

    The example has all types. Rows are found by key, and nothing is rounded.
    """
    out = str(tmp_path / "out")
    convert.convert(prepare("values/recipe", tmp_path, repository), out, quiet=True)
    wanted = {
        row["key"]: row
        for row in pq.read_table(tmp_path / ".demo/values-data/values.parquet").to_pylist()
    }
    seen = set()
    for split in ("train", "eval"):
        for batch in loader.load(out, split, batch_size=32):
            texts, histories = (
                tf.RaggedTensor.from_sparse(batch[name]).to_list() for name in ("text", "history")
            )
            for place, key in enumerate(batch["key"].numpy()[:, 0]):
                row = wanted[key]
                seen.add(key)
                for name in ("is_new", "tiny", "large", "positive", "half", "ratio", "whole"):
                    assert batch[name].numpy()[place, 0] == row[name], name
                assert batch["level"].numpy()[place, 0].decode() == row["level"]
                assert (
                    batch["day"].numpy()[place, 0] == (row["day"] - datetime.date(1970, 1, 1)).days
                )
                assert texts[place] == ([] if row["text"] is None else [row["text"].encode()])
                assert histories[place] == (row["history"] or [])
                assert batch["picture"].numpy()[place].tolist() == row["picture"]
                parsed = tf.io.parse_tensor(batch["embedding"][place, 0], tf.float32)
                np.testing.assert_array_equal(
                    parsed, np.array(row["embedding"], np.float32), strict=True
                )
    assert seen == set(wanted)
