"""Trains a model that predicts whether a flight arrives late.

Late is more than 15 minutes. The model knows a flight as it leaves its gate.

  beam-pipelines convert examples/flights/recipe.yaml --output out/flights
  beam-pipelines convert examples/flights/encoded.yaml --output out/flights-encoded
  python examples/train_flights.py

It trains on all GPUs of the machine, or on the CPU. It continues an interrupted run. It writes the
model for encoded features, ``model.keras``, and a SavedModel for raw rows, ``serving/``, which
contains the encodings and needs only TensorFlow. At the end it compares the predictions of both for
the same flights. The raw rows come from the dataset without encodings.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from feeding import one_line_errors
from serving import export
from tensorflow_metadata.proto.v0 import schema_pb2
from training import add_arguments, find_label, make_strategy, train

import beam_pipelines as bp

# These columns identify a flight. Both recipes keep them unchanged.
FLIGHT = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")
# Both ways compute the same function in batches of other rows. The last bits of a float32 may
# differ.
TOLERANCE = 1e-5


def main() -> None:
    """Trains, evaluates and exports the model, and compares both forms."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoded", default="out/flights-encoded", help="the dataset to train on")
    parser.add_argument("--raw", default="out/flights", help="the same rows without encodings")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out/flights-model"))
    add_arguments(parser, epochs=4, batch_size=1024)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(7)
    strategy = make_strategy(arguments.cpus)
    with one_line_errors():
        dataset, raw = bp.open(arguments.encoded), bp.open(arguments.raw)
        check_datasets(dataset, raw)
        inputs = model_inputs(dataset)
        batches, held_back = (
            bp.load(
                dataset.folder,
                split,
                features=list(inputs),
                batch_size=arguments.batch_size,
                shuffle=split == "train",
                seed=7,
            )
            for split in ("train", "eval")
        )
    with strategy.scope():
        model = make_model(inputs)
    print(
        f"{len(inputs)} features, {model.count_params():,} parameters, "
        f"{strategy.num_replicas_in_sync} replicas"
    )
    train(model, batches, held_back, arguments)
    evaluate(model, dataset, list(inputs), arguments.batch_size)
    export(
        model,
        "late",
        lambda encoded: {name: encoded[name] for name in inputs},
        dataset,
        arguments.output,
    )
    compare(dataset, raw, list(inputs), arguments.output)


def check_datasets(encoded: bp.Dataset, raw: bp.Dataset) -> None:
    """Checks the datasets before the training takes time.

    Raises:
      ValueError: the first has no label or no encodings; or one has no ``eval``, or lacks a column
        that identifies a flight.
    """
    find_label(encoded)
    if encoded.manifest.get("encodings") is None:
        raise ValueError(
            f"{encoded.folder}: found no encodings, expected a dataset converted with "
            "examples/flights/encoded.yaml."
        )
    for dataset in (encoded, raw):
        if not dataset.splits.get("eval"):
            raise ValueError(
                f"{dataset.folder}: found no split 'eval' with rows, expected rows to compare."
            )
        missing = [name for name in FLIGHT if name not in dataset.feature_spec()]
        if missing:
            raise ValueError(
                f"{dataset.folder}: found no feature {missing[0]!r}, expected the flights of "
                "examples/flights, with the columns that say which flight a row is."
            )


def model_inputs(dataset: bp.Dataset) -> dict[str, schema_pb2.Feature]:
    """Returns the features that the encodings have made.

    They are floating-point numbers, or ids with a domain.
    """
    return {
        feature.name: feature
        for feature in dataset.schema.feature
        if feature.name != dataset.label
        and (feature.type == schema_pb2.FLOAT or feature.int_domain.is_categorical)
    }


def make_model(features: Mapping[str, schema_pb2.Feature]) -> keras.Model:
    """Returns a small network that takes embedded ids, and numbers."""
    inputs, parts = {}, []
    for name, feature in features.items():
        shape = [dim.size for dim in feature.shape.dim]
        if feature.type == schema_pb2.FLOAT:
            inputs[name] = keras.Input(shape, name=name, dtype="float32")
            parts.append(inputs[name])
        else:
            size = feature.int_domain.max + 1
            inputs[name] = keras.Input(shape, name=name, dtype="int64")
            embedding = keras.layers.Embedding(
                size, min(16, round(2 * size**0.25)), name=f"{name}_embedding"
            )
            parts.append(keras.layers.Flatten()(embedding(inputs[name])))
    hidden = keras.layers.Concatenate()(parts)
    for units in (64, 32):
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid", name="late")(hidden))
    metrics = ["accuracy", keras.metrics.AUC(name="auc")]
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=metrics, jit_compile=False)
    return model


