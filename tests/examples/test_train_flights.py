"""The flights example from tables to predictions.

A tenth of the flights is converted, trained on with an interruption, exported and compared.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.dataset import loader
from tests.support.few_flights import convert, write_fewer_flights
from tests.support.interrupted import run_until

pytestmark = pytest.mark.slow

EPOCHS = 3
LOSS = re.compile(r"- loss: ([0-9.]+)")


class Trained(NamedTuple):
    """The results of the example.

    Attributes:
      raw, encoded: datasets of the same flights.
      output: folder of the models.
      before, after: printed text before the interruption and of the run after it.
    """

    raw: pathlib.Path
    encoded: pathlib.Path
    output: pathlib.Path
    before: str
    after: str


@pytest.fixture(scope="module")
def trained(repository, flights_data, tmp_path_factory):
    """Runs the example twice.

    The first run is killed in its second epoch.
    """
    folder = tmp_path_factory.mktemp("flights")
    write_fewer_flights(flights_data, folder / "data")
    for recipe, name in (("recipe.yaml", "raw"), ("encoded.yaml", "encoded")):
        convert(repository, folder, recipe, name)
    command = [
        sys.executable,
        str(repository / "examples" / "train_flights.py"),
        "--cpus=2",
        f"--epochs={EPOCHS}",
    ]
    command += [
        f"--raw={folder / 'raw'}",
        f"--encoded={folder / 'encoded'}",
        f"--output={folder / 'model'}",
        "--batch_size=512",
    ]
    before = run_until(command, f"Epoch 2/{EPOCHS}")
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return Trained(folder / "raw", folder / "encoded", folder / "model", before, run.stdout)


def test_training_goes_on_where_it_was_interrupted(trained):
    """The second run continues with epochs 2 and 3.

    The first run was killed in epoch 2. The second one starts from a model that has learned
    already.
    """
    assert "trained epochs" not in trained.before
    assert f"trained epochs 2 to {EPOCHS}," in trained.after
    assert "2 replicas" in trained.before
    assert "2 replicas" in trained.after
    first, second = (float(LOSS.search(text)[1]) for text in (trained.before, trained.after))
    assert second < first


def test_the_model_beats_the_majority_class(trained):
    """Accuracy and AUC on held-back days beat the majority class."""
    figures = re.findall(
        r"^(majority class|model) +([0-9.]+) +([0-9.]+)$", trained.after, re.MULTILINE
    )
    (_, majority, chance), (_, accuracy, auc) = figures
    assert float(accuracy) > float(majority) + 0.05
    assert float(auc) > float(chance) + 0.3


def test_raw_and_encoded_rows_get_the_same_answer(trained):
    """The example ends with equal answers for raw and encoded rows.

    They are equal to float precision for all flights of ``eval``.
    """
    rows = json.loads((trained.encoded / "dataset.json").read_text())["splits"]["eval"]["rows"]
    count, difference = re.search(
        r"^([0-9,]+) flights, largest difference (\S+),", trained.after, re.MULTILINE
    ).groups()
    assert int(count.replace(",", "")) == rows > 1000
    assert float(difference) < 1e-6


def test_the_serving_graph_gives_the_features_of_the_shards(trained, repository):
    """The serving graph gives the shards' features bit for bit.

    Its input is the raw rows of ``eval``, in any order.
    """
    specification = importlib.util.spec_from_file_location(
        "train_flights", repository / "examples" / "train_flights.py"
    )
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    names = list(example.model_inputs(bp.open(trained.encoded)))
    graph = tf.saved_model.load(
        str(trained.encoded / "transform_graph" / "transform_fn")
    ).signatures["serving_default"]
    shards = bp.open(trained.raw).shards("eval")
    served = [graph(examples=rows) for rows in tf.data.TFRecordDataset(shards, "GZIP").batch(1000)]
    raw, encoded = (
        list(
            loader.load(
                folder,
                "eval",
                features=[*example.FLIGHT, *more],
                label=False,
                batch_size=1000,
                shuffle=False,
            )
        )
        for folder, more in ((trained.raw, []), (trained.encoded, names))
    )
    orders = [
        np.argsort(np.concatenate([example.flight_names(batch) for batch in batches]))
        for batches in (raw, encoded)
    ]
    for name in names:
        found, wanted = (
            np.concatenate([batch[name] for batch in batches]) for batches in (served, encoded)
        )
        # The raw shards hold float32, and encodings compute from the float64 of the source.
        near = {"rtol": 1e-5, "atol": 1e-6} if found.dtype == np.float32 else {"rtol": 0}
        np.testing.assert_allclose(
            found[orders[0]], wanted[orders[1]], err_msg=name, strict=True, **near
        )


SERVE = """
import json, sys
import tensorflow as tf

serving, shard = sys.argv[1:]
model = tf.saved_model.load(serving)
rows = next(iter(tf.data.TFRecordDataset(shard, "GZIP").batch(64)))
answers = model.signatures["serving_default"](examples=rows)["late"].numpy()[:, 0].tolist()
arguments = model.signatures["from_tensors"].structured_input_signature[1]
columns = {}
for name, spec in arguments.items():
    # Features of columns of float64 are float32.
    stored = tf.float32 if spec.dtype == tf.float64 else spec.dtype
    if name + "_row_lengths" in arguments:
        ragged = tf.io.parse_example(rows, {name: tf.io.RaggedFeature(stored)})[name]
        ragged = tf.cast(ragged, spec.dtype)
        columns[name], columns[name + "_row_lengths"] = ragged.to_tensor(), tf.cast(ragged.row_lengths(), tf.int64)
    elif not name.endswith("_row_lengths"):
        parsed = tf.io.parse_example(rows, {name: tf.io.FixedLenFeature(spec.shape[1:], stored)})[name]
        columns[name] = tf.cast(parsed, spec.dtype)
again = model.signatures["from_tensors"](**columns)["late"].numpy()[:, 0].tolist()
ours = [name for name in sys.modules if name.split(".")[0] in ("apache_beam", "tensorflow_transform", "tfx_bsl", "beam_pipelines")]
print(json.dumps({"examples": answers, "tensors": again, "columns": sorted(arguments), "ours": ours}))
"""


def test_the_saved_model_needs_nothing_but_tensorflow(trained):
    """TensorFlow alone loads the saved model.

    It takes raw rows as examples or as one tensor a column, and asks only for columns that it
    needs.
    """
    shard = min((trained.raw / "examples" / "Split-eval").iterdir())
    command = [sys.executable, "-c", SERVE, trained.output / "serving", shard]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    assert result["ours"] == []
    assert len(result["examples"]) == 64
    assert 0 <= min(result["examples"]) < max(result["examples"]) <= 1
    np.testing.assert_allclose(result["tensors"], result["examples"], atol=1e-6)
    assert not {"late", "dep_time", "plane_model"} & set(result["columns"])
    assert {"dep_delay", "carrier", "weather_temp", "weather_temp_row_lengths"} <= set(
        result["columns"]
    )
