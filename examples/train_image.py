"""Trains a classifier on a dataset of images.

The recipe may have read the images from folders, CIFAR files or IDX files.

  beam-pipelines convert examples/cifar/cifar10.yaml --output out/cifar10
  python examples/train_image.py out/cifar10

It trains on all GPUs of the machine, or on the CPU. It continues an interrupted run. It writes
``model.keras``, and compares the model with the majority class. The dataset describes images,
classes and splits. ``serving`` is a SavedModel of the same model for TensorFlow Serving. It takes
files of images, and returns names of classes and their probabilities.
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import PIL.Image
import tensorflow as tf
from feeding import one_line_errors
from training import (
    add_arguments,
    find_held_back,
    find_label,
    make_strategy,
    train,
)

import beam_pipelines as bp

IMAGE = "image/encoded"
LABEL = "image/class/label"


def main() -> None:
    """Trains, saves and evaluates the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", help="its folder or URL")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("out/image-model"))
    parser.add_argument("--feature", default=IMAGE, help="the feature that holds the images")
    parser.add_argument(
        "--held_back", help="the split to evaluate on; default: the dataset's second"
    )
    parser.add_argument(
        "--image_size", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"), help="resize images to it"
    )
    parser.add_argument(
        "--channels", type=int, choices=(1, 3), help="make all images grey, or all RGB"
    )
    add_arguments(parser, epochs=10, batch_size=128, least_steps=200)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(7)
    strategy = make_strategy(arguments.cpus)
    with one_line_errors():
        dataset = bp.open(arguments.dataset)
        find_label(dataset, LABEL)
        check_feature(dataset, arguments)
        learned, *others = dataset.splits
        batches = load(dataset, learned, arguments, shuffle=True)
        split = arguments.held_back or find_held_back(dataset, others[0] if others else "eval")
        held_back = load(dataset, split, arguments, shuffle=False) if split else None
        classes = labels_of(dataset)
    shape = batches.element_spec[0].shape[1:]
    with strategy.scope():
        model = make_model(shape, len(classes))
    print(
        f"{' × '.join(map(str, shape))} pixels, {len(classes)} classes: {', '.join(classes[:10])}"
    )
    print(f"{model.count_params():,} parameters, {strategy.num_replicas_in_sync} replicas")
    train(model, batches, held_back, arguments)
    model.save(arguments.output / "model.keras")
    export(model, classes, arguments)
    if held_back is not None:
        evaluate(model, held_back)


def check_feature(dataset: bp.Dataset, arguments: argparse.Namespace) -> None:
    """Raises ``ValueError`` if there is no such feature."""
    if all(feature.name != arguments.feature for feature in dataset.schema.feature):
        raise ValueError(
            f"{dataset.folder}: found no feature '{arguments.feature}', expected one of "
            f"{', '.join(feature.name for feature in dataset.schema.feature)}. Name it by "
            "--feature."
        )