def evaluate(model: keras.Model, dataset: bp.Dataset, inputs: list[str], batch_size: int) -> None:
    """Prints accuracy and AUC on ``eval``, and those of the majority class."""
    held_back = bp.load(
        dataset.folder, "eval", features=inputs, batch_size=batch_size, shuffle=False
    )
    found = model.evaluate(held_back, verbose=0, return_dict=True)
    late = np.concatenate([label.numpy() for _, label in held_back]).mean()
    print("\non eval           accuracy     AUC")
    print(f"majority class      {max(late, 1 - late):.4f}  0.5000")
    print(f"model               {found['accuracy']:.4f}  {found['auc']:.4f}")


class Scores(NamedTuple):
    """Names of flights, text [n], in order, and probabilities, float32 [n]."""

    flights: np.ndarray
    late: np.ndarray


def compare(encoded: bp.Dataset, raw: bp.Dataset, inputs: list[str], output: pathlib.Path) -> None:
    """Prints predictions of the SavedModel and of the model for ``eval``.

    The SavedModel takes raw rows, the model the encoded ones.

    Raises:
      SystemExit: the flights are not the same, or the predictions differ.
    """
    with tf.device("CPU"):
        from_raw = score_raw(raw, output / "serving")
        from_encoded = score_encoded(encoded, inputs, output / "model.keras")
    if not np.array_equal(from_raw.flights, from_encoded.flights):
        raise SystemExit(
            f"{raw.folder} and {encoded.folder} have other flights in 'eval': convert both from "
            "the same tables."
        )
    difference = np.abs(from_raw.late - from_encoded.late)
    print(f"\n{'flight':40}  from the raw row  from the encoded row")
    for place in np.linspace(0, len(difference) - 1, 5).astype(int):
        print(
            f"{from_raw.flights[place]:40}  {from_raw.late[place]:16.7f}  "
            f"{from_encoded.late[place]:20.7f}"
        )
    print(
        f"{len(difference):,} flights, largest difference {difference.max():.1e}, equal to the "
        f"last bit {(difference == 0).mean():.1%}"
    )
    if difference.max() > TOLERANCE:
        raise SystemExit(
            f"expected no difference above {TOLERANCE}: training and serving do not compute the "
            "same."
        )


def score_raw(raw: bp.Dataset, serving: pathlib.Path) -> Scores:
    """Scores the serialized raw rows of ``eval`` by the SavedModel.

    A server does the same.
    """
    predict = tf.saved_model.load(str(serving)).signatures["serving_default"]
    shards = [shard.path for shard in raw.split("eval").shards]
    late = [
        predict(examples=rows)["late"]
        for rows in tf.data.TFRecordDataset(shards, "GZIP").batch(4096)
    ]
    names = bp.load(
        raw.folder, "eval", features=FLIGHT, label=False, batch_size=4096, shuffle=False
    )
    return in_order(np.concatenate([flight_names(batch) for batch in names]), np.concatenate(late))


def score_encoded(encoded: bp.Dataset, inputs: list[str], path: pathlib.Path) -> Scores:
    """Scores the encoded rows of ``eval`` by the model."""
    model = keras.models.load_model(path)
    batches = bp.load(
        encoded.folder,
        "eval",
        features=[*FLIGHT, *inputs],
        label=False,
        batch_size=4096,
        shuffle=False,
    )
    late, names = [], []
    for batch in batches:
        names.append(flight_names(batch))
        late.append(model({name: batch[name] for name in inputs}, training=False))
    return in_order(np.concatenate(names), np.concatenate(late))


def flight_names(batch: Mapping[str, tf.Tensor]) -> np.ndarray:
    """Returns a unique text for each row's flight."""
    texts = [
        batch[name] if batch[name].dtype == tf.string else tf.strings.as_string(batch[name])
        for name in FLIGHT
    ]
    return tf.strings.join([text[:, 0] for text in texts], " ").numpy().astype(str)


def in_order(flights: np.ndarray, late: np.ndarray) -> Scores:
    """Returns scores in the order of the flights' names."""
    order = np.argsort(flights, kind="stable")
    return Scores(flights[order], late[order, 0])


if __name__ == "__main__":
    main()
