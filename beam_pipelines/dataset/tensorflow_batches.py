"""Gives a reader's batches to TensorFlow, as a ``tf.data.Dataset``.

One thread of Python hands batches over. Each array costs it time, so those of a dtype cross as one,
which TensorFlow cuts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.reader.columns import Ragged
from beam_pipelines.reader.features import ReadFeature
from beam_pipelines.reader.frameworks import mapped
from beam_pipelines.reader.parse import RECORD
from beam_pipelines.reader.reader import Reader
from beam_pipelines.serving.specs import assemble_sparse, spec_of

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2


class _Form(NamedTuple):
    """How a feature crosses from Python to TensorFlow.

    Attributes:
      signature: specs of the arrays that cross.
      assemble: makes the tensor of them.
    """

    signature: tuple[tf.TensorSpec, ...]
    assemble: Callable[..., Any]


def as_tensorflow(
    make_reader: Callable[[], Reader],
    features: Sequence[ReadFeature],
    schema: schema_pb2.Schema | None,
    batch_size: int | None,
    epochs: int,
) -> tf.data.Dataset:
    """Returns a dataset of dictionaries feature -> tensor.

    Each pass over it has the next ``epochs`` epochs, from their beginning.

    Args:
      make_reader: makes a reader of numpy arrays for a pass.
      features: of the reader; none: of serialized records.
      schema: of the records; ``None``: they are serialized.
      batch_size: rows of every batch; ``None``: they differ.
      epochs: of a pass.
    """
    import tensorflow as tf

    spec = {} if schema is None else spec_of(schema)
    forms = {feature.name: _form(feature, spec, batch_size) for feature in features}
    if not features:
        forms = {RECORD: _Form((tf.TensorSpec([batch_size], tf.string),), tf.identity)}
    crossing = _Crossing([one for form in forms.values() for one in form.signature])
    passes = itertools.count()

    def arrays() -> Iterator[tuple[Any, ...]]:
        with make_reader() as reader:
            first = next(passes) * epochs
            reader.load_state_dict(reader.state_dict() | {"epoch": first, "row": 0})
            for batch in reader:
                parts = (_arrays_of(mapped(_with_objects, batch[name])) for name in forms)
                yield crossing.pack(list(itertools.chain.from_iterable(parts)))

    def assemble(*packed: tf.Tensor) -> dict[str, Any]:
        parts = iter(crossing.unpack(packed))
        made = {
            name: form.assemble(*itertools.islice(parts, len(form.signature)))
            for name, form in forms.items()
        }
        return _with_sparse_features(made, spec)

    with make_reader() as reader:
        steps = len(reader)
    batches = tf.data.Dataset.from_generator(arrays, output_signature=crossing.signature)
    batches = batches.map(assemble, num_parallel_calls=tf.data.AUTOTUNE)
    batches = batches.apply(tf.data.experimental.assert_cardinality(steps))
    settings = tf.data.Options()
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(settings).prefetch(tf.data.AUTOTUNE)


class _Crossing:
    """Packs the arrays of a dtype into one, with their sizes.

    Attributes:
      signature: specs of what crosses.
    """

    def __init__(self, parts: Sequence[tf.TensorSpec]) -> None:
        import tensorflow as tf

        self._parts, self._together = parts, dict[Any, list[int]]()
        for number, part in enumerate(parts):
            if part.shape[1:].is_fully_defined():
                self._together.setdefault(part.dtype, []).append(number)
        packed = {number for own in self._together.values() for number in own}
        self._alone = [number for number in range(len(parts)) if number not in packed]
        self.signature = (
            *(
                spec
                for dtype, own in self._together.items()
                for spec in (tf.TensorSpec([None], dtype), tf.TensorSpec([len(own)], tf.int64))
            ),
            *(parts[number] for number in self._alone),
        )

    def pack(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Returns what crosses."""
        found = []
        for own in self._together.values():
            flat = [arrays[number].reshape(-1) for number in own]
            found.append(np.concatenate(flat) if len(flat) > 1 else flat[0])
            found.append(np.array([len(one) for one in flat]))
        return (*found, *(arrays[number] for number in self._alone))

    def unpack(self, packed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the arrays as tensors."""
        import tensorflow as tf

        crossed, found = iter(packed), dict[int, tf.Tensor]()
        for own in self._together.values():
            array, sizes = next(crossed), next(crossed)
            # A piece is a copy, which a feature of large texts alone does without.
            pieces = tf.split(array, sizes, num=len(own)) if len(own) > 1 else [array]
            for number, piece in zip(own, pieces, strict=True):
                rows, *row = self._parts[number].shape
                found[number] = tf.reshape(piece, [-1 if rows is None else rows, *row])
        found |= dict(zip(self._alone, crossed, strict=True))
        return [found[number] for number in range(len(self._parts))]


def _form(feature: ReadFeature, spec: Mapping[str, Any], batch_size: int | None) -> _Form:
    """Returns the form of a feature; its tensor is that of ``tf.io.parse_example``."""
    import tensorflow as tf

    parsed = spec.get(feature.name)
    splits = parsed.row_splits_dtype if isinstance(parsed, tf.io.RaggedFeature) else None
    dtype = tf.string if feature.is_text else tf.as_dtype(feature.dtype)
    values, inner = tf.TensorSpec([None], dtype), tf.TensorSpec([None], tf.int64)
    edges = tf.TensorSpec([None if batch_size is None else batch_size + 1], tf.int64)
    if feature.image is not None:
        pixels = tf.TensorSpec([batch_size, *feature.image.size, feature.image.channels], tf.uint8)
        return _Form((pixels,), tf.identity)
    if feature.shape is not None:
        row = feature.shape or (1,)
        if isinstance(parsed, tf.io.FixedLenFeature):
            row = tuple(parsed.shape)
        return _Form((tf.TensorSpec([batch_size, *row], dtype),), tf.identity)
    if feature.padding is not None:
        rank = 3 if feature.steps == "several" else 2
        padded = tf.TensorSpec([batch_size, *[None] * (rank - 1)], dtype)
        return _Form((padded,), tf.identity)
    if feature.steps in {"some", "several"}:
        return _Form(
            (values, inner, edges),
            lambda values, inner, outer: tf.RaggedTensor.from_nested_row_splits(
                values, [tf.cast(outer, splits), tf.cast(inner, splits)], validate=False
            ),
        )
    return _Form(
        (values, edges),
        lambda values, offsets: (
            tf.RaggedTensor.from_row_splits(values, offsets, validate=False).to_sparse()
            if splits is None
            else tf.RaggedTensor.from_row_splits(values, tf.cast(offsets, splits), validate=False)
        ),
    )


def _arrays_of(value: Any) -> list[Any]:
    """Returns the arrays of a value that cross, in any shape."""
    return [*_arrays_of(value.values), value.offsets] if isinstance(value, Ragged) else [value]


def _with_objects(values: Any) -> Any:
    """Returns an array; of Arrow's texts one of bytes, of their shape."""
    if isinstance(values, np.ndarray):
        return values
    shape = [len(values)]
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    return np.fromiter(values.to_pylist(), object, len(values)).reshape(shape)


def _with_sparse_features(found: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tensors with sparse features in place of their columns."""
    import tensorflow as tf

    sparse = {
        name: feature
        for name, feature in spec.items()
        if isinstance(feature, tf.io.SparseFeature)
        and {*feature.index_key, feature.value_key} <= found.keys()
    }
    return {
        name: tf.sparse.reorder(tensor)
        if name in sparse and not sparse[name].already_sorted
        else tensor
        for name, tensor in assemble_sparse(found, sparse).items()
    }
