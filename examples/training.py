"""Functions that the training examples share.

They check a dataset, choose the devices, continue an interrupted training, and print scores.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import beam_pipelines as bp


def find_label(dataset: bp.Dataset, default: str | None = None) -> str:
    """Returns the name of the label, a number in every row.

    Args:
      dataset: the dataset.
      default: the label of a dataset whose recipe names no label.

    Raises:
      ValueError: the first split has no rows, the dataset no such feature, its values are texts,
        or a row may lack one.
    """
    if not next(iter(dataset.splits.values())):
        raise ValueError(
            f"{dataset.folder}: found no rows in the first split, expected rows to train on. "
            "Change 'split' or 'filter' in the recipe, and convert again."
        )
    name = dataset.label or default
    spec = {} if dataset.record == "raw" else dataset.feature_spec()
    if name not in spec:
        raise ValueError(
            f"{dataset.folder}: found no label, expected one to train on. Name a column as 'label' "
            "in the recipe, and convert again."
        )
    is_complete = isinstance(spec[name], tf.io.FixedLenFeature)
    if not is_complete:
        raise ValueError(
            f"{dataset.folder}: found rows without the label '{name}', expected it in every row. "
            "Leave those rows out by 'filter', or 'fill' the column in the recipe, and convert "
            "again."
        )
    if spec[name].dtype == tf.string:
        raise ValueError(
            f"{dataset.folder}: found the label '{name}' with texts, expected numbers. Encode it "
            "in the recipe, for example by a vocabulary, and convert again."
        )
    return name


def find_held_back(dataset: bp.Dataset, split: str) -> str | None:
    """Returns the split to evaluate on, or ``None``.

    Without rows, it prints that the model is not evaluated, and returns ``None``.
    """
    if dataset.splits.get(split):
        return split
    print(f"{dataset.folder} has no rows in a split '{split}': the model is not evaluated")
    return None


def add_arguments(
    parser: argparse.ArgumentParser, epochs: int, batch_size: int, least_steps: int = 1
) -> None:
    """Adds the options that every example has.

    The default number of epochs is ``epochs``, or more until they have ``least_steps`` batches.
    """
    more = f", or as many as make {least_steps} batches" if least_steps > 1 else ""
    parser.add_argument("--epochs", type=int, help=f"default: {epochs}{more}")
    parser.set_defaults(least_epochs=epochs, least_steps=least_steps)
    parser.add_argument(
        "--batch_size", type=int, default=batch_size, help="rows of a batch, all devices together"
    )
    parser.add_argument(
        "--cpus",
        type=int,
        default=0,
        help="train on so many virtual CPU devices, to try out distribution",
    )


def make_strategy(cpus: int) -> tf.distribute.Strategy:
    """Returns the strategy for all GPUs, or for ``cpus`` virtual devices.

    Virtual CPU devices are a test of distribution. Call this function before anything is loaded:
    TensorFlow accepts no virtual devices afterwards.
    """
    if not cpus:
        return tf.distribute.MirroredStrategy()
    devices = [tf.config.LogicalDeviceConfiguration()] * cpus
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(cpus)])


def train(
    model: keras.Model,
    batches: tf.data.Dataset,
    held_back: tf.data.Dataset | None,
    arguments: argparse.Namespace,
) -> None:
    """Trains as the options say.

    After each epoch it saves the state, so that a later run can continue an interrupted one.

    Raises:
      SystemExit: the loss became NaN or infinite.
    """
    epochs = arguments.epochs or max(
        arguments.least_epochs, math.ceil(arguments.least_steps / len(batches))
    )
    backup = keras.callbacks.BackupAndRestore(str(arguments.output / "backup"))
    history = model.fit(
        batches,
        validation_data=held_back,
        epochs=epochs,
        callbacks=[backup, keras.callbacks.TerminateOnNaN()],
        shuffle=False,
        verbose=2,
    )
    losses = history.history.get("loss", [])
    if not np.isfinite(losses).all():
        raise SystemExit(
            f"error: the loss became {losses[-1]}. Look for NaN or very large numbers among the "
            "features and labels ('beam-pipelines describe'); no model was written."
        )
    print(
        f"trained epochs {history.epoch[0] + 1} to {history.epoch[-1] + 1}, {len(batches)} steps "
        "each"
    )


def print_scores(name: str, model: keras.Model, batches: tf.data.Dataset) -> None:
    """Prints accuracy, log loss and AUC of a binary classifier.

    It prints those of a constant prediction, the share of ones, too.

    Args:
      name: the name of the rows, to print.
      model: the model, compiled with the loss ``binary_crossentropy`` and the metrics ``accuracy``
        and ``auc``.
      batches: pairs of features and label.
    """
    found = model.evaluate(batches, verbose=0, return_dict=True)
    share = np.concatenate([label.numpy() for _, label in batches]).mean()
    base = -sum(part * np.log(part) for part in (share, 1 - share) if part)
    print(f"\non {name:14} accuracy  log loss     AUC")
    print(f"majority class    {max(share, 1 - share):.4f}    {base:.4f}  0.5000")
    print(f"model             {found['accuracy']:.4f}    {found['loss']:.4f}  {found['auc']:.4f}")
