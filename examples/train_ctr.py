r"""Trains a model that predicts whether a reader clicks an article.

  python examples/ctr/generate.py --output .demo/ctr-data
  beam-pipelines convert examples/ctr/recipe.yaml --date 2026-11-21 --output 'out/ctr/{date}'
  beam-pipelines transform out/ctr/2026-11-21 --date 2026-11-22 --split train \
    --output 'out/ctr/{date}'
  beam-pipelines transform out/ctr/2026-11-21 --date 2026-11-23 --output 'out/ctr/{date}'
  python examples/train_ctr.py out/ctr/2026-11-21 out/ctr/2026-11-22 --test out/ctr/2026-11-23

It trains on all GPUs of the machine, or on the CPU. It continues an interrupted run. It writes the
model for encoded features, ``model.keras``, and a SavedModel for raw rows, ``serving/``, which
contains the encodings. The inputs depend on the dataset: the model embeds ids, takes vectors of
numbers unchanged, and embeds sparse rows, such as those of libsvm files, value by value. Labels
above 0 count as 1.
"""

from __future__ import annotations

import argparse
import functools
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from feeding import one_line_errors
from serving import export
from training import (
    add_arguments,
    find_held_back,
    find_label,
    make_strategy,
    print_scores,
    train,
)

import beam_pipelines as bp

# The length of an embedding. A larger one overfits the days that it was trained on.
DIMENSIONS = 4


class Inputs(NamedTuple):
    """The features of a dataset that the model takes, by name.

    Attributes:
      ids: a feature with one id a row -> the number of ids.
      numbers: a feature with a vector of numbers -> its length.
      sparse: a sparse feature, which has some places of a vector -> the vector's length.
      columns: a sparse feature -> the columns of its places and of its values.
    """

    ids: Mapping[str, int]
    numbers: Mapping[str, int]
    sparse: Mapping[str, int]
    columns: Mapping[str, tuple[str, str]]


def main() -> None:
    """Trains, exports and evaluates the model."""
    arguments = read_arguments()
    keras.utils.set_random_seed(7)
    strategy = make_strategy(arguments.cpus)
    with one_line_errors():
        dataset = bp.open(arguments.folders)
        find_label(dataset)
        inputs = find_inputs(dataset, arguments.raw, arguments.without)
        load = functools.partial(load_rows, inputs, arguments)
        batches = load(arguments.folders, "train")
        # A later day may have no rows in ``eval``.
        with_eval = [day for day in arguments.folders if find_held_back(bp.open(day), "eval")]
        held_back = load(with_eval, "eval") if with_eval else None
        test = load(arguments.test) if arguments.test else None
    with strategy.scope():
        model = make_model(inputs, arguments.learning_rate)
    print(
        f"{len(model.inputs)} inputs, {model.count_params():,} parameters, "
        f"{strategy.num_replicas_in_sync} replicas"
    )
    train(model, batches, held_back, arguments)
    prepare = functools.partial(prepare_request, inputs, arguments.raw)
    export(model, "clicked", prepare, dataset, arguments.output)
    if held_back is not None:
        print_scores("eval", model, held_back)
    if test is not None:
        print_scores("another day", model, test)


