"""Trains a model on texts that are sequences of ids.

A text is a plane's entry in the register. The label is 1 if the plane has more than 100 seats.

  python examples/flights/get_data.py --output .demo/flights-data
  beam-pipelines convert examples/sequences/texts.yaml --output out/texts
  python examples/train_text.py out/texts

It trains on all GPUs of the machine, or on the CPU. It continues an interrupted run, and writes
``model.keras``.
"""

from __future__ import annotations

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from feeding import one_line_errors
from training import (
    add_arguments,
    find_held_back,
    find_label,
    make_strategy,
    print_scores,
    train,
)

import beam_pipelines as bp

DIMENSIONS = 8
# Pads texts to the longest of a batch. Ids begin at 0. The model takes each id plus one, and 0 for
# padding.
PADDING = -1


def main() -> None:
    """Trains, saves and evaluates the model."""
    arguments = read_arguments()
    keras.utils.set_random_seed(7)
    strategy = make_strategy(arguments.cpus)
    with one_line_errors():
        dataset = bp.open(arguments.folder)
        find_label(dataset)
        words = count_words(dataset)
        batches = load_texts(arguments, "train")
        split = find_held_back(dataset, "eval")
        held_back = load_texts(arguments, split) if split else None
    with strategy.scope():
        model = make_model(words)
    train(model, batches, held_back, arguments)
    model.save(arguments.output / "model.keras")
    if held_back is not None:
        print_scores("eval", model, held_back)


def read_arguments() -> argparse.Namespace:
    """Returns the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", help="a dataset with the feature list 'text', of ids, and a label that is 0 or 1"
    )
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out/text-model"))
    add_arguments(parser, epochs=3, batch_size=64)
    return parser.parse_args()


def count_words(dataset: bp.Dataset) -> int:
    """Returns the number of ids that the feature list 'text' may have.

    Raises:
      ValueError: there is no such feature list, or the schema has no bound of its ids.
    """
    for struct in dataset.schema.feature:
        for feature in struct.struct_domain.feature:
            if feature.name == "text" and feature.int_domain.HasField("max"):
                return feature.int_domain.max + 1
    raise ValueError(
        f"{dataset.folder}: found no feature list 'text' of ids, expected one, as "
        "examples/sequences/texts.yaml makes it by 'tokenize', 'vocabulary' and 'sequence'."
    )


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
    """Returns a model of the mean embedding of a text's words.

    The mean of a text without words is 0.
    """
    ids = keras.Input([None], name="text", dtype="int64")
    embedded = keras.layers.Embedding(words + 1, DIMENSIONS)(ids)
    # GlobalAveragePooling1D divides by the number of words, which gives NaN for an empty text.
    is_word = keras.ops.expand_dims(keras.ops.cast(keras.ops.not_equal(ids, 0), "float32"), -1)
    count = keras.ops.maximum(keras.ops.sum(is_word, axis=1), 1.0)
    mean = keras.ops.sum(embedded * is_word, axis=1) / count
    hidden = keras.layers.Dense(8, activation="relu")(mean)
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
