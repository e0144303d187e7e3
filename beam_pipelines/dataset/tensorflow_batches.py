"""Gives a reader's batches to TensorFlow, as a ``tf.data.Dataset``.

Tensors are those that ``load`` parses. They cost a third less CPU time for numbers, but one thread
of Python hands them over: with many cores ``load`` gives more rows a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_pipelines.dataset.info import feature_spec_of
from beam_pipelines.dataset.sequences import feature_lists
from beam_pipelines.reader.columns import Ragged
from beam_pipelines.reader.features import Feature
from beam_pipelines.reader.reader import Reader

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2


class _Form(NamedTuple):
    """How a feature crosses from Python to TensorFlow.

    Attributes:
      name: of the feature.
      signature: specs of the arrays that cross.
      take_apart: makes them of a value of a batch.
      assemble: makes the tensor of them.
    """

    name: str
    signature: tuple[tf.TensorSpec, ...]
    take_apart: Callable[[Any], tuple[Any, ...]]
    assemble: Callable[..., Any]


def check_tensorflow() -> None:
    """Checks that TensorFlow can be imported.

    Raises:
      ValueError: it cannot.
    """
    try:
        import tensorflow as tf  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"as_: found 'tf', but TensorFlow cannot be imported ({error}). Install tensorflow, or "
            "use as_='numpy'."
        ) from error


def splits_of(schema: schema_pb2.Schema) -> dict[str, tf.DType]:
    """Returns ragged features, with the type of their splits."""
    import tensorflow as tf

    return {
        name: feature.row_splits_dtype
        for name, feature in (feature_spec_of(schema) | dict(feature_lists(schema).spec)).items()
        if isinstance(feature, tf.io.RaggedFeature)
    }


def as_tensorflow(
    make_reader: Callable[[], Reader],
    features: Sequence[Feature],
    splits: Mapping[str, tf.DType],
    batch_size: int | None,
    epochs: int,
) -> tf.data.Dataset:
    """Returns a dataset of dictionaries feature -> tensor.

    Each pass over it has the next ``epochs`` epochs, from their beginning.

    Args:
      make_reader: makes a reader of numpy arrays for a pass.
      features: of the reader.
      splits: those that the schema represents as ragged tensors, with the type of their splits;
        others are sparse, unless they have a shape.
      batch_size: rows of every batch; ``None``: they differ.
      epochs: of a pass.
    """
    import tensorflow as tf

    forms = [_form(feature, splits.get(feature.name), batch_size) for feature in features]
    passes = itertools.count()

    def arrays() -> Iterator[tuple[Any, ...]]:
        with make_reader() as reader:
            first = next(passes) * epochs
            reader.load_state_dict(reader.state_dict() | {"epoch": first, "row": 0})
            for batch in reader:
                yield tuple(form.take_apart(batch[form.name]) for form in forms)

    def assemble(*parts: tuple[tf.Tensor, ...]) -> dict[str, Any]:
        return {form.name: form.assemble(*own) for form, own in zip(forms, parts, strict=True)}

    with make_reader() as reader:
        steps = len(reader)
    batches = tf.data.Dataset.from_generator(
        arrays, output_signature=tuple(form.signature for form in forms)
    ).map(assemble)
    batches = batches.apply(tf.data.experimental.assert_cardinality(steps))
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(settings).prefetch(tf.data.AUTOTUNE)


def _form(feature: Feature, splits: tf.DType | None, batch_size: int | None) -> _Form:
    """Returns the form of a feature; its tensor is that of ``load``."""
    import tensorflow as tf

    dtype = tf.string if feature.dtype == object else tf.as_dtype(feature.dtype)
    values, inner = tf.TensorSpec([None], dtype), tf.TensorSpec([None], tf.int64)
    edges = tf.TensorSpec([None if batch_size is None else batch_size + 1], tf.int64)
    if feature.image is not None:
        pixels = tf.TensorSpec([batch_size, *feature.image.size, feature.image.channels], tf.uint8)
        return _Form(feature.name, (pixels,), _one, tf.identity)
    if feature.shape is not None:
        row = feature.shape or (1,)
        return _Form(
            feature.name,
            (tf.TensorSpec([batch_size, *row], dtype),),
            lambda value: (value.reshape(len(value), *row),),
            tf.identity,
        )
    if feature.padding is not None:
        rank = 3 if feature.steps == "several" else 2
        spec = tf.TensorSpec([batch_size, *[None] * (rank - 1)], dtype)
        return _Form(feature.name, (spec,), _one, tf.identity)
    if feature.steps in {"some", "several"}:
        return _Form(
            feature.name,
            (values, inner, edges),
            lambda value: (value.values.values, value.values.offsets, value.offsets),
            lambda values, inner, outer: tf.RaggedTensor.from_nested_row_splits(
                values, [tf.cast(outer, splits), tf.cast(inner, splits)], validate=False
            ),
        )
    if splits is not None:
        return _Form(
            feature.name,
            (values, edges),
            lambda value: (value.values, value.offsets),
            lambda values, offsets: tf.RaggedTensor.from_row_splits(
                values, tf.cast(offsets, splits), validate=False
            ),
        )
    shape = tf.TensorSpec([2], tf.int64)
    return _Form(
        feature.name,
        (tf.TensorSpec([None, 2], tf.int64), values, shape),
        _coordinates,
        tf.SparseTensor,
    )


def _one(value: Any) -> tuple[Any]:
    return (value,)


def _coordinates(value: Ragged) -> tuple[Any, Any, Any]:
    """Returns a sparse tensor's places, values and shape."""
    lengths = np.diff(value.offsets)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - value.offsets[rows]
    shape = np.array([len(lengths), lengths.max(initial=0)], np.int64)
    return np.stack([rows, places], 1), value.values, shape