def read_arguments() -> argparse.Namespace:
    """Returns the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folders",
        nargs="+",
        help="datasets, whose splits train and eval are trained on and held back",
    )
    parser.add_argument("--test", help="a dataset of another day; all its rows are held back")
    parser.add_argument(
        "--raw",
        type=read_raw,
        default={},
        help="NAME=LENGTH of a feature that is float32 as raw bytes",
    )
    parser.add_argument("--without", nargs="*", default=[], help="features that are left out")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out/ctr-model"))
    parser.add_argument("--learning_rate", type=float, default=0.002)
    add_arguments(parser, epochs=2, batch_size=512, least_steps=200)
    return parser.parse_args()


def read_raw(text: str) -> dict[str, tf.TensorSpec]:
    """Returns shape and dtype of a feature's raw bytes, by name.

    The text is for example ``numbers=10``.
    """
    name, _, length = text.partition("=")
    return {name: tf.TensorSpec([int(length)], tf.float32)}


def find_inputs(
    dataset: bp.Dataset, raw: Mapping[str, tf.TensorSpec], without: Collection[str] = ()
) -> Inputs:
    """Returns the features that a model can take unchanged.

    They are ids with a domain and numbers, both without nulls, and sparse vectors; none is in
    ``without``.

    Raises:
      ValueError: the dataset has no such feature.
    """
    spec = {name: one for name, one in dataset.feature_spec().items() if name not in without}
    categories = {
        feature.name: feature.int_domain.max + 1
        for feature in dataset.schema.feature
        if feature.int_domain.is_categorical
        and feature.name != dataset.label
        and isinstance(spec.get(feature.name), tf.io.FixedLenFeature)
    }
    numbers = {name: row.shape[0] for name, row in raw.items()}
    sparse = {}
    for name, parser in spec.items():
        if isinstance(parser, tf.io.SparseFeature):
            (sparse[name],) = tf.nest.flatten(parser.size)
        elif (
            isinstance(parser, tf.io.FixedLenFeature)
            and parser.dtype == tf.float32
            and len(parser.shape) == 1
            and name != dataset.label
        ):
            (numbers[name],) = parser.shape
    if not (categories or numbers or sparse):
        raise ValueError(
            f"{dataset.folder}: found no feature that the model can take, expected ids with a "
            "domain or float numbers, without nulls, or sparse vectors. Encode columns in the "
            "recipe, and convert again."
        )
    columns = {
        feature.name: (feature.index_feature[-1].name, feature.value_feature.name)
        for feature in dataset.schema.sparse_feature
    }
    return Inputs(categories, numbers, sparse, columns)


def load_rows(
    inputs: Inputs,
    arguments: argparse.Namespace,
    folders: str | Sequence[str],
    split: str | None = None,
) -> tf.data.Dataset:
    """Loads batches of the model's inputs, and labels, float32 [batch, 1].

    A label is 1 if the dataset's label is above 0, otherwise 0.
    """

    def prepare(
        features: dict[str, Any], label: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        features |= {name: from_raw(features[name], row) for name, row in arguments.raw.items()}
        for name in inputs.sparse:
            features |= padded(name, features.pop(name))
        return features, tf.cast(label > 0, tf.float32)

    names = [*inputs.ids, *inputs.numbers, *inputs.sparse]
    batches = bp.load(
        folders,
        split,
        features=names,
        batch_size=arguments.batch_size,
        shuffle=split == "train",
        seed=7 if split == "train" else None,
    )
    return batches.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def from_raw(texts: tf.Tensor, row: tf.TensorSpec) -> tf.Tensor:
    """Returns numbers [batch, …] of raw bytes [batch, 1]."""
    return tf.ensure_shape(tf.io.decode_raw(texts[:, 0], row.dtype), [None, *row.shape])


def prepare_request(
    inputs: Inputs, raw: Mapping[str, tf.TensorSpec], features: Mapping[str, Any]
) -> dict[str, tf.Tensor]:
    """Returns the model's inputs from the features of a request.

    The serving graph computes the features from raw rows. Without encodings, they are the features
    of the parsed examples.
    """
    taken = {}
    for name in (*inputs.ids, *inputs.numbers):
        taken[name] = features[name]
        if name in raw:
            taken[name] = from_raw(features[name], raw[name])
    for name in inputs.sparse:
        if name in features:
            taken |= padded(name, features[name])
        else:  # The graph returns the columns, padded with 0.
            places, values = (features[column] for column in inputs.columns[name])
            taken[f"{name}_places"] = places
            taken[f"{name}_values"] = tf.cast(values, tf.float32)
    return taken


def padded(name: str, sparse: tf.SparseTensor) -> dict[str, tf.Tensor]:
    """Returns places and values of sparse rows as dense tensors.

    Their shape is [batch, longest row]. Shorter rows are padded with places and values of 0.
    """
    rows, count = sparse.indices[:, 0], sparse.dense_shape[0]
    places = tf.RaggedTensor.from_value_rowids(sparse.indices[:, -1], rows, count)
    values = tf.RaggedTensor.from_value_rowids(tf.cast(sparse.values, tf.float32), rows, count)
    return {f"{name}_places": places.to_tensor(), f"{name}_values": values.to_tensor()}


def make_model(inputs: Inputs, learning_rate: float) -> keras.Model:
    """Returns a wide and deep model.

    Each id has a weight, the wide part, and an embedding. A network, the deep part, takes the
    embeddings and the numbers.
    """
    tensors, wide, deep = {}, [], []
    for name, length in inputs.numbers.items():
        tensors[name] = keras.Input([length], name=name, dtype="float32")
        deep.append(tensors[name])
    for name, size in inputs.ids.items():
        tensors[name] = keras.Input([1], name=name, dtype="int64")
        for parts, width in ((wide, 1), (deep, DIMENSIONS)):
            embedding = keras.layers.Embedding(size, width, name=f"{name}_{width}")
            parts.append(keras.layers.Flatten()(embedding(tensors[name])))
    for name, size in inputs.sparse.items():
        places = tensors[f"{name}_places"] = keras.Input(
            [None], name=f"{name}_places", dtype="int64"
        )
        values = tensors[f"{name}_values"] = keras.Input(
            [None], name=f"{name}_values", dtype="float32"
        )
        for parts, width in ((wide, 1), (deep, DIMENSIONS)):
            embedding = keras.layers.Embedding(size, width, name=f"{name}_{width}")
            # The sum of the embeddings of a row's places, each multiplied by its value.
            parts.append(
                keras.layers.Flatten()(keras.layers.Dot(axes=1)([values, embedding(places)]))
            )
    hidden = keras.layers.Concatenate()(deep) if len(deep) > 1 else deep[0]
    for units in (32, 16):
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    score = (
        keras.layers.Add()([*wide, keras.layers.Dense(1)(hidden)])
        if wide
        else keras.layers.Dense(1)(hidden)
    )
    model = keras.Model(tensors, keras.layers.Activation("sigmoid", name="clicked")(score))
    metrics = ["accuracy", keras.metrics.AUC(name="auc")]
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(
        optimizer=optimizer, loss="binary_crossentropy", metrics=metrics, jit_compile=False
    )
    return model


if __name__ == "__main__":
    main()
