"""Trains a model on texts that are sequences of ids: what the register says of a plane, and whether
it seats more than 100.

  python examples/flights/get_data.py --output .demo/flights-data
  beam-pipelines convert examples/sequences/texts.yaml --output out/texts
  python examples/train_text.py out/texts

It trains on all GPUs of the machine, or on the CPU, goes on where an earlier run was interrupted,
and writes ``model.keras``.
"""

from __future__ import annotations

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from training import add_arguments, make_strategy, print_scores, train

import beam_pipelines as bp

DIMENSIONS = 8
# Fills texts up to the longest of a batch. Ids are from 0; the model takes each plus one, and 0 for
# nothing.
PADDING = -1


def main() -> None:
    """Trains, and says what the model is worth."""
    arguments = read_arguments()
    keras.utils.set_random_seed(7)
    (words,) = (
        feature.int_domain.max + 1
        for struct in bp.info(arguments.folder).schema().feature
        for feature in struct.struct_domain.feature
        if feature.name == "text"
    )
    strategy = make_strategy(arguments.cpus)
    with strategy.scope():
        model = make_model(words)
    held_back = load_texts(arguments, "eval")
    train(model, load_texts(arguments, "train"), held_back, arguments)
    model.save(arguments.output / "model.keras")
    print_scores("eval", model, held_back)


def read_arguments() -> argparse.Namespace:
    """Returns what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", help="a dataset with the feature list 'text', of ids, and a label that is 0 or 1"
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out/text-model"))
    add_arguments(parser, epochs=3, batch_size=64)
    return parser.parse_args()


def load_texts(arguments: argparse.Namespace, split: str) -> tf.data.Dataset:
    """Loads batches of texts, int64 [batch, longest], and labels, float32 [batch, 1]."""
    batches = bp.load(
        arguments.folder,
        split,
        features=["text"],
        padding=PADDING,
        batch_size=arguments.batch_size,
        shuffle=split == "train",
        seed=7,
    )
    return batches.map(
        lambda features, label: (features["text"] - PADDING, tf.cast(label, tf.float32))
    )


def make_model(words: int) -> keras.Model:
    """Returns a model of the mean of a text's words."""
    ids = keras.Input([None], name="text", dtype="int64")
    embedded = keras.layers.Embedding(words + 1, DIMENSIONS, mask_zero=True)(ids)
    hidden = keras.layers.Dense(8, activation="relu")(
        keras.layers.GlobalAveragePooling1D()(embedded)
    )
    model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(hidden))
    metrics = ["accuracy", keras.metrics.AUC(name="auc")]
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss="binary_crossentropy",
        metrics=metrics,
        jit_compile=False,
    )
    return model


if __name__ == "__main__":
    main()