def load(
    dataset: bp.Dataset, split: str, arguments: argparse.Namespace, *, shuffle: bool
) -> tf.data.Dataset:
    """Returns batches of images and of the numbers of their classes.

    Images are uint8 [batch, height, width, channels], classes int64 [batch].
    """
    batches = bp.load(
        dataset.folder,
        split,
        features=[arguments.feature],
        label=dataset.label or LABEL,
        images={arguments.feature: picture(dataset, split, arguments)},
        batch_size=arguments.batch_size,
        shuffle=shuffle,
        seed=7,
    )

    def pair(features: dict[str, tf.Tensor], label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # A label of several values is one-hot.
        return features[arguments.feature], label[:, 0] if label.shape[1] == 1 else tf.argmax(
            label, 1
        )

    return batches.map(pair, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def picture(dataset: bp.Dataset, split: str, arguments: argparse.Namespace) -> bp.Image:
    """Returns how images are decoded, by the options or the first one."""
    content = bp.open(dataset.folder).head(1, split)[arguments.feature][0].as_py()[0]
    with PIL.Image.open(io.BytesIO(content)) as first:
        size = tuple(arguments.image_size or (first.height, first.width))
        channels = 1 if first.mode in ("1", "L", "LA") else 3
    return bp.Image(size, channels=arguments.channels or channels)


def labels_of(dataset: bp.Dataset) -> Sequence[str]:
    """Returns the names of the classes, or else their numbers.

    Raises:
      ValueError: fewer than two classes are known.
    """
    label = next(
        feature for feature in dataset.schema.feature if feature.name == (dataset.label or LABEL)
    )
    sizes = [dim.size for dim in label.shape.dim]
    count = sizes[0] if sizes and sizes[0] > 1 else label.int_domain.max + 1
    names = dataset.labels() or [str(number) for number in range(count)]
    if len(names) < 2:
        raise ValueError(
            f"{label.name}: its classes have no names, so the schema has to say how many there are "
            "(int_domain)."
        )
    return names


def make_model(shape: Sequence[int], classes: int) -> keras.Model:
    """Returns a small convolutional network.

    Each block halves the image, down to about 4 pixels. There are at most five blocks.
    """
    image = keras.Input(shape, dtype="uint8")
    hidden = keras.layers.Rescaling(1 / 255)(image)
    blocks = min(5, max(1, int(np.log2(min(shape[:2]))) - 2))
    for block in range(blocks):
        hidden = keras.layers.Conv2D(32 * 2**block, 3, padding="same", activation="relu")(hidden)
        hidden = keras.layers.MaxPooling2D()(hidden)
    hidden = keras.layers.Dense(128, activation="relu")(keras.layers.Flatten()(hidden))
    hidden = keras.layers.Dropout(0.2)(hidden)
    model = keras.Model(image, keras.layers.Dense(classes, activation="softmax")(hidden))
    model.compile(
        optimizer="adam",
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def export(model: keras.Model, classes: Sequence[str], arguments: argparse.Namespace) -> None:
    """Writes a SavedModel that takes files of images.

    ``serving_default`` takes string [batch]. It returns ``classes``, the name of the most probable
    class, string [batch], and ``probabilities``, float32 [batch, classes].
    """
    shape = tuple(model.input_shape[1:])

    def pixels(content: tf.Tensor) -> tf.Tensor:
        # As in bp.load: the first frame. Raw images have other sizes than those that a recipe's
        # 'image: {resize: …, mode: …}' or the options made.
        image = tf.io.decode_image(content, expand_animations=False)
        image.set_shape((None, None, None))
        if shape[2] == 1:
            image = tf.cond(
                tf.shape(image)[2] < 3,
                lambda: image[:, :, :1],
                lambda: tf.image.rgb_to_grayscale(image[:, :, :3]),
            )
        elif shape[2] == 3:
            image = tf.cond(
                tf.shape(image)[2] < 3,
                lambda: tf.repeat(image[:, :, :1], 3, axis=2),
                lambda: image[:, :, :3],
            )
        resized = tf.image.resize(image, shape[:2], antialias=True)
        return tf.ensure_shape(tf.saturate_cast(tf.round(resized), tf.uint8), shape)

    names = tf.constant(list(classes))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="content")])
    def serve(content: tf.Tensor) -> dict[str, tf.Tensor]:
        images = tf.map_fn(pixels, content, fn_output_signature=tf.TensorSpec(shape, tf.uint8))
        found = model(images, training=False)
        return {"classes": tf.gather(names, tf.argmax(found, 1)), "probabilities": found}

    tf.saved_model.save(model, str(arguments.output / "serving"), {"serving_default": serve})


def evaluate(model: keras.Model, held_back: tf.data.Dataset) -> None:
    """Prints the model's accuracy, and that of the majority class."""
    found = model.evaluate(held_back, verbose=0, return_dict=True)
    labels = np.concatenate([label.numpy() for _, label in held_back])
    print(f"\n{len(labels):,} images held back  accuracy")
    print(f"majority class      {np.bincount(labels).max() / len(labels):.4f}")
    print(f"model               {found['accuracy']:.4f}")


if __name__ == "__main__":
    main()
